"""Which members of a rollout have diverged, and how many."""

from torch import Tensor


def diverged(states: Tensor) -> Tensor:
    """(..., T) true from the first time on at which a component of states (..., T, n) is not finite.

    Once diverged, diverged for good, as in the status of a solver (`romkit.solvers.Status`).
    """
    return ~states.isfinite().all(-1).cummin(-1).values


def divergence_rate(states: Tensor) -> Tensor:
    """(T,) share of members that have diverged by each time, over all leading axes of states (..., T, n).

    Dimensionless, between 0 and 1, and never falls. For the share by seed or by context take the mean of `diverged`
    over the other axes. A diverged member counts as 1 from its divergence on.
    """
    share = diverged(states).to(states.dtype)
    return share.reshape(-1, share.shape[-1]).mean(0)
