"""The classical Runge–Kutta method of order four, batched, with a fixed step."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from romkit import checks
from romkit.progress import track
from romkit.solvers.base import Solver, inside
from romkit.types import Field


@dataclass(frozen=True)
class RK4(Solver):
    """Order four, fixed step; members that diverge are frozen so that the others run on undisturbed.

    Between two output times it takes the fewest equal steps that are no longer than `dt`.

    Args:
        dt: largest step, in the time unit of the field.

    Source: Hairer, Nørsett, Wanner, Solving Ordinary Differential Equations I, table II.1.2.
    """

    dt: float
    bound: float = 1e6
    label: str = "integrating"

    def __post_init__(self):
        checks.positive("dt", self.dt)

    def _integrate(self, field: Field, y0: Tensor, times: Tensor) -> Tensor:
        y = y0.clone()
        states = torch.empty((len(times), *y.shape), dtype=y.dtype, device=y.device)
        states[0] = y
        grid = times.tolist()
        for k in track(range(1, len(grid)), self.label):
            steps = max(1, math.ceil((grid[k] - grid[k - 1]) / self.dt - 1e-9))
            h = (grid[k] - grid[k - 1]) / steps
            for i in range(steps):
                y = _step(field, times[k - 1] + i * h, y, h)
            states[k] = y
            y = torch.where(inside(y, self.bound), y, 0.0)
        return states


def _step(field: Field, t: Tensor, y: Tensor, h: float) -> Tensor:
    k1 = field(t, y)
    k2 = field(t + h / 2, torch.add(y, k1, alpha=h / 2))
    k3 = field(t + h / 2, torch.add(y, k2, alpha=h / 2))
    k4 = field(t + h, torch.add(y, k3, alpha=h))
    return torch.add(y, k1 + 2 * (k2 + k3) + k4, alpha=h / 6)
