"""Forecasts with their intervals, and how often these hold."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pandas as pd
import xarray as xr
from annotated_types import MinLen
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from romkit.core.boundary import validated
from romkit.core.display import listed
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array, Kwargs, NameSequence
from romkit.data.context import context_names
from romkit.data.conversions import convert_data
from romkit.data.grids import stack_components, unstacked
from romkit.data.layout import Layout, layout_of, renamed
from romkit.data.spelling import known_name
from romkit.data.trajectories import check_components
from romkit.data.units import Units
from romkit.metrics import deviations, pool_units
from romkit.numerics import forecast_error
from romkit.plotting import style
from romkit.plotting.pictures import (
    FIELD_SIZE,
    Row,
    axes_of,
    compared,
    draw_rows,
    panels_of,
    states,
    widths,
)
from romkit.plotting.places import place, quantity, telling_components
from romkit.readers.first_states import index_places
from romkit.readers.tables import convert_table

NO_STATES = ("lower", "upper", "spread", "latent", "control")
"""Beginnings of the names of variables of a forecast that are no states."""


@validated
@style.plain_names
def plot_forecast(
    band: xr.Dataset,
    truth: xr.Dataset | pd.DataFrame | None = None,
    *,
    components: Annotated[NameSequence, MinLen(1)] | None = None,
) -> Figure:
    """Plot a forecast over time with its prediction interval, and the truth as a dotted line;
    fields on a grid as maps of truth, forecast, difference and half width of the interval.

    Args:
        band: result of `Ensemble.forecast`, `Ensemble.follow` or `romkit.forecast`, or a forecast of
            what `romkit.learn` returned.
        truth: the data that were followed, or a table of them with a row for each time (of each
            run and place); missing samples are gaps.
        components: names of the components to draw as curves; by default four places that say most
            about the others, one of which has the widest intervals, or of fields on a grid the maps.

    An interval that leaves the range of the states by far is clipped. Where lines hide all intervals, a
    further panel has half their width, in the range of each component: the largest one and the median
    of all components. Titles say how many members are lost, and which runs and how many components are
    left out.

    Raises:
        InputError: a run without states, half of an interval, or unknown components.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> from romkit.plotting import plot_forecast
        >>> wave = np.sin(np.linspace(0, 6, 50))[:, None]
        >>> parts = {"lower": wave - 0.1, "state": wave, "upper": wave + 0.1}
        >>> band = {name: (("time", "component"), part) for name, part in parts.items()}
        >>> figure = plot_forecast(xr.Dataset(band, {"time": np.linspace(0, 6, 50), "component": ["x0"]}))
        >>> len(figure.axes)
        1
    """
    band = stack_components(band)
    fix = "give a forecast: of romkit.forecast, romkit.learn or an Ensemble"
    needed = ["time", "state"]
    if "lower" in band or "upper" in band:
        needed = ["time", "lower", "state", "upper"]
    style.check_numbers("band", band, *needed, fix=fix)
    runs = style.members(band).isel(seed=0, drop=True)
    number = runs.sizes["trajectory"]
    runs = runs.isel(trajectory=slice(style.MAX_COLUMNS))
    names = [str(name) for name in runs["component"].values]
    truth = _checked_truth(truth, runs, names)
    common, at_common = (runs, None) if truth is None else _common_times(runs, truth)
    heading = _heading(common, at_common)
    shown = _split_vectors(unstacked(runs))
    on_grid = _grid_variables(shown) if components is None else []
    if on_grid:
        truth_fields = None
        if at_common is not None:
            shown = _split_vectors(unstacked(common))
            truth_fields = _split_vectors(unstacked(at_common))
        figure, omission = _draw_grid(shown, truth_fields, on_grid, number)
        style.entitle(figure, f"{heading}\n{omission}")
        return figure
    chosen = _chosen(components, runs, names)
    is_hidden = _is_hidden(runs, chosen)
    with style.style():
        rows = len(chosen)
        columns = runs.sizes["trajectory"]
        figure, axes = style.panels(rows + is_hidden, columns, width=3.0, height=1.3, sharex=True)
        for row, component in zip(axes[:rows], chosen, strict=True):
            _draw_row(row, runs, truth, component)
            row[0].set_ylabel(quantity(runs, component))
        if is_hidden:
            _draw_half_widths(axes[-1], runs.isel(component=chosen))
        titles = [_title(runs, k) for k in range(columns)]
        style.label_columns(axes, titles, style.label(runs["time"]), "left")
        left_out = _omitted(number, len(names), rows)
        style.entitle(figure, f"{heading}\n{left_out}")
        lines, words = axes[0, 0].get_legend_handles_labels()
        figure.legend(lines, words, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _heading(runs: xr.Dataset, truth: xr.Dataset | None) -> str:
    """Return what made the forecast, and beside a truth at the same times its error, and the share of
    the truth within the intervals, as the title of a figure.
    """
    words = [style.forecaster(runs)]
    if truth is None:
        return words[0]
    values = truth["state"].values
    # in dimensions of its own a forecast has no deviations of its training
    has_deviation = "state_std" in runs
    std = runs["state_std"].values.astype(float) if has_deviation else deviations(truth)
    error = np.mean(forecast_error(runs["state"].values, values, pool_units(std, runs)))
    told = [f"error {error:.2g} standard deviations{'' if has_deviation else ' of the truth'}"]
    if "lower" in runs:
        inside = (values >= runs["lower"].values) & (values <= runs["upper"].values)
        share = inside[np.isfinite(values)].mean()
        level = runs["lower"].attrs.get("level", 0.9)
        told.append(f"{share:.0%} of the truth inside the {level:.0%} intervals")
    return "\n".join(filter(None, [*words, ", ".join(told)]))


def _common_times(
    runs: xr.Dataset, truth: xr.Dataset, *, rounding: float = 1e-6
) -> tuple[xr.Dataset, xr.Dataset | None]:
    """Return runs and truth at the times since the first one that both have; all of the runs, and
    no truth, where these are less than two.
    """
    truth = truth.isel(trajectory=slice(runs.sizes["trajectory"]))
    clock, own = (run["time"].values.astype(float) for run in (runs, truth))
    lead = clock - clock[0]
    own_lead = own - own[0]
    nearest = np.abs(lead[:, None] - own_lead).argmin(1)  # (T,)
    is_common = np.abs(own_lead[nearest] - lead) <= rounding * max(np.ptp(lead), np.ptp(own_lead))
    number = int(is_common.sum())
    last = clock[np.flatnonzero(is_common)[-1]]
    if number < len(lead):
        text = f"truth: expected the {len(lead)} times of the forecast, got {number} of them"
        if number < 2:
            warn(f"{text}; it is not compared: forecast with its dt", DataWarning)
            return runs, None
        warn(f"{text}, the last one {last:.6g}: compared at these alone", DataWarning)
    return runs.isel(time=is_common), truth.isel(time=nearest[is_common])


def _omitted(trajectories: int, components: int, drawn: int) -> str:
    """Return runs and components that a figure leaves out, in words; empty where it shows all."""
    many, most = trajectories > style.MAX_COLUMNS, style.MAX_COLUMNS
    runs = f"the first {most} of {trajectories} runs" if many else ""
    names = f"{drawn} of {components} components" if components > drawn else ""
    return ", ".join(filter(None, (runs, names)))


def _grid_variables(runs: xr.Dataset, *, most: int = 2) -> list[str]:
    """Return names of the variables that are drawn as fields: those over a plane, or else those
    along a line of many points.

    `most`: largest number of variables, each of which takes up to four rows.
    """
    planes, lines = [], []
    for name, values in runs.data_vars.items():
        space = style.space(values)
        if str(name).startswith(NO_STATES) or "time" not in values.dims or "component" in space:
            continue
        if style.plane(values) is not None:
            planes.append(str(name))
        elif len(space) == 1 and values.sizes[space[0]] >= FIELD_SIZE:
            lines.append(str(name))
    return (planes or lines)[:most]


def _split_vectors(fields: xr.Dataset) -> xr.Dataset:
    """Return fields whose vectors are a variable for each direction."""
    variables: dict[str, xr.DataArray] = {}
    for name, values in fields.data_vars.items():
        if "direction" not in values.dims:
            variables[str(name)] = values
            continue
        for direction in values["direction"].values:
            variables[f"{name}_{direction}"] = values.sel(direction=direction, drop=True)
    return xr.Dataset(variables, attrs=fields.attrs)


def _draw_grid(
    runs: xr.Dataset, truth: xr.Dataset | None, names: list[str], number: int
) -> tuple[Figure, str]:
    """Return maps of the first run at some times, or each run along a line over time; and what they
    show of so many runs.
    """
    field = runs[names[0]]
    columns = runs.sizes["trajectory"]
    if style.plane(field) is not None:
        times = style.spread(runs, 4).tolist()
        entries = [{"trajectory": 0, "time": k} for k in times]
        titles = [style.clock(runs, k) for k in times]
        words = [style.context(runs, 0, varying=varying) for varying in (False, True)]
        words.append(f"the first of {number} runs" if number > 1 else "")
        told = ", ".join(filter(None, words))
        height = _height(field, width=1.6)
    else:
        entries = [{"trajectory": k} for k in range(columns)]
        titles = [style.context(runs, k, varying=columns > 1) for k in range(columns)]
        told = _omitted(number, 0, 0)
        height = 1.7
    rows: list[Row] = []
    for name in names:
        rows += _panel_rows(runs, truth, name, entries)
    with style.style():
        shape = len(rows), len(entries)
        figure, axes = style.panels(*shape, height=height, sharex=True, sharey=True)
        draw_rows(figure, axes, rows)
        _, across = axes_of(rows[0].panels[0])
        style.label_columns(axes, titles, style.label(field[across]))
    return figure, told


def _panel_rows(
    runs: xr.Dataset, truth: xr.Dataset | None, name: str, entries: Sequence[dict[str, int]]
) -> list[Row]:
    """Truth, forecast, difference and half width of a variable, as far as they are known."""
    forecast = runs[name]
    quantity = f"{name}{style.unit(forecast)}"
    panels = panels_of(forecast, entries)
    rows = [states("forecast", quantity, panels, "lost")]
    if truth is not None:
        truth_panels = panels_of(truth[name], entries)
        if truth_panels[0].shape == panels[0].shape:
            rows = compared(("truth", "forecast"), name, (truth_panels, panels), "lost")
    half = style.half_width(runs, name)
    if half is not None:
        label = f"± at {runs[f'lower_{name}'].attrs.get('level', 0.9):.0%}"
        rows.append(widths(label, quantity, panels_of(half, entries)))
    return rows


def _height(values: xr.DataArray, *, width: float, least: float = 0.9, most: float = 2.0) -> float:
    """Return height [inches] of a map to scale of this width, with room for its numbers."""
    down, across = (np.ptp(style.places(values, dim)) for dim in style.plane(values) or ())
    return float(np.clip(width * down / across if across > 0 else most, least, most)) + 0.2


def _is_hidden(runs: xr.Dataset, chosen: Sequence[int], *, thin: float = 0.05) -> bool:
    """Tell whether a line hides the interval of a component that is drawn, most of the time.

    `thin`: width of an interval, in the range of the forecast, below which a line hides most of
    it.
    """
    if "lower" not in runs:
        return False
    half = _half_widths(runs.isel(component=list(chosen)))
    typical = 2 * half.median(("trajectory", "time"))
    return bool((typical < thin).any())


def _half_widths(runs: xr.Dataset) -> xr.DataArray:
    """Half the width of the intervals of each component, in the range of its forecasts; NaN where a
    component stays.
    """
    state = runs["state"]
    spread = state.max(("trajectory", "time")) - state.min(("trajectory", "time"))
    return (runs["upper"] - runs["lower"]) / 2 / spread.where(spread > 0)


def _draw_half_widths(row: Array, runs: xr.Dataset) -> None:
    """Draw the largest half width of the intervals of these components over time, and the median."""
    half = _half_widths(runs)
    time = runs["time"].values
    for k, panel in enumerate(row):
        of_run = half.isel(trajectory=k)
        largest = of_run.max("component").values
        panel.plot(time, largest, color=style.BLUE, linewidth=0.7)
        panel.plot(time, of_run.median("component").values, color=style.DARK, linewidth=0.7)
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
        style.plain(panel)
    which = ": largest, median (black)" if half.sizes["component"] > 1 else " of the interval"
    row[0].set_title(f"half width{which}", loc="left")
    row[0].set_ylabel("of the range")


def _draw_row(row: Array, runs: xr.Dataset, truth: xr.Dataset | None, component: int) -> None:
    """Draw one component of each trajectory; its place is written above, where it has one."""
    time = runs["time"].values
    for k, panel in enumerate(row):
        entry = {"trajectory": k, "component": component}
        band = runs.isel(entry)
        inside = band["state"].values
        if "lower" in band:
            upper = band["upper"].values
            claim = f"{band['lower'].attrs.get('level', 0.9):.0%} interval"
            look: Kwargs = {"color": style.BLUE, "alpha": 0.25, "linewidth": 0}
            panel.fill_between(time, band["lower"].values, upper, label=claim, **look)
            # where the interval has no end it fills the panel
            look["transform"] = panel.get_xaxis_transform()
            panel.fill_between(time, 0, 1, where=np.isinf(upper), **look)
        panel.plot(time, inside, color=style.BLUE, label="forecast")
        if truth is not None:
            look = {"color": style.DARK, "linewidth": 1.0, "linestyle": ":"}
            states = truth["state"].isel(entry).values
            panel.plot(truth["time"].values, states, label="truth", **look)
            inside = np.concatenate([inside, states])
        if "lower" in band:
            _clip(panel, band, inside)
        style.plain(panel)
    where = place(runs, component)
    if where != str(runs["component"].values[component]):
        row[0].set_title(where, loc="left")


def _checked_truth(
    truth: xr.Dataset | pd.DataFrame | None, runs: xr.Dataset, names: list[str]
) -> xr.Dataset | None:
    if truth is None:
        return None
    layout = layout_of(runs)
    if isinstance(truth, pd.DataFrame):
        truth = _read_table(truth, layout)
    truth = stack_components(truth, layout)
    wanted = ", ".join(variable.name for variable in layout.variables)
    style.check_numbers("truth", truth, "time", "state", fix=f"give all of {wanted}")
    truth = style.members(truth).isel(seed=0, drop=True)
    check_components("truth", truth, names)
    truth = convert_data("truth", truth, Units.read(runs, []), [])
    count = runs.sizes["trajectory"]
    got = truth.sizes["trajectory"]
    if got < count:
        raise InputError(
            "truth",
            expected=f"{count} trajectories, as in the band",
            got=got,
            fix="give the data that were followed",
        )
    _check_contexts(runs, truth.isel(trajectory=slice(count)))
    return truth


def _check_contexts(runs: xr.Dataset, truth: xr.Dataset) -> None:
    """Refuse a truth at other parameters than those of the forecast.

    Raises:
        InputError: a parameter that both have, of another value.
    """
    for name in context_names(runs):
        if name not in truth.coords or "time" in {*runs[name].dims, *truth[name].dims}:
            continue
        asked = runs[name].values.astype(float)
        got = truth[name].values.astype(float)
        if not np.allclose(asked, got, rtol=1e-6):
            raise InputError(
                "truth",
                expected=f"{name} = {listed(asked.ravel())}, as in the band",
                got=listed(got.ravel()),
                fix="select the run with data.isel(trajectory=...)",
            )


def _read_table(table: pd.DataFrame, layout: Layout) -> xr.Dataset:
    """Return a table of times, and perhaps runs and places, in the dimensions of a forecast."""
    is_named = layout.time in {*table.columns, *table.index.names}
    time = layout.time if is_named else None
    data, time = convert_table(index_places(table, layout), (), None, time, [])
    names = list(layout.names)
    if layout.is_plain and data.data_vars.keys() >= {*names}:
        data = data[names].to_dataarray("component").to_dataset(name="state")
    return renamed(data, time, layout.time)


def _chosen(components: NameSequence | None, runs: xr.Dataset, names: list[str]) -> list[int]:
    """Return numbers of the components to draw."""
    if components is not None:
        return [names.index(known_name("components", name, names)) for name in components]
    chosen = telling_components(runs, style.MAX_CURVES)
    if "lower" not in runs or len(names) <= style.MAX_CURVES:
        return chosen.tolist()
    half = _half_widths(runs).median(("trajectory", "time"))
    widest = int(np.argmax(half.fillna(0.0).values))
    if widest not in chosen:
        # the nearest of the others tells least beside it
        chosen[np.abs(chosen - widest).argmin()] = widest
    return np.sort(chosen).tolist()


def _clip(
    panel: Axes, run: xr.Dataset, inside: Array, *, far: float = 3.0, deviations: float = 5.0
) -> None:
    """Keep one lost member from deciding the range of the axis.

    `far`: range of an interval, in that of truth and mean, beyond which it is clipped.

    `deviations`: distance from the median [deviations of the data] beyond which states do not
    decide the axis.
    """
    low, high = style.limits(inside)
    if "state_std" in run.coords:
        # a mean that is lost does not decide either
        centre = float(np.nanmedian(inside))
        reach = deviations * float(run["state_std"])
        low = max(low, centre - reach)
        high = min(high, centre + reach)
    room = far * (high - low)
    if room <= 0:
        return
    lower, upper = run["lower"].values, run["upper"].values
    lowest, highest = style.limits(np.concatenate([lower, upper]))
    if lowest < low - room or highest > high + room:
        margin = room / 2
        panel.set_ylim(low - margin, high + margin)


def _title(runs: xr.Dataset, trajectory: int) -> str:
    """Context of a trajectory, what all share of it only for a single one, and the share of its
    members that diverged.
    """
    context = style.context(runs, trajectory, varying=runs.sizes["trajectory"] > 1)
    # `where` gives the share the times of the states
    lost = float(runs["lost"][trajectory].max()) if "lost" in runs else 0.0
    return "\n".join(filter(None, [context, f"{lost:.0%} of the members are lost" if lost else ""]))


@style.plain_names
def plot_courses(data: xr.Dataset) -> Figure:
    """Components against time, as they were measured: a row for each, a column for a trajectory, at
    most four of both.

    Samples that are missing are passed over, so that runs with times of their own are curves.

    Args:
        data: in romkit's schema, or a forecast.
    """
    style.check_numbers("data", data, "time", "state", fix="give data by romkit.data.describe")
    runs = style.members(data).isel(seed=0, drop=True)
    shown = runs.isel(trajectory=slice(style.MAX_COLUMNS))
    components = telling_components(shown, style.MAX_CURVES)
    rows, columns = len(components), shown.sizes["trajectory"]
    time = shown["time"].values
    with style.style():
        figure, axes = style.panels(rows, columns, width=3.0, height=1.3, sharex=True, sharey="row")
        for row, component in zip(axes, components, strict=True):
            courses = shown["state"].isel(component=component).values
            for panel, course in zip(row, courses, strict=True):
                present = np.isfinite(course)
                style.plain(panel).plot(time[present], course[present], color=style.DARK)
            row[0].set_ylabel(quantity(shown, component))
        titles = [style.context(shown, k, varying=columns > 1) for k in range(columns)]
        style.label_columns(axes, titles, style.label(shown["time"]), "left")
        figure.suptitle(_omitted(runs.sizes["trajectory"], runs.sizes["component"], rows))
    return figure


@validated
@style.plain_names
def plot_calibration(reliability: xr.Dataset) -> Figure:
    """Coverage of intervals against their level; on the diagonal an ensemble is calibrated.

    Args:
        reliability: result of `Ensemble.reliability`; thin lines are single trajectories.

    Example:
        >>> import xarray as xr
        >>> from romkit.plotting import plot_calibration
        >>> each = [[0.4, 0.5], [0.9, 0.94]]  # level, trajectory
        >>> coverage = {"coverage": ("level", [0.45, 0.92]), "coverage_of": (("level", "trajectory"), each)}
        >>> figure = plot_calibration(xr.Dataset(coverage, {"level": [0.5, 0.9]}))
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('level of the interval', 'share of the truth within')
    """
    fix = "give what Ensemble.reliability returned"
    style.check_numbers("reliability", reliability, "level", "coverage", "coverage_of", fix=fix)
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=3.2, height=3.0)
        axes.plot(
            [0, 1], [0, 1], label="calibrated", color=style.NEUTRAL, linewidth=0.8, linestyle=":"
        )
        level = reliability["level"].values
        thin = {"color": style.ORANGE, "linewidth": 0.4, "alpha": 0.6}
        of_trajectory = reliability["coverage_of"].transpose("trajectory", "level")
        for coverage in of_trajectory.values:
            axes.plot(level, coverage, **thin)
        axes.plot(
            level,
            reliability["coverage"],
            "o-",
            label="all trajectories",
            color=style.ORANGE,
            markersize=3,
        )
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.set_xlabel("level of the interval")
        axes.set_ylabel("share of the truth within")
        style.plain(axes)
        axes.legend(frameon=False)
    return figure
