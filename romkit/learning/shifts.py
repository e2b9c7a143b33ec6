"""Forecasts that keep the motion and lose its phase: their errors when pieces are shifted in time."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from romkit.core.types import Array

PIECES = 8
"""Pieces of a run, each of which is shifted by itself."""

SHIFTS = 60
"""Most shifts in either direction that are tried."""

FINE = 4.0
"""Shifts in the time in which the forecast moves by one deviation: a fourth of it, a fourth of a
radian of a wave, whatever the interval of the samples."""

AS_GOOD = 0.1
"""Error of a shift beyond the least one, in the range of all, up to which it is as good."""

COMPONENTS = 50
"""Most components that are compared."""


class Shifted(NamedTuple):
    """Forecast of a run beside the truth, piece by piece, shifted in time to where it is best; pieces
    of which nothing was observed are left out.

    Attributes:
        error: mean over the pieces, root mean square over components and the times of each; infinite
            where nothing was observed.
        last: shift of the last piece [samples], positive where the forecast is late.
    """

    error: float
    last: float


def shifted(forecast: Array, truth: Array) -> Shifted:
    """Return error of a forecast (T, n) without gaps whose pieces are shifted, each from the shift
    of the piece before.
    """
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    columns = np.unique(np.linspace(0, truth.shape[1] - 1, COMPONENTS).round().astype(int))
    forecast = forecast[:, columns]
    truth = truth[:, columns]
    T = len(truth)
    length = max(2, T // PIECES)
    scale = _time_scale(forecast)
    course = CubicSpline(np.arange(T), forecast)
    # at rest no shift is better than another
    number = SHIFTS if np.isfinite(scale) else 0
    step = min(length / 2, scale / FINE)
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
    first = max(begin, int(np.ceil(-shift)))
    first = min(first, len(truth) - length - int(np.ceil(max(shift, 0.0))))
    places = np.arange(first, first + length)
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
