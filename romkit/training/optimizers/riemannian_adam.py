"""Adam along the biorthogonal manifold, for a stack of seeds."""

import math
from dataclasses import dataclass, field

from torch import Tensor

from romkit.projections.geometry import EuclideanMetric, Fractional, Metric, Retraction, restore
from romkit.training.flat import FlatParameters
from romkit.training.optimizers.base import Optimizer, State, clipped


@dataclass(frozen=True)
class RiemannianAdam(Optimizer):
    """Adam whose steps follow the manifold Ψᵀ Φ = I: every (Φ, Ψ) of a `BiorthogonalPair` stays on it.

    Each pair is one point x with gradient ξ in the metric, first moment m, a tangent vector that moves along, and
    one second moment v:
        m <- β₁ P m + (1 - β₁) ξ,    v <- β₂ v + (1 - β₂) ⟨ξ, ξ⟩,    u = -lr (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε),
        x <- retraction of u at x,    m <- m carried along.
    The projection P onto the tangent space ends the transport of the step before. It is made where ξ is projected too,
    for what it needs of x is then computed once.
    The length of a step is thus at most about lr per pair, whatever its size, so lr can be tens of times that of
    Adam. All other parameters follow Adam, entry by entry. The steps are those of geoopt's RiemannianAdam on
    `romkit.projections.manifold.BiorthogonalManifold`.

    Args:
        metric: of the tangent vectors; the paper's by default.
        retraction: along them; the paper's by default.
        clip: largest Euclidean norm of a seed's gradient, before it is turned into ξ.
        weight_decay: L2 coefficient.
        beta1, beta2, epsilon: as in the paper.

    Source: Bécigneul & Ganea (2019), "Riemannian adaptive optimization methods", with one factor per pair.
    """

    metric: Metric = field(default_factory=EuclideanMetric)
    retraction: Retraction = field(default_factory=Fractional)
    clip: float = math.inf
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def start(self, theta: Tensor, flat: FlatParameters) -> State:
        """The state before the first step, from parameters whose pairs need not be on the manifold yet."""
        pairs, rest = flat.split(theta)
        return super().start(flat.join([restore(x) for x in pairs], rest), flat)

    def update(
        self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        gradient = clipped(gradient, self.clip) + self.weight_decay * state.theta
        points, plain = flat.split(state.theta)
        slopes, rest = flat.split(gradient)
        momenta, plain_momentum = flat.split(state.moments[0])
        slopes = [self.metric.gradient(x, g) for x, g in zip(points, slopes, strict=True)]
        squares = [_fill(self.metric.inner(x, g, g), x) for x, g in zip(points, slopes, strict=True)]
        momenta = [self.metric.project(x, m) for x, m in zip(points, momenta, strict=True)]
        first = flat.join(momenta, plain_momentum).lerp(flat.join(slopes, rest), 1 - self.beta1)
        second = state.moments[1].lerp(flat.join(squares, rest.square()), 1 - self.beta2)
        scale = (second / (1 - self.beta2**state.count)).sqrt() + self.epsilon
        steps, plain_step = flat.split(-lr * (first / (1 - self.beta1**state.count)) / scale)
        momenta, plain_momentum = flat.split(first)
        moved = [self.retraction.retract_and_carry(x, u, m) for x, u, m in zip(points, steps, momenta, strict=True)]
        theta = flat.join([x for x, _ in moved], plain + plain_step)
        return theta, (flat.join([m for _, m in moved], plain_momentum), second)


def _fill(value: Tensor, x: Tensor) -> Tensor:
    """`value` (S,) at every entry of x (S, 2, n, r)."""
    return value[:, None, None, None].expand_as(x)
