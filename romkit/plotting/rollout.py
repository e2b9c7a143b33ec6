"""Rollouts: full model, reduced model and their difference, with the error over time."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine

from romkit.core.boundary import validated
from romkit.core.types import Array
from romkit.plotting import maps, scores, style
from romkit.plotting.columns import Column, columns_of
from romkit.plotting.stripes import draw_fields, fields_of, is_field

VARIABLES = ("truth", "rom", "latent", "nrmse", "nrmse_projected", "valid_time", "status")
"""Variables of every run."""

LEARNED = {"Equation": "a learned equation"}
"""Dynamics whose class says too little."""


@validated
@style.plain_names
def plot_rollout(run: xr.Dataset) -> Figure:
    """Full model, reduced model and their difference, with the error over time below.

    Args:
        run: result of `romkit.rollout`.

    Returns:
        A figure with, from top to bottom, pictures of the states, and NRMSE over the whole run, of
        the reduced model and of the projection of the full model, with the valid prediction time.
        Pictures show truth and reduced model on one colour scale, and their difference:

        - fields over a plane as maps at four times, of the first context and up to two variables;
        - fields along a line, or many components of one unit, against time, up to four variables;
        - small states as curves of the components with the largest error.

        Grey means diverged, and missing in data.

        Long runs show the first and last few periods, shaded in the error panel. Several contexts
        stand side by side, at most four. Of several seeds, the one with the median valid prediction
        time is shown; the others are thin lines in the error panel.

    Raises:
        InputError: no rollout.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_rollout
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> run = romkit.rollout(system, romkit.load("ncae-lorenz96"), F=3.15, duration=0.2, dt=0.02)
        >>> figure = plot_rollout(run)
        >>> figure.get_suptitle()
        'lorenz96 at F = 3.15: ncae with 2 of 36 dimensions, Galerkin'
    """
    fix = "give what romkit.rollout returned; plot_space_time shows a forecast"
    style.check_numbers("run", run, "time", *VARIABLES, fix=fix)
    run = style.members(run)
    seed = scores.median_seed(run)
    with style.style():
        one_run = run.isel(seed=seed, trajectory=0)
        if maps.planes(one_run):
            return _planar(run, seed)
        return _against_time(run, seed)


def _planar(run: xr.Dataset, seed: int) -> Figure:
    """Return figure of a run over a plane."""
    figure, error, omitted = maps.draw_maps(run, seed)
    _add_legend(figure, error)
    shown = run.isel(trajectory=[0])
    lines = [_title(run, shown)]
    context = style.context(run, 0, varying=True)
    if context:
        number = run.sizes["trajectory"]
        lines.append(f"{context}, the first of {number} contexts")
    if omitted:
        lines.append(f"{omitted} more variables are not shown")
    figure.suptitle("\n".join(lines))
    return figure


def _against_time(run: xr.Dataset, seed: int) -> Figure:
    """Return figure of a run whose states stand against time, as stripes or as curves."""
    shown = run.isel(trajectory=slice(style.MAX_COLUMNS))
    columns = columns_of(shown)
    across = len(columns)
    draw = _draw_curves
    rows = min(style.MAX_CURVES, shown.sizes["component"])
    if is_field(shown):
        draw = draw_fields
        rows = 3 * len(fields_of(shown))
    width = max(7.2, 2.3 * across)
    height = 1.15 * rows + 2.7
    figure = Figure(figsize=(width, height), layout="constrained", dpi=200)
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)
    layout.set(wspace=0.03)
    heights = [1.0] * rows
    grid = figure.add_gridspec(rows + 1, across, height_ratios=[*heights, 1.5])
    panels = style.grid_of_panels(figure, grid, rows, across)
    one_seed = shown.isel(seed=seed)
    draw(figure, panels, one_seed, columns)
    for panel, column in zip(panels[0], columns, strict=True):
        panel.set_title(column.title)
    errors = _draw_errors(figure, grid, shown, seed, columns)
    _add_legend(figure, panels[0, 0], errors)
    figure.suptitle(_title(run, shown))
    return figure


def _add_legend(figure: Figure, *panels: Axes) -> None:
    """Put the labelled lines of panels below the figure."""
    handles = []
    for panel in panels:
        lines, _ = panel.get_legend_handles_labels()
        handles += lines
    number = len(handles)
    figure.legend(handles=handles, loc="outside lower center", ncols=number, frameon=False)


def headline(run: xr.Dataset) -> str:
    """Return system, shared context, method, sizes and dynamics of a run, on one line; or what made
    the forecast in place of a reduced model, where an attribute `forecast_by` says so.
    """
    method = run.attrs.get("projection", "?")
    dynamics = run.attrs.get("dynamics", "?")
    short = dynamics.removesuffix("Model")
    dynamics = LEARNED.get(dynamics, short)
    name = run.attrs.get("system", "data")
    shared = style.context(run, 0, varying=False)
    shared = shared.replace("\n", " ")
    if shared:
        name = f"{name} at {shared}"
    if "forecast_by" in run.attrs:
        return f"{name}: {run.attrs['forecast_by']}"
    latent = run.sizes["latent_component"]
    full = run.sizes["component"]
    return f"{name}: {method} with {latent} of {full} dimensions, {dynamics}"


def _title(run: xr.Dataset, shown: xr.Dataset) -> str:
    """Headline, and a line for everything that the figure leaves out."""
    contexts = run.sizes["trajectory"]
    columns = shown.sizes["trajectory"]
    seeds = run.sizes["seed"]
    components = run.sizes["component"]
    lines = [headline(run)]
    if contexts > columns > 1:
        lines.append(f"the first {columns} of {contexts} contexts")
    if seeds > 1:
        middle = "the one with the median valid time (thin lines: the others)"
        lines.append(f"of {seeds} seeds, {middle}")
    if components > style.MAX_CURVES and not is_field(run):
        lines.append(f"the {style.MAX_CURVES} components with the largest relative error")
    return "\n".join(lines)


def _draw_curves(figure: Figure, panels: Array, run: xr.Dataset, columns: list[Column]) -> None:
    """Draw the components with the largest error relative to their own variation, in the order of
    the state.
    """
    names = run["component"].values
    unit = style.unit(run["truth"])
    worst = _worst_components(run, len(panels))
    for axes, component in zip(panels, worst, strict=True):
        # before anything is drawn, so that the range covers all columns
        for panel in axes[1:]:
            panel.sharey(axes[0])
        for panel, column in zip(axes, columns, strict=True):
            _draw_curve(panel, run, column, component)
        axes[0].set_ylabel(f"{names[component]}{unit}")


def _worst_components(run: xr.Dataset, number: int, *, negligible: float = 1e-12) -> list[int]:
    """Return numbers of the components with the largest relative error, in the order of the state.

    `negligible`: smallest deviation by which an error is divided: components that do not move
    have none.
    """
    difference = run["rom"] - run["truth"]
    error = difference.std(("trajectory", "time"))
    deviation = run["truth"].std(("trajectory", "time"))
    relative = (error / deviation.clip(negligible)).fillna(0.0).values
    falling = np.argsort(-relative, kind="stable")
    worst = falling[:number].tolist()
    return sorted(worst)


def _draw_curve(panel: Axes, run: xr.Dataset, column: Column, component: int) -> None:
    """Draw one component of the truth and of the reduced model over a stretch of time."""
    time = run["time"].values[column.times]
    entries = (column.trajectory, column.times, component)
    truth = run["truth"].values[entries]
    reduced = run["rom"].values[entries]
    panel.plot(time, truth, color=style.DARK, label=style.truth(run))
    # its label is in the error panel
    dashes = (0, (4, 2))
    panel.plot(time, reduced, color=style.ORANGE, linestyle=dashes)
    panel.set_xlim(time[0], time[-1])
    style.plain(panel)


def _draw_errors(
    figure: Figure, grid: GridSpec, run: xr.Dataset, seed: int, columns: list[Column]
) -> Axes:
    """Draw one error panel for each trajectory; the last one is returned."""
    limits = scores.error_limits(run)
    time = run["time"].values
    across = len(columns)
    places = [grid[-1, k] for k in range(across)]
    if run.sizes["trajectory"] == 1:
        places = [grid[-1, :]]
    for trajectory, place in enumerate(places):
        panel = figure.add_subplot(place)
        one_run = run.isel(trajectory=trajectory)
        scores.draw_error(panel, one_run, seed)
        for column in columns:
            if column.trajectory == trajectory:
                _shade(panel, time, column.times)
        panel.set_ylim(limits)
        panel.tick_params(labelleft=trajectory == 0)
        if trajectory == 0:
            panel.set_ylabel("NRMSE")
    return panel


def _shade(panel: Axes, time: Array, stretch: slice) -> None:
    """Shade the stretch of a run that the pictures show, unless it is all of it."""
    if stretch == slice(0, len(time)):
        return
    shown = time[stretch]
    start, stop = shown[0], shown[-1]
    panel.axvspan(start, stop, color="0.93", zorder=0, linewidth=0)
