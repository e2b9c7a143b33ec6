"""Burgers' equation on a square: shocks that cross it, at a speed and with a growth that the
context sets.
"""

import ctypes
import functools
from dataclasses import dataclass
from importlib import resources
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.core.types import Field
from romkit.data import ContextParameter
from romkit.engine.build import Unavailable, library
from romkit.solvers.base import Run, Solver
from romkit.solvers.fixed import march
from romkit.systems.base import System
from romkit.systems.terms import Term

WIDTH, SOURCE = 100.0, 0.02
"""Width of the square, and strength of the source."""

CHEBYSHEV = 14
"""Polynomials of μ₂ that the source is a sum of: to rounding over the training range and as much to
both sides, and to 10⁻⁵ over twice that."""

UNSEEN = (
    (4.56, 0.019),
    (4.4, 0.0175),
    (4.4, 0.028),
    (4.7, 0.024),
    (4.9, 0.017),
    (5.05, 0.0265),
    (5.2, 0.0205),
)
UNSEEN = (*UNSEEN, (5.35, 0.0165), (5.4, 0.0285))
"""Contexts of the test set: the published one first, and eight between the nine of the training
set.
"""


@validated
@dataclass(frozen=True)
class Burgers2D(System):
    """u_t + (u²/2)_x + (uv/2)_y = 0.02 exp(μ₂ x),  v_t + (uv/2)_x + (v²/2)_y = 0  on [0, 100]².

    u = μ₁ flows in at the left, nothing at the bottom, and u = v = 1 at the start. Finite volumes
    of first order,
    upwind: both velocities stay positive. The state is u, then v, row by row from below; n = 2
    cells². The full model takes steps dt of the trapezoidal rule, as published. Upwind fluxes make
    its equations triangular, with a closed solution in each cell, so that a step needs one sweep
    and no iteration.

    Args:
        cells: along each side; 100 (n = 20 000) and 250 (n = 125 000) are published.
        dt: step of the trapezoidal rule, and sampling interval.
        duration: length of the recorded trajectories.

    What you should see: a front that moves to the right, faster for larger μ₁, and steepens, while
    the source raises u behind it; velocities up to about 6.
    Source: Barnett, Farhat, Maday (2023), Neural-network-augmented projection-based model order
    reduction for mitigating the Kolmogorov barrier to reducibility, section 5.

    Example:
        >>> import romkit
        >>> burgers = romkit.systems.Burgers2D(cells=5)
        >>> run = romkit.simulate(burgers, mu1=4.5, mu2=0.02, duration=0.2)
        >>> dict(run.state.sizes)
        {'trajectory': 1, 'time': 5, 'component': 50}
        >>> bool((run.state > 0).all())
        True
    """

    cells: Annotated[int, Ge(2)] = 100
    dt: Positive = 0.05
    duration: Positive = 25.0
    horizon: Positive = 25.0

    name = "burgers2d"
    context = (
        ContextParameter("mu1", "1", 4.25, 5.5, "velocity of the inflow"),
        ContextParameter("mu2", "1", 0.015, 0.03, "growth of the source"),
    )
    context_may_move = False

    @functools.cached_property
    def state_names(self) -> list[str]:
        """u0_0, u0_1, ...: velocity, row, column."""
        side = range(self.cells)
        return [f"{velocity}{j}_{i}" for velocity in "uv" for j in side for i in side]

    @property
    def state_size(self) -> int:
        """n."""
        return 2 * self.cells**2

    @property
    def spacing(self) -> float:
        """Width of a cell."""
        return WIDTH / self.cells

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        columns = self._columns(x)
        mu1, mu2 = c.unsqueeze(-1).unbind(-2)
        source = SOURCE * torch.exp(mu2 * columns)  # (..., cells)
        source = torch.cat([source[..., :1] + mu1**2 / (2 * self.spacing), source[..., 1:]], dim=-1)
        forcing = (
            source.unsqueeze(-2).expand(*source.shape[:-1], self.cells, self.cells).flatten(-2)
        )
        return self._advection(x, x) + torch.cat([forcing, torch.zeros_like(forcing)], dim=-1)

    def terms(self) -> tuple[Term, ...]:
        low, high = (self.context[1].low, self.context[1].high)
        middle, half = (
            (low + high) / 2,
            high - low,
        )  # half the interval: the range and as much to both sides

        def chebyshev(k: int) -> Term:
            return Term(
                0, lambda: profiles[k], lambda c: _chebyshev(k, (c[..., 1:] - middle) / half)
            )

        angles = torch.pi * (torch.arange(CHEBYSHEV, dtype=torch.float64) + 0.5) / CHEBYSHEV
        at_nodes = SOURCE * torch.exp(
            (middle + half * torch.cos(angles)).unsqueeze(-1) * self._columns(angles)
        )
        weights = 2 / CHEBYSHEV * torch.cos(torch.arange(CHEBYSHEV).unsqueeze(-1) * angles)
        weights[0] /= 2
        profiles = self._in_u(weights @ at_nodes)
        inflow = self._in_u(torch.eye(self.cells, dtype=torch.float64)[:1])[0] / (2 * self.spacing)
        square = Term(0, lambda: inflow, lambda c: c[..., :1] ** 2)
        return (Term(2, self._advection), square, *map(chebyshev, range(CHEBYSHEV)))

    def stencil(self, rows: Tensor) -> Tensor:
        """u in the cell, in the one to its left and in the one below it, then v; at the inflow the
        cell for those.
        """
        cell = rows % self.cells**2
        left, below = (cell % self.cells > 0).long(), (cell >= self.cells).long() * self.cells
        cells = torch.stack([cell, cell - left, cell - below], dim=-1)
        return torch.cat([cells, cells + self.cells**2], dim=-1)

    def rhs_rows(self, t: Tensor, rows: Tensor, x: Tensor, c: Tensor) -> Tensor:
        cell, of_u = rows % self.cells**2, (rows < self.cells**2).to(x)
        first, lowest = (cell % self.cells == 0).to(x), (cell < self.cells).to(x)
        u, v = x.unflatten(-1, (2, 3)).unbind(-2)
        carried = v + of_u.unsqueeze(-1) * (u - v)  # by the flow: what the row is of
        right, up = u * carried / 2, v * carried / 2
        leaving = (
            right[..., 0] - (1 - first) * right[..., 1] + up[..., 0] - (1 - lowest) * up[..., 2]
        )
        inflow = first * c[..., :1] ** 2 / (2 * self.spacing)
        source = SOURCE * torch.exp(c[..., 1:] * self._columns(x)[cell % self.cells])
        return of_u * (source + inflow) - leaving / self.spacing

    def initial_state(self, contexts: Tensor, rng: np.random.Generator | None) -> Tensor:
        return torch.ones(len(contexts), self.state_size, dtype=contexts.dtype)

    def train_contexts(self, rng: np.random.Generator) -> np.ndarray:
        """The published grid of three by three."""
        low, high = self._ranges()
        grid = np.meshgrid(*np.linspace(low, high, 3).T, indexing="ij")
        return np.stack(grid, axis=-1).reshape(-1, 2)

    def test_contexts(self) -> np.ndarray:
        return np.array(UNSEEN)

    def _advection(self, x: Tensor, y: Tensor) -> Tensor:
        """Minus the differences of the fluxes, symmetric and linear in each of two states (..., n)."""
        shape = (2, self.cells, self.cells)
        (u, v), (p, q) = (state.unflatten(-1, shape).unbind(-3) for state in (x, y))
        mixed = (u * q + v * p) / 4
        du = _backward(u * p / 2, -1) + _backward(mixed, -2)
        dv = _backward(mixed, -1) + _backward(v * q / 2, -2)
        return -torch.stack([du, dv], dim=-3).flatten(-3) / self.spacing

    def _columns(self, like: Tensor) -> Tensor:
        """(cells,) the middle of each column."""
        return (torch.arange(self.cells, dtype=like.dtype, device=like.device) + 0.5) * self.spacing

    def _in_u(self, rows: Tensor) -> Tensor:
        """States (k, n) with these profiles (k, cells) along every row of u."""
        u = rows.unsqueeze(1).expand(-1, self.cells, -1).flatten(1)
        return torch.cat([u, torch.zeros_like(u)], dim=-1)

    def default_solver(self, context: Tensor) -> Solver:
        sources = SOURCE * torch.exp(context[..., 1:] * self._columns(context))
        return Trapezoidal(self.dt, self.spacing, sources, context[..., 0] ** 2 / 2)


