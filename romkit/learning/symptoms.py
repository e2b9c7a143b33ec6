"""Symptoms that runs and forecasts show by themselves, for advice: individuals, states that do not tell where a
run goes next, and forecasts that lose their phase.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from romkit.core.tensors import divisor
from romkit.core.types import Array
from romkit.data import even_step
from romkit.data.context import contexts_of
from romkit.learning.contexts import number_of_contexts


def individual_spread(data: xr.Dataset, *, fewest: int = 6, unexplained: float = 0.7) -> float:
    """Return the root mean square difference of runs from what their context tells [deviations];
    NaN where it tells nearly all, or cannot be told, as of runs whose inputs differ.

    Runs at equal contexts show it, and else runs of one parameter that do not oscillate: from the
    straight line between the runs beside them they differ as much as from the mean of all.

    `fewest`: contexts from which on runs are compared with those beside them.

    `unexplained`: share of the differences between runs that runs beside them do not tell, from
    which on they are of individuals.

    Source: Gasser, Sroka, Jennen-Steinmetz (1986), Residual variance and residual pattern in
    nonlinear regression, for the line between neighbours.
    """
    if "control" in data:
        return np.nan
    of_repeats = repeat_difference(data)
    if of_repeats > 0:
        return of_repeats
    contexts = contexts_of(data)
    if contexts.shape[1] != 1 or number_of_contexts(data) < fewest:
        return np.nan
    scaled = _scaled(data["state"].values)  # (C, T, n)
    if _oscillates(scaled):
        return np.nan
    order = np.argsort(contexts[:, 0], kind="stable")
    spread = _neighbour_difference(contexts[order, 0], scaled[order])
    # of the mean of C runs, each is a part
    runs = len(scaled)
    all_differences = np.square(scaled - np.nanmean(scaled, 0)) * runs / (runs - 1)
    total = np.sqrt(np.nanmean(all_differences))
    if spread < unexplained * total:
        return np.nan
    return spread


def repeat_difference(data: xr.Dataset, *, alike: float = 0.01, starts: float = 0.2) -> float:
    """Return the root mean square difference of runs at nearly equal contexts that start alike, for
    one run of each pair [deviations]; NaN where there are none.

    `alike`: distance of contexts, in their range, up to which runs should be nearly equal.

    `starts`: distance of the starts of two runs, in that of the runs, from which on it is the
    starts that differ, and not individuals.
    """
    contexts = contexts_of(data)  # (C, p)
    width = np.ptp(contexts, axis=0)
    places = contexts / divisor(width)
    scaled = _scaled(data["state"].values)  # (C, T, n)
    squares = []
    for begin in range(len(places)):
        for second in range(begin):
            if np.abs(places[begin] - places[second]).max() > alike:
                continue
            squares_of_pair = torch.from_numpy(np.square(scaled[begin] - scaled[second]))
            square = squares_of_pair.nanmean(-1).numpy()  # (T,), NaN where nothing was observed
            observed = square[np.isfinite(square)]
            if len(observed) > 0 and observed[0] < starts**2 * observed.mean():
                squares.append(observed.mean())
    if not squares:
        return np.nan
    # the difference of two runs is √2 times that of each from their mean
    return float(np.sqrt(np.mean(squares) / 2))


def way(course: Array) -> float:
    """Return the length of the way of a variable."""
    return float(np.abs(np.diff(course)).sum())


def _scaled(states: Array) -> Array:
    """Return states (C, T, n) in the deviations of the components."""
    deviation = np.nanstd(states, axis=(0, 1))
    return states / divisor(deviation)


def _oscillates(scaled: Array, *, turns: float = 3.0) -> bool:
    """Tell whether components (C, T, n) of most runs go back and forth.

    `turns`: length of the way of a variable, in its range, up to which a run does not
    oscillate: those that do differ from the runs beside them by their phases.
    """
    ways = []
    for run in scaled:
        for course in run.T:
            present = course[np.isfinite(course)]
            if len(present) > 2 and np.ptp(present) > 0:
                ways.append(way(present) / np.ptp(present))
    return len(ways) == 0 or bool(np.median(ways) > turns)


def _neighbour_difference(values: Array, scaled: Array) -> float:
    """Return the root mean square difference of runs (C, T, n) from the line between those beside
    them.
    """
    squares = []
    for run in range(1, len(values) - 1):
        low, middle, high = values[run - 1 : run + 2]
        share = (middle - low) / (high - low) if high > low else 0.5
        line = (1 - share) * scaled[run - 1] + share * scaled[run + 1]
        # what the three runs have by chance adds up
        variances = 1 + (1 - share) ** 2 + share**2
        squares.append(np.nanmean(np.square(scaled[run] - line)) / variances)
    return float(np.sqrt(np.mean(squares)))


RUNS, SAMPLES = 8, 400
"""Most runs, and samples of each, that are compared with each other."""


def opposite_share(data: xr.Dataset, *, returns: int = 10) -> float:
    """Return share of the returns to a state from which a run goes in the opposite direction; 0
    where runs hardly return.

    A law of first order gives each state one direction. Positions of what swings have two: there
    and back.

    `returns`: fewest returns from which a share is known.
    """
    states = _standardise(data["state"].values)
    rows = np.linspace(0, len(states) - 1, min(RUNS, len(states))).round().astype(int)
    cosines: list[float] = []
    for run in states[rows]:
        complete = run[np.isfinite(run).all(-1)]
        step = max(1, int(np.ceil(len(complete) / SAMPLES)))
        cosines += _return_cosines(complete[::step])
    if len(cosines) < returns:
        return 0.0
    return float(np.mean(np.array(cosines) < 0))


def quarter_period(data: xr.Dataset) -> int | None:
    """Return samples after which the states of the runs are first uncorrelated with what they were,
    a quarter of a period; None where they never are, or times are uneven.
    """
    if even_step(data["time"].values.astype(float)) is None:
        return None
    states = _standardise(data["state"].values)
    swings = np.nan_to_num(states - np.nanmean(states, axis=1, keepdims=True))  # (C, T, n)
    for lag in range(1, swings.shape[1]):
        correlation = (swings[:, lag:] * swings[:, :-lag]).sum()
        if correlation <= 0:
            return lag
    return None


def _standardise(states: Array, *, rounding: float = 1e-9) -> Array:
    """Return states (C, T, n), divided by the deviations of their components, of those that move.

    `rounding`: deviation of a component, in its largest value, up to which it is at rest.
    """
    deviation = np.nanstd(states, axis=(0, 1))
    largest = np.nanmax(np.abs(states), axis=(0, 1))
    moves = deviation > rounding * largest
    return states[..., moves] / deviation[moves]


def _return_cosines(run: Array, *, near: float = 0.1, left: float = 0.3) -> list[float]:
    """Return the cosines between the directions in which a run (T, n) leaves a state, and leaves it
    again after it has come back to it.

    `near`, `left`: distances [deviations of a component] up to which two states are nearly
    equal, and from which on a run has left a state, in the direction that is compared.
    """
    if run.size == 0:
        return []
    distance = _distances(run)
    leaves = [_first(row[t:] >= left, t) for t, row in enumerate(distance)]
    cosines: list[float] = []
    for t, away in enumerate(leaves):
        if away is None:
            continue
        later = [k for k in range(away, len(run)) if leaves[k] is not None]
        if not later:
            continue
        back = min(later, key=distance[t].__getitem__)
        if distance[t, back] > near:
            continue
        departure = run[away] - run[t]
        second = run[leaves[back]] - run[back]
        size = np.linalg.norm(departure) * np.linalg.norm(second)
        cosines.append(float(departure @ second / size))
    return cosines


def _distances(run: Array) -> Array:
    """Return the root mean square distances (T, T) of the states of a run."""
    products = run @ run.T
    squares = np.diag(products)
    distances = squares[:, None] + squares - 2 * products
    return np.sqrt(np.maximum(distances, 0.0) / run.shape[-1])


def _first(fulfilled: Array, start: int) -> int | None:
    """Return number of the first place that fulfils a condition, counted from `start`; None without
    one.
    """
    if not fulfilled.any():
        return None
    return start + int(np.argmax(fulfilled))


SHIFTS = 60
"""Most shifts in either direction that are tried."""

AS_GOOD = 0.1
"""Error of a shift beyond the least one, in the range of all, up to which it is as good."""


class Shifted(NamedTuple):
    """Forecast of a run beside the truth, piece by piece, shifted in time to where it is best;
    pieces of which nothing was observed are left out.

    Attributes:
        error: mean over the pieces, root mean square over components and the times of each; infinite
            where nothing was observed.
        last: shift of the last piece [samples], positive where the forecast is late.
    """

    error: float
    last: float


def shifted(
    forecast: Array, truth: Array, *, pieces: int = 8, fine: float = 4.0, components: int = 50
) -> Shifted:
    """Return error of a forecast (T, n) without gaps whose pieces are shifted, each from the shift
    of the piece before.

    `pieces`: pieces of a run, each of which is shifted by itself.

    `fine`: shifts in the time in which the forecast moves by one deviation: a fourth of it, a
    fourth of a radian of a wave, whatever the interval of the samples.

    `components`: most components that are compared.
    """
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    columns = np.unique(np.linspace(0, truth.shape[1] - 1, components).round().astype(int))
    forecast = forecast[:, columns]
    truth = truth[:, columns]
    T = len(truth)
    length = max(2, T // pieces)
    scale = _time_scale(forecast)
    course = CubicSpline(np.arange(T), forecast)
    # at rest no shift is better than another
    number = SHIFTS if np.isfinite(scale) else 0
    step = min(length / 2, scale / fine)
    errors = []
    best = 0.0
    for begin in range(0, T - length + 1, length):
        shifts = best + step * np.arange(-number, number + 1)
        within = abs(shifts) <= min(length, T - length)
        shifts = shifts[within]
        squares = [_square(course, truth, begin, length, shift) for shift in shifts]
        places, minima = _minima(shifts, np.array(squares))
        if len(places) == 0:
            continue
        of_shifts = np.sqrt(minima)
        least = of_shifts.min()
        errors.append(least)
        # of shifts by whole periods that nearest to the piece before
        allowed = least + AS_GOOD * (np.sqrt(np.nanmax(squares)) - least)
        as_good = places[of_shifts <= allowed]
        best = float(as_good[np.argmin(abs(as_good - best))])
    if not errors:
        return Shifted(np.inf, 0.0)
    return Shifted(float(np.mean(errors)), best)


def _time_scale(course: Array) -> float:
    """Return samples in which a course (T, n) moves by its deviation at its root mean square speed."""
    variance = course.var(0).sum()
    square_speed = np.square(np.gradient(course, axis=0)).sum(1).mean()
    if square_speed == 0:
        return np.inf
    return float(np.sqrt(variance / square_speed))


def _square(
    course: Callable[[Array], Array], truth: Array, begin: int, length: int, shift: float
) -> float:
    """Return mean square distance of a piece from a course, a spline, that is shifted; NaN where
    nothing was observed.
    """
    # near an end of the run the truth is shifted the other way
    begin_ = max(begin, int(np.ceil(-shift)))
    begin_ = min(begin_, len(truth) - length - int(np.ceil(max(shift, 0.0))))
    places = np.arange(begin_, begin_ + length)
    squares = np.square(course(places + shift) - truth[places])
    if np.isnan(squares).all():
        return np.nan
    return float(np.nanmean(squares))


def _minima(shifts: Array, squares: Array) -> tuple[Array, Array]:
    """Return places and values of the minima of mean squares over even shifts, by parabolas through
    three of them; the least one, where there are no others.
    """
    observed = np.isfinite(squares)
    shifts = shifts[observed]
    squares = squares[observed]
    if len(squares) < 3:
        return shifts, squares
    before, middle, after = squares[:-2], squares[1:-1], squares[2:]
    is_minimum = (middle <= before) & (middle <= after)
    bend = before - 2 * middle + after
    slope = (before - after) / 2
    # a flat one is where it is
    offset = np.divide(slope, bend, out=np.zeros_like(slope), where=bend > 0)
    places = shifts[1:-1] + offset * (shifts[1] - shifts[0])
    values = np.maximum(middle + slope * -offset / 2, 0.0)
    if not is_minimum.any():
        least = [int(np.argmin(squares))]
        return shifts[least], squares[least]
    return places[is_minimum], values[is_minimum]
