"""Habits of data that models do not see: a table of what is looked for, and of the advice against it.

Values far beyond those of all other runs, as the ends of runs whose solver failed and spikes of sensors
are; runs that are equal although their parameters differ; angles that wrap and states that jump, and
parameters of a full turn.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core.display import append_unit, listed
from romkit.core.errors import DataWarning, warn
from romkit.core.types import Array
from romkit.data.context import context_names
from romkit.data.layout import Variable, layout_of
from romkit.data.schema import DIMS
from romkit.data.units import common_unit

FAR = 100.0
"""Distance from the median that is far, in the largest of the other runs."""

TURNS = {2 * np.pi: ("2π", "2 * numpy.pi", "{}"), 360.0: ("360", "360", "numpy.deg2rad({})")}
"""A turn in radians and in degrees, in words and in code, and the angle of which the cosine is."""


def warn_habits(data: xr.Dataset, *names: str) -> None:
    """Warn of what is unusual in runs of romkit's schema.

    Args:
        data: in chunks, it is read run by run.
        names: of what is looked for: "extremes", "equal runs", "jumps", "circles".
    """
    for name in names:
        for sentence in HABITS[name](data):
            warn(sentence, DataWarning)


def jumps(data: xr.Dataset, *, quantities: int = 20) -> Iterator[str]:
    """Say which components jump between two samples, by a turn or by an impact or a reset: laws are
    smooth functions of states. Chunks are not read.

    `quantities`: components up to which impacts are looked for; fields jump where a front passes a
    cell.
    """
    state = data["state"].transpose(*DIMS)
    if state.chunks:
        return
    times = data["time"].values
    for k in range(state.sizes["component"]):
        courses = state.values[..., k].astype(float)  # (C, T)
        turn, places = _wraps(courses)
        if turn == 0 and state.sizes["component"] <= quantities:
            places = _leaps(courses, times.astype(float))
        for run, sample in places[:1]:
            name = data["component"].values[k]
            place = f"at time {times[sample]:.4g} of run {run} first"
            if turn > 0:
                words, code, _ = TURNS[turn]
                yield (
                    f"{name} jumps by {words}, {place}: an angle that wraps, of which a law sees the "
                    "jump. Give its cosine and sine as two components, or, where turns count, "
                    f"numpy.unwrap(..., period={code}) along time"
                )
                continue
            step = courses[run, sample] - courses[run, sample - 1]
            yield (
                f"{name} jumps by {step:.3g}, {place}, as by an impact or a reset, of which laws "
                "know nothing. Give the pieces between jumps as runs of their own, or, where it is "
                "only fast there, more samples"
            )


def _wraps(
    courses: Array, *, full: float = 0.9, rounding: float = 1e-4, fewest: int = 4
) -> tuple[float, Array]:
    """Return the turn by which courses (C, T) of an angle jump, and the runs and samples (k, 2)
    behind these jumps; 0 and none of what is no angle.

    `full`: share of a turn that values of an angle that wraps cover, at least.

    `rounding`: share of a turn by which values may exceed it.

    `fewest`: samples, at least, that show it.
    """
    extent = np.fmax.reduce(courses, None) - np.fmin.reduce(courses, None)
    for turn in TURNS:
        if courses.shape[1] >= fewest and full < extent / turn < 1 + rounding:
            places = _turns(courses, turn)
            if len(places) > 0:
                return turn, places
    return 0.0, np.empty((0, 2), int)


def _turns(courses: Array, turn: float) -> Array:
    """Return runs and samples behind the jumps by a turn of courses (C, T); none where a course
    jumps by less, too, and is no angle of a smooth motion.
    """
    step = np.diff(courses)  # (C, T - 1)
    is_turn = np.abs(step) > turn / 2
    unwrapped = np.where(is_turn, step - turn * np.sign(step), step)
    # a smooth motion moves by much less than half a turn between samples, and is everywhere
    gaps = np.diff(np.sort(courses[np.isfinite(courses)]))
    if max(np.fmax.reduce(np.abs(unwrapped), (0, 1)), gaps.max()) > turn / 4:
        return np.empty((0, 2), int)
    return np.argwhere(is_turn) + np.array([0, 1])


def _leaps(
    courses: Array, times: Array, *, beside: int = 9, times_faster: float = 8.0, least: float = 0.1
) -> Array:
    """Return runs and samples (k, 2) behind single steps of courses (C, T) that are far larger than
    those beside them: a step of tanh(t/τ) is, where samples are more than 2 τ apart.

    `beside`, `times_faster`: steps before and behind that are compared, and how much larger a leap
    is. By studies/ablation/jumps.json, 4, 8 or 16 times nine steps on each side give no alarm in
    1 444 courses without jumps, and find those of all twelve with some; 8 times five steps give 3.

    `least`: share of the range that a leap covers, of what begins to move from rest.
    """
    nothing = np.empty((0, 2), int)
    if courses.shape[1] < 2 * beside:
        return nothing
    step = np.abs(np.diff(courses))  # (C, T - 1)
    rate = np.pad(step / np.diff(times), ((0, 0), (beside, beside)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(rate, 2 * beside + 1, axis=1)
    before = np.fmax.reduce(windows[..., :beside], -1)
    behind = np.fmax.reduce(windows[..., beside + 1 :], -1)
    usual = np.maximum(before, behind)  # NaN where one side is not known
    extent = np.fmax.reduce(courses, None) - np.fmin.reduce(courses, None)
    is_leap = (windows[..., beside] > times_faster * usual) & (step > least * extent)
    return np.argwhere(is_leap) + np.array([0, 1])


def _circles(data: xr.Dataset, *, rounding: float = 1e-4, fewest: int = 4) -> Iterator[str]:
    """Say the even values of which parameters close a circle: laws are smooth functions of
    parameters on a line.

    `rounding`: share of a turn by which a step may differ from the others.

    `fewest`: values, at least, that can go round a circle.
    """
    names = _parameters(data)
    columns = [data[name].values.astype(np.float64) for name in names]
    for turn, (words, _, angle) in TURNS.items():
        for name, column in zip(names, columns, strict=True):
            values = np.unique(column)
            around = np.diff(values, append=values[:1] + turn)
            if len(values) >= fewest and np.ptp(around) < rounding * turn:
                yield (
                    f"{name} goes round a circle of {words}, whose ends are neighbours, and is taken "
                    "for a number on a line; give its cosine and sine as parameters in its place, "
                    f"numpy.cos({angle.format(name)}) and numpy.sin({angle.format(name)})"
                )


def _equal_runs(data: xr.Dataset, *, shown: int = 8) -> Iterator[str]:
    """Say which runs are equal to the last bit, with the same inputs, at different contexts.

    No model of the context is right at both. Runs at rest are no such runs: equilibria may not depend
    on the context.

    `shown`: runs that are named, at most.
    """
    names = _parameters(data)
    if not names or data.sizes["trajectory"] < 2:
        return
    contexts = np.stack([data[name].values for name in names], axis=-1)  # (C, p)
    seen: dict[bytes, int] = {}
    pairs = []
    for number in range(len(contexts)):
        first = seen.setdefault(_digest(data.isel(trajectory=number), number), number)
        if (contexts[first] != contexts[number]).any():
            pairs.append((first, number))
    if not pairs:
        return
    (first, second), *besides = pairs
    differing = [names[k] for k in np.flatnonzero(contexts[first] != contexts[second])]
    runs = listed((number for _, number in besides), shown)
    further = f"; equal to earlier ones, too: {len(besides)} runs, {runs}" if besides else ""
    yield (
        f"runs {first} and {second} are equal to the last bit at {_in_words(data, first, differing)} "
        f"and {_in_words(data, second, differing)}{further}: check whether "
        f"{' and '.join(differing)} was applied in both, and leave the wrong one out"
    )


def _parameters(data: xr.Dataset) -> list[str]:
    """Return names of the parameters that stay in each run."""
    return [name for name in context_names(data) if data[name].dims == DIMS[:1]]


def _digest(run: xr.Dataset, number: int) -> bytes:
    """Return the digest of the states and inputs of a run; its number where it does not move."""
    states = run["state"].transpose(*DIMS[1:]).values
    snapshots = states[~np.isnan(states).all(-1)]
    if len(snapshots) < 2 or (snapshots == snapshots[0]).all():
        return str(number).encode()
    # one bit pattern for each of the zeros, and for all that is missing
    content = np.where(np.isnan(states), np.nan, states + 0.0).tobytes()
    if "control" in run:
        content += (run["control"].transpose("time", "input").values + 0.0).tobytes()
    return hashlib.sha256(content).digest()


def _in_words(data: xr.Dataset, run: int, names: Sequence[str]) -> str:
    """Say the values of parameters of a run."""
    return ", ".join(f"{name} = {data[name].values[run]:.6g}" for name in names)


class Extreme(NamedTuple):
    """Samples of a run that are far beyond those of the other runs.

    Attributes:
        ratio: the largest distance from the median in the largest of the other runs.
        first: number of the first such time.
        continues: whether those behind it are, too.
    """

    ratio: float
    run: int
    first: int
    continues: bool
    distance: float
    usual: float
    variable: Variable


def _extremes(data: xr.Dataset, *, fewest: int = 3) -> Iterator[str]:
    """Say which runs end far beyond all others, or have single such samples.

    Deviations, and with them all relative errors, would be those of a few wrong numbers. Runs are
    silent where they are larger from their start on, reach a larger limit cycle, or grow as others
    do.

    `fewest`: runs of which one can be unlike the others.
    """
    if data.sizes["trajectory"] < fewest:
        return
    # land everywhere has no components
    variables = [variable for variable in layout_of(data).variables if variable.size]
    distances = _distances(data["state"].transpose(*DIMS), variables)  # (C, T, V)
    # each field, and all columns of one unit: a wave that reaches a column in one run alone is as
    # large as in other columns
    groups: dict[str, list[int]] = {}
    extremes: list[Extreme] = []
    for k, variable in enumerate(variables):
        extremes += _far(distances[..., [k]], [variable], spikes=True)
        name = variable.name if variable.size > 1 else f"[{variable.units}]"
        groups.setdefault(name, []).append(k)
    for members in groups.values():
        extremes += _far(distances[..., members], [variables[k] for k in members], spikes=False)
    if extremes:
        yield _warning(extremes, data)


def _warning(extremes: Sequence[Extreme], data: xr.Dataset) -> str:
    """Return a warning of the most extreme run, which names the others."""
    _, run, sample, continues, distance, usual, variable = max(
        extremes, key=lambda each: each.ratio
    )
    clock = f"{data['time'].values[sample]:.4g}"
    times = f"from time {clock} on" if continues else f"at time {clock}"
    unit = append_unit(variable.units or common_unit(data["state"]))
    further = sorted({extreme.run for extreme in extremes} - {run})
    besides = f"; far beyond the others, too: runs {listed(further)}"
    names = _parameters(data)
    context = f" ({_in_words(data, run, names)})"
    return (
        f"run {run}{context if names else ''} is up to {distance:.3g}{unit} from the median of "
        f"{variable.name} {times}, and other runs {usual:.3g}{besides if further else ''}; errors "
        "relative to the deviation of the data would tell nothing: leave the run out, or make these "
        "values NaN, after romkit.data.describe by "
        f"data.state[{run}, {sample}{':' * continues}] = numpy.nan"
    )


def _distances(
    state: xr.DataArray, variables: Sequence[Variable], *, for_median: int = 64
) -> Array:
    """Return largest distances (C, T, V) of the components of each variable from their medians.

    `for_median`: snapshots whose median is that of the data.
    """
    runs, times, _ = state.shape
    rows = np.linspace(0, runs * times - 1, min(for_median, runs * times)).astype(int)
    run, time = (xr.DataArray(numbers, dims="row") for numbers in divmod(rows, times))
    subset = np.ma.masked_invalid(state.isel(trajectory=run, time=time).values)
    median = np.ma.median(subset, axis=0).filled(0.0)  # (n,)
    begins = np.cumsum([0, *(variable.size for variable in variables)])[:-1]
    distances = np.empty((runs, times, len(variables)))
    for k in range(runs):
        from_median = np.abs(state[k].values - median)  # (T, n)
        distances[k] = np.fmax.reduceat(from_median, begins, axis=-1)
    return distances


def _far(
    of_each: Array,
    variables: Sequence[Variable],
    spikes: bool,
    *,
    growth_at_end: float = 1.5,
    as_others: float = 0.25,
) -> Iterator[Extreme]:
    """Yield runs, fewer than half, that get far beyond all others, by distances (C, T, V) of
    variables: single samples, or ends that grow as no other run does.

    `growth_at_end`: growth that does not end, of the last quarter of the far samples over all before.
    A larger limit cycle has none.

    `as_others`: growth rate of other runs, in that of a run, from which on the run does what
    others do.
    """
    distances = np.fmax.reduce(of_each, -1)  # (C, T)
    largest = np.fmax.reduce(distances, 1)  # (C,)
    order = np.argsort(largest)
    half = len(order) // 2
    steps = largest[order[half + 1 :]] > FAR * largest[order[half:-1]]
    steps &= largest[order[half:-1]] > 0
    if not steps.any():
        return
    begin = half + int(steps.argmax())
    usual, runs = float(largest[order[begin]]), order[begin + 1 :].tolist()
    usual_runs = np.delete(distances, runs, axis=0)
    for run in runs:
        sampled = np.flatnonzero(np.isfinite(distances[run]))
        course = distances[run, sampled]  # (K,)
        is_usual = np.pad(course <= usual, 1, constant_values=(True, False))
        is_far = course > FAR * usual
        # both beside a spike are usual; the last sample may be the first of more
        is_spike = is_far & is_usual[:-2] & is_usual[2:]
        course = np.where(is_spike == spikes, course, 0.0)
        is_far &= is_spike == spikes
        if not is_far.any():
            continue
        peak, onset = int(course.argmax()), int(course.argmax())
        if not spikes:
            far = int(is_far.argmax())
            quarter = far + 3 * (len(course) - far) // 4
            growth = _growth(course[None], quarter)
            # others that grow at the same times are on the way to where the run is
            if (
                growth <= growth_at_end
                or _growth(usual_runs, sampled[quarter]) >= growth**as_others
            ):
                continue
            onset = int(np.flatnonzero([True, *(course[:far] <= usual)])[-1])
        variable = variables[int(np.nanargmax(of_each[run, sampled[peak]]))]
        ratio = course[peak] / usual
        yield Extreme(ratio, run, int(sampled[onset]), not spikes, course[peak], usual, variable)


def _growth(distances: Array, last: int) -> float:
    """Return largest distance from a time on over that before, in the run (C, T) where it is
    largest.
    """
    before, after = (
        np.fmax.reduce(part, 1, initial=0.0) for part in (distances[:, :last], distances[:, last:])
    )
    from_rest = np.where(after > 0, np.inf, 0.0)
    return float(np.divide(after, before, out=from_rest, where=before > 0).max())


HABITS: dict[str, Callable[[xr.Dataset], Iterator[str]]] = {
    "extremes": _extremes,
    "equal runs": _equal_runs,
    "jumps": jumps,
    "circles": _circles,
}
"""What is looked for, by name."""
