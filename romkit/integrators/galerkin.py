"""Galerkin projection onto the decoder's tangent space (orthogonal), and its oblique counterpart by
the encoder.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.core import tensors
from romkit.core.boundary import validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.core.types import Metric
from romkit.integrators.base import LatentField, LatentRate, least_squares
from romkit.integrators.speed import Speed
from romkit.projections import Operator
from romkit.systems.problem import Parts, Problem


@validated
@dataclass(frozen=True)
class Galerkin(LatentField):
    """The latent rate whose decoded image is closest to the full one: ż = (JᵀWJ)⁻¹ JᵀW f(t, φ(z)),
    J = Dφ(z).

    For mechanical systems the distance is measured by the inertia W = M, as d'Alembert's principle
    asks: JᵀMJ z̈ = JᵀM (f - D²φ(ż, ż)). The residual f - J ż is orthogonal to the manifold, and so
    is that of the initial
    state: a trajectory starts at the point of the manifold nearest to x in the same metric, found
    by Gauss-Newton from the encoded state. Where inertia sits in as many components as there are
    latent ones, as in the pendulum, those start without error and then move as in the full model.

    Args:
        speed: factor s(c) of the full field, fitted to the timing of training runs by
            `romkit.timed`; 1 by default.

    Source: Lee & Carlberg (2020), Model reduction of dynamical systems on nonlinear manifolds,
    section 3.2; Lall, Krysl, Marsden (2003) for mechanical systems.

    Example:
        >>> import romkit
        >>> from romkit.integrators import Galerkin
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> run = romkit.follow(romkit.load("ncae-lorenz96"), data, dynamics=Galerkin())
        >>> run.attrs["dynamics"], int(run.status[0])
        ('Galerkin', 0)
    """

    speed: Speed | None = None

    needs = "decoder"

    def start(self, problem: Problem, t: Tensor, parts: Parts) -> Tensor:
        P = problem.path.at(t)
        tensors.parts("parts", parts, problem.order, P.state_size)
        x, *rates = parts
        z = nearest(P, x, problem.metric)
        J = P.decode_jacobian(z).tangent
        return problem.join(z, *(least_squares(problem.metric, x, J, rate) for rate in rates))

    def latent_rate(self, problem: Problem) -> LatentRate:
        if self.speed is not None:
            problem = _paced(problem, self.speed)
        return lambda t, w: least_squares(problem.metric, *problem.linearised(t, w))


def _paced(problem: Problem, speed: Speed) -> Problem:
    """Problem whose motion runs through the orbits at another speed.

    Raises:
        InputError: a problem of second order.
    """
    if problem.order != 1:
        raise InputError(
            "speed",
            expected="a first-order problem",
            got="one of second order",
            fix="take Galerkin() without a speed",
        )

    def field(t: Tensor, x: Tensor) -> Tensor:
        factor = speed(problem.path.at(t).context.to(x))
        return align(factor, x) * problem.field(t, x)

    return replace(problem, field=field)


@validated
@dataclass(frozen=True)
class PetrovGalerkin(LatentField):
    """The rate of the encoded state: ż = Dρ(x) f(t, x) at x = φ(z), the oblique projection along
    the fibres of ρ.

    For mechanical systems z̈ = d/dt (Dρ(q) q̇) = Dρ(q) (f - D²φ(ż, ż)); the two are equal where ρ ∘
    φ = id, which is what the second form assumes.

    Args:
        speed: as of `Galerkin`.

    Source: Otto, Macchio, Rowley (2023), section 2; Adriaens et al. (2026).

    Example:
        >>> import romkit
        >>> from romkit.integrators import PetrovGalerkin
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> run = romkit.follow(romkit.load("ncae-lorenz96"), data, dynamics=PetrovGalerkin())
        >>> run.attrs["dynamics"], int(run.status[0])
        ('PetrovGalerkin', 0)
    """

    speed: Speed | None = None

    def latent_rate(self, problem: Problem) -> LatentRate:
        if self.speed is not None:
            problem = _paced(problem, self.speed)
        return lambda t, w: problem.path.at(t).encode_jvp(*problem.decoded(t, w)).tangent


def nearest(P: Operator, x: Tensor, metric: Metric, *, steps: int = 10) -> Tensor:
    """z (..., m) that minimises rᵀ W r, r = x - φ(z), W the metric at x: Gauss-Newton from z =
    ρ(x).

    A step that would not lower the distance is not taken, member by member.
    """

    def distance(z: Tensor) -> Tensor:
        r = (x - P.decode(z)).unsqueeze(-1)
        return (r.mT @ metric(x, r)).squeeze(-1)

    # Gauss-Newton converges from near the solution, and the encoded state is near it
    z = P.encode(x)
    best = distance(z)
    for _ in range(steps):
        y, J = P.decode_jacobian(z)
        candidate = z + least_squares(metric, x, J, x - y)
        reached = distance(candidate)
        z = torch.where(reached < best, candidate, z)
        best = torch.minimum(reached, best)
    return z
