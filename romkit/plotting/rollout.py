"""`plot_rollout`: full model, reduced model and their difference, with the error over time."""

from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import MaxNLocator

from romkit.core import display
from romkit.core.boundary import validated
from romkit.data.layout import layout_of
from romkit.plotting import maps, scores, style

FIELD_SIZE = 24
"""Number of components of one unit from which on a state is shown as a field, and not as curves."""

PERIODS = 6
"""Periods of the dominant oscillation in a stretch of time: more of them blur into a texture."""

VARIABLES = ("truth", "rom", "latent", "nrmse", "nrmse_projected", "valid_time", "status")
"""Variables of every run."""


class Column(NamedTuple):
    """One column of panels: a context, a stretch of time, and its title."""

    trajectory: int
    times: slice
    title: str


class Field(NamedTuple):
    """One variable as a field: name, unit and components of the state, and where these stand, along
    what.
    """

    name: str
    unit: str
    components: slice
    along: str
    places: np.ndarray


@validated
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
    if maps.planes(run.isel(seed=seed, trajectory=0)):
        return _planar(run, seed)
    shown = run.isel(trajectory=slice(style.MAX_COLUMNS))
    columns = _columns(shown)
    rows = (
        3 * len(_fields(shown))
        if _is_field(shown)
        else min(style.MAX_CURVES, shown.sizes["component"])
    )
    with style.style():
        figure = Figure(
            figsize=(max(7.2, 2.3 * len(columns)), 1.15 * rows + 2.7), layout="constrained", dpi=200
        )
        figure.get_layout_engine().set(wspace=0.03)
        grid = figure.add_gridspec(rows + 1, len(columns), height_ratios=[*[1] * rows, 1.5])
        panels = np.array(
            [[figure.add_subplot(grid[r, c]) for c in range(len(columns))] for r in range(rows)]
        )
        draw = _draw_fields if _is_field(shown) else _draw_curves
        draw(figure, panels, shown.isel(seed=seed), columns)
        for (row, k), panel in np.ndenumerate(panels):
            panel.set_title(columns[k].title if row == 0 else "")
            panel.tick_params(labelbottom=row == rows - 1, labelleft=k == 0)
        errors = _draw_errors(figure, grid, shown, seed, columns)
        _legend(figure, panels[0, 0], errors)
        figure.suptitle(_title(run, shown))
    return figure


def _planar(run: xr.Dataset, seed: int) -> Figure:
    """Figure of a run over a plane."""
    with style.style():
        figure, error, omitted = maps.draw_maps(run, seed)
        _legend(figure, error)
        lines = [_title(run, run.isel(trajectory=[0]))]
        if omitted:
            lines.append(f"{omitted} more variables are not shown")
        figure.suptitle("\n".join(lines))
    return figure


