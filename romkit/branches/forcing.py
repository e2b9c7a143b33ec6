"""Whether a field depends on the time, and the period of its force."""

import numpy as np
import torch
from scipy.optimize import least_squares
from torch import Tensor

from romkit.core.types import Array, Field
from romkit.engine.threads import one_thread


def probes(
    state: Array, size: Array, copies: int, *, displaced: tuple[float, ...] = (0.0, 0.1, 1.0)
) -> Tensor:
    """Return states (B, d) near a state (d,), so many times each.

    `displaced`: displacements of the states at which a field is looked at, relative to their
    size.
    """
    rng = np.random.default_rng(0)
    states = []
    for displacement in displaced:
        direction = rng.standard_normal(len(state))
        states.append(state + displacement * size * direction)
    return torch.from_numpy(np.tile(states, (copies, 1)))


def is_forced(
    field: Field, states: Tensor, scale: float, span: float, *, same: float = 1e-9
) -> bool:
    """Tell whether f(t, y) differs between times at any of the states (B, d).

    Args:
        field: f(t, y).
        states: where it is looked at.
        scale: time scale of the model.
        span: of its runs, in which a pulse may hide.
        same: difference of rates, relative to the largest one, that counts as rounding.
    """
    reference = _rates(field, np.zeros(1), states)
    rates = _rates(field, _times(scale, span), states)
    is_finite = np.isfinite(reference)
    largest = np.abs(reference[is_finite]).max(initial=0.0)
    reference = reference[:, is_finite[0]]
    rates = rates[:, is_finite[0]]
    rounding = same * (largest + np.abs(rates))
    is_same = np.abs(rates - reference) <= rounding
    return not bool(is_same.all())


def _times(scale: float, span: float, *, decades: int = 8, within_span: int = 200) -> Array:
    """Return times of all decades about the time scale, and times in the span of a run.

    `decades`: powers of ten that times are spread over, about the time scale of the model.

    `within_span`: times in the span of a run.
    """
    powers = np.linspace(-decades / 2, decades / 2, 4 * decades + 1)
    # irrational factors, so that no period divides all times
    numbers = np.arange(len(powers))
    factors = np.sqrt(2 + numbers)
    times = scale * 10**powers * factors
    within = (np.arange(within_span) + 0.5) / within_span
    return np.concatenate([times, span * within])


def forcing_period(
    field: Field, states: Tensor, near: float, *, periodic: float = 1e-6, within: float = 0.05
) -> float | None:
    """Return period T near a given one with f(t + T, y) = f(t, y) for all t; None where there is
    none.

    `periodic`: difference of rates after a period, relative to what the force changes.

    `within`: part of a given period in which the exact one is sought.
    """
    numbers = np.arange(32) + np.sqrt(0.5)
    times = near * numbers / 20.3
    rates = _rates(field, times, states)
    is_finite = np.isfinite(rates).all(0)
    spread = rates.max(0) - rates.min(0)
    change = float(spread[is_finite].max(initial=0.0))
    if change == 0:
        return None

    def defects(period: Array) -> Array:
        later = _rates(field, times + near * period[0], states)
        defect = (later - rates)[:, is_finite]
        return (defect / change).ravel()

    bounds = (1 - within, 1 + within)
    best = least_squares(defects, [1.0], jac="3-point", bounds=bounds, xtol=1e-15, gtol=1e-15)
    if np.abs(best.fun).max() > periodic:
        return None
    return near * float(best.x[0])


def _rates(field: Field, times: Array, states: Tensor) -> Array:
    """f (T, B, d) at times (T,) and states (B, d)."""
    rates = []
    with torch.no_grad(), one_thread():
        for t in torch.from_numpy(times):
            rates.append(field(t, states).numpy())
    return np.stack(rates)
