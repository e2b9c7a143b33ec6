"""Forecasts of fields on a grid: truth, forecast, difference and half width of the intervals."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from romkit.core.types import Array
from romkit.data.grids import unstacked
from romkit.plotting import style
from romkit.plotting.stripes import FIELD_SIZE

TIMES = 4
"""Number of times of maps, from the first one to the last."""

INTERVAL_MAP = "magma"
"""Colours of widths, which have no sign."""


class Part(NamedTuple):
    """Values of a forecast in one row or column of panels, with their look."""

    look: style.Look
    values: xr.DataArray


def gridded(runs: xr.Dataset) -> list[str]:
    """Return names of the variables of a forecast that are drawn on their grid: those of two
    dimensions of space, and those of one with many points.
    """
    variables = unstacked(runs)
    names = []
    for name, values in variables.data_vars.items():
        space = style.space(values)
        is_line = (
            len(space) == 1 and values.sizes[space[0]] >= FIELD_SIZE and space != ["component"]
        )
        is_state = not str(name).startswith(("lower", "upper", "spread", "latent", "control"))
        if "time" in values.dims and is_state and (len(space) == 2 or is_line):
            names.append(str(name))
    return names


def draw_gridded(
    runs: xr.Dataset, truth: xr.Dataset | None, names: list[str], *, most: int = 2
) -> Figure:
    """Draw variables of a forecast on their grid: maps of the first run at some times, or lines over
    time.

    `most`: largest number of variables, each of which takes up to four rows.
    """
    shown = unstacked(runs)
    known = None if truth is None else unstacked(truth)
    drawn = [(name, _parts(shown, known, name)) for name in names[:most]]
    rows = sum(len(parts) for _, parts in drawn)
    space = style.space(shown[names[0]])
    if len(space) == 1:
        columns = shown.sizes["trajectory"]
        figure, axes = style.panels(rows, columns, width=2.6, height=1.7, sharex=True, sharey=True)
    else:
        steps = style.spread(shown, TIMES)
        height = _height(shown[names[0]], width=1.6)
        figure, axes = style.panels(rows, TIMES, width=2.0, height=height, sharex=True, sharey=True)
        for panel, step in zip(axes[0], steps, strict=True):
            panel.set_title(style.clock(shown, step))
    row = 0
    for name, parts in drawn:
        for part in parts:
            if len(space) == 1:
                _draw_lines(figure, axes[row], part, name)
            else:
                _draw_maps(figure, axes[row], part, name, steps)
            row += 1
    across = space[0] if len(space) == 1 else space[1]
    for panel in axes[-1]:
        panel.set_xlabel(style.label(shown[across]))
    if len(space) == 1:
        for k, panel in enumerate(axes[0]):
            panel.set_title(style.context(runs, k, varying=len(axes[0]) > 1), loc="left")
    return figure


def _height(values: xr.DataArray, *, width: float, least: float = 0.9, most: float = 2.0) -> float:
    """Return height [inches] of a map to scale of this width, with room for its numbers."""
    down, across = (np.ptp(style.places(values, dim)) for dim in style.space(values))
    return float(np.clip(width * down / across if across > 0 else most, least, most)) + 0.2


def _parts(shown: xr.Dataset, known: xr.Dataset | None, name: str) -> list[Part]:
    """Truth, forecast, difference and half width of a variable, as far as they are known."""
    forecast = shown[name]
    number = forecast.sizes["trajectory"]
    everything = forecast.values
    parts = []
    if known is not None:
        true_values = known[name].isel(trajectory=slice(number)).transpose(*forecast.dims)
        everything = true_values.values
    states = style.limits(everything)
    if known is not None:
        parts.append(Part(style.Look("truth", style.STATE_MAP, states, "missing"), true_values))
    parts.append(Part(style.Look("forecast", style.STATE_MAP, states, "lost"), forecast))
    if known is not None and true_values.shape == forecast.shape:
        difference = forecast.copy(data=forecast.values - true_values.values)
        *_, look = style.looks("truth", everything, difference.values)
        look = look._replace(label="forecast − truth")
        parts.append(Part(look, difference))
    lower, upper = shown.get(f"lower_{name}"), shown.get(f"upper_{name}")
    if lower is not None and upper is not None:
        half = forecast.copy(data=(upper - lower).transpose(*forecast.dims).values / 2)
        _, widest = style.limits(half.values)
        label = f"half of {lower.attrs.get('level', 0.9):.0%}"
        parts.append(Part(style.Look(label, INTERVAL_MAP, (0.0, widest), "no end"), half))
    return parts


def _draw_maps(figure: Figure, row: Array, part: Part, name: str, steps: Array) -> None:
    """Draw a part of the first run at some times."""
    values = part.values.isel(trajectory=0)
    down, across = style.space(values)
    places = style.places(values, across), style.places(values, down)
    maps = values.transpose("time", down, across).values
    for panel, step in zip(row, steps, strict=True):
        panel.set_aspect("equal", adjustable="box")
        mesh = style.draw_mesh(panel, places, maps[step], part.look.colours, part.look.limits)
    row[0].set_ylabel(f"{part.look.label}\n{style.label(values[down])}")
    figure.colorbar(mesh, ax=row.tolist(), label=f"{name}{style.unit(values)}", pad=0.01, aspect=12)


def _draw_lines(figure: Figure, row: Array, part: Part, name: str) -> None:
    """Draw a part of each run: x to the right, time upwards."""
    (across,) = style.space(part.values)
    places = style.places(part.values, across), part.values["time"].values
    for k, panel in enumerate(row):
        values = part.values.isel(trajectory=k).transpose("time", across).values
        mesh = style.draw_mesh(panel, places, values, part.look.colours, part.look.limits)
    row[0].set_ylabel(f"{part.look.label}\n{style.label(part.values['time'])}")
    figure.colorbar(
        mesh, ax=row.tolist(), label=f"{name}{style.unit(part.values)}", pad=0.01, aspect=12
    )
