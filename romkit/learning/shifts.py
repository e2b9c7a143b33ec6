"""Forecasts that keep the motion and lose its phase: their errors when pieces are shifted in time."""

from typing import NamedTuple

import numpy as np

from romkit.core.types import Array

PIECES = 8
"""Pieces of a run, each of which is shifted by itself."""

SHIFTS = 60
"""Most shifts in either direction that are tried."""

AS_GOOD = 0.1
"""Error of a shift beyond the least one, in the range of all, up to which it is as good."""

COMPONENTS = 50
"""Most components that are compared."""


class Shifted(NamedTuple):
    """Forecast of a run beside the truth, piece by piece, shifted in time to where it is best; pieces
    of which nothing was observed are left out.

    Attributes:
        error: mean over the pieces, root mean square over components and the times of each.
        last: shift of the last piece [samples], positive where the forecast is late.
    """

    error: float
    last: int


def shifted(forecast: Array, truth: Array) -> Shifted:
    """Error of a forecast (T, n) whose pieces are shifted, each by up to its length."""
    columns = np.unique(np.linspace(0, truth.shape[1] - 1, COMPONENTS).round().astype(int))
    forecast = forecast[:, columns]
    truth = truth[:, columns]
    T = len(truth)
    length = max(2, T // PIECES)
    step = max(1, length // SHIFTS)
    errors = []
    best = 0
    for begin in range(0, T - length + 1, length):
        of_shifts = {}
        for shift in range(-length, length + 1, step):
            # near an end of the run the truth is shifted the other way
            first = min(max(begin, -shift), T - length - max(shift, 0))
            piece = truth[first : first + length]
            moved = forecast[first + shift : first + shift + length]
            squares = np.square(moved - piece)
            if not np.isnan(squares).all():
                of_shifts[shift] = float(np.sqrt(np.nanmean(squares)))
        if not of_shifts:
            continue
        least = min(of_shifts.values())
        errors.append(least)
        # of shifts by whole periods that of the piece before
        allowed = least + AS_GOOD * (max(of_shifts.values()) - least)
        as_good = [shift for shift, error in of_shifts.items() if error <= allowed]
        before = best
        best = min(as_good, key=lambda shift: abs(shift - before))
    if not errors:
        return Shifted(np.inf, 0)
    return Shifted(float(np.mean(errors)), best)
