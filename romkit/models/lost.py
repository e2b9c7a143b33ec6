"""Trajectories that a reduced model loses: one warning for every verb that follows some."""

from torch import Tensor

from romkit.core.errors import DivergenceWarning, warn
from romkit.solvers import Solution, Status

NAMED = 3
"""Number of lost trajectories that a warning names."""


def warn_of_lost(solution: Solution, start: Tensor) -> None:
    """Say which trajectories end before the last time, and when; not those without a start.

    Args:
        solution: states (..., T, d).
        start: (..., d) where they begin.
    """
    # the start may be on a GPU, from which the solution has come
    started = start.isfinite().all(-1).to(solution.status.device)
    lost = ((solution.status == Status.DIVERGED) & started).flatten()  # (N,)
    if not bool(lost.any()):
        return
    alive = solution.states.isfinite().all(-1).flatten(0, -2)  # (N, T)
    ends = []
    for k in lost.nonzero().flatten().tolist()[:NAMED]:
        end = max(int(alive[k].sum()) - 1, 0)  # index of the last time that it has
        time = float(solution.times[end])
        ends.append(f"{k} (t={time:.4g})")
    count = int(lost.sum())
    if count > NAMED:
        ends.append("...")
    fix = "its law or manifold does not hold there: shorter runs, or another law"
    warn(
        f"reduced model: {count} of {len(lost)} trajectories are lost: {', '.join(ends)}; {fix}",
        DivergenceWarning,
    )