def _chebyshev(k: int, x: Tensor) -> Tensor:
    """Tₖ(x), by recurrence: on either side of [-1, 1] too."""
    before, now = x, torch.ones_like(x)
    for _ in range(k):
        before, now = now, 2 * x * now - before
    return now


def _backward(flux: Tensor, dim: int) -> Tensor:
    """Differences to the cell before, of which the first has none."""
    return torch.cat([flux.narrow(dim, 0, 1), flux.diff(dim=dim)], dim=dim)


class Trapezoidal(Solver):
    """Implicit, of order two, stable at any step.

    Compiled it goes from cell to cell, in torch from one diagonal of cells to the next, which are
    independent: the same to rounding, and some hundred times slower.

    Args:
        dt: largest step.
        spacing: width of a cell.
        sources: (..., N) of u in each column, and `inflow` (...) flux at the left, by member.
    """

    def __init__(self, dt: float, spacing: float, sources: Tensor, inflow: Tensor):
        self.dt, self.spacing, self.sources, self.inflow = dt, spacing, sources.contiguous(), inflow

    def __str__(self) -> str:
        return f"Trapezoidal(dt={self.dt})"

    def prepare(
        self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str
    ) -> tuple[Run, str]:
        in_torch = lambda y, t: march(self, self._swept, y, t, label, rest=1.0)  # noqa: E731
        if engine == "torch":
            return in_torch, "torch"
        try:
            code = library(
                resources.files(__package__).joinpath("march.cpp").read_text(encoding="utf-8")
            ).evaluate
        except Unavailable as verdict:
            if engine == "compiled":
                raise InputError(
                    "engine", expected="a compiler", got=str(verdict), fix="take 'auto'"
                ) from verdict
            return in_torch, f"torch ({verdict})"
        code.restype, pointer, number, count = None, ctypes.c_void_p, ctypes.c_double, ctypes.c_long
        code.argtypes = (pointer, pointer, number, count, number, number, count)

        def steps(t: Tensor, y: Tensor, h: float, number: int) -> Tensor:
            y = y.clone(memory_format=torch.contiguous_format)
            rows = (
                y.view(-1, y.shape[-1]),
                self.sources.reshape(-1, self.sources.shape[-1]),
                self.inflow.flatten(),
            )
            for state, source, flux in zip(*rows, strict=True):
                code(
                    state.data_ptr(),
                    source.data_ptr(),
                    flux.item(),
                    len(source),
                    self.spacing,
                    h,
                    number,
                )
            return y

        return lambda y, t: march(self, steps, y, t, label, rest=1.0), "compiled"

    def _swept(self, t: Tensor, y: Tensor, h: float, number: int) -> Tensor:
        for _ in range(number):
            y = self._sweep(y, h)
        return y

    def _sweep(self, y: Tensor, h: float) -> Tensor:
        """One step for members (..., 2 N²), by the diagonals i + j = d of cells."""
        size, a = self.sources.shape[-1], h / 2 / self.spacing
        u, v = y.unflatten(-1, (2, size, size)).unbind(-3)
        new_u, new_v = torch.zeros_like(u), torch.zeros_like(v)
        for d in range(2 * size - 1):
            j = torch.arange(max(0, d - size + 1), min(d, size - 1) + 1)
            i = d - j
            old, new = self._inflow(u, v, j, i), self._inflow(new_u, new_v, j, i)
            here, there = u[..., j, i], v[..., j, i]
            right = a * (old[0] + new[0] - here * (here + there) / 2)
            up = a * (old[1] + new[1] - there * (here + there) / 2)
            A, B = here + h * self.sources[..., i] + right, there + up
            total = 2 * (A + B) / (1 + torch.sqrt(1 + 2 * a * (A + B)))
            new_u[..., j, i], new_v[..., j, i] = A / (1 + a * total / 2), B / (1 + a * total / 2)
        return torch.stack([new_u, new_v], dim=-3).flatten(-3)

    def _inflow(self, u: Tensor, v: Tensor, j: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        """Fluxes of u and v into cells (j, i) from the left and from below."""
        west, south = (i > 0).to(u), (j > 0).to(u)
        uw, vw = u[..., j, i - 1] * west, v[..., j, i - 1] * west
        us, vs = u[..., j - 1, i] * south, v[..., j - 1, i] * south
        left = uw**2 / 2 + (1 - west) * self.inflow.unsqueeze(-1)
        return left + us * vs / 2, uw * vw / 2 + vs**2 / 2
