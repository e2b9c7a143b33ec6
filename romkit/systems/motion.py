"""Simulated motions, and the warning about trajectories that were lost on the way."""

from typing import NamedTuple

from torch import Tensor

from romkit.core.errors import DivergenceWarning, warn
from romkit.core.types import ContextFunction, Entries, Names
from romkit.solvers import Status


class Motion(NamedTuple):
    """A simulated motion: state and velocity (..., T, n), acceleration too if mechanical, status
    (...).

    `cost` says what computed it and how long that took: solver, engine, seconds_compiling,
    seconds_computing.

    Example:
        >>> import torch
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> c = torch.tensor([[3.14], [3.18]], dtype=torch.float64)
        >>> motion = system.simulate(system.start(c), c, torch.linspace(0, 0.1, 11))
        >>> motion.state.shape, motion.acceleration is None, motion.cost["engine"]
        (torch.Size([2, 11, 36]), True, 'torch (too short a run to compile)')
    """

    state: Tensor
    velocity: Tensor
    acceleration: Tensor | None
    status: Tensor
    cost: Entries


def warn_lost(
    states: Tensor,
    status: Tensor,
    start: Tensor,
    label: str,
    times: Tensor,
    advice: str,
    names: Names = (),
    context: Tensor | ContextFunction | None = None,
    *,
    named: int = 5,
) -> None:
    """Name the trajectories that are lost, with the time, and with the context where it stays.

    Args:
        states: trajectories (..., T, n).
        status: (...) of the solver.
        start: (..., n); a trajectory that began without a state is no loss.
        label: of the simulation.
        times: (T,) of the samples.
        advice: remedy.
        names: of the parameters.
        context: (..., p) with the leading axes of the trajectories, or a function of time.
        named: lost trajectories that a warning names, at most.
    """
    started = start.isfinite().all(-1)
    diverged = (status == Status.DIVERGED) & started.to(status.device)
    rows = diverged.reshape(-1).nonzero().flatten().tolist()
    if not rows:
        return
    count = status.numel()
    ends = states.isfinite().all(-1).reshape(count, -1).sum(-1)  # samples that are finite
    contexts = None
    if isinstance(context, Tensor):
        contexts = context.reshape(count, len(names))  # (count, p)
    labels = []
    for row in rows[:named]:
        values = []
        if contexts is not None:
            pairs = zip(names, contexts[row].tolist(), strict=True)
            values = [f"{name}={value:.4g}" for name, value in pairs]
        values.append(f"t={float(times[ends[row]]):.4g}")
        labels.append(f"{row} ({', '.join(values)})")
    if len(rows) > named:
        labels.append("...")
    if int(ends[rows].min()) == 0:
        advice = "they begin beyond the solver's divergence_threshold: raise it"
    share = f"{len(rows)} of {count} trajectories are lost"
    text = f"{label}: {share}: {', '.join(labels)}, and NaN from there on; {advice}"
    warn(text, DivergenceWarning)
