"""Simulated motions, and the warning about trajectories that were lost on the way."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from romkit.core.errors import DivergenceWarning, warn
from romkit.core.types import ContextFunction, Names
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
    cost: dict[str, object]


@dataclass(frozen=True)
class Lost:
    """Trajectories that diverged after a start that was finite.

    Attributes:
        rows: numbers of the trajectories among `count`.
        ends: (count,) samples of each trajectory that are finite.
    """

    rows: list[int]
    ends: Tensor
    count: int


def find_diverged(states: Tensor, status: Tensor, start: Tensor) -> Lost:
    """Return trajectories (..., T, n) of a status (...) that are lost, but for those whose start
    (..., n) was so already.
    """
    # a member that began without a state is no loss of the solver
    started = start.isfinite().all(-1)
    diverged = (status == Status.DIVERGED) & started.to(status.device)
    rows = diverged.reshape(-1).nonzero().flatten().tolist()
    count = status.numel()
    finite = states.isfinite().all(-1)  # (..., T)
    ends = finite.reshape(count, -1).sum(-1)
    return Lost(rows, ends, count)


def warn_lost(
    lost: Lost,
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
        lost: trajectories.
        label: of the simulation.
        times: (T,) of the samples.
        advice: remedy.
        names: of the parameters.
        context: (..., p) with the leading axes of the trajectories, or a function of time.
        named: lost trajectories that a warning names, at most.
    """
    contexts = None
    if isinstance(context, Tensor):
        contexts = context.reshape(lost.count, len(names))  # (count, p)
    labels = []
    for row in lost.rows[:named]:
        values = []
        if contexts is not None:
            pairs = zip(names, contexts[row].tolist(), strict=True)
            values = [f"{name}={value:.4g}" for name, value in pairs]
        end = float(times[lost.ends[row]])
        values.append(f"t={end:.4g}")
        labels.append(f"{row} ({', '.join(values)})")
    if len(lost.rows) > named:
        labels.append("...")
    share = f"{len(lost.rows)} of {lost.count} trajectories are lost"
    if int(lost.ends[lost.rows].min()) == 0:
        advice = "they begin beyond the solver's divergence_threshold: raise it"
    text = f"{label}: {share}: {', '.join(labels)}, and NaN from there on; {advice}"
    warn(text, DivergenceWarning)
