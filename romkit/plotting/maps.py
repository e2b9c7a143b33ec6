"""Rollouts of fields over a plane: maps of truth, reduced model and difference at some times."""

from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from romkit.data.layout import unstacked
from romkit.plotting import scores, style

TIMES = 4
"""Number of times, from the first one to the last."""

MOST_VARIABLES = 2
"""Largest number of variables in one figure; each takes three rows."""


class Plane(NamedTuple):
    """One variable over a plane, of the truth and of the reduced model, each (time, y, x)."""

    name: str
    truth: xr.DataArray
    rom: xr.DataArray


class Row(NamedTuple):
    """Row of maps: its label, values (times, y, x), colours, and the ends of their scale."""

    label: str
    values: np.ndarray
    colours: str
    limits: tuple[float, float]


def planes(run: xr.Dataset) -> list[Plane]:
    """Variables over a plane of one trajectory of a run; an empty list where it has none."""
    variables = unstacked(run)
    pairs = []
    for name, truth in variables.data_vars.items():
        kind, _, variable = str(name).partition("_")
        if kind != "truth" or len(_axes(truth)) != 2:
            continue
        reduced = variables.get(f"rom_{variable}")
        if reduced is not None:
            pairs.append(Plane(variable, truth, reduced))
    return pairs


def draw_maps(run: xr.Dataset, seed: int) -> tuple[Figure, Axes, int]:
    """Maps of the first trajectory at some times, with the error over time below.

    Returns:
        The figure, the panel of the error, and the number of variables that are left out.
    """
    variables = planes(run.isel(seed=seed, trajectory=0))
    drawn = variables[:MOST_VARIABLES]
    steps = np.linspace(0, run.sizes["time"] - 1, TIMES).round().astype(int)
    rows = 3 * len(drawn)
    figure = Figure(figsize=(7.2, 1.25 * rows + 1.8), layout="constrained", dpi=200)
    grid = figure.add_gridspec(rows + 1, TIMES, height_ratios=[*[1.0] * rows, 1.1])
    panels = style.grid_of_panels(figure, grid, rows, TIMES)
    for k, plane in enumerate(drawn):
        _draw_plane(figure, panels[3 * k : 3 * k + 3], plane, steps, style.truth(run))
    unit = style.unit(run["time"], " {}")
    for panel, step in zip(panels[0], steps, strict=True):
        panel.set_title(f"t = {float(run['time'][step]):.4g}{unit}")
    _, across = _axes(drawn[-1].truth)
    for panel in panels[-1]:
        panel.set_xlabel(style.label(drawn[-1].truth[across]))
    error = figure.add_subplot(grid[-1, :])
    _draw_error(error, run, seed, steps)
    return figure, error, len(variables) - len(drawn)


def _draw_error(panel: Axes, run: xr.Dataset, seed: int, steps: np.ndarray) -> None:
    """Draw the error of the first trajectory, with the times of the maps."""
    scores.draw_error(panel, run.isel(trajectory=0), seed)
    panel.set(ylim=scores.error_limits(run.isel(trajectory=[0])), ylabel="NRMSE")
    for time in run["time"].values[steps]:
        panel.axvline(time, color="0.85", linewidth=0.8, zorder=0)


def _draw_plane(
    figure: Figure, panels: np.ndarray, plane: Plane, steps: np.ndarray, truth_name: str
) -> None:
    """Draw one variable in three rows of panels (3, times)."""
    down, across = _axes(plane.truth)
    truth = plane.truth.transpose("time", down, across)
    reduced = plane.rom.transpose("time", down, across)
    places = _places(truth, across), _places(truth, down)
    meshes = []
    for axes, row in zip(panels, _rows(truth, reduced, steps, truth_name), strict=True):
        for panel, values in zip(axes, row.values, strict=True):
            mesh = _draw_map(panel, places, values, row)
        meshes.append(mesh)
        axes[0].set_ylabel(f"{row.label}\n{style.label(truth[down])}")
    unit = style.unit(truth)
    states, differences = panels[:2].ravel().tolist(), panels[2].tolist()
    figure.colorbar(meshes[0], ax=states, label=f"{plane.name}{unit}", pad=0.01, aspect=30)
    figure.colorbar(meshes[-1], ax=differences, label=f"error{unit}", pad=0.01, aspect=15)


def _rows(
    truth: xr.DataArray, reduced: xr.DataArray, steps: np.ndarray, truth_name: str
) -> list[Row]:
    """Truth, reduced model and difference at some times; the first two share one scale."""
    states = style.limits(truth.values)
    width = states[1] - states[0]
    difference = reduced.values[steps] - truth.values[steps]
    # a model that is lost must not bleach the differences of the times before
    apart = min(np.abs(style.limits(difference)).max(), width)
    if apart == 0:
        apart = 1.0
    return [
        Row(truth_name, truth.values[steps], style.STATE_MAP, states),
        Row("reduced model", reduced.values[steps], style.STATE_MAP, states),
        Row("difference", difference, style.ERROR_MAP, (-apart, apart)),
    ]


def _draw_map(
    panel: Axes, places: tuple[np.ndarray, np.ndarray], values: np.ndarray, row: Row
) -> QuadMesh:
    """Draw values (y, x) to scale; grey means missing."""
    panel.set_aspect("equal", adjustable="box")
    low, high = row.limits
    colours = matplotlib.colormaps[row.colours].with_extremes(bad=style.MISSING)
    mesh = panel.pcolormesh(*places, values, cmap=colours, vmin=low, vmax=high, rasterized=True)
    if np.isnan(values).all():
        middle = {"ha": "center", "va": "center", "transform": panel.transAxes}
        panel.text(0.5, 0.5, "diverged", **middle)
    return mesh


def _axes(values: xr.DataArray) -> list[str]:
    """Dimensions of space of a variable."""
    return [str(dim) for dim in values.dims if dim not in ("time", "trajectory", "seed")]


def _places(values: xr.DataArray, dim: str) -> np.ndarray:
    """Coordinates along a dimension, or numbers of points where it has none."""
    coordinate = values[dim].values
    if coordinate.dtype.kind in "iuf":
        return coordinate
    return np.arange(len(coordinate))