def _legend(figure: Figure, *panels: Axes) -> None:
    """Put the labelled lines of panels below the figure."""
    handles = [line for panel in panels for line in panel.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


def headline(run: xr.Dataset) -> str:
    """System, shared context, method, sizes and dynamics of a run, on one line."""
    method, dynamics = (run.attrs.get(key, "?") for key in ("projection", "dynamics"))
    shared = style.context(run, 0, varying=False).replace("\n", " ")
    sizes = f"{run.sizes['latent_component']} of {run.sizes['component']} dimensions"
    name = f"{run.attrs.get('system', 'data')}{' at ' if shared else ''}{shared}"
    return f"{name}: {method} with {sizes}, {dynamics.removesuffix('Model')}"


def _title(run: xr.Dataset, shown: xr.Dataset) -> str:
    """Headline, and a line for everything that the figure leaves out."""
    contexts, seeds = run.sizes["trajectory"], run.sizes["seed"]
    lines = [headline(run)]
    if contexts > shown.sizes["trajectory"]:
        lines.append(f"the first {shown.sizes['trajectory']} of {contexts} contexts")
    if seeds > 1:
        lines.append(
            f"of {seeds} seeds, the one with the median valid time (thin lines: the others)"
        )
    if not _is_field(run) and run.sizes["component"] > style.MAX_CURVES:
        lines.append(f"the {style.MAX_CURVES} components with the largest relative error")
    return "\n".join(lines)


def _is_field(run: xr.Dataset) -> bool:
    return run.sizes["component"] >= FIELD_SIZE and run["truth"].attrs.get("units") != "mixed"


def _columns(run: xr.Dataset) -> list[Column]:
    """One column per context; for a single context the whole run, or its beginning and its end."""
    time, count = run["time"].values, run.sizes["trajectory"]
    window = _window(time, run["truth"].isel(seed=0, missing_dims="ignore").values)
    whole, last = slice(0, len(time)), slice(len(time) - window, len(time))
    length = f"{time[window - 1] - time[0]:.3g} {style.unit(run['time'], '{}') or 'time units'}"
    if count > 1:
        extent = "" if window == len(time) else f"\nlast {length}"
        return [Column(k, last, style.context(run, k, varying=True) + extent) for k in range(count)]
    if window == len(time):
        return [Column(0, whole, "")]
    return [Column(0, slice(0, window), f"first {length}"), Column(0, last, f"last {length}")]


def _window(time: np.ndarray, truth: np.ndarray) -> int:
    """Number of samples of a readable stretch; all samples where two such stretches cover most of
    the run.
    """
    states = np.nan_to_num(truth - truth.mean(-2, keepdims=True))
    power = np.square(np.abs(np.fft.rfft(states, axis=-2))).sum((0, -1)).cumsum()
    median = np.searchsorted(
        power, power[-1] / 2
    )  # in cycles per run: half the power is slower, half is faster
    span = time[-1] - time[0]
    length = PERIODS * span / max(1, median)
    # The next larger of ..., 1, 2, 2.5, 5, 10, ..., so that the axes begin and end at round
    # numbers.
    decade = 10.0 ** np.floor(np.log10(length)) if length > 0 else 1.0
    readable = next(decade * m for m in (1, 2, 2.5, 5, 10) if decade * m >= length * (1 - 1e-9))
    return (
        int(np.searchsorted(time - time[0], readable)) + 1 if span > 2.5 * readable else len(time)
    )


def _fields(run: xr.Dataset) -> list[Field]:
    """Each variable, where every one is a field; the state as a whole elsewhere."""
    layout = layout_of(run)
    variables = layout.variables
    if len(variables) > style.MAX_CURVES or min(each.size for each in variables) < FIELD_SIZE:
        return [
            Field(
                "state", style.unit(run["truth"]), slice(None), "component", np.arange(layout.size)
            )
        ]
    fields, start = [], 0
    for variable in variables:
        name, dim, part = variable.name, "".join(variable.dims), slice(start, start + variable.size)
        along, places = (
            f"component{'' if name == 'state' else f' of {name}'}",
            np.arange(variable.size),
        )
        own = layout.coords.get(dim, {"values": []})
        if (values := np.asarray(own["values"])).dtype.kind in "iuf" and values.size:
            along, places = (
                f"{dim}{display.with_unit(own['attrs'].get('units', ''), ' ({})')}",
                values[variable.cells],
            )
        unit = (
            style.unit(run["truth"])
            if name == "state"
            else display.with_unit(variable.units, " ({})")
        )
        fields.append(Field(name, unit, part, along, places))
        start = part.stop
    return fields


def _draw_fields(
    figure: Figure, panels: np.ndarray, run: xr.Dataset, columns: list[Column]
) -> None:
    for k, field in enumerate(_fields(run)):
        _draw_field(
            figure, panels[3 * k : 3 * k + 3], run.isel(component=field.components), columns, field
        )


def _draw_field(
    figure: Figure, panels: np.ndarray, run: xr.Dataset, columns: list[Column], field: Field
) -> None:
    truth, rom, difference = (
        [variable.values[column.trajectory, column.times] for column in columns]
        for variable in (run["truth"], run["rom"], run["rom"] - run["truth"])
    )
    low, high = _range(truth)
    limit = (
        min(np.abs(_range(difference)).max(), high - low) or 1.0
    )  # divergence must not bleach the rest
    rows = (
        (style.truth(run), truth, style.STATE_MAP, (low, high), "missing"),
        ("reduced model", rom, style.STATE_MAP, (low, high), "diverged"),
        (
            f"reduced − {style.truth(run).removesuffix(' model')}",
            difference,
            style.ERROR_MAP,
            (-limit, limit),
            "",
        ),
    )
    for axes, (label, parts, colours, limits, absent) in zip(panels, rows, strict=True):
        for panel, part, column in zip(axes, parts, columns, strict=True):
            _draw_mesh(
                panel, part, run["time"].values[column.times], field.places, colours, limits, absent
            )
        axes[0].set_ylabel(f"{label}\n{field.along}")
    shown = (
        (f"{field.name}{field.unit}", rom, panels[:2]),
        (f"error{field.unit}", difference, panels[2:]),
    )
    for label, parts, beside in shown:
        mesh = beside[-1, 0].collections[0]
        (low, high), (lowest, highest) = mesh.get_clim(), _range(parts)
        room = 0.02 * (high - low)
        pointed = {
            (True, True): "both",
            (True, False): "min",
            (False, True): "max",
            (False, False): "neither",
        }
        extend = pointed[bool(lowest < low - room), bool(highest > high + room)]
        axes = beside.ravel().tolist()
        figure.colorbar(
            mesh, ax=axes, label=label, extend=extend, pad=0.01, aspect=15 * len(beside)
        )


def _range(parts: list[np.ndarray]) -> tuple[float, float]:
    values = np.concatenate([part[np.isfinite(part)] for part in parts])
    return (values.min(), values.max()) if len(values) else (0.0, 0.0)


def _draw_mesh(
    panel: Axes,
    values: np.ndarray,
    time: np.ndarray,
    places: np.ndarray,
    colours: str,
    limits: tuple,
    absent: str,
) -> None:
    """Draw values (T, n) against time, with the places upwards; `absent` is written where many are
    NaN.
    """
    some = np.unique(np.linspace(0, len(time) - 1, 1000).astype(int))  # more columns cannot be seen
    scale = {
        "cmap": matplotlib.colormaps[colours].with_extremes(bad="0.85"),
        "vmin": limits[0],
        "vmax": limits[1],
    }
    panel.pcolormesh(time[some], places, values[some].T, **scale, rasterized=True)
    panel.set_xlim(time[0], time[-1])
    panel.yaxis.set_major_locator(MaxNLocator(4, integer=places.dtype.kind == "i"))
    missing = time[np.isnan(values).any(-1)]
    if len(missing) > 0.2 * len(time):
        panel.text(
            (missing[0] + missing[-1]) / 2,
            (places[0] + places[-1]) / 2,
            absent,
            ha="center",
            va="center",
        )


def _draw_curves(
    figure: Figure, panels: np.ndarray, run: xr.Dataset, columns: list[Column]
) -> None:
    """Draw the components with the largest error relative to their own variation, in the order of
    the state.
    """
    error = (run["rom"] - run["truth"]).std(("trajectory", "time"))
    relative = (error / run["truth"].std(("trajectory", "time")).clip(1e-12)).fillna(0.0).values
    worst = sorted(np.argsort(-relative, kind="stable")[: len(panels)].tolist())
    for axes, k in zip(panels, worst, strict=True):
        for panel in axes[1:]:
            panel.sharey(axes[0])  # before anything is drawn, so that the range covers all columns
        for panel, column in zip(axes, columns, strict=True):
            time = run["time"].values[column.times]
            truth, rom = (
                run[name].values[column.trajectory, column.times, k] for name in ("truth", "rom")
            )
            panel.plot(time, truth, color=style.DARK, label=style.truth(run))
            panel.plot(
                time, rom, color=style.ORANGE, linestyle=(0, (4, 2))
            )  # labelled in the error panel
            panel.set_xlim(time[0], time[-1])
            style.plain(panel)
        axes[0].set_ylabel(f"{run['component'].values[k]}{style.unit(run['truth'])}")


def _draw_errors(
    figure: Figure, grid: GridSpec, run: xr.Dataset, seed: int, columns: list[Column]
) -> Axes:
    """Draw one error panel for each trajectory; the last one is returned."""
    limits = scores.error_limits(run)
    places = [grid[-1, column] for column in range(len(columns))]
    if run.sizes["trajectory"] == 1:
        places = [grid[-1, :]]
    for trajectory, place in enumerate(places):
        panel = figure.add_subplot(place)
        scores.draw_error(panel, run.isel(trajectory=trajectory), seed)
        for column in columns:
            if column.trajectory == trajectory and column.times != slice(0, run.sizes["time"]):
                start, stop = run["time"].values[column.times][[0, -1]]
                panel.axvspan(start, stop, color="0.93", zorder=0, linewidth=0)
        panel.set(ylim=limits, ylabel="NRMSE" if trajectory == 0 else "")
        panel.tick_params(labelleft=trajectory == 0)
    return panel
