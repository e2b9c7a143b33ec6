"""Rollouts that go back to the full space at intervals: what another model, a filter or a controller makes them do."""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit import checks
from romkit.errors import InputError
from romkit.integrators.base import LatentDynamics, LatentField
from romkit.solvers import Restarted, Solution, Solver
from romkit.types import Dual, Field, Mass, OperatorPath, ProjectionOperator, SecondOrderField


@dataclass(frozen=True)
class Reencoded(LatentDynamics):
    """Dynamics that decode their latent state every `every` output times, and start again from what they decoded.

    With dynamics that start at the encoded state a restart replaces z by ρ(φ(z)): nothing where the encoder is an
    exact left inverse of the decoder, a small jump elsewhere, and jumps add up. `Galerkin` starts at the point of the
    manifold nearest to x, which is φ(z) itself, whatever the encoder is. States at the times of the restarts are those
    before the jump.

    Args:
        dynamics: what moves in between.
        every: output times from one restart to the next.

    Raises:
        InputError: `every` is below 1, or the dynamics have no latent field.
    """

    dynamics: LatentField
    every: int

    def __post_init__(self):
        checks.at_least("every", self.every, 1)
        if not isinstance(self.dynamics, LatentField):
            raise InputError(
                "dynamics",
                expected="dynamics with a latent field",
                got=type(self.dynamics).__name__,
                fix="give Galerkin(), PetrovGalerkin() or a fitted field; LSPG would start again where it is",
            )

    def latent_state(self, P: ProjectionOperator, x: Tensor) -> Tensor:
        return self.dynamics.latent_state(P, x)

    def latent_motion(self, P: ProjectionOperator, q: Tensor, v: Tensor, mass: Mass) -> Dual:
        return self.dynamics.latent_motion(P, q, v, mass)

    def solve(self, P: ProjectionOperator, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        def jump(t: Tensor, z: Tensor) -> Tensor:
            return self.latent_state(P, P.decode(z))

        return self.dynamics.solve(P, f, x0, times, Restarted(solver, self.every, jump))

    def solve_along(self, path: OperatorPath, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        def jump(t: Tensor, z: Tensor) -> Tensor:
            P = path.at(t)
            return self.latent_state(P, P.decode(z))

        return self.dynamics.solve_along(path, f, x0, times, Restarted(solver, self.every, jump))

    def solve_motion(
        self, P: ProjectionOperator, f: SecondOrderField, mass: Mass, start: Dual, times: Tensor, solver: Solver
    ) -> Solution:
        def jump(t: Tensor, w: Tensor) -> Tensor:
            return torch.cat(self.latent_motion(P, *P.decode_jvp(*w.chunk(2, dim=-1)), mass), dim=-1)

        return self.dynamics.solve_motion(P, f, mass, start, times, Restarted(solver, self.every, jump))
