"""Rollouts of fields over a plane: maps of truth, reduced model and difference at some times."""

import itertools
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


def planes(run: xr.Dataset) -> list[Plane]:
    """Variables over a plane of one trajectory of a run; an empty list where it has none."""
    variables = unstacked(run)
    pairs = []
    for name, truth in variables.data_vars.items():
        kind, _, variable = str(name).partition("_")
        if kind != "truth" or len(_axes(truth)) != 2 or f"rom_{variable}" not in variables:
            continue
        pairs.append(Plane(variable, truth, variables[f"rom_{variable}"]))
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
    panels = np.array([[figure.add_subplot(grid[r, c]) for c in range(TIMES)] for r in range(rows)])
    for k, plane in enumerate(drawn):
        _draw_plane(figure, panels[3 * k : 3 * k + 3], plane, steps, style.truth(run))
    for panel, step in zip(panels[0], steps, strict=True):
        panel.set_title(f"t = {float(run['time'][step]):.4g}{style.unit(run['time'], ' {}')}")
    for (row, column), panel in np.ndenumerate(panels):
        panel.tick_params(labelbottom=row == rows - 1, labelleft=column == 0)
    across = drawn[-1].truth[_axes(drawn[-1].truth)[1]]
    for panel in panels[-1]:
        panel.set_xlabel(style.label(across))
    error = figure.add_subplot(grid[-1, :])
    scores.draw_error(error, run.isel(trajectory=0), seed)
    error.set(ylim=scores.error_limits(run.isel(trajectory=[0])), ylabel="NRMSE")
    for time in run["time"].values[steps]:  # the times of the maps
        error.axvline(time, color="0.85", linewidth=0.8, zorder=0)
    return figure, error, len(variables) - len(drawn)


def _draw_plane(
    figure: Figure, panels: np.ndarray, plane: Plane, steps: np.ndarray, truth_name: str
) -> None:
    """Draw one variable in three rows of panels (3, times)."""
    down, across = _axes(plane.truth)
    truth, rom = (part.transpose("time", down, across) for part in (plane.truth, plane.rom))
    places = _places(truth, across), _places(truth, down)
    low, high = style.limits(truth.values)
    difference = rom.values[steps] - truth.values[steps]
    # a model that is lost must not bleach the differences of the times before
    apart = min(np.abs(style.limits(difference)).max(), high - low) or 1.0
    missing = "0.85"
    states = {"cmap": matplotlib.colormaps[style.STATE_MAP].with_extremes(bad=missing)}
    errors = {"cmap": matplotlib.colormaps[style.ERROR_MAP].with_extremes(bad=missing)}
    rows = (
        (truth_name, truth.values[steps], states | {"vmin": low, "vmax": high}),
        ("reduced model", rom.values[steps], states | {"vmin": low, "vmax": high}),
        ("difference", difference, errors | {"vmin": -apart, "vmax": apart}),
    )
    meshes = []
    for axes, (label, maps, look) in zip(panels, rows, strict=True):
        for panel, values in zip(axes, maps, strict=True):
            meshes.append(_draw_map(panel, places, values, look))
        axes[0].set_ylabel(f"{label}\n{style.label(truth[down])}")
    unit = style.unit(truth)
    bars = ((f"{plane.name}{unit}", meshes[0], 2), (f"error{unit}", meshes[-1], 1))
    remaining = iter(panels)
    for label, mesh, count in bars:
        beside = np.concatenate(list(itertools.islice(remaining, count)))
        figure.colorbar(mesh, ax=beside.tolist(), label=label, pad=0.01, aspect=15 * count)


def _draw_map(
    panel: Axes, places: tuple[np.ndarray, np.ndarray], values: np.ndarray, look: dict
) -> QuadMesh:
    panel.set_aspect("equal", adjustable="box")
    mesh = panel.pcolormesh(*places, values, rasterized=True, **look)
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
    return coordinate if coordinate.dtype.kind in "iuf" else np.arange(len(coordinate))
