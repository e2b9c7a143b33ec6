"""How far a reduced trajectory is from the truth, and until when it can be trusted."""

from torch import Tensor

VALID_THRESHOLD = 0.5
"""NRMSE at which a forecast stops being valid."""


def diverged(states: Tensor) -> Tensor:
    """(..., T) true from the first time on at which a component of states (..., T, n) is not finite.

    Once diverged, diverged for good, as in the status of a solver (`romkit.solvers.Status`). The mean over members is
    the share that has diverged by each time.
    """
    return ~states.isfinite().all(-1).cummin(-1).values


def nrmse(truth: Tensor, rom: Tensor, std: Tensor) -> Tensor:
    """NRMSE(t) = √(mean over components of ((x - x̂) / σ)²): (..., T, n) -> (..., T). NaN where x̂ is.

    σ (n,) is the standard deviation of each component on the attractor (over the training data).
    Source: Vlachas et al. (2020), Backpropagation algorithms and reservoir computing, eq. 22.
    """
    return ((truth - rom) / std).square().mean(-1).sqrt()


def valid_time(times: Tensor, errors: Tensor, threshold: float = VALID_THRESHOLD) -> Tensor:
    """(...) valid prediction time: the last time before NRMSE (..., T) exceeds `threshold` or becomes NaN.

    It equals the length of the run where the threshold is never crossed, and 0 where the first error exceeds it.
    Source: Vlachas et al. (2020), eq. 23.
    """
    valid = (errors <= threshold).cummin(-1).values
    last = valid.sum(-1).clamp(min=1) - 1
    return times[last] - times[0]
