"""Rollouts: full model, reduced model and their difference, with the error over time."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from romkit.core.boundary import validated
from romkit.core.types import Array, Kwargs
from romkit.data.grids import unstacked
from romkit.metrics import VALID_THRESHOLD
from romkit.plotting import style
from romkit.plotting.pictures import FIELD_SIZE, Row, compared, draw_rows, panels_of

VARIABLES = ("truth", "rom", "latent", "nrmse", "nrmse_projected", "valid_time", "status")
"""Variables of every run."""


ERRORS = ("nrmse", "nrmse_projected")
"""Errors of the reduced model, and of the projection of the truth."""


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
    # largest number of variables over a plane in one figure, each of which takes three rows
    most_planes = 2
    fix = "give what romkit.rollout returned; plot_space_time shows a forecast"
    style.check_numbers("run", run, "time", *VARIABLES, fix=fix)
    run = style.members(run)
    seed = median_seed(run)
    one_seed = run.isel(seed=seed)
    fields = [field for field in _grid_fields(one_seed) if style.plane(field.truth) is not None]
    shown = run.isel(trajectory=slice(1 if fields else style.MAX_COLUMNS))
    if fields:
        columns, most = [], most_planes
        for k in style.spread(run, 4).tolist():
            columns.append(Column({"trajectory": 0, "time": k}, style.clock(run, k)))
        _, to_the_right = style.plane(fields[0].truth) or ("", "")
        across = style.label(fields[0].truth[to_the_right])
    else:
        columns, most = _stretches(shown), style.MAX_CURVES
        across = ""
        fields = _lines(one_seed)
    drawn = fields[:most]
    number = 3 * len(drawn) or min(style.MAX_CURVES, run.sizes["component"])
    with style.style():
        size = max(7.2, 2.3 * shown.sizes["trajectory"]), 1.2 * number + 2.5
        figure = Figure(figsize=size, layout="constrained", dpi=200)
        grid = figure.add_gridspec(
            number + 1, len(columns), height_ratios=[*[1.0] * number, 1.4], wspace=0.03
        )
        panels = style.panel_grid(figure, grid, number, len(columns))
        if drawn:
            draw_rows(figure, panels, _rows(one_seed, drawn, columns))
        else:
            _draw_curves(panels, shown.isel(seed=seed), columns)
        style.label_columns(panels, [column.title for column in columns], across)
        errors = _draw_errors(figure, grid, shown, seed, columns)
        handles: list[Any] = []
        for panel in (panels[0, 0], errors):
            handles += panel.get_legend_handles_labels()[0]
        figure.legend(
            handles=handles, loc="outside lower center", ncols=len(handles), frameon=False
        )
        figure.suptitle(_title(run, shown, fields, drawn))
    return figure


# -- what is drawn ---------------------------------------------------------------------------------


class Field(NamedTuple):
    """A variable of the truth and of the reduced model, on its grid."""

    name: str
    truth: xr.DataArray
    reduced: xr.DataArray


class Column(NamedTuple):
    """A column of panels: the trajectory and the times that it shows, and its title."""

    entry: dict[Any, int | slice]
    title: str


def _grid_fields(run: xr.Dataset) -> list[Field]:
    """Return each variable of a run."""
    variables = unstacked(run)
    fields = []
    for name, truth in variables.data_vars.items():
        kind, _, variable = str(name).partition("_")
        if kind == "truth":
            reduced = variables[str(name).replace("truth", "rom", 1)]
            fields.append(Field(variable or "state", truth, reduced))
    return fields


def _lines(run: xr.Dataset) -> list[Field]:
    """Return variables along their lines, or the state along its components; none where these are
    few, or of several units.
    """
    if run.sizes["component"] < FIELD_SIZE or run["truth"].attrs.get("units") == "mixed":
        return []
    lines = []
    for field in _grid_fields(run):
        space = style.space(field.truth)
        if len(space) != 1:
            # a body, or a number: along the numbers of its points
            points = [values.stack(number=space, create_index=False) for values in field[1:]]
            field = Field(field.name, *points)
        lines.append(field)
    fewest = min(field.truth[0, 0].size for field in lines)
    if len(lines) > style.MAX_CURVES or fewest < FIELD_SIZE:
        return [Field("state", run["truth"], run["rom"])]
    return lines


def _rows(run: xr.Dataset, fields: list[Field], columns: list[Column]) -> list[Row]:
    """Return truth, reduced model and difference of each variable."""
    entries = [column.entry for column in columns]
    labels = style.truth(run), _model(run)
    rows = []
    for name, *values in fields:
        truth, reduced = (panels_of(whole, entries) for whole in values)
        rows += compared(labels, name, (truth, reduced), "diverged")
    return rows


def _model(run: xr.Dataset) -> str:
    """Return what is drawn beside the truth, in words."""
    return "forecast" if "forecast_by" in run.attrs else "reduced model"


def _stretches(run: xr.Dataset) -> list[Column]:
    """Return a column for each context; for a single one the whole run, or its beginning and its
    end.
    """
    time = run["time"].values
    samples = len(time)
    truth = run["truth"].isel(seed=0, missing_dims="ignore")
    window = _window(time, truth.values)
    length = f"{time[window - 1] - time[0]:.3g} {style.unit(run['time'], '{}') or 'time units'}"
    end = slice(samples - window, samples)
    count = run.sizes["trajectory"]
    if count == 1 and window < samples:
        stretches = {"first": slice(0, window), "last": end}
        return [
            Column({"trajectory": 0, "time": stretch}, f"{which} {length}")
            for which, stretch in stretches.items()
        ]
    extent = f"\nlast {length}" if window < samples else ""
    columns = []
    for k in range(count):
        title = style.context(run, k, varying=True)
        columns.append(Column({"trajectory": k, "time": end}, f"{title}{extent}"))
    return columns


def _window(time: Array, truth: Array, *, periods: int = 6, long: float = 2.5) -> int:
    """Return number of samples of a readable stretch; all samples where two such stretches cover
    most of the run.

    `periods`: periods of the dominant oscillation in a stretch of time: more of them blur into
    a texture.

    `long`: length of a run, in stretches, from which on its beginning and its end are shown
    alone.
    """
    since_start = time - time[0]
    span = since_start[-1]
    length = periods * span / _median_cycles(truth)
    # the next round number; a length that is round itself must not be lost to rounding
    decade = 10.0 ** np.floor(np.log10(length)) if length else 1.0
    at_least = length * (1 - 1e-9)
    multiples = decade * np.array([1, 2, 2.5, 5, 10])
    readable = float(multiples[multiples >= at_least][0])
    if span <= long * readable:
        return len(time)
    end = int(np.searchsorted(since_start, readable))
    return end + 1


def _median_cycles(truth: Array) -> float:
    """Cycles in a run (..., T, n) below which half of the power lies; at least one."""
    anomalies = np.nan_to_num(truth - truth.mean(-2, keepdims=True))
    spectrum = np.fft.rfft(anomalies, axis=-2)  # (..., cycles, n)
    power = np.square(np.abs(spectrum)).sum((0, -1)).cumsum()
    return max(1, int(np.searchsorted(power, power[-1] / 2)))


# -- words ------------------------------------------------------------------------------------------


def headline(run: xr.Dataset) -> str:
    """Return system, shared context, method, sizes and dynamics of a run, on one line; or what made
    the forecast in place of a reduced model, where an attribute `forecast_by` says so.
    """
    method = run.attrs.get("projection", "?")
    dynamics = run.attrs.get("dynamics", "?")
    dynamics = style.LAWS.get(dynamics, dynamics.removesuffix("Model"))
    name = run.attrs.get("system", "data")
    shared = style.context(run, 0, varying=False)
    shared = shared.replace("\n", " ")
    if shared:
        name = f"{name} at {shared}"
    if "forecast_by" in run.attrs or method == "identity":
        return f"{name}: {style.forecaster(run)}"
    latent = run.sizes["latent_component"]
    full = run.sizes["component"]
    return f"{name}: {method} with {latent} of {full} dimensions, {dynamics}"


def _title(run: xr.Dataset, shown: xr.Dataset, fields: list[Field], drawn: list[Field]) -> str:
    """Headline, and a line for everything that the figure leaves out."""
    contexts = run.sizes["trajectory"]
    columns = shown.sizes["trajectory"]
    seeds = run.sizes["seed"]
    lines = [headline(run)]
    if contexts > columns == 1:
        which = style.context(run, 0, varying=True)
        lines.append(", ".join(filter(None, (which, f"the first of {contexts} contexts"))))
    elif contexts > columns:
        lines.append(f"the first {columns} of {contexts} contexts")
    if seeds > 1:
        middle = "the one with the median valid time (thin lines: the others)"
        lines.append(f"of {seeds} seeds, {middle}")
    if len(fields) > len(drawn):
        lines.append(f"{len(fields) - len(drawn)} more variables are not shown")
    if not fields and run.sizes["component"] > style.MAX_CURVES:
        lines.append(f"the {style.MAX_CURVES} components with the largest relative error")
    return "\n".join(lines)


# -- curves of small states ------------------------------------------------------------------------


def _draw_curves(panels: Array, run: xr.Dataset, columns: list[Column]) -> None:
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
            stretch = run.isel(column.entry).isel(component=component)
            time = stretch["time"].values
            style.plain(panel).set_xlim(time[0], time[-1])
            panel.plot(time, stretch["truth"], color=style.DARK, label=style.truth(run))
            # its label is in the error panel
            panel.plot(time, stretch["rom"], color=style.ORANGE, linestyle=(0, (4, 2)))
        axes[0].set_ylabel(f"{names[component]}{unit}")


def _worst_components(run: xr.Dataset, number: int, *, negligible: float = 1e-12) -> list[int]:
    """Return numbers of the components with the largest relative error, in the order of the state.

    `negligible`: deviation below which a component is constant.
    """
    error, deviation = (
        x.std(("trajectory", "time")) for x in (run["rom"] - run["truth"], run["truth"])
    )
    relative = (error / deviation.clip(negligible)).fillna(0.0).values
    return sorted(np.argsort(-relative, kind="stable")[:number].tolist())


# -- errors over time ------------------------------------------------------------------------------


def _draw_errors(
    figure: Figure, grid: GridSpec, run: xr.Dataset, seed: int, columns: list[Column]
) -> Axes:
    """Draw one error panel for each trajectory; the last one is returned."""
    limits = _error_limits(run)
    time = run["time"].values
    count = run.sizes["trajectory"]
    places = [grid[-1, :]] if count == 1 else [grid[-1, k] for k in range(count)]
    for trajectory, place in enumerate(places):
        panel = figure.add_subplot(place)
        _draw_error(panel, run.isel(trajectory=trajectory), seed)
        for column in columns:
            pictured = np.atleast_1d(time[column.entry["time"]])
            if column.entry["trajectory"] == trajectory and len(pictured) < len(time):
                panel.axvspan(pictured[0], pictured[-1], color="0.93", zorder=0, linewidth=0.8)
        panel.set_ylim(limits)
        panel.tick_params(labelleft=trajectory == 0)
        if trajectory == 0:
            panel.set_ylabel("NRMSE")
    return panel


def median_seed(run: xr.Dataset) -> int:
    """Seed whose valid prediction time, averaged over the contexts, is the (lower) median."""
    valid = run["valid_time"].mean("trajectory").values  # (seed,)
    return int(np.argsort(valid, kind="stable")[(len(valid) - 1) // 2])


def _error_limits(run: xr.Dataset) -> tuple[float, float]:
    """Return ends of the logarithmic axis that all error panels of a figure share."""
    errors = [run[name].values.ravel() for name in ERRORS]
    values = np.concatenate(errors)
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    if len(positive) == 0:
        return VALID_THRESHOLD / 10, VALID_THRESHOLD * 10
    # a floor that single good instants, as an exact start, do not drag down, and room above the
    # threshold
    floor = np.quantile(positive, 0.05)
    low = min(floor, VALID_THRESHOLD) / 2
    ceiling = max(1.0, positive.max())
    high = min(ceiling, 10.0) * 1.6
    return low, high


def _draw_error(panel: Axes, run: xr.Dataset, seed: int) -> None:
    """Draw the errors of one trajectory over time, of all seeds, and mark the valid prediction time
    of one.
    """
    time = run["time"].values
    projection = f"projection of the {style.truth(run)}"
    of_projection = run["nrmse_projected"].values
    of_model = run["nrmse"].values
    _draw_seeds(panel, time, of_projection, seed, style.BLUE, projection)
    _draw_seeds(panel, time, of_model, seed, style.ORANGE, _model(run))
    label = f"valid up to NRMSE = {VALID_THRESHOLD:g}"
    panel.axhline(VALID_THRESHOLD, label=label, color=style.NEUTRAL, linestyle="--", linewidth=0.8)
    valid = float(run["valid_time"][seed])
    text = "valid to the end"
    # a run that was measured for a shorter time than the others ends with its last sample
    measured = time[np.isfinite(of_projection[seed])]
    if time[0] + valid < (measured[-1] if len(measured) else time[-1]):
        at = time[0] + valid
        panel.axvline(at, color=style.ORANGE, linestyle=":", linewidth=0.9)
        panel.plot(at, VALID_THRESHOLD, "o", color=style.ORANGE, markersize=3.5, clip_on=False)
        text = f"valid for {valid:.3g}{style.unit(run['time'], ' {}')}"
        if run["status"][seed] != 0:
            text += ", then diverges"
    panel.set_title(text, loc="right", color=style.ORANGE)
    panel.set_yscale("log")
    panel.set_xlim(time[0], time[-1])
    panel.set_xlabel(style.label(run["time"]))
    style.plain(panel)


def _draw_seeds(
    panel: Axes,
    time: Array,
    errors: Array,
    seed: int,
    colour: str,
    label: str,
    *,
    most_points: int = 2000,
) -> None:
    """Draw errors (seed, T), all but one seed as thin lines without a label.

    `most_points`: points of a curve beyond which more cannot be seen.
    """
    step = max(1, len(time) // most_points)
    every = slice(None, None, step)
    # a logarithmic axis has no place for zero
    positive = np.where(errors > 0, errors, np.nan)
    drawn = positive[:, every]
    for number, curve in enumerate(drawn):
        look: Kwargs = {"linewidth": 0.4, "alpha": 0.5}
        # what is exact has no line, and no label
        if number == seed and np.isfinite(curve).any():
            look = {"label": label, "zorder": 3}
        panel.plot(time[every], curve, color=colour, **look)
