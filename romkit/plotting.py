"""Figures of rollouts. The one module that imports matplotlib; a figure is a value, never global state.

figure = romkit.plotting.plot_rollout(run)
figure.savefig("rollout.pdf")
"""

from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from romkit.metrics import VALID_THRESHOLD

FIELD_SIZE = 24
"""States of at least this many components of one unit are shown as a field, smaller ones as curves."""

MAX_COLUMNS = 4
"""Most contexts that one figure shows."""

MAX_CURVES = 4
"""Most components that one figure shows as curves."""

PERIODS = 6
"""How many periods of the dominant oscillation a window shows: more of them blur into a texture."""

_STATE_MAP, _ERROR_MAP = "viridis", "RdBu_r"
_TRUTH, _ROM, _FLOOR, _NEUTRAL = "#222222", "#D55E00", "#0072B2", "#777777"  # Okabe & Ito: safe for colour-blind eyes
_STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "figure.titlesize": 9,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "savefig.dpi": 200,
}


class Column(NamedTuple):
    """One column of panels: a context, a stretch of time, and what stands above it."""

    trajectory: int
    times: slice
    title: str


def plot_rollout(run: xr.Dataset) -> Figure:
    """Full model, reduced model and their difference, with the error over time below.

    Args:
        run: what `romkit.rollout` returned.

    Returns:
        A figure with, from top to bottom:
        a field (many components of one unit): component against time for the full model and the reduced model
        on one colour scale, and their difference; or, for small states, the components with the largest error as
        curves; then NRMSE over the whole run, of the reduced model and of the projection of the full model,
        with the valid prediction time. Grey means diverged.

        Long runs show the first and last `PERIODS` periods, shaded in the error panel. Several contexts stand
        side by side, at most `MAX_COLUMNS`. Of several seeds, the one with the median valid prediction time is
        shown; the others are thin lines in the error panel.
    """
    members = _members(run)
    seed = _median_seed(members)
    shown = members.isel(trajectory=slice(MAX_COLUMNS))
    columns = _columns(shown)
    field = _is_field(shown)
    rows = 3 if field else min(MAX_CURVES, shown.sizes["component"])
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(max(7.2, 2.3 * len(columns)), 1.15 * rows + 2.7), layout="constrained")
        figure.get_layout_engine().set(wspace=0.03)
        grid = figure.add_gridspec(rows + 1, len(columns), height_ratios=[*[1] * rows, 1.5])
        panels = np.array([[figure.add_subplot(grid[r, c]) for c in range(len(columns))] for r in range(rows)])
        draw = _draw_field if field else _draw_curves
        draw(figure, panels, shown.isel(seed=seed), columns)
        _draw_errors(figure, grid, shown, seed, columns)
        figure.suptitle(_title(members, seed, shown))
    return figure


# -- what to show ------------------------------------------------------------------------------------------------------


def _members(run: xr.Dataset) -> xr.Dataset:
    """The run with all its dimensions, also those of length one that `romkit.rollout` leaves out."""
    for dim in ("trajectory", "seed"):
        if dim not in run.dims:
            parameters = [name for name, coord in run.coords.items() if coord.ndim == 0]
            run = run.expand_dims(dim)
            if dim == "trajectory":
                run = run.assign_coords({name: run[name].expand_dims("trajectory") for name in parameters})
    for name in ("truth", "rom", "nrmse", "nrmse_projected"):
        run[name] = run[name].transpose("seed", "trajectory", "time", ..., missing_dims="ignore")
    return run


