"""Lorenz 63 with a parameter of its own for each problem."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.solvers import RK4

DT = 0.01


class Problem(NamedTuple):
    """States and rates (S, N, 3) of S problems."""

    z: Tensor
    zdot: Tensor


def make_problem(problems: int, samples: int) -> Problem:
    """Trajectories with ρ from 26 to 32; a single problem has ρ = 28."""
    rho = torch.linspace(26, 32, problems, dtype=torch.float64) if problems > 1 else torch.tensor([28.0]).double()
    field = lambda t, x: lorenz(x, rho.reshape(-1, *(1 for _ in range(x.ndim - 2))))  # noqa: E731
    times = torch.arange(samples, dtype=torch.float64) * DT
    start = torch.tensor([-8.0, 8.0, 27.0], dtype=torch.float64).repeat(problems, 1)
    z = RK4(DT)(field, start, times).states
    return Problem(z, field(None, z))


def lorenz(x: Tensor, rho: Tensor) -> Tensor:
    """ẋ (..., 3)."""
    x, y, z = x.unbind(-1)
    return torch.stack([10 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z], dim=-1)
