"""A solver whose state is replaced at intervals: an impulse, a correction, a projection."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from romkit.boundary import Count, checked
from romkit.progress import track
from romkit.solvers.base import Run, Solver
from romkit.types import Field


@checked
@dataclass(frozen=True)
class Restarted(Solver):
    """Another solver that starts again from `jump(t, y)` every `every` output times.

    What is reported at the time of a jump is the state before it.

    Args:
        solver: what integrates in between; a field that it compiles, it compiles once.
        every: output times from one jump to the next.
        jump: (t, y) -> the state (..., d) to go on from.

    Example:
        >>> import torch
        >>> from romkit.solvers import RK4, Restarted
        >>> times = torch.linspace(0, 4, 5, dtype=torch.float64)
        >>> bouncing = Restarted(RK4(0.1), every=2, jump=lambda t, y: torch.ones_like(y))
        >>> bouncing(lambda t, y: -y, torch.ones(1, 1, dtype=torch.float64), times).states.flatten().round(decimals=2)
        tensor([1.0000, 0.3700, 0.1400, 0.3700, 0.1400], dtype=torch.float64)
    """

    solver: Solver
    every: Count
    jump: Callable[[Tensor, Tensor], Tensor]

    @property
    def divergence_threshold(self) -> float:
        """That of the solver in between."""
        return self.solver.divergence_threshold

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> tuple[Run, str]:
        run, name = self.solver.prepare(field, y0, times, engine, label)
        return partial(self._run_parts, run), name

    def _run_parts(self, run: Run, y: Tensor, times: Tensor) -> Tensor:
        parts = [y.unsqueeze(0)]
        for first in track(range(0, len(times) - 1, self.every), "restarting"):
            part = times[first : first + self.every + 1]
            if first:
                y = self.jump(part[0], y)
            states = run(y, part)
            parts.append(states[1:])
            y = states[-1]
        return torch.cat(parts)
