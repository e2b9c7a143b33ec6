"""Rollouts of fields over a plane: maps of truth, reduced model and difference at some times."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from romkit.core.types import Array
from romkit.data.grids import unstacked
from romkit.plotting import scores, style

TIMES = 4
"""Number of times, from the first one to the last."""


class Plane(NamedTuple):
    """One variable over a plane, of the truth and of the reduced model, each (time, y, x)."""

    name: str
    truth: xr.DataArray
    rom: xr.DataArray


def planes(run: xr.Dataset) -> list[Plane]:
    """Return variables over a plane of one trajectory of a run; an empty list where it has none."""
    variables = unstacked(run)
    pairs = []
    for name, truth in variables.data_vars.items():
        kind, _, variable = str(name).partition("_")
        if kind != "truth":
            continue
        if len(style.space(truth)) != 2:
            continue
        reduced = variables.get(f"rom_{variable}")
        if reduced is not None:
            pairs.append(Plane(variable, truth, reduced))
    return pairs


def draw_maps(run: xr.Dataset, seed: int, *, most_variables: int = 2) -> tuple[Figure, Axes, int]:
    """Return maps of the first trajectory at some times, with the error over time below.

    `most_variables`: largest number of variables in one figure; each takes three rows.

    Returns:
        The figure, the panel of the error, and the number of variables that are left out.
    """
    one_run = run.isel(seed=seed, trajectory=0)
    variables = planes(one_run)
    drawn = variables[:most_variables]
    steps = style.spread(run, TIMES)
    rows = 3 * len(drawn)
    height = 1.25 * rows + 1.8
    figure = Figure(figsize=(7.2, height), layout="constrained", dpi=200)
    heights = [1.0] * rows
    grid = figure.add_gridspec(rows + 1, TIMES, height_ratios=[*heights, 1.1])
    panels = style.grid_of_panels(figure, grid, rows, TIMES)
    truth_name = style.truth(run)
    for k, plane in enumerate(drawn):
        top = 3 * k
        _draw_plane(figure, panels[top : top + 3], plane, steps, truth_name)
    for panel, step in zip(panels[0], steps, strict=True):
        panel.set_title(style.clock(run, step))
    truth = drawn[-1].truth
    _, across = style.space(truth)
    horizontal = style.label(truth[across])
    for panel in panels[-1]:
        panel.set_xlabel(horizontal)
    lowest = grid[-1, :]
    error = figure.add_subplot(lowest)
    _draw_error(error, run, seed, steps)
    omitted = len(variables) - len(drawn)
    return figure, error, omitted


def _draw_error(panel: Axes, run: xr.Dataset, seed: int, steps: Array) -> None:
    """Draw the error of the first trajectory, with the times of the maps."""
    scores.draw_error(panel, run.isel(trajectory=0), seed)
    limits = scores.error_limits(run.isel(trajectory=[0]))
    panel.set_ylim(limits)
    panel.set_ylabel("NRMSE")
    times = run["time"].values
    for time in times[steps]:
        panel.axvline(time, color="0.85", linewidth=0.8, zorder=0)


def _draw_plane(figure: Figure, panels: Array, plane: Plane, steps: Array, truth_name: str) -> None:
    """Draw one variable in three rows of panels (3, times)."""
    down, across = style.space(plane.truth)
    truth = plane.truth.transpose("time", down, across)
    reduced = plane.rom.transpose("time", down, across)
    x = style.places(truth, across)
    y = style.places(truth, down)
    vertical = style.label(truth[down])
    true_maps = truth.values[steps]
    reduced_maps = reduced.values[steps]
    difference = reduced_maps - true_maps
    looks = style.looks(truth_name, truth.values, difference)
    shown = (true_maps, reduced_maps, difference)
    meshes = []
    for axes, look, snapshots in zip(panels, looks, shown, strict=True):
        for panel, values in zip(axes, snapshots, strict=True):
            mesh = _draw_map(panel, (x, y), values, look)
        meshes.append(mesh)
        axes[0].set_ylabel(f"{look.label}\n{vertical}")
    unit = style.unit(truth)
    states, _, errors = meshes
    upper = panels[:2].ravel().tolist()
    lower = panels[2].tolist()
    figure.colorbar(states, ax=upper, label=f"{plane.name}{unit}", pad=0.01, aspect=30)
    figure.colorbar(errors, ax=lower, label=f"error{unit}", pad=0.01, aspect=15)


def _draw_map(
    panel: Axes, places: tuple[Array, Array], values: Array, look: style.Look
) -> QuadMesh:
    """Draw values (y, x) to scale; grey means missing."""
    panel.set_aspect("equal", adjustable="box")
    mesh = style.draw_mesh(panel, places, values, look.colours, look.limits)
    if np.isnan(values).all():
        panel.text(0.5, 0.5, look.missing, transform=panel.transAxes, ha="center", va="center")
    return mesh
