"""Whether a field depends on the time, and the period of its force."""

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import least_squares

from romkit.engine.threads import one_thread

Field = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

DISPLACED = (0.0, 0.1, 1.0)
"""Displacements of the states at which a field is looked at, relative to their size."""

DECADES = 8
"""Powers of ten that times are spread over, about the time scale of the model."""

WITHIN_SPAN = 200
"""Times in the span of a run."""

SAME = 1e-9
"""Difference of rates, relative to the largest one, that counts as rounding."""

PERIODIC = 1e-6
"""Difference of rates after a period, relative to what the force changes."""

WITHIN = 0.05
"""Part of a given period in which the exact one is sought."""


def probes(state: np.ndarray, size: np.ndarray, copies: int) -> torch.Tensor:
    """States (B, d) near a state (d,), so many times each."""
    rng = np.random.default_rng(0)
    states = []
    for displacement in DISPLACED:
        states.append(state + displacement * size * rng.standard_normal(len(state)))
    return torch.from_numpy(np.tile(states, (copies, 1)))


def depends_on_time(field: Field, states: torch.Tensor, scale: float, span: float) -> bool:
    """Whether f(t, y) differs between times at any of the states (B, d).

    Args:
        field: f(t, y).
        states: where it is looked at.
        scale: time scale of the model.
        span: of its runs, in which a pulse may hide.
    """
    powers = np.linspace(-DECADES / 2, DECADES / 2, 4 * DECADES + 1)
    # irrational factors, so that no period divides all times
    times = scale * 10**powers * np.sqrt(2 + np.arange(len(powers)))
    times = np.concatenate([times, span * (np.arange(WITHIN_SPAN) + 0.5) / WITHIN_SPAN])
    reference = _rates(field, np.zeros(1), states)
    rates = _rates(field, times, states)
    is_finite = np.isfinite(reference)
    largest = np.abs(reference[is_finite]).max(initial=0.0)
    reference, rates = reference[:, is_finite[0]], rates[:, is_finite[0]]
    rounding = SAME * (largest + np.abs(rates))
    return not bool((np.abs(rates - reference) <= rounding).all())


def period_of_force(field: Field, states: torch.Tensor, near: float) -> float | None:
    """Period T near a given one with f(t + T, y) = f(t, y) for all t; None where there is none."""
    times = near * (np.arange(32) + np.sqrt(0.5)) / 20.3
    rates = _rates(field, times, states)
    is_finite = np.isfinite(rates).all(0)
    change = float((rates.max(0) - rates.min(0))[is_finite].max(initial=0.0))
    if change == 0:
        return None

    def defects(period: np.ndarray) -> np.ndarray:
        later = _rates(field, times + near * period[0], states)
        return ((later - rates)[:, is_finite] / change).ravel()

    bounds = (1 - WITHIN, 1 + WITHIN)
    best = least_squares(defects, [1.0], jac="3-point", bounds=bounds, xtol=1e-15, gtol=1e-15)
    if np.abs(best.fun).max() > PERIODIC:
        return None
    return near * float(best.x[0])


def _rates(field: Field, times: np.ndarray, states: torch.Tensor) -> np.ndarray:
    """f (T, B, d) at times (T,) and states (B, d)."""
    with torch.no_grad(), one_thread():
        return np.stack([field(t, states).numpy() for t in torch.from_numpy(times)])
