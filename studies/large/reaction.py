"""A reaction in a square that heat diffuses through: the system without polynomial terms of this
study.
"""

import functools
from dataclasses import dataclass

import numpy as np
import torch
from scipy.fft import dstn, idstn
from torch import Tensor

from romkit.data import ContextParameter
from romkit.systems import System


@dataclass(frozen=True)
class Reaction(System):
    """u_t = Δu - μ₁/μ₂ (exp(μ₂ u) - 1) + 100 sin 2πx sin 2πy on the unit square, u = 0 at its edge
    and at the start.

    Finite differences of order two at `cells`² inner points, row by row. Context: strength and
    growth of the reaction.

    Source: Grepl, Maday, Nguyen, Patera (2007); Chaturantabut, Sorensen (2010); they solve it for
    the steady state.
    """

    cells: int = 100
    dt: float = 5e-4
    duration: float = 0.05
    horizon: float = 0.05

    name = "reaction"
    context = (
        ContextParameter("mu1", "1", 0.01, 10.0, "strength of the reaction"),
        ContextParameter("mu2", "1", 0.01, 10.0, "growth of the reaction"),
    )

    @property
    def step(self) -> float:
        """Step of RK4, which is stable to 2.78 / (8 / h² + s')."""
        return 2.5 / (8 * (self.cells + 1) ** 2 + 1500)

    @functools.cached_property
    def state_names(self) -> list[str]:
        return [f"u{j}_{i}" for j in range(self.cells) for i in range(self.cells)]

    @property
    def state_units(self) -> list[str]:
        return ["1"] * self.state_size

    @property
    def state_size(self) -> int:
        return self.cells**2

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        u = torch.nn.functional.pad(x.unflatten(-1, (self.cells, self.cells)), (1, 1, 1, 1))
        around = u[..., 1:-1, :-2] + u[..., 1:-1, 2:] + u[..., :-2, 1:-1] + u[..., 2:, 1:-1]
        return (around.flatten(-2) - 4 * x) * (self.cells + 1) ** 2 + self._source(
            x, c, self._all(x)
        )

    def stencil(self, rows: Tensor) -> Tensor:
        """Return indices of the point and of those left, right, below and above of it; of the point
        itself beyond the edge.
        """
        inner = self._inner(rows)
        return rows.unsqueeze(-1) + inner * torch.tensor([0, -1, 1, -self.cells, self.cells])

    def rhs_rows(self, t: Tensor, rows: Tensor, x: Tensor, c: Tensor) -> Tensor:
        here = x[..., 0]
        around = (x * self._inner(rows).to(x)).sum(-1) - here
        return (around - 4 * here) * (self.cells + 1) ** 2 + self._source(here, c, rows)

    def initial_state(self, contexts: Tensor, rng: np.random.Generator | None) -> Tensor:
        return contexts.new_zeros(len(contexts), self.state_size)

    def train_contexts(self, rng: np.random.Generator) -> np.ndarray:
        """Six by six, as dense towards zero as the logarithm is."""
        axis = np.geomspace(0.01, 10.0, 6)
        return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)

    def test_contexts(self) -> np.ndarray:
        """Four by four in between."""
        axis = np.geomspace(0.02, 7.0, 4)
        return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)

    def _source(self, u: Tensor, c: Tensor, rows: Tensor) -> Tensor:
        """Right-hand side without diffusion, at points with u (..., s)."""
        along = (torch.stack([rows % self.cells, rows // self.cells]) + 1).to(u) / (self.cells + 1)
        waves = torch.sin(2 * torch.pi * along).prod(0)
        return 100 * waves - c[..., :1] / c[..., 1:] * (torch.exp(c[..., 1:] * u) - 1)

    def _all(self, x: Tensor) -> Tensor:
        return torch.arange(self.state_size, device=x.device)

    def _inner(self, rows: Tensor) -> Tensor:
        """(s, 5) ones where the points of the stencil are inside of the square, else zeros."""
        i, j, last = rows % self.cells, rows // self.cells, self.cells - 1
        return torch.stack([rows >= 0, i > 0, i < last, j > 0, j < last], dim=-1).long()


def exponential(system: Reaction, c: Tensor, times: Tensor, steps: int) -> Tensor:
    """Return states (T, n) at one context by exponential time differencing of order two, exact in
    the diffusion.

    Sine transforms diagonalise the difference quotient, so that steps are limited by accuracy
    alone: the fastest full model here.

    Source: Cox, Matthews (2002), Exponential time differencing for stiff systems, equations 20 to
    22.
    """
    size, h = system.cells, float(times[1] - times[0]) / steps
    wave = 2 * (system.cells + 1) * np.sin(np.pi * np.arange(1, size + 1) / (2 * (size + 1)))
    linear = -(wave[:, None] ** 2 + wave**2) * h
    decay, once = np.exp(linear), np.expm1(linear) / linear
    twice = (once - 1) / linear
    rows = torch.arange(system.state_size)

    def source(v: np.ndarray) -> np.ndarray:
        u = torch.from_numpy(idstn(v, type=1)).flatten()
        return dstn(system._source(u, c, rows).numpy().reshape(size, size), type=1)

    v, states = np.zeros((size, size)), [np.zeros((size, size))]
    for _ in times[1:]:
        for _ in range(steps):
            before = source(v)
            guess = decay * v + h * once * before
            v = guess + h * twice * (source(guess) - before)
        states.append(idstn(v, type=1))
    return torch.from_numpy(np.stack(states)).flatten(1)
