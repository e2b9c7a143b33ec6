"""A planar chain of capsules in closed form: inertia, acceleration and energy, in torch, for any
number of links.

Link i hangs at the end of link i-1. With the absolute angles θᵢ = q₁ + ... + qᵢ from the vertical,
its centre of mass is at Σₖ Wᵢₖ lₖ (sin θₖ, -cos θₖ), Wᵢₖ = 1 for k < i and ½ for k = i. So with B =
Wᵀ W and wₖ = Σᵢ Wᵢₖ

    Mᵢⱼ = m Bᵢⱼ lᵢ lⱼ cos(θᵢ - θⱼ) + δᵢⱼ Iᵢ,
    Σⱼ Mᵢⱼ θ̈ⱼ + m Σⱼ Bᵢⱼ lᵢ lⱼ sin(θᵢ - θⱼ) θ̇ⱼ² + m g wᵢ lᵢ sin θᵢ = 0.

Joint angles q and velocities v are (..., n) in rad and rad/s, lengths are (..., n) in m and
broadcast against them.
Source: the Lagrangian of a multiple pendulum with extended links, e.g. Goldstein, Classical
Mechanics, ch. 1.
"""

import torch
from torch import Tensor

from romkit.core.broadcast import linear_solve

RADIUS = 0.05  # m
MASS = 1.0  # kg, of each link
GRAVITY = 9.81  # m/s²


def capsule_inertia(lengths: Tensor) -> Tensor:
    """(..., n) moment of inertia in kg m² about the centre, across the axis, of capsules of uniform
    density.

    `lengths` are those of the cylindrical part; the two hemispherical caps are beyond it.
    """
    caps = MASS * 4 * RADIUS / (4 * RADIUS + 3 * lengths)
    cylinder = MASS - caps
    of_cylinder = cylinder * (3 * RADIUS**2 + lengths**2) / 12
    of_caps = caps * (2 * RADIUS**2 / 5 + lengths * (2 * lengths + 3 * RADIUS) / 8)
    return of_cylinder + of_caps


def mass_matrix(q: Tensor, lengths: Tensor) -> Tensor:
    """(..., n, n) inertia in joint angles, kg m²: T = ½ vᵀ M v."""
    absolute = _absolute_mass(*_ends(q, lengths), capsule_inertia(lengths))
    # θ = L q with L lower triangular of ones: M = Lᵀ M_θ L
    columns = absolute.flip(-1).cumsum(-1).flip(-1)
    return columns.flip(-2).cumsum(-2).flip(-2)


def acceleration(q: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """(..., n) joint accelerations q̈ in rad/s² under gravity alone."""
    x, z = _ends(q, lengths)
    levers = _levers(q)
    square_rate = v.cumsum(-1).square().unsqueeze(-2)  # θ̇²
    centripetal = torch.stack([x, z], dim=-2) * square_rate  # (..., 2, n)
    sums_x, sums_z = (centripetal @ (levers.mT @ levers)).unbind(-2)
    weight = GRAVITY * levers.sum(0) * x
    force = MASS * (z * sums_x - x * sums_z - weight)
    mass = _absolute_mass(x, z, capsule_inertia(lengths))
    absolute = linear_solve(mass, force)
    return absolute.diff(dim=-1, prepend=torch.zeros_like(absolute[..., :1]))


def energy(q: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """(...) kinetic plus potential energy in J, zero for the chain at rest hanging straight down."""
    mass = _absolute_mass(*_ends(q, lengths), capsule_inertia(lengths))
    rate = v.cumsum(-1)
    kinetic = (rate.unsqueeze(-2) @ mass @ rate.unsqueeze(-1)).squeeze(-1).squeeze(-1) / 2
    lift = 2 * torch.sin(q.cumsum(-1) / 2).square()  # 1 - cos θ, without the cancellation
    return kinetic + MASS * GRAVITY * (_levers(q).sum(0) * lengths * lift).sum(-1)


def _levers(like: Tensor) -> Tensor:
    """(n, n) W of the module: shares of each length in the place of each centre of mass."""
    n = like.shape[-1]
    ones = torch.ones(n, n, dtype=like.dtype, device=like.device)
    return ones.tril() - torch.eye(n, dtype=like.dtype, device=like.device) / 2


def _ends(q: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Horizontal and vertical extent (..., n) of each link."""
    theta = q.cumsum(-1)
    return lengths * torch.sin(theta), lengths * torch.cos(theta)


def _absolute_mass(x: Tensor, z: Tensor, inertia: Tensor) -> Tensor:
    """(..., n, n) inertia in absolute angles."""
    levers = _levers(x)
    cosines = x.unsqueeze(-1) * x.unsqueeze(-2) + z.unsqueeze(-1) * z.unsqueeze(-2)
    return MASS * (levers.mT @ levers) * cosines + torch.diag_embed(inertia)
