"""Latent dynamics: from a projection operator and a full-order field to a trajectory in the latent space.

Integrators see operators and fields as callables, never a system or a projection class. For first-order systems
the latent state is z (..., m). For mechanical systems it is w = (z, ż) (..., 2m), a point of the tangent bundle
that decodes to (φ(z), Dφ ż).
"""

import abc

import torch
from torch import Tensor

from romkit.solvers import Solution, Solver
from romkit.types import Dual, Field, Mass, OperatorPath, ProjectionOperator, SecondOrderField


class LatentDynamics(abc.ABC):
    """A way to move in the latent space."""

    def latent_state(self, P: ProjectionOperator, x: Tensor) -> Tensor:
        """z (..., m) that a trajectory from x (..., n) starts at: the encoded state, unless a method knows better."""
        return P.encode(x)

    def latent_motion(self, P: ProjectionOperator, q: Tensor, v: Tensor, mass: Mass) -> Dual:
        """z and ż, each (..., m), that a mechanical trajectory from q and q̇ (..., n) starts at."""
        return P.encode_jvp(q, v)

    @abc.abstractmethod
    def solve(self, P: ProjectionOperator, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        """Latent states z (..., T, m) at `times` of the trajectory from x0 (..., n), with ẋ = f(t, x).

        Args:
            P: operator.
            f: full-order field.
            x0: full-order states at `times[0]`.
            times: (T,) increasing output times.
            solver: of the latent equation; methods that step in time by themselves have none.
        """

    @abc.abstractmethod
    def solve_along(self, path: OperatorPath, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        """The same where the context varies in time, and the operator with it."""

    @abc.abstractmethod
    def solve_motion(
        self, P: ProjectionOperator, f: SecondOrderField, mass: Mass, start: Dual, times: Tensor, solver: Solver
    ) -> Solution:
        """Latent states w = (z, ż) (..., T, 2m) of a mechanical system q̈ = f(t, q, q̇) with inertia M(q).

        `start` holds q and q̇, each (..., n), at `times[0]`.
        """


class LatentField(LatentDynamics):
    """Dynamics by a differential equation on the latent space, which a solver integrates."""

    @abc.abstractmethod
    def latent_field(self, P: ProjectionOperator, f: Field) -> Field:
        """g(t, z) with ż = g for a first-order field ẋ = f(t, x)."""

    @abc.abstractmethod
    def latent_acceleration(self, P: ProjectionOperator, f: SecondOrderField, mass: Mass) -> SecondOrderField:
        """h(t, z, ż) with z̈ = h for a mechanical system q̈ = f(t, q, q̇) with inertia M(q)."""

    def moving_field(self, path: OperatorPath, f: Field) -> Field:
        """g(t, z) where the context varies in time.

        The decoded state moves along with the manifold, ẋ = Dφ ż + ∂ₜφ, so ż answers to f - ∂ₜφ. For the encoder's
        field this is D_xρ f + D_cρ ċ, since D_cρ = -D_xρ D_cφ on the manifold of an exact projection.
        """

        def g(t: Tensor, z: Tensor) -> Tensor:
            drift = path.decoder_rate(t, z)
            return self.latent_field(path.at(t), lambda s, x: f(s, x) - drift)(t, z)

        return g

    def solve(self, P: ProjectionOperator, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        return solver(self.latent_field(P, f), self.latent_state(P, x0), times)

    def solve_along(self, path: OperatorPath, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        return solver(self.moving_field(path, f), self.latent_state(path.at(times[0]), x0), times)

    def solve_motion(
        self, P: ProjectionOperator, f: SecondOrderField, mass: Mass, start: Dual, times: Tensor, solver: Solver
    ) -> Solution:
        field = tangent_bundle_field(self.latent_acceleration(P, f, mass))
        return solver(field, torch.cat(self.latent_motion(P, *start, mass), dim=-1), times)


class LearnedField(LatentField):
    """A latent field that was fitted to data and does not look at the full-order one."""

    def moving_field(self, path: OperatorPath, f: Field) -> Field:
        """The field at the context of the moment, plus D_cρ ċ = -D_xρ ∂ₜφ for the motion of the manifold."""

        def g(t: Tensor, z: Tensor) -> Tensor:
            P = path.at(t)
            carried = P.encode_jvp(P.decode(z), path.decoder_rate(t, z)).tangent
            return self.latent_field(P, f)(t, z) - carried

        return g


def tangent_bundle_field(acceleration: SecondOrderField) -> Field:
    """The first-order field of w = (z, ż) that belongs to z̈ = h(t, z, ż)."""

    def g(t: Tensor, w: Tensor) -> Tensor:
        z, dz = w.chunk(2, dim=-1)
        return torch.cat([dz, acceleration(t, z, dz)], dim=-1)

    return g


def solve(matrix: Tensor, vector: Tensor) -> Tensor:
    """matrix⁻¹ vector for a batch; a singular member gives non-finite numbers, not an exception."""
    return torch.linalg.solve_ex(matrix, vector.unsqueeze(-1)).result.squeeze(-1)


def transposed_product(matrix: Tensor, vector: Tensor) -> Tensor:
    """matrixᵀ vector for a batch."""
    return (matrix.mT @ vector.unsqueeze(-1)).squeeze(-1)
