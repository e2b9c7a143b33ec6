"""Latent dynamics: from a projection operator and a full-order field to a field on the latent space.

Integrators see operators and fields as callables, never a system or a projection class. For first-order systems
the latent state is z (..., m). For mechanical systems it is w = (z, ż) (..., 2m), a point of the tangent bundle
that decodes to (φ(z), Dφ ż).
"""

import abc

import torch
from torch import Tensor

from romkit.types import Field, Mass, ProjectionOperator, SecondOrderField, Value


class LatentDynamics(abc.ABC):
    """A way to turn the full-order field into a latent one."""

    def latent_state(self, P: ProjectionOperator, x: Tensor) -> Tensor:
        """z (..., m) that a trajectory from x (..., n) starts at: the encoded state, unless a method knows better."""
        return P.encode(x)

    def latent_motion(self, P: ProjectionOperator, q: Tensor, v: Tensor, mass: Mass) -> Value:
        """z and ż, each (..., m), that a mechanical trajectory from q and q̇ (..., n) starts at."""
        return P.encode_jvp(q, v)

    @abc.abstractmethod
    def latent_field(self, P: ProjectionOperator, f: Field) -> Field:
        """g(t, z) with ż = g for a first-order field ẋ = f(t, x)."""

    @abc.abstractmethod
    def latent_acceleration(self, P: ProjectionOperator, f: SecondOrderField, mass: Mass) -> SecondOrderField:
        """h(t, z, ż) with z̈ = h for a mechanical system q̈ = f(t, q, q̇) with inertia M(q)."""


def tangent_bundle_field(acceleration: SecondOrderField) -> Field:
    """The first-order field of w = (z, ż) that belongs to z̈ = h(t, z, ż)."""

    def g(t: Tensor, w: Tensor) -> Tensor:
        z, dz = w.chunk(2, dim=-1)
        return torch.cat([dz, acceleration(t, z, dz)], dim=-1)

    return g


def solve(matrix: Tensor, vector: Tensor) -> Tensor:
    """matrix⁻¹ vector for a batch; a singular member gives non-finite numbers, not an exception."""
    return torch.linalg.solve_ex(matrix, vector.unsqueeze(-1)).result.squeeze(-1)
