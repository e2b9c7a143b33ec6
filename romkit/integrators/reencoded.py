"""Rollouts that go back to the full space at intervals: what another model, a filter or a controller makes them do."""

from dataclasses import dataclass
from operator import attrgetter

from torch import Tensor

from romkit.core.boundary import Count, validated
from romkit.integrators.base import LatentDynamics, LatentField, default_solver
from romkit.solvers import Restarted, Solution, Solver
from romkit.systems.problem import Parts, Problem


@validated
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

    Example:
        >>> import romkit
        >>> from romkit.integrators import PetrovGalerkin, Reencoded
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> once = romkit.follow(ncae, data, dynamics=PetrovGalerkin())
        >>> often = romkit.follow(ncae, data, dynamics=Reencoded(PetrovGalerkin(), every=5))
        >>> bool(abs(once.latent - often.latent).max() < 1e-6)  # an exact encoder does not jump
        True
    """

    dynamics: LatentField
    every: Count

    # those of the dynamics; only a fitted law has all of them
    order = property(attrgetter("dynamics.order"))
    context_names = property(attrgetter("dynamics.context_names"))
    control_names = property(attrgetter("dynamics.control_names"))
    domain = property(attrgetter("dynamics.domain"))
    sees_field = property(attrgetter("dynamics.sees_field"))

    def start(self, problem: Problem, t: Tensor, parts: Parts) -> Tensor:
        return self.dynamics.start(problem, t, parts)

    def solve(
        self, problem: Problem, start: Tensor, times: Tensor, *, solver: Solver | None = None, engine: str = "auto"
    ) -> Solution:
        def jump(t: Tensor, w: Tensor) -> Tensor:
            return self.start(problem, t, problem.decode(problem.path.at(t), w))

        between = solver or default_solver(times)
        return self.dynamics.solve(problem, start, times, solver=Restarted(between, self.every, jump), engine=engine)
