"""`plot_rollout` and `save_figure`."""

from pathlib import Path

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from romkit.core import checks
from romkit.core.boundary import FilePath, Seed, checked
from romkit.core.files import atomic, expanded
from romkit.metrics import VALID_THRESHOLD
from romkit.plotting import selection
from romkit.plotting.selection import Column
from romkit.plotting.style import BLUE, DARK, ERROR_MAP, NEUTRAL, ORANGE, STATE_MAP, plain, style


@checked
def plot_rollout(run: xr.Dataset) -> Figure:
    """Full model, reduced model and their difference, with the error over time below.

    Args:
        run: what `romkit.rollout` returned.

    Returns:
        A figure with, from top to bottom:
        a field (many components of one unit): component against time for the full model and the reduced model
        on one colour scale, and their difference; or, for small states, the components with the largest error as
        curves; then NRMSE over the whole run, of the reduced model and of the projection of the full model,
        with the valid prediction time. Grey means diverged, and missing in data.

        Long runs show the first and last few periods, shaded in the error panel. Several contexts stand side by
        side, at most four. Of several seeds, the one with the median valid prediction time is shown; the others
        are thin lines in the error panel.

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
    selection.check_run(run)
    members = selection.members(run)
    seed = selection.median_seed(members)
    shown = members.isel(trajectory=slice(selection.MAX_COLUMNS))
    columns = selection.columns_of(shown)
    field = selection.is_field(shown)
    rows = 3 if field else min(selection.MAX_CURVES, shown.sizes["component"])
    with style():
        figure = Figure(figsize=(max(7.2, 2.3 * len(columns)), 1.15 * rows + 2.7), layout="constrained", dpi=200)
        figure.get_layout_engine().set(wspace=0.03)
        grid = figure.add_gridspec(rows + 1, len(columns), height_ratios=[*[1] * rows, 1.5])
        panels = np.array([[figure.add_subplot(grid[r, c]) for c in range(len(columns))] for r in range(rows)])
        draw = _draw_field if field else _draw_curves
        draw(figure, panels, shown.isel(seed=seed), columns)
        errors = _draw_errors(figure, grid, shown, seed, columns)
        labelled = [line for panel in (panels[0, 0], errors) for line in panel.get_legend_handles_labels()[0]]
        figure.legend(handles=labelled, loc="outside lower center", ncols=len(labelled), frameon=False)
        figure.suptitle(selection.title(members, shown))
    return figure


@checked
def save_figure(figure: Figure, path: FilePath) -> Path:
    """Write a figure in the format of its ending (png, pdf, svg, ...), all of it or nothing at all.

    Raises:
        InputError: an ending that is not a format.
        FileError: the file cannot be written.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_phase, save_figure
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.2)
        >>> save_figure(plot_phase(data, "x0", "x9"), "phase.svg").name
        'phase.svg'
    """
    path = expanded(path)
    ending = checks.ending("path", path, figure.canvas.get_supported_filetypes())
    with atomic(path) as temporary:
        figure.savefig(temporary, format=ending)
    return path


def _draw_field(figure: Figure, panels: np.ndarray, run: xr.Dataset, columns: list[Column]) -> None:
    error = run["rom"] - run["truth"]
    truth, rom, difference = (
        [variable.values[column.trajectory, column.times] for column in columns]
        for variable in (run["truth"], run["rom"], error)
    )
    low, high = _range(truth)
    limit = min(np.abs(_range(difference)).max(), high - low) or 1.0  # divergence must not bleach the rest
    unit = selection.unit(run["truth"], " ({})")
    rows = (
        ("full model", truth, STATE_MAP, (low, high), "missing"),
        ("reduced model", rom, STATE_MAP, (low, high), "diverged"),
        ("reduced − full", difference, ERROR_MAP, (-limit, limit), ""),
    )
    for axes, (label, parts, colours, limits, absent) in zip(panels, rows, strict=True):
        for panel, part, column in zip(axes, parts, columns, strict=True):
            _draw_image(panel, part, run["time"].values[column.times], colours, limits, absent)
        axes[0].set_ylabel(f"{label}\ncomponent")
    _colour_bar(figure, panels[1, 0].images[0], panels[:2], f"state{unit}", rom)
    _colour_bar(figure, panels[2, 0].images[0], panels[2:], f"error{unit}", difference)
    _frame(panels, columns)


def _colour_bar(figure: Figure, image: AxesImage, panels: np.ndarray, label: str, parts: list[np.ndarray]) -> None:
    """One bar beside these panels, pointed at the ends that `parts` go beyond."""
    (low, high), (lowest, highest) = image.get_clim(), _range(parts)
    room = 0.02 * (high - low)
    beyond = {(True, True): "both", (True, False): "min", (False, True): "max", (False, False): "neither"}
    extend = beyond[bool(lowest < low - room), bool(highest > high + room)]
    axes = panels.ravel().tolist()
    figure.colorbar(image, ax=axes, label=label, extend=extend, pad=0.01, aspect=15 * len(panels))


def _range(parts: list[np.ndarray]) -> tuple[float, float]:
    values = np.concatenate([part[np.isfinite(part)] for part in parts])
    return (values.min(), values.max()) if len(values) else (0.0, 0.0)


def _draw_image(
    panel: Axes, values: np.ndarray, time: np.ndarray, colours: str, limits: tuple[float, float], absent: str
) -> None:
    """Values (T, n) at these times, to the right, with the component upwards, thinned to what can be seen.

    `absent` stands where many are NaN.
    """
    even = np.linspace(time[0], time[-1], min(len(time), 1000))
    nearest = np.interp(even, time, np.arange(len(time))).round().astype(int)
    panel.imshow(
        values[nearest].T,
        cmap=matplotlib.colormaps[colours].with_extremes(bad="0.85"),
        vmin=limits[0],
        vmax=limits[1],
        extent=(time[0], time[-1], -0.5, values.shape[1] - 0.5),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
    )
    panel.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    missing = time[np.isnan(values).any(-1)]
    if len(missing) > 0.2 * len(time):
        panel.text((missing[0] + missing[-1]) / 2, values.shape[1] / 2, absent, ha="center", va="center")


def _draw_curves(figure: Figure, panels: np.ndarray, run: xr.Dataset, columns: list[Column]) -> None:
    names, unit = run["component"].values, selection.unit(run["truth"], " ({})")
    for axes, k in zip(panels, selection.worst_components(run, len(panels)), strict=True):
        for panel in axes[1:]:
            panel.sharey(axes[0])  # before anything is drawn, so that the range covers all columns
        for panel, column in zip(axes, columns, strict=True):
            time = run["time"].values[column.times]
            truth, rom = (run[name].values[column.trajectory, column.times, k] for name in ("truth", "rom"))
            panel.plot(time, truth, color=DARK, label="full model")
            panel.plot(time, rom, color=ORANGE, linestyle=(0, (4, 2)))  # labelled in the error panel
            panel.set_xlim(time[0], time[-1])
            plain(panel)
        axes[0].set_ylabel(f"{names[k]}{unit}")
    _frame(panels, columns)


def _frame(panels: np.ndarray, columns: list[Column]) -> None:
    for panel, column in zip(panels[0], columns, strict=True):
        panel.set_title(column.title)
    for panel in panels[:-1].ravel():
        panel.tick_params(labelbottom=False)
    for panel in panels[:, 1:].ravel():
        panel.tick_params(labelleft=False)


def _draw_errors(figure: Figure, grid: GridSpec, run: xr.Dataset, seed: Seed, columns: list[Column]) -> Axes:
    single = run.sizes["trajectory"] == 1
    places = [grid[-1, :]] if single else [grid[-1, c] for c in range(len(columns))]
    limits = selection.error_limits(run)
    for trajectory, place in enumerate(places):
        panel = figure.add_subplot(place)
        member = run.isel(trajectory=trajectory)
        _draw_error(panel, member, seed)
        for column in columns:
            if column.trajectory == trajectory and column.times != slice(0, run.sizes["time"]):
                start, stop = run["time"].values[column.times][[0, -1]]
                panel.axvspan(start, stop, color="0.93", zorder=0, linewidth=0)
        panel.set_ylim(*limits)
        panel.set_xlabel(f"time{selection.unit(run['time'], ' ({})')}")
        if trajectory == 0:
            panel.set_ylabel("NRMSE")
        else:
            panel.tick_params(labelleft=False)
    return panel


def _draw_error(panel: Axes, member: xr.Dataset, seed: Seed) -> None:
    time = member["time"].values
    step = max(1, len(time) // 2000)
    for name, colour, label in (
        ("nrmse_projected", BLUE, "projection of the full model"),
        ("nrmse", ORANGE, "reduced model"),
    ):
        values = np.where(member[name].values > 0, member[name].values, np.nan)
        for other in range(len(values)):
            if other != seed:
                panel.plot(time[::step], values[other, ::step], color=colour, linewidth=0.4, alpha=0.5)
        panel.plot(time[::step], values[seed, ::step], color=colour, label=label)
    panel.axhline(VALID_THRESHOLD, color=NEUTRAL, linestyle="--", linewidth=0.8, label=f"NRMSE = {VALID_THRESHOLD:g}")
    _mark_valid_time(panel, member.isel(seed=seed))
    panel.set_yscale("log")
    panel.set_xlim(time[0], time[-1])
    plain(panel)


def _mark_valid_time(panel: Axes, member: xr.Dataset) -> None:
    time, valid = member["time"].values, float(member["valid_time"])
    end = time[0] + valid
    diverged = ", then diverges" if int(member["status"]) != 0 else ""
    if end < time[-1]:
        panel.axvline(end, color=ORANGE, linestyle=":", linewidth=0.9)
        panel.plot(end, VALID_THRESHOLD, "o", color=ORANGE, markersize=3.5, clip_on=False)
        text = f"valid for {valid:.3g}{selection.unit(member['time'], ' {}')}{diverged}"
    else:
        text = "valid to the end"
    panel.set_title(text, loc="right", color=ORANGE)
