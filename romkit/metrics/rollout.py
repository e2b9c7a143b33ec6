"""How far a reduced trajectory is from the truth, and until when it can be trusted."""

from torch import Tensor

from romkit import arrays, checks
from romkit.boundary import Positive, Times, checked

VALID_THRESHOLD = 0.5
"""NRMSE at which a forecast stops being valid."""


@checked
def diverged(states: Tensor) -> Tensor:
    """(..., T) true from the first time on at which a component of states (..., T, n) is not finite.

    Once diverged, diverged for good, as in the status of a solver (`romkit.solvers.Status`). The mean over members is
    the share that has diverged by each time.

    Example:
        >>> import torch
        >>> import romkit
        >>> states = torch.tensor([[1.0], [torch.nan], [2.0]])
        >>> romkit.metrics.diverged(states)  # for good
        tensor([False,  True,  True])
    """
    arrays.axes("states", states, "T n")
    return ~states.isfinite().all(-1).cummin(-1).values


@checked
def nrmse(truth: Tensor, rom: Tensor, std: Tensor) -> Tensor:
    """NRMSE(t) = √(mean over components of ((x - x̂) / σ)²): (..., T, n) -> (..., T). NaN where x̂ is.

    σ (n,) is the standard deviation of each component on the attractor (over the training data).
    Source: Vlachas et al. (2020), Backpropagation algorithms and reservoir computing, eq. 22.

    Example:
        >>> import torch
        >>> import romkit
        >>> truth = torch.zeros(5, 2)  # times, components
        >>> romkit.metrics.nrmse(truth, truth + 0.3, std=torch.tensor([1.0, 1.0]))
        tensor([0.3000, 0.3000, 0.3000, 0.3000, 0.3000])
    """
    arrays.axes("truth", truth, "n")
    checks.last_axis("rom", rom.shape, truth.shape[-1], "as the truth")
    checks.last_axis("std", std.shape, truth.shape[-1], "as the truth")
    arrays.broadcast(truth=truth, std=std)
    arrays.broadcast(truth=truth, rom=rom)
    return ((truth - rom) / std).square().mean(-1).sqrt()


@checked
def valid_time(times: Times, errors: Tensor, threshold: Positive = VALID_THRESHOLD) -> Tensor:
    """(...) valid prediction time: the last time before NRMSE (..., T) exceeds `threshold` or becomes NaN.

    It equals the length of the run where the threshold is never crossed, and 0 where the first error exceeds it.
    Source: Vlachas et al. (2020), eq. 23.

    Example:
        >>> import torch
        >>> import romkit
        >>> times, errors = torch.tensor([0.0, 0.1, 0.2, 0.3]), torch.tensor([0.0, 0.2, 0.6, 0.4])
        >>> romkit.metrics.valid_time(times, errors)
        tensor(0.1000)
    """
    checks.last_axis("errors", errors.shape, len(times), "one for each time")
    valid = (errors <= threshold).cummin(-1).values
    last = valid.sum(-1).clamp(min=1) - 1
    return times[last] - times[0]
