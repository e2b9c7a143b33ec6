"""Rollouts that go back to the full space at intervals: what another model, a filter or a controller makes them do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from romkit import checks
from romkit.integrators.base import LatentDynamics
from romkit.progress import track
from romkit.solvers import Solution, Solver, Status
from romkit.types import Field, Mass, OperatorPath, ProjectionOperator, SecondOrderField, Value

Start = TypeVar("Start", Tensor, Value)


@dataclass(frozen=True)
class Reencoded(LatentDynamics):
    """Dynamics that decode their latent state every `every` output times, and start again from what they decoded.

    With dynamics that start at the encoded state a restart replaces z by ρ(φ(z)): nothing where the encoder is an
    exact left inverse of the decoder, a small jump elsewhere, and jumps add up. `Galerkin` and `LSPG` start at the
    point of the manifold nearest to x, which is φ(z) itself, whatever the encoder is. States at the times of the
    restarts are those before the jump.

    Args:
        dynamics: what moves in between.
        every: output times from one restart to the next.
    """

    dynamics: LatentDynamics
    every: int

    def __post_init__(self):
        checks.at_least("every", self.every, 1)

    def latent_state(self, P: ProjectionOperator, x: Tensor) -> Tensor:
        return self.dynamics.latent_state(P, x)

    def latent_motion(self, P: ProjectionOperator, q: Tensor, v: Tensor, mass: Mass) -> Value:
        return self.dynamics.latent_motion(P, q, v, mass)

    def solve(self, P: ProjectionOperator, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        return self._restarting(
            lambda x, part: self.dynamics.solve(P, f, x, part, solver), lambda z, t: P.decode(z), x0, times
        )

    def solve_along(self, path: OperatorPath, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        return self._restarting(
            lambda x, part: self.dynamics.solve_along(path, f, x, part, solver),
            lambda z, t: path.at(t).decode(z),
            x0,
            times,
        )

    def solve_motion(
        self, P: ProjectionOperator, f: SecondOrderField, mass: Mass, start: Value, times: Tensor, solver: Solver
    ) -> Solution:
        return self._restarting(
            lambda motion, part: self.dynamics.solve_motion(P, f, mass, motion, part, solver),
            lambda w, t: P.decode_jvp(*w.chunk(2, dim=-1)),
            start,
            times,
        )

    def _restarting(
        self,
        run: Callable[[Start, Tensor], Solution],
        decode: Callable[[Tensor, Tensor], Start],
        start: Start,
        times: Tensor,
    ) -> Solution:
        """The pieces of all restarts, one after the other; a member that is lost stays lost."""
        pieces = []
        for first in track(range(0, max(1, len(times) - 1), self.every), "restarting"):
            piece = run(start, times[first : first + self.every + 1])
            pieces.append(piece.states[..., min(first, 1) :, :])
            start = decode(piece.states[..., -1, :], piece.times[-1])
        states = torch.cat(pieces, dim=-2)
        status = torch.where(states.isfinite().all(-1).all(-1), Status.COMPLETED, Status.DIVERGED)
        return Solution(times, states, status.to(torch.int8), piece.engine)
