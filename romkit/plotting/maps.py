"""Fields on their grid: maps over a plane at some times, and lines over time, of forecasts and of
rollouts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from romkit.core.types import Array
from romkit.data.grids import unstacked
from romkit.plotting import scores, style
from romkit.plotting.stripes import FIELD_SIZE

TIMES = 4
"""Number of times of maps, from the first one to the last."""

INTERVAL_MAP = "magma"
"""Colours of widths, which have no sign."""

NO_STATES = ("lower", "upper", "spread", "latent", "control")
"""Beginnings of the names of variables of a forecast that are no states."""


class Row(NamedTuple):
    """Values of one row of panels, with the name of their variable and their look."""

    name: str
    look: style.Look
    values: xr.DataArray


# -- forecasts -------------------------------------------------------------------------------------


def gridded(runs: xr.Dataset) -> list[str]:
    """Return names of the variables of a forecast that are drawn on their grid: those over a plane,
    or else those along a line of many points.
    """
    by_dimensions: dict[int, list[str]] = {1: [], 2: []}
    for name, values in unstacked(runs).data_vars.items():
        space = style.space(values)
        if str(name).startswith(NO_STATES) or "time" not in values.dims or "component" in space:
            continue
        points = [values.sizes[dim] for dim in space]
        if len(space) == 2 or (len(space) == 1 and points[0] >= FIELD_SIZE):
            by_dimensions[len(space)].append(str(name))
    return by_dimensions[2] or by_dimensions[1]


def draw_gridded(
    runs: xr.Dataset, truth: xr.Dataset | None, names: list[str], *, most: int = 2
) -> Figure:
    """Draw variables of a forecast on their grid: maps of the first run at some times, or lines of
    each run over time.

    `most`: largest number of variables, each of which takes up to four rows.
    """
    shown = unstacked(runs)
    known = None if truth is None else unstacked(truth)
    rows: list[Row] = []
    for name in names[:most]:
        rows += _rows_of_forecast(shown, known, name)
    if len(style.space(shown[names[0]])) == 2:
        return _maps_of_forecast(shown, rows)
    return _lines_of_forecast(shown, rows)


def _rows_of_forecast(shown: xr.Dataset, known: xr.Dataset | None, name: str) -> list[Row]:
    """Truth, forecast, difference and half width of a variable, as far as they are known."""
    forecast = shown[name]
    true_values = None
    if known is not None:
        number = forecast.sizes["trajectory"]
        true_values = known[name].isel(trajectory=slice(number)).transpose(*forecast.dims)
    rows = _compared("truth", "forecast", name, true_values, forecast)
    lower, upper = shown.get(f"lower_{name}"), shown.get(f"upper_{name}")
    if lower is not None and upper is not None:
        half = forecast.copy(data=(upper - lower).transpose(*forecast.dims).values / 2)
        _, widest = style.limits(half.values)
        label = f"half of {lower.attrs.get('level', 0.9):.0%}"
        rows.append(Row(name, style.Look(label, INTERVAL_MAP, (0.0, widest), "no end"), half))
    return rows


def _maps_of_forecast(shown: xr.Dataset, rows: Sequence[Row]) -> Figure:
    """Draw maps of the first run."""
    steps = style.spread(shown, TIMES)
    height = _height(rows[0].values, width=1.6)
    figure, axes = style.panels(
        len(rows), TIMES, width=2.0, height=height, sharex=True, sharey=True
    )
    for panels, row in zip(axes, rows, strict=True):
        _draw_maps(figure, panels, row._replace(values=row.values.isel(trajectory=0)), steps)
    _label_times(axes, shown, steps, rows[0].values)
    return figure


def _lines_of_forecast(shown: xr.Dataset, rows: Sequence[Row]) -> Figure:
    """Draw each run along a line over time."""
    columns = shown.sizes["trajectory"]
    figure, axes = style.panels(len(rows), columns, width=2.6, height=1.7, sharex=True, sharey=True)
    for panels, row in zip(axes, rows, strict=True):
        _draw_lines(figure, panels, row)
    (across,) = style.space(rows[0].values)
    for panel in axes[-1]:
        panel.set_xlabel(style.label(shown[across]))
    for k, panel in enumerate(axes[0]):
        panel.set_title(style.context(shown, k, varying=columns > 1), loc="left")
    return figure


# -- rollouts --------------------------------------------------------------------------------------


def planes(run: xr.Dataset) -> list[list[Row]]:
    """Rows of each variable over a plane of one trajectory of a run: truth, reduced model and
    difference; an empty list where it has none.
    """
    variables = unstacked(run)
    several = []
    for name, truth in variables.data_vars.items():
        kind, _, variable = str(name).partition("_")
        reduced = variables.get(f"rom_{variable}")
        if kind == "truth" and len(style.space(truth)) == 2 and reduced is not None:
            several.append(_compared(style.truth(run), "reduced model", variable, truth, reduced))
    return several


def draw_maps(run: xr.Dataset, seed: int, *, most_variables: int = 2) -> tuple[Figure, Axes, int]:
    """Return maps of the first trajectory at some times, with the error over time below.

    `most_variables`: largest number of variables in one figure; each takes three rows.

    Returns:
        The figure, the panel of the error, and the number of variables that are left out.
    """
    variables = planes(run.isel(seed=seed, trajectory=0))
    rows = [row for of_variable in variables[:most_variables] for row in of_variable]
    steps = style.spread(run, TIMES)
    figure = Figure(figsize=(7.2, 1.25 * len(rows) + 1.8), layout="constrained", dpi=200)
    grid = figure.add_gridspec(len(rows) + 1, TIMES, height_ratios=[*[1.0] * len(rows), 1.1])
    axes = style.grid_of_panels(figure, grid, len(rows), TIMES)
    for panels, row in zip(axes, rows, strict=True):
        _draw_maps(figure, panels, row, steps)
    _label_times(axes, run, steps, rows[0].values)
    error = figure.add_subplot(grid[-1, :])
    _draw_error(error, run, seed, steps)
    return figure, error, max(0, len(variables) - most_variables)


def _draw_error(panel: Axes, run: xr.Dataset, seed: int, steps: Array) -> None:
    """Draw the error of the first trajectory, with the times of the maps."""
    scores.draw_error(panel, run.isel(trajectory=0), seed)
    panel.set_ylim(scores.error_limits(run.isel(trajectory=[0])))
    panel.set_ylabel("NRMSE")
    for time in run["time"].values[steps]:
        panel.axvline(time, color="0.85", linewidth=0.8, zorder=0)


# -- both ------------------------------------------------------------------------------------------


def _compared(
    of_truth: str, of_model: str, name: str, truth: xr.DataArray | None, model: xr.DataArray
) -> list[Row]:
    """Rows of the truth, of the model and of their difference; of a model alone, its own."""
    if truth is None or truth.shape != model.shape:
        states = style.Look(of_model, style.STATE_MAP, style.limits(model.values), "lost")
        return [Row(name, states, model)]
    truth = truth.transpose(*model.dims)
    difference = model.copy(data=model.values - truth.values)
    first, second, third = style.looks(of_truth, truth.values, difference.values)
    short = of_truth.removesuffix(" model")
    return [
        Row(name, first, truth),
        Row(name, second._replace(label=of_model), model),
        Row(name, third._replace(label=f"{of_model.removesuffix(' model')} − {short}"), difference),
    ]


def _height(values: xr.DataArray, *, width: float, least: float = 0.9, most: float = 2.0) -> float:
    """Return height [inches] of a map to scale of this width, with room for its numbers."""
    down, across = (np.ptp(style.places(values, dim)) for dim in style.space(values))
    return float(np.clip(width * down / across if across > 0 else most, least, most)) + 0.2


def _label_times(axes: Array, run: xr.Dataset, steps: Array, values: xr.DataArray) -> None:
    """Write times above the maps, and what is to the right below them."""
    _, across = style.space(values)
    for panel, step in zip(axes[0], steps, strict=True):
        panel.set_title(style.clock(run, step))
    for panel in axes[-1]:
        panel.set_xlabel(style.label(values[across]))


def _draw_maps(figure: Figure, panels: Array, row: Row, steps: Array) -> None:
    """Draw one run at some times, to scale; grey means missing."""
    down, across = style.space(row.values)
    places = style.places(row.values, across), style.places(row.values, down)
    maps = row.values.transpose("time", down, across).values
    for panel, step in zip(panels, steps, strict=True):
        panel.set_aspect("equal", adjustable="box")
        mesh = style.draw_mesh(panel, places, maps[step], row.look.colours, row.look.limits)
        if np.isnan(maps[step]).all():
            middle = {"transform": panel.transAxes, "ha": "center", "va": "center"}
            panel.text(0.5, 0.5, row.look.missing, **middle)
    panels[0].set_ylabel(f"{row.look.label}\n{style.label(row.values[down])}")
    meaning = f"{row.name}{style.unit(row.values)}"
    figure.colorbar(mesh, ax=panels.tolist(), label=meaning, pad=0.01, aspect=12)


def _draw_lines(figure: Figure, panels: Array, row: Row) -> None:
    """Draw each run: x to the right, time upwards."""
    (across,) = style.space(row.values)
    places = style.places(row.values, across), row.values["time"].values
    for k, panel in enumerate(panels):
        values = row.values.isel(trajectory=k).transpose("time", across).values
        mesh = style.draw_mesh(panel, places, values, row.look.colours, row.look.limits)
    panels[0].set_ylabel(f"{row.look.label}\n{style.label(row.values['time'])}")
    meaning = f"{row.name}{style.unit(row.values)}"
    figure.colorbar(mesh, ax=panels.tolist(), label=meaning, pad=0.01, aspect=12)
