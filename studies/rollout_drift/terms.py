"""Loss terms that were tried and are in no preset: given to `romkit.fit` by `loss=[...]`."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.core.boundary import NotNegative, Positive, validated
from romkit.core.errors import InputError
from romkit.core.runtime import track
from romkit.projections import Frame
from romkit.solvers.fixed import step as rk4_step
from romkit.systems import System
from romkit.training import Evaluated, LossTerm
from romkit.training.batches import Batch
from romkit.training.loss import normalised_field

VALUES = 2**23
"""Numbers in the trajectories that are kept at a time, which bounds the memory."""


@validated
@dataclass(frozen=True)
class Invariance(LossTerm):
    """`weight` times the mean of ‖f(Py) - DP(Py) f(Py)‖², the part of the field that points out of the manifold."""

    weight: NotNegative
    needs_field = True

    def value(self, batch: Evaluated) -> Tensor:
        f = batch.field()
        return batch.mean(self.weight * (f - batch.carried(f)).square())


@validated
@dataclass(frozen=True)
class Fibre(LossTerm):
    """`weight` times the mean of ‖Dφ(z) (Dρ(y) - Dρ(Py)) ẏ‖², z = ρ(y).

    How the encoder's derivative changes along the fibre from y to Py. It needs no system.
    """

    weight: NotNegative

    def value(self, batch: Evaluated) -> Tensor:
        change = batch.encoded.tangent - batch.maps.encode_jvp(batch.decoded.value, batch.dy).tangent
        return self.weight * batch.mean(batch.maps.decode_jvp(batch.encoded.value, change).tangent.square())


@validated
@dataclass(frozen=True)
class FutureGradient(LossTerm):
    """`weight` times the mean of |gᵀ (y - Py)|², g = DF_τ(y)ᵀ η the gradient of a random future value.

    Errors count by what becomes of them. This is the GAP loss of Otto, Macchio, Rowley (2023), which has no counterpart
    for velocities. Gradients are computed once, before training.

    Args:
        weight: of the term.
        horizon: longest time τ of that future, in the time unit of the system.
    """

    weight: NotNegative
    horizon: Positive = 1.0
    needs_field = True

    def attach(self, rows: Batch, frame: Frame, weights: Tensor, system: System) -> Tensor:
        return future_gradients(rows, frame, system, self.horizon, weights, seed=0)

    def value(self, batch: Evaluated) -> Tensor:
        return self.weight * (batch.extra * (batch.y - batch.decoded.value)).sum(-1).square().mean(-1)


def future_gradients(
    rows: Batch, frame: Frame, system: System, horizon: float, component_weights: Tensor, seed: int
) -> Tensor:
    """One gradient g = DF_τ(y)ᵀ η for each snapshot y, (N, n), in normalised coordinates.

    F_τ(y) is where the full model takes y in τ time units, by RK4 steps no longer than those of the system; g is exact
    for these steps. τ is uniform in [0, horizon], and η normal with the variances `component_weights`, so that

        E |gᵀ d|² = mean over τ of ‖DF_τ(y) d‖²,

    the mean over the horizon of what becomes of the error d, in the norm of the loss; ‖d‖² for a short horizon. In
    the source η is √(L + 1) times as large, with L + 1 the number of times that τ can be, and the mean a sum.

    Args:
        rows: states (N, n) and contexts (N, p).
        frame: of the projection.
        system: the full model, of first order.
        horizon: longest τ, in the time unit of the system.
        component_weights: (n,) weights of the squared components in the norm of the loss.
        seed: of τ and η.

    Raises:
        InputError: the full model or a gradient does not stay finite over the horizon.

    Source: Otto, Padovan, Rowley (2023), section 3; Otto, Macchio, Rowley (2023), gradient-aligned projection.
    """
    generator = torch.Generator().manual_seed(seed)
    tau = horizon * torch.rand(len(rows.y), 1, generator=generator).to(rows.y)
    eta = torch.randn(rows.y.shape, generator=generator).to(rows.y) * component_weights.to(rows.y).sqrt()
    steps = max(1, math.ceil(horizon / system.dt - 1e-9))
    size = max(1, VALUES // (steps * rows.y.shape[1]))
    parts = list(zip(*(tensor.split(size) for tensor in (rows.y, rows.c, tau, eta)), strict=True))
    gradients = torch.cat([_pull_back(system, frame, *part, steps) for part in track(parts, "gradients")])
    if not gradients.isfinite().all():
        fix = "give a shorter one, or leave the term out"
        raise InputError("horizon", expected="one with finite gradients", got=repr(horizon), fix=fix)
    return gradients


def _pull_back(system: System, frame: Frame, y: Tensor, c: Tensor, tau: Tensor, eta: Tensor, steps: int) -> Tensor:
    """DF_τ(y)ᵀ η, step by step backwards; each row's time runs from 0 to 1 in units of its τ."""

    def advance(point: Tensor) -> Tensor:
        field = lambda t, x: tau * normalised_field(system, frame, x, c)  # noqa: E731
        return rk4_step(field, point.new_zeros(()), point, 1 / steps)

    visited = []
    for _ in range(steps):
        visited.append(y)
        y = advance(y)
    for point in reversed(visited):
        (eta,) = torch.func.vjp(advance, point)[1](eta)
    return eta
