"""Values far beyond those of all other runs: the ends of runs whose solver failed, and spikes of
sensors.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core.display import listed, with_unit
from romkit.core.errors import DataWarning, warn
from romkit.core.types import Array
from romkit.data.context import context_names
from romkit.data.layout import Variable, layout_of
from romkit.data.schema import DIMS
from romkit.data.units import common_unit

FAR = 100.0
"""Distance from the median that is far, in the largest of the other runs."""

GROWTH = 1.5
"""Growth that does not end: of the last quarter of the far samples over all before. A larger limit
cycle has none.
"""


class Extreme(NamedTuple):
    """Samples of a run that are far beyond those of the other runs.

    Attributes:
        first: number of the first such time.
        goes_on: whether those behind it are, too.
        distance: the largest from the median.
        usual: the largest of the other runs.
    """

    run: int
    first: int
    goes_on: bool
    distance: float
    usual: float
    variable: Variable


def warn_of_extremes(data: xr.Dataset, *, fewest: int = 3) -> None:
    """Warn of runs in romkit's schema that end far beyond all others, and of single such samples.

    Deviations, and with them all relative errors, would be those of a few wrong numbers. Runs are
    silent where they are larger from their start on, reach a larger limit cycle, or grow as others
    do. Data in chunks are read run by run.

    `fewest`: runs of which one can be unlike the others.
    """
    if data.sizes["trajectory"] < fewest:
        return
    # land everywhere has no components
    variables = [variable for variable in layout_of(data).variables if variable.size]
    distances = _distances(data["state"].transpose(*DIMS), variables)  # (C, T, V)
    extremes = []
    for k, variable in enumerate(variables):
        extremes += _spikes(distances[..., k], variable)
    for members in _comparable(variables):
        extremes += _ends(distances[..., members], [variables[k] for k in members])
    if extremes:
        extremes.sort(key=lambda extreme: -extreme.distance / extreme.usual)
        warn(_in_words(extremes, data), DataWarning)


def _distances(
    state: xr.DataArray, variables: Sequence[Variable], *, for_median: int = 64
) -> Array:
    """Return largest distances (C, T, V) of the components of each variable from their medians.

    `for_median`: snapshots whose median is that of the data.
    """
    runs, times, _ = state.shape
    rows = np.linspace(0, runs * times - 1, min(for_median, runs * times)).astype(int)
    run, time = (xr.DataArray(numbers, dims="row") for numbers in divmod(rows, times))
    some = np.ma.masked_invalid(state.isel(trajectory=run, time=time).values)
    median = np.ma.median(some, axis=0).filled(0.0)  # (n,)
    sizes = [variable.size for variable in variables]
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    distances = np.empty((runs, times, len(variables)))
    for k in range(runs):
        from_median = np.abs(state[k].values - median)  # (T, n)
        distances[k] = np.fmax.reduceat(from_median, begins, axis=-1)
    return distances


def _comparable(variables: Sequence[Variable]) -> list[list[int]]:
    """Return numbers of variables that are compared together: each field, and all columns of one
    unit.

    A wave that reaches a column in one run alone is as large as in other columns.
    """
    groups: dict[str, list[int]] = {}
    for k, variable in enumerate(variables):
        group = f"[{variable.units}]"
        if variable.size > 1:
            group = variable.name
        groups.setdefault(group, []).append(k)
    return list(groups.values())


def _beyond(distances: Array) -> tuple[list[int], float]:
    """Return runs, fewer than half, that get far beyond all others by distances (C, T), and the
    largest distance of the others.
    """
    largest = np.fmax.reduce(distances, 1)  # (C,)
    order = np.argsort(largest)
    ordered = largest[order]
    for k in range(len(order) // 2, len(order) - 1):
        if ordered[k + 1] > FAR * ordered[k] > 0:
            return order[k + 1 :].tolist(), float(ordered[k])
    return [], 0.0


def _is_spike(course: Array, usual: float) -> Array:
    """Tell whether samples (K,) are far and both beside them are usual; the last one may be the
    first of more.
    """
    is_usual = course <= usual
    is_usual_before = np.concatenate([[True], is_usual[:-1]])
    is_usual_after = np.concatenate([is_usual[1:], [False]])
    return (course > FAR * usual) & is_usual_before & is_usual_after


def _spikes(distances: Array, variable: Variable) -> list[Extreme]:
    """Single samples by distances (C, T), the largest of each run."""
    runs, usual = _beyond(distances)
    extremes = []
    for run in runs:
        known = np.flatnonzero(np.isfinite(distances[run]))
        course = distances[run, known]  # (K,)
        spikes = np.where(_is_spike(course, usual), course, 0.0)
        if spikes.any():
            largest = spikes.argmax()
            time = int(known[largest])
            extremes.append(Extreme(run, time, False, course[largest], usual, variable))
    return extremes


def _ends(
    of_each: Array, variables: Sequence[Variable], *, as_others: float = 0.25
) -> list[Extreme]:
    """Return ends of runs that grow as no other run does, by distances (C, T, V) of variables.

    `as_others`: growth rate of other runs, in that of a run, from which on the run does what
    others do.
    """
    distances = np.fmax.reduce(of_each, -1)  # (C, T)
    runs, usual = _beyond(distances)
    others = np.delete(distances, runs, axis=0)
    extremes = []
    for run in runs:
        known = np.flatnonzero(np.isfinite(distances[run]))
        course = distances[run, known]  # (K,)
        course[_is_spike(course, usual)] = 0.0
        is_far = course > FAR * usual
        if not is_far.any():
            continue
        far = int(is_far.argmax())
        last = far + 3 * (len(course) - far) // 4
        growth = _growth(course[None], last)
        # others that grow at the same times are on the way to where the run is
        if growth <= GROWTH or _growth(others, known[last]) >= growth**as_others:
            continue
        usual_before = np.flatnonzero(course[:far] <= usual)
        first = int(usual_before[-1]) + 1 if len(usual_before) else 0
        peak = course.argmax()
        variable = variables[int(np.nanargmax(of_each[run, known[peak]]))]
        extremes.append(Extreme(run, int(known[first]), True, course[peak], usual, variable))
    return extremes


def _growth(distances: Array, last: int) -> float:
    """Return largest distance from a time on over that before, in the run (C, T) where it is
    largest.
    """
    before = np.fmax.reduce(distances[:, :last], 1, initial=0.0)
    after = np.fmax.reduce(distances[:, last:], 1, initial=0.0)
    from_rest = np.where(after > 0, np.inf, 0.0)
    return float(np.divide(after, before, out=from_rest, where=before > 0).max())


def _in_words(extremes: Sequence[Extreme], data: xr.Dataset) -> str:
    """Return a warning of the most extreme run, which names the others."""
    run, first, goes_on, distance, usual, variable = extremes[0]
    clock = f"{data['time'].values[first]:.4g}"
    times, rows = f"at time {clock}", f"{run}, {first}"
    if goes_on:
        times, rows = f"from time {clock} on", f"{run}, {first}:"
    unit = with_unit(variable.units or common_unit(data["state"]))
    further = sorted({extreme.run for extreme in extremes} - {run})
    besides = ""
    if further:
        besides = f"; far beyond the others, too: runs {listed(further)}"
    return (
        f"run {run}{_context_in_words(data, run)} is up to {distance:.3g}{unit} from the median of "
        f"{variable.name} {times}, and other runs {usual:.3g}{besides}; errors relative to the "
        "deviation of the data would tell nothing: leave the run out, or make these values NaN, "
        f"after romkit.data.describe by data.state[{rows}] = numpy.nan"
    )


def _context_in_words(data: xr.Dataset, run: int) -> str:
    """Return parameters of a run, in parentheses."""
    parameters = []
    for name in context_names(data):
        if data[name].dims == DIMS[:1]:
            parameters.append(f"{name} = {data[name].values[run]:g}")
    if not parameters:
        return ""
    return f" ({', '.join(parameters)})"