def _median_seed(run: xr.Dataset) -> int:
    order = np.argsort(run["valid_time"].mean("trajectory").values, kind="stable")
    return int(order[(len(order) - 1) // 2])


def _is_field(run: xr.Dataset) -> bool:
    return run.sizes["component"] >= FIELD_SIZE and run["truth"].attrs.get("units") != "mixed"


def _columns(run: xr.Dataset) -> list[Column]:
    time = run["time"].values
    window = _window(time, run["truth"].isel(seed=0, missing_dims="ignore").values)
    whole, last = slice(0, len(time)), slice(len(time) - window, len(time))
    length = f"{time[window - 1] - time[0]:.3g} {_unit(run['time'], '{}') or 'time units'}"
    if run.sizes["trajectory"] > 1:
        extent = "" if window == len(time) else f", last {length}"
        return [Column(k, last, _context(run, k) + extent) for k in range(run.sizes["trajectory"])]
    if window == len(time):
        return [Column(0, whole, "")]
    return [Column(0, slice(0, window), f"first {length}"), Column(0, last, f"last {length}")]


def _window(time: np.ndarray, truth: np.ndarray) -> int:
    """Number of samples of a stretch that can be read, all of them where two such stretches cover most of the run."""
    states = np.nan_to_num(truth - truth.mean(-2, keepdims=True))
    power = np.square(np.abs(np.fft.rfft(states, axis=-2))).sum((0, -1)).cumsum()
    median = np.searchsorted(power, power[-1] / 2)  # in cycles per run: half the power is slower, half is faster
    span = time[-1] - time[0]
    readable = _round(PERIODS * span / max(1, median))
    return int(np.searchsorted(time - time[0], readable)) + 1 if span > 2.5 * readable else len(time)


def _round(length: float) -> float:
    """The next larger of ..., 1, 2, 2.5, 5, 10, ..., so that the axes begin and end at round numbers."""
    decade = 10.0 ** np.floor(np.log10(length)) if length > 0 else 1.0
    return next(decade * m for m in (1, 2, 2.5, 5, 10) if decade * m >= length * (1 - 1e-9))


def _context(run: xr.Dataset, trajectory: int) -> str:
    values = []
    for name, coord in run.coords.items():
        if coord.dims == ("trajectory",) and np.issubdtype(coord.dtype, np.floating):
            values.append(f"{name} = {coord.values[trajectory]:.4g}{_unit(coord, ' {}')}")
    return ", ".join(values)


def _title(run: xr.Dataset, seed: int, shown: xr.Dataset) -> str:
    attrs, total = run.attrs, run.sizes["trajectory"]
    system, method, dynamics = (attrs.get(key, "?") for key in ("system", "projection", "dynamics"))
    at = f" at {_context(run, 0)}" if total == 1 and _context(run, 0) else ""
    sizes = f"{run.sizes['latent_component']} of {run.sizes['component']} dimensions"
    title = f"{system}{at}: {method} with {sizes}, {dynamics}"
    notes = []
    if total > shown.sizes["trajectory"]:
        notes.append(f"the first {shown.sizes['trajectory']} of {total} contexts")
    if run.sizes["seed"] > 1:
        notes.append(f"the seed with the median valid time of {run.sizes['seed']}; thin lines: the others")
    if not _is_field(run) and run.sizes["component"] > MAX_CURVES:
        notes.append(f"the {MAX_CURVES} components with the largest relative error")
    return "\n".join([title, "; ".join(notes)] if notes else [title])


def _unit(variable: xr.DataArray, pattern: str) -> str:
    units = variable.attrs.get("units", "1")
    return "" if units in ("1", "", "mixed") else pattern.format(units)


# -- panels ------------------------------------------------------------------------------------------------------------


def _draw_field(figure: Figure, panels: np.ndarray, run: xr.Dataset, columns: list[Column]) -> None:
    error = run["rom"] - run["truth"]
    truth, rom, difference = (
        [variable.values[column.trajectory, column.times] for column in columns]
        for variable in (run["truth"], run["rom"], error)
    )
    low, high = _range(truth)
    limit = min(np.abs(_range(difference)).max(), high - low) or 1.0  # divergence must not bleach the rest
    rows = (
        ("full model", truth, _STATE_MAP, (low, high)),
        ("reduced model", rom, _STATE_MAP, (low, high)),
        ("reduced − full", difference, _ERROR_MAP, (-limit, limit)),
    )
    for axes, (label, parts, colours, limits) in zip(panels, rows, strict=True):
        for panel, part, column in zip(axes, parts, columns, strict=True):
            image = _image(panel, part, run["time"].values[column.times], colours, limits)
        axes[0].set_ylabel(f"{label}\ncomponent")
        if parts is not truth:
            state = parts is rom  # the full model shares this colour bar, and never leaves its range
            figure.colorbar(
                image,
                ax=(panels[:2] if state else axes).ravel().tolist(),
                label=("state" if state else "error") + _unit(run["truth"], " ({})"),
                extend=_extend(_range(parts), limits),
                pad=0.01,
                aspect=30 if state else 15,
            )
    _frame(panels, columns)


def _range(parts: list[np.ndarray]) -> tuple[float, float]:
    values = np.concatenate([part[np.isfinite(part)] for part in parts])
    return (values.min(), values.max()) if len(values) else (0.0, 0.0)


def _extend(found: tuple[float, float], limits: tuple[float, float]) -> str:
    room = 0.02 * (limits[1] - limits[0])
    below, above = found[0] < limits[0] - room, found[1] > limits[1] + room
    return {(True, True): "both", (True, False): "min", (False, True): "max"}.get((below, above), "neither")


def _image(panel: Axes, values: np.ndarray, time: np.ndarray, colours: str, limits: tuple[float, float]) -> AxesImage:
    """Values (T, n) with time to the right and the component upwards, thinned to what can be seen."""
    image = panel.imshow(
        values[:: max(1, len(time) // 1000)].T,
        cmap=matplotlib.colormaps[colours].with_extremes(bad="0.85"),
        vmin=limits[0],
        vmax=limits[1],
        extent=(time[0], time[-1], -0.5, values.shape[1] - 0.5),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
    )
    panel.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    return image


def _draw_curves(figure: Figure, panels: np.ndarray, run: xr.Dataset, columns: list[Column]) -> None:
    names, unit = run["component"].values, _unit(run["truth"], " ({})")
    for axes, k in zip(panels, _worst_components(run, len(panels)), strict=True):
        for panel, column in zip(axes, columns, strict=True):
            time = run["time"].values[column.times]
            for variable, colour, style, label in (
                ("truth", _TRUTH, "-", "full model"),
                ("rom", _ROM, (0, (4, 2)), "reduced model"),
            ):
                values = run[variable].values[column.trajectory, column.times, k]
                panel.plot(time, values, color=colour, linestyle=style, label=label)
            panel.set_xlim(time[0], time[-1])
            panel.sharey(axes[0])
            panel.spines[["top", "right"]].set_visible(False)
        axes[0].set_ylabel(f"{names[k]}{unit}")
    _frame(panels, columns)
    panels[0, -1].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, borderaxespad=0.1)


def _worst_components(run: xr.Dataset, count: int) -> list[int]:
    """Those with the largest error relative to their own variation, in the order of the state."""
    error = (run["rom"] - run["truth"]).std(("trajectory", "time"))
    relative = (error / run["truth"].std(("trajectory", "time")).clip(1e-12)).fillna(0.0).values
    return sorted(np.argsort(-relative, kind="stable")[:count].tolist())


def _frame(panels: np.ndarray, columns: list[Column]) -> None:
    for panel, column in zip(panels[0], columns, strict=True):
        panel.set_title(column.title)
    for panel in panels[:-1].ravel():
        panel.tick_params(labelbottom=False)
    for panel in panels[:, 1:].ravel():
        panel.tick_params(labelleft=False)


def _draw_errors(figure: Figure, grid: GridSpec, run: xr.Dataset, seed: int, columns: list[Column]) -> None:
    single = run.sizes["trajectory"] == 1
    places = [grid[-1, :]] if single else [grid[-1, c] for c in range(len(columns))]
    limits = _error_limits(run)
    for trajectory, place in enumerate(places):
        panel = figure.add_subplot(place)
        member = run.isel(trajectory=trajectory)
        _draw_error(panel, member, seed)
        for column in columns:
            if column.trajectory == trajectory and column.times != slice(0, run.sizes["time"]):
                start, stop = run["time"].values[column.times][[0, -1]]
                panel.axvspan(start, stop, color="0.93", zorder=0, linewidth=0)
        panel.set_ylim(*limits)
        panel.set_xlabel(f"time{_unit(run['time'], ' ({})')}")
        if trajectory == 0:
            panel.set_ylabel("NRMSE")
            handles = panel.get_legend_handles_labels()
        else:
            panel.tick_params(labelleft=False)
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)


def _draw_error(panel: Axes, member: xr.Dataset, seed: int) -> None:
    time = member["time"].values
    step = max(1, len(time) // 2000)
    for name, colour, label in (
        ("nrmse_projected", _FLOOR, "projection of the full model"),
        ("nrmse", _ROM, "reduced model"),
    ):
        values = np.where(member[name].values > 0, member[name].values, np.nan)
        for other in range(len(values)):
            if other != seed:
                panel.plot(time[::step], values[other, ::step], color=colour, linewidth=0.4, alpha=0.5)
        panel.plot(time[::step], values[seed, ::step], color=colour, label=label)
    panel.axhline(VALID_THRESHOLD, color=_NEUTRAL, linestyle="--", linewidth=0.8, label=f"NRMSE = {VALID_THRESHOLD:g}")
    _mark_valid_time(panel, member.isel(seed=seed))
    panel.set_yscale("log")
    panel.set_xlim(time[0], time[-1])
    panel.spines[["top", "right"]].set_visible(False)


def _mark_valid_time(panel: Axes, member: xr.Dataset) -> None:
    time, valid = member["time"].values, float(member["valid_time"])
    end = time[0] + valid
    diverged = ", then diverges" if int(member["status"]) != 0 else ""
    if end < time[-1]:
        panel.axvline(end, color=_ROM, linestyle=":", linewidth=0.9)
        panel.plot(end, VALID_THRESHOLD, "o", color=_ROM, markersize=3.5, clip_on=False)
        text = f"valid for {valid:.3g}{_unit(member['time'], ' {}')}{diverged}"
    else:
        text = "valid to the end"
    panel.set_title(text, loc="right", color=_ROM)


def _error_limits(run: xr.Dataset) -> tuple[float, float]:
    """The range of the error axis: a floor that single good instants do not drag down, room above the threshold."""
    values = np.concatenate([run[name].values.ravel() for name in ("nrmse", "nrmse_projected")])
    values = values[np.isfinite(values) & (values > 0)]
    if len(values) == 0:
        return VALID_THRESHOLD / 10, VALID_THRESHOLD * 10
    return min(np.quantile(values, 0.005), VALID_THRESHOLD) / 2, min(max(1.0, values.max()), 10.0) * 1.6
