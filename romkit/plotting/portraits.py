"""`plot_latent` and `plot_phase`: trajectories as curves in a plane."""

import itertools

import numpy as np
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from romkit.core import checks
from romkit.core.boundary import checked
from romkit.core.errors import InputError
from romkit.plotting.selection import check_numbers
from romkit.plotting.style import colours, label, panels, plain, style

MAX_PAIRS = 6
"""Most planes that one figure shows."""


@checked
def plot_latent(latent: xr.DataArray | xr.Dataset, *, colour: str = "time") -> Figure:
    """Latent portraits: every plane of two latent coordinates, at most six; of one coordinate, against time.

    Args:
        latent: of `P.encode(data)`, or a forecast or rollout, which have it as a variable.
        colour: what the colour shows, "time" or the name of a context parameter.

    Raises:
        InputError: no latent coordinates, or an unknown colour.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_latent
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.2)
        >>> figure = plot_latent(romkit.load("ncae-lorenz96")(data).encode(data), colour="F")
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('z0', 'z1')
    """
    values = latent["latent"] if isinstance(latent, xr.Dataset) and "latent" in latent else latent
    if not isinstance(values, xr.DataArray) or "latent_component" not in values.dims:
        got, fix = type(latent).__name__, "give P.encode(data), a forecast or a rollout"
        raise InputError("latent", expected="latent coordinates", got=got, fix=fix)
    values = values.rename(latent_component="axis")
    names = [f"z{k}" for k in range(values.sizes["axis"])]
    pairs = list(itertools.combinations(range(len(names)), 2))[:MAX_PAIRS]
    return _curves(values, names, pairs, colour)


@checked
def plot_phase(data: xr.Dataset, x: str, y: str, *, variable: str = "state", colour: str = "time") -> Figure:
    """A phase plane: one component of the state against another, a curve for each trajectory.

    Args:
        data: in romkit's schema, a forecast, or a rollout.
        x: name of the component to the right.
        y: name of the component upwards.
        variable: "state", or of a rollout "truth", "rom" or "projected".
        colour: what the colour shows, "time" or the name of a context parameter.

    Raises:
        InputError: an unknown component, variable or colour.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_phase
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.2)
        >>> figure = plot_phase(data, "x0", "x9", colour="F")
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('x0', 'x9')
    """
    checks.one_of("variable", variable, [str(name) for name in data.data_vars])
    components = [str(name) for name in data["component"].values]
    for argument, name in (("x", x), ("y", y)):
        checks.one_of(argument, name, components)
    check_numbers("data", data, variable)
    values = data[variable].isel(component=[components.index(x), components.index(y)])
    return _curves(values.drop_vars("component").rename(component="axis"), [x, y], [(0, 1)], colour)


def _curves(values: xr.DataArray, names: list[str], pairs: list[tuple[int, int]], colour: str) -> Figure:
    """Values (..., time, axis) as curves, NaN as gaps."""
    known = [str(name) for name, coord in values.coords.items() if coord.dtype.kind in "iuf" and name != "axis"]
    checks.one_of("colour", colour, known)
    time = "time" if "time" in values.dims else values.dims[-2]
    lead = [dim for dim in values.dims if dim not in (time, "axis")]
    shade = values.coords[colour].broadcast_like(values.isel(axis=0, drop=True)).transpose(*lead, time)
    lines, shades = values.transpose(*lead, time, "axis").values, shade.values.astype(float)
    lines, shades = lines.reshape(-1, *lines.shape[-2:]), shades.reshape(-1, shades.shape[-1])
    if not pairs:  # a single coordinate against time
        t = np.broadcast_to(values[time].values, lines.shape[:2])
        lines, names, pairs = np.stack([t, lines[..., 0]], axis=-1), [label(values[time]), names[0]], [(0, 1)]
    with style():
        figure, axes = panels(1, len(pairs))
        scale = colours(shades)
        for panel, (a, b) in zip(axes[0], pairs, strict=True):
            for line, tint in zip(lines, shades, strict=True):
                points = line[:, [a, b]]
                pieces = LineCollection(np.stack([points[:-1], points[1:]], axis=1), linewidth=0.9)
                pieces.set_color(scale.to_rgba(tint[:-1]))
                panel.add_collection(pieces)
                panel.plot(*points[0], ".", color=scale.to_rgba(tint[0]), markersize=4)
            panel.autoscale_view()
            plain(panel).set(xlabel=names[a], ylabel=names[b])
        figure.colorbar(scale, ax=axes.ravel().tolist(), label=label(values.coords[colour]))
    return figure
