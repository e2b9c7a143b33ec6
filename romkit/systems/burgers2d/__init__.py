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
from numpy.random import Generator
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.core.types import Array, ContextFunction, Field, Pair
from romkit.data import ContextParameter
from romkit.data.contexts import ends_of
from romkit.engine.build import Unavailable, library
from romkit.solvers.base import Prepared, Solver
from romkit.solvers.fixed import Steps, march
from romkit.systems.base import System
from romkit.systems.terms import Term


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
    time_units = "1"
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
        return 100.0 / self.cells

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        mu1, mu2 = c.unsqueeze(-1).unbind(-2)
        source = self._source(mu2 * self._columns(x))  # (..., cells)
        inflow = mu1**2 / (2 * self.spacing)
        profile = source[..., :1] + inflow
        further = source[..., 1:]
        row = torch.cat([profile, further], dim=-1)
        *lead, cells = row.shape
        rows = row.unsqueeze(-2).expand(*lead, cells, cells)
        on_u = rows.flatten(-2)
        on_both = torch.cat([on_u, torch.zeros_like(on_u)], dim=-1)  # (..., n)
        return self._advection(x, x) + on_both

    def terms(self) -> tuple[Term, ...]:
        first_column = torch.eye(self.cells, dtype=torch.float64)[:1]
        at_left = self._tile(first_column)[0] / (2 * self.spacing)
        inflow = Term(0, lambda: at_left, lambda c: c[..., :1] ** 2)
        return (Term(2, self._advection), inflow, *self._sources())

    def _sources(self, *, chebyshev: int = 14) -> list[Term]:
        """Return the source as a sum of Chebyshev polynomials of μ₂ times profiles.

        `chebyshev`: polynomials of μ₂ that the source is a sum of: to rounding over the
        training range and as much to both sides, and to 10⁻⁵ over twice that.
        """
        mu2_range = self.context[1]
        low = mu2_range.low
        high = mu2_range.high
        # half an interval that has the range, and as much to both sides of it
        middle = (low + high) / 2
        half = high - low
        numbers = torch.arange(chebyshev, dtype=torch.float64)
        angles = torch.pi * (numbers + 0.5) / chebyshev
        nodes = middle + half * torch.cos(angles)  # of μ₂
        exponents = nodes.unsqueeze(-1) * self._columns(angles)
        at_nodes = self._source(exponents)
        degrees = torch.arange(chebyshev).unsqueeze(-1)
        weights = 2 / chebyshev * torch.cos(degrees * angles)
        weights[0] /= 2
        profiles = self._tile(weights @ at_nodes)  # (CHEBYSHEV, n)

        def source(k: int) -> Term:
            def coefficient(c: Tensor) -> Tensor:
                return _chebyshev(k, (c[..., 1:] - middle) / half)

            return Term(0, lambda: profiles[k], coefficient)

        return [source(k) for k in range(chebyshev)]

    def stencil(self, rows: Tensor) -> Tensor:
        """u in the cell, in the one to its left and in the one below it, then v; at the inflow the
        cell for those.
        """
        count = self.cells**2
        cell = rows % count
        has_left = (cell % self.cells > 0).long()
        has_below = (cell >= self.cells).long()
        left = cell - has_left
        below = cell - has_below * self.cells
        of_u = torch.stack([cell, left, below], dim=-1)
        return torch.cat([of_u, of_u + count], dim=-1)

    def rhs_rows(self, t: Tensor, rows: Tensor, x: Tensor, c: Tensor) -> Tensor:
        count = self.cells**2
        cell = rows % count
        column = cell % self.cells
        is_u = (rows < count).to(x)
        at_left = (column == 0).to(x)
        lowest = (cell < self.cells).to(x)
        stencils = x.unflatten(-1, (2, 3))  # in the cell, left of it, below it
        u, v = stencils.unbind(-2)
        # by the flow: the velocity of the row
        carried = v + is_u.unsqueeze(-1) * (u - v)
        right = u * carried / 2
        up = v * carried / 2
        flux, flux_left, _ = right.unbind(-1)
        flux_up, _, flux_below = up.unbind(-1)
        to_right = flux - (1 - at_left) * flux_left
        upwards = flux_up - (1 - lowest) * flux_below
        mu1 = c[..., :1]
        mu2 = c[..., 1:]
        inflow = at_left * mu1**2 / (2 * self.spacing)
        place = self._columns(x)[column]
        source = self._source(mu2 * place)
        return is_u * (source + inflow) - ((to_right + upwards) / self.spacing)

    def initial_state(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        return torch.ones(len(contexts), self.state_size, dtype=contexts.dtype)

    def train_contexts(self, rng: Generator) -> Array:
        """Return the published grid of three by three."""
        low, high = ends_of(self.context)
        grid = np.meshgrid(*np.linspace(low, high, 3).T, indexing="ij")
        return np.stack(grid, axis=-1).reshape(-1, 2)

    def test_contexts(self) -> Array:
        """Return the published context first, and eight between the nine of the training set."""
        published = [(4.56, 0.019)]
        between = [(4.4, 0.0175), (4.4, 0.028), (4.7, 0.024), (4.9, 0.017)]
        between += [(5.05, 0.0265), (5.2, 0.0205), (5.35, 0.0165), (5.4, 0.0285)]
        return np.array(published + between)

    def _advection(self, x: Tensor, y: Tensor) -> Tensor:
        """Minus the differences of the fluxes, symmetric and linear in each of two states (..., n)."""
        shape = (2, self.cells, self.cells)
        u, v = x.unflatten(-1, shape).unbind(-3)
        p, q = y.unflatten(-1, shape).unbind(-3)
        mixed = (u * q + v * p) / 4
        along = u * p / 2
        up = v * q / 2
        du = _backward(along, -1) + _backward(mixed, -2)
        dv = _backward(mixed, -1) + _backward(up, -2)
        differences = torch.stack([du, dv], dim=-3).flatten(-3)
        return -differences / self.spacing

    def _columns(self, like: Tensor) -> Tensor:
        """(cells,) the middle of each column."""
        numbers = torch.arange(self.cells, dtype=like.dtype, device=like.device)
        return (numbers + 0.5) * self.spacing

    def _source(self, growth: Tensor) -> Tensor:
        return 0.02 * torch.exp(growth)

    def _tile(self, rows: Tensor) -> Tensor:
        """Return states (k, n) with these profiles (k, cells) along every row of u."""
        u = rows.unsqueeze(1).expand(-1, self.cells, -1)
        u = u.flatten(1)
        return torch.cat([u, torch.zeros_like(u)], dim=-1)

    def default_solver(self, context: Tensor | ContextFunction) -> Solver:
        assert isinstance(context, Tensor)  # that stays
        mu1 = context[..., 0]
        mu2 = context[..., 1:]
        sources = self._source(mu2 * self._columns(context))
        return Trapezoidal(self.dt, self.spacing, sources, mu1**2 / 2)


def _chebyshev(k: int, x: Tensor) -> Tensor:
    """Tₖ(x), by recurrence: on either side of [-1, 1] too."""
    before = x
    value = torch.ones_like(x)
    for _ in range(k):
        before, value = value, 2 * x * value - before
    return value


def _backward(flux: Tensor, dim: int) -> Tensor:
    """Return differences to the cell before, of which the first has none."""
    first = flux.narrow(dim, 0, 1)
    return torch.cat([first, flux.diff(dim=dim)], dim=dim)


@dataclass(frozen=True, eq=False)
class Trapezoidal(Solver):
    """Implicit, of order two, stable at any step.

    Compiled it goes from cell to cell, in torch from one diagonal of cells to the next, which are
    independent: the same to rounding, and some hundred times slower.

    Args:
        dt: largest step.
        spacing: width of a cell.
        sources: (..., N) of u in each column, and `inflow` (...) flux at the left, by member.
    """

    dt: float
    spacing: float
    sources: Tensor
    inflow: Tensor

    def __str__(self) -> str:
        return f"Trapezoidal(dt={self.dt})"

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        steps, name = self._steps(engine)
        return lambda y, t: march(self, steps, y, t, label, rest=1.0), name

    def _steps(self, engine: str) -> tuple[Steps, str]:
        """Return steps by an engine, and its name."""
        if engine == "torch":
            return self._swept, "torch"
        try:
            return self._compiled(), "compiled"
        except Unavailable as verdict:
            if engine == "compiled":
                raise InputError(
                    "engine", expected="a compiler", got=str(verdict), fix="take 'auto'"
                ) from verdict
            return self._swept, f"torch ({verdict})"

    def _compiled(self) -> Steps:
        """Return steps by C++.

        Raises:
            Unavailable: there is no compiler.
        """
        file = resources.files(__package__).joinpath("march.cpp")
        march_cells = library(file.read_text(encoding="utf-8")).evaluate
        pointer, number, count = ctypes.c_void_p, ctypes.c_double, ctypes.c_long
        march_cells.restype = None
        march_cells.argtypes = (pointer, pointer, number, count, number, number, count)
        sources = self.sources.reshape(-1, self.sources.shape[-1]).contiguous()  # (members, N)
        inflow = self.inflow.flatten().tolist()

        def steps(t: Tensor, y: Tensor, h: float, number: int) -> Tensor:
            y = y.clone(memory_format=torch.contiguous_format)
            members = y.view(-1, y.shape[-1])
            for state, source, flux in zip(members, sources, inflow, strict=True):
                pointers = state.data_ptr(), source.data_ptr()
                march_cells(*pointers, flux, len(source), self.spacing, h, number)
            return y

        return steps

    def _swept(self, t: Tensor, y: Tensor, h: float, number: int) -> Tensor:
        for _ in range(number):
            y = self._sweep(y, h)
        return y

    def _sweep(self, y: Tensor, h: float) -> Tensor:
        """One step for members (..., 2 N²), by the diagonals i + j = d of cells."""
        size = self.sources.shape[-1]
        a = h / 2 / self.spacing
        fields = y.unflatten(-1, (2, size, size))
        u, v = fields.unbind(-3)
        new_u = torch.zeros_like(u)
        new_v = torch.zeros_like(v)
        for d in range(2 * size - 1):
            lowest = max(0, d - size + 1)
            j = torch.arange(lowest, min(d, size - 1) + 1)
            i = d - j
            into_u, into_v = self._inflow(u, v, j, i)
            into_new_u, into_new_v = self._inflow(new_u, new_v, j, i)
            p = u[..., j, i]
            q = v[..., j, i]
            carried = (p + q) / 2
            change_u = into_u + into_new_u - p * carried
            change_v = into_v + into_new_v - q * carried
            A = p + h * self.sources[..., i] + a * change_u
            B = q + a * change_v
            # the sum of both velocities answers to a quadratic equation, each of them to a linear one
            root = torch.sqrt(1 + 2 * a * (A + B))
            total = 2 * (A + B) / (1 + root)
            damping = 1 + a * total / 2
            new_u[..., j, i] = A / damping
            new_v[..., j, i] = B / damping
        return torch.stack([new_u, new_v], dim=-3).flatten(-3)

    def _inflow(self, u: Tensor, v: Tensor, j: Tensor, i: Tensor) -> Pair:
        """Fluxes of u and v into cells (j, i) from the left and from below."""
        west = (i > 0).to(u)
        south = (j > 0).to(u)
        u_west = u[..., j, i - 1] * west
        v_west = v[..., j, i - 1] * west
        u_south = u[..., j - 1, i] * south
        v_south = v[..., j - 1, i] * south
        at_left = (1 - west) * self.inflow.unsqueeze(-1)
        from_west = u_west**2 / 2 + at_left
        into_u = from_west + u_south * v_south / 2
        into_v = u_west * v_west / 2 + v_south**2 / 2
        return into_u, into_v
