"""Least-squares Petrov-Galerkin: the time-discrete full model, with the smallest residual a latent
state can reach.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from romkit.core.boundary import Count, Limit, Positive, unchecked, validated
from romkit.core.errors import InputError, warn
from romkit.core.runtime import bars
from romkit.core.types import TensorFunction
from romkit.integrators.base import LatentDynamics, Needs, traced, tracing_pays
from romkit.integrators.galerkin import Galerkin
from romkit.integrators.lspg_rules import AverageAccelerationRule, ClampedRule, TrapezoidalRule
from romkit.integrators.mesh import ReducedMesh
from romkit.integrators.region import Region
from romkit.solvers import Solution, Solver
from romkit.solvers.checked import largest_error
from romkit.solvers.fixed import Grid, Iterated, Rule
from romkit.systems.problem import Parts, Problem

MOST_STEPS = 20_000
"""Steps of the longest run that is tried to see whether shorter ones change it."""


@validated
@dataclass(frozen=True)
class LSPG(LatentDynamics):
    """The latent state of the next time that violates the time-discrete full model least.

    With the trapezoidal rule, a step of length h from z₀ goes to
        argmin ‖φ(z) - φ(z₀) - h/2 (f(t₀, φ(z₀)) + f(t₀ + h, φ(z)))‖,
    found by Gauss-Newton for the whole batch. Mechanical systems step by the average acceleration,
    z = z₀ + h ż₀ + h²/4 (z̈₀ + z̈), ż = ż₀ + h/2 (z̈₀ + z̈), to the z̈ that minimises J z̈ + D²φ(ż,
    ż) - f(t, q, q̇) in the metric of the inertia. Both rules are of order two and implicit, so
    stiff components of f do not limit h. The minimiser depends on h: as h goes to zero it becomes
    `Galerkin`, to first order, unless the manifold is invariant.

    Behind a basis, the rows of a `mesh` (`romkit.reduced_mesh`) take the place of all n, and latent
    states are held in the neighbourhood of the training data; `state_distance` of the run says
    where.

    On a CPU the Gauss-Newton steps of long runs are compiled (`romkit.engine`), as far as f and the
    projection consist of calls to torch.

    Args:
        dt: largest time step of all members; without, it is halved until the states of a run change
            by less than `rtol`, so that output times never decide how exact they are.
        rtol: change of the states, relative to each member's largest component, that halving the
            step may still make; without effect where `dt` is given.
        iterations: largest number of Gauss-Newton steps per time step.
        tolerance: length of a Gauss-Newton step, relative to 1 + |u|, at which they end, member by
            member.
        mesh: rows that the residual is taken at; all by default.

    Source: Carlberg, Barone, Antil (2017), "Galerkin v. least-squares Petrov-Galerkin projection in
    nonlinear model reduction", section 3; Lee & Carlberg (2020), section 3.3, on nonlinear
    manifolds.

    Example:
        >>> import romkit
        >>> from romkit.integrators import LSPG
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> run = romkit.follow(romkit.load("ncae-lorenz96"), data, dynamics=LSPG(dt=0.05))
        >>> run.attrs["dynamics_settings"]
        'LSPG(dt=0.05, ...)'
    """

    dt: Limit | None = None
    rtol: Positive = 1e-3
    iterations: Count = 8
    tolerance: Positive = 1e-10
    mesh: ReducedMesh | None = None

    @property
    def needs(self) -> Needs:
        """The whole residual, which has parts that no subspace sees; a mesh has its own rows of it."""
        if self.mesh is None:
            return "full"
        return "nothing"

    @property
    def domain(self) -> Region | None:
        """Region in which latent states are held with a mesh."""
        if self.mesh is None:
            return None
        return self.mesh.region

    def start(self, problem: Problem, t: Tensor, parts: Parts) -> Tensor:
        return Galerkin().start(problem, t, parts)

    def solve(
        self,
        problem: Problem,
        start: Tensor,
        times: Tensor,
        *,
        solver: Solver | None = None,
        engine: str = "auto",
    ) -> Solution:
        if solver is not None:
            raise InputError(
                "solver",
                expected="none: LSPG steps in time by itself",
                got=str(solver),
                fix="set its step, LSPG(dt=...)",
            )
        rule: TrapezoidalRule | AverageAccelerationRule = TrapezoidalRule(problem)
        if self.mesh is not None:
            rule = ClampedRule(self.mesh.problem(problem.path), self.mesh.region)
        elif problem.order == 2:
            rule = AverageAccelerationRule(problem)
        rate = Galerkin().latent_rate(rule.problem)(times[0], start)
        correction = self._correction(rule, start, rate, times, engine)

        def run(dt: float) -> Solution:
            steps = Iterated(rule, correction, rate, dt, self.iterations, self.tolerance, str(self))
            # a mechanical field has two states, and the rule alone evaluates it
            integrate = unchecked(steps.__call__)
            return integrate(rule.problem.field, start, times, engine=engine, label="reduced model")

        if self.dt is not None:
            return run(self.dt)
        if len(times) == 1:
            return run(math.inf)
        return self._refined(run, times)

    def _correction(
        self, rule: Rule, start: Tensor, rate: Tensor, times: Tensor, engine: str
    ) -> TensorFunction:
        """Return the correction of a rule, as a list of calls where this pays: differentiation is
        slow.
        """
        if len(times) == 1:
            return rule.correction
        if self.dt is not None:
            steps = Grid.cover(times, self.dt).count
            if not tracing_pays(steps, engine):
                return rule.correction
        t = times[0].to(start)
        h = (times[1] - times[0]).to(start)
        return traced(rule.correction, t, *rule.begin(t, start, rate, h))

    def _refined(self, run: Callable[[float], Solution], times: Tensor) -> Solution:
        """Return the run whose step was halved until that changed its states little.

        The minimiser depends on the step to first order, so that the change is about the error of
        the run with the shorter step.
        """
        dt = float(times.diff().max())
        span = float(times[-1] - times[0])
        with bars(False):
            coarse = run(dt)
            while True:
                dt /= 2
                fine = run(dt)
                change = largest_error(coarse.states, fine.states)
                if change <= self.rtol or span / dt > MOST_STEPS:
                    break
                coarse = fine
        if change > self.rtol:
            fix = (
                "give a step, LSPG(dt=...), or a shorter run: chaotic motion depends on every step"
            )
            text = f"dt: states change by {change:.1e} when a step of {2 * dt:.2g} is halved; {fix}"
            warn(text, RuntimeWarning)
        return fine
