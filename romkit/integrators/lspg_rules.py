"""Rules of least-squares Petrov-Galerkin: a step of the full model, of first or of second order."""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.core.types import Dual, Pair, TensorMap
from romkit.integrators.base import least_squares
from romkit.integrators.region import Region
from romkit.solvers.fixed import Rule, append_step
from romkit.systems.problem import Problem


@dataclass(frozen=True)
class TrapezoidalRule(Rule):
    """First order: u is the next latent state, the rate is ż. Known are φ(z₀) + h/2 f(t₀, φ(z₀))
    and h.
    """

    problem: Problem

    def begin(self, t: Tensor, y: Tensor, rate: Tensor, h: Tensor) -> Pair:
        x = self.problem.path.at(t).decode(y)
        half_way = x + h / 2 * self.problem.field(t, x)
        return append_step(half_way, h), y + h * rate

    def correction(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        x, slopes, residual = self.linearised(t, known, u)
        return -least_squares(self.problem.metric, x, slopes, residual)

    def linearised(self, t: Tensor, known: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the state x (..., n) at u, and the residual (..., n) there with its slopes (...,
        n, m) by u.
        """
        half_way = known[..., :-1]
        h = known[..., -1:]
        x, J = self.problem.path.at(t).decode_jacobian(u)
        rate, rate_along_J = _differentiate_columns(lambda x: self.problem.field(t, x), x, J)
        slopes = J - h.unsqueeze(-1) / 2 * rate_along_J
        return x, slopes, x - h / 2 * rate - half_way

    def end(self, y: Tensor, h: Tensor, known: Tensor, u: Tensor) -> Pair:
        return u, (u - y) / h


@dataclass(frozen=True)
class AverageAccelerationRule(Rule):
    """Second order: u and the rate are z̈, a state is (z, ż). Known are z₀, what z and ż would be
    at z̈ = 0, and h.
    """

    problem: Problem

    def begin(self, t: Tensor, y: Tensor, rate: Tensor, h: Tensor) -> Pair:
        z, dz = y.chunk(2, dim=-1)
        ahead = z + h * dz + h * h / 4 * rate
        known = torch.cat([z, ahead, dz + h / 2 * rate], dim=-1)
        return append_step(known, h), rate

    def correction(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        start, z, dz = known[..., :-1].chunk(3, dim=-1)
        h = known[..., -1:]
        m = u.shape[-1]
        P = self.problem.path.at(t)

        def residual(state: Tensor) -> Tensor:
            w, ddz = state.tensor_split([2 * m], dim=-1)
            z, _ = w.chunk(2, dim=-1)
            return P.decode_jvp(z, ddz).tangent - self.problem.decoded(t, w).target

        quarter = h * h / 4
        half = h / 2
        z = z + quarter * u
        dz = dz + half * u
        reached = torch.cat([z, dz, u], dim=-1)
        unit = torch.eye(m, dtype=u.dtype, device=u.device)
        unit = unit.expand(*u.shape, -1)
        z_by_u = quarter.unsqueeze(-1) * unit
        dz_by_u = half.unsqueeze(-1) * unit
        along = torch.cat([z_by_u, dz_by_u, unit], dim=-2)  # (..., 3 m, m)
        value, slopes = _differentiate_columns(residual, reached, along)
        return -least_squares(self.problem.metric, P.decode(start), slopes, value)

    def end(self, y: Tensor, h: Tensor, known: Tensor, u: Tensor) -> Pair:
        _, z, dz = known[..., :-1].chunk(3, dim=-1)
        z = z + h * h / 4 * u
        dz = dz + h / 2 * u
        return torch.cat([z, dz], dim=-1), u


@dataclass(frozen=True)
class ClampedRule(TrapezoidalRule):
    """Trapezoidal rule whose latent states are clamped to a region."""

    region: Region

    def begin(self, t: Tensor, y: Tensor, rate: Tensor, h: Tensor) -> Pair:
        known, u = super().begin(t, y, rate, h)
        return known, self.region.clamp(u)

    def correction(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        return self.region.clamp(u + super().correction(t, known, u)) - u


def _differentiate_columns(function: TensorMap, x: Tensor, J: Tensor) -> Pair:
    """function(x) (..., k) and its derivatives (..., k, m) along the m columns of J."""
    points = x.unsqueeze(-2).repeat_interleave(J.shape[-1], -2)  # (..., m, n)
    values, columns = Dual(*torch.func.jvp(function, (points,), (J.mT.contiguous(),)))
    return values[..., 0, :], columns.mT
