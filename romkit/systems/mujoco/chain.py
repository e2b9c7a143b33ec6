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
from romkit.core.types import Pair

RADIUS = 0.05  # m
MASS = 1.0  # kg, of each link
GRAVITY = 9.81  # m/s²


def capsule_inertia(lengths: Tensor) -> Tensor:
    """(..., n) moment of inertia in kg m² about the centre, across the axis, of capsules of uniform
    density.

    `lengths` are those of the cylindrical part; the two hemispherical caps are beyond it.
    """
    # masses of both caps, and of the cylinder between them
    caps = MASS * 4 * RADIUS / (4 * RADIUS + 3 * lengths)
    cylinder = MASS - caps
    of_cylinder = cylinder * (3 * RADIUS**2 + lengths**2) / 12
    of_ends = 2 * RADIUS**2 / 5
    about_centre = of_ends + lengths * (2 * lengths + 3 * RADIUS) / 8
    return of_cylinder + caps * about_centre


def mass_matrix(q: Tensor, lengths: Tensor) -> Tensor:
    """(..., n, n) inertia in joint angles, kg m²: T = ½ vᵀ M v."""
    x, z = _ends(q, lengths)
    absolute = _absolute_mass(x, z, capsule_inertia(lengths))
    # θ = L q with L lower triangular of ones: M = Lᵀ M_θ L
    columns = absolute.flip(-1).cumsum(-1).flip(-1)
    return columns.flip(-2).cumsum(-2).flip(-2)


def acceleration(q: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """(..., n) joint accelerations q̈ in rad/s² under gravity alone."""
    x, z = _ends(q, lengths)
    levers = _levers(q)
    square_rate = v.cumsum(-1).square()  # θ̇²
    extents = torch.stack([x, z], dim=-2)  # (..., 2, n)
    sums = (extents * square_rate.unsqueeze(-2)) @ (levers.mT @ levers)
    sums_x, sums_z = sums.unbind(-2)
    weight = GRAVITY * levers.sum(0) * x
    force = MASS * (z * sums_x - x * sums_z - weight)
    absolute = linear_solve(_absolute_mass(x, z, capsule_inertia(lengths)), force)
    base = torch.zeros_like(absolute[..., :1])
    return absolute.diff(dim=-1, prepend=base)


def energy(q: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """(...) kinetic plus potential energy in J, zero for the chain at rest hanging straight down."""
    x, z = _ends(q, lengths)
    mass = _absolute_mass(x, z, capsule_inertia(lengths))
    rate = v.cumsum(-1)
    square = rate.unsqueeze(-2) @ mass @ rate.unsqueeze(-1)  # (..., 1, 1)
    kinetic = square.squeeze(-1).squeeze(-1) / 2
    # 1 - cos θ, without the cancellation
    theta = q.cumsum(-1)
    lift = 2 * torch.sin(theta / 2).square()
    heights = _levers(q).sum(0) * lengths * lift
    return kinetic + MASS * GRAVITY * heights.sum(-1)


def _levers(like: Tensor) -> Tensor:
    """(n, n) W of the module: shares of each length in the place of each centre of mass."""
    n = like.shape[-1]
    ones = torch.ones(n, n, dtype=like.dtype, device=like.device)
    unit = torch.eye(n, dtype=like.dtype, device=like.device)
    return ones.tril() - unit / 2


def _ends(q: Tensor, lengths: Tensor) -> Pair:
    """Horizontal and vertical extent (..., n) of each link."""
    theta = q.cumsum(-1)
    return lengths * torch.sin(theta), lengths * torch.cos(theta)


def _absolute_mass(x: Tensor, z: Tensor, inertia: Tensor) -> Tensor:
    """(..., n, n) inertia in absolute angles."""
    levers = _levers(x)
    cosines = _outer(x) + _outer(z)
    return (MASS * (levers.mT @ levers) * cosines) + torch.diag_embed(inertia)


def _outer(x: Tensor) -> Tensor:
    """Return products (..., n, n) of all pairs of numbers (..., n)."""
    return x.unsqueeze(-1) * x.unsqueeze(-2)
