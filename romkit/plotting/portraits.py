"""Portraits: one coordinate of a state, or of the latent state, against another."""

import itertools

import numpy as np
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.core.types import ArrayPair
from romkit.data.spelling import known_name
from romkit.plotting import style


@validated
@style.plain_names
def plot_latent(latent: xr.DataArray | xr.Dataset, *, colour: str = "time") -> Figure:
    """Latent portraits: every plane of two latent coordinates, at most six; of one coordinate,
    against time.

    Args:
        latent: result of `P.encode(data)`, a forecast, or a rollout.
        colour: quantity that the colour shows, "time" or the name of a context parameter.

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
    values = latent.get("latent") if isinstance(latent, xr.Dataset) else latent
    if values is None or "latent_component" not in values.dims:
        raise InputError(
            "latent",
            expected="latent coordinates",
            got=type(latent).__name__,
            fix="give P.encode(data), a forecast or a rollout",
        )
    values = values.rename(latent_component="axis")
    number = values.sizes["axis"]
    latents = range(number)
    names = [f"z{k}" for k in latents]
    pairs = list(itertools.combinations(latents, 2))
    return _portraits(values, names, pairs[:6], colour)


@validated
@style.plain_names
def plot_phase(
    data: xr.Dataset, x: str, y: str, *, variable: str = "state", colour: str = "time"
) -> Figure:
    """Return a phase plane: one component of the state against another, a curve for each
    trajectory.

    Args:
        data: in romkit's schema, a forecast, or a rollout.
        x: name of the component on the horizontal axis.
        y: name of the component on the vertical axis.
        variable: "state", or of a rollout "truth", "rom" or "projected".
        colour: quantity that the colour shows, "time" or the name of a context parameter.

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
    variables = [str(name) for name, values in data.data_vars.items() if "component" in values.dims]
    variable = known_name("variable", variable, variables)
    components = [str(name) for name in data["component"].values]
    x = known_name("x", x, components)
    y = known_name("y", y, components)
    style.check_numbers("data", data, "time", variable)
    plane = [components.index(x), components.index(y)]
    values = data[variable].isel(component=plane)
    values = values.drop_vars("component").rename(component="axis")
    return _portraits(values, [x, y], [(0, 1)], colour)


def _portraits(
    values: xr.DataArray, names: list[str], pairs: list[tuple[int, int]], colour: str
) -> Figure:
    """Planes (a, b) of values (..., time, axis), with a curve for each trajectory; NaN are gaps."""
    # the name of a coordinate of numbers
    numbers = []
    for name, coord in values.coords.items():
        is_number = coord.dtype.kind in "iuf"
        if is_number and name != "axis":
            numbers.append(str(name))
    colour = known_name("colour", colour, numbers)
    time = str(values.dims[-2])
    if "time" in values.dims:
        time = "time"
    quantity = values.coords[colour]
    lines, shades = _curves(values, time, colour)  # (C, T, k) and (C, T)
    if not pairs:
        # a single coordinate stands against time
        coordinate = lines[..., 0]  # (C, T)
        clock = np.broadcast_to(values[time].values, coordinate.shape)
        lines = np.stack([clock, coordinate], axis=-1)
        names = [style.label(values[time]), names[0]]
        pairs = [(0, 1)]
    scale = style.colours(shades)
    with style.style():
        figure, axes = style.panels(1, len(pairs))
        for panel, (a, b) in zip(axes[0], pairs, strict=True):
            for line, shade in zip(lines, shades, strict=True):
                points = line[:, [a, b]]
                # draw points (T, 2) as a line that changes its colour, with a dot where it begins
                begins, ends = points[:-1], points[1:]
                segments = np.stack([begins, ends], axis=1)  # (T - 1, 2 ends, 2)
                colours = scale.to_rgba(shade)
                # a line has one colour, so that each step is a line of its own
                pieces = LineCollection(list(segments), linewidth=0.9)
                pieces.set_color(colours[:-1])
                panel.add_collection(pieces)
                x, y = points[0]
                panel.plot(x, y, ".", color=colours[0], markersize=4)
            panel.autoscale_view()
            panel.set_xlabel(names[a])
            panel.set_ylabel(names[b])
            style.plain(panel)
        every = axes.ravel().tolist()
        figure.colorbar(scale, ax=every, label=style.label(quantity))
    return figure


def _curves(values: xr.DataArray, time: str, colour: str) -> ArrayPair:
    """Return curves (C, T, k), one for each trajectory and seed, and the quantity of their colour
    (C, T).
    """
    lead = [dim for dim in values.dims if dim not in (time, "axis")]
    lines = values.transpose(*lead, time, "axis").values  # (..., T, k)
    quantity = values.coords[colour].broadcast_like(values.isel(axis=0, drop=True))
    shades = quantity.transpose(*lead, time).values.astype(float)  # (..., T)
    T, k = lines.shape[-2:]
    return lines.reshape(-1, T, k), shades.reshape(-1, T)
