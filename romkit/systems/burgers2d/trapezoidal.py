"""Time steps of Burgers' equation: the trapezoidal rule, solved cell by cell without iteration."""

import ctypes
from collections.abc import Callable
from importlib import resources

import torch
from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.types import Field, Pair
from romkit.engine.build import Unavailable, library
from romkit.solvers.base import Run, Solver
from romkit.solvers.fixed import Steps, march


def _march_cells() -> Callable[..., None]:
    """Return the compiled steps of one member.

    Raises:
        Unavailable: there is no compiler.
    """
    file = resources.files(__package__).joinpath("march.cpp")
    march_cells = library(file.read_text(encoding="utf-8")).evaluate
    pointer = ctypes.c_void_p
    number = ctypes.c_double
    count = ctypes.c_long
    march_cells.restype = None
    march_cells.argtypes = (pointer, pointer, number, count, number, number, count)
    return march_cells


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
        self.dt = dt
        self.spacing = spacing
        self.sources = sources.contiguous()
        self.inflow = inflow

    def __str__(self) -> str:
        return f"Trapezoidal(dt={self.dt})"

    def prepare(
        self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str
    ) -> tuple[Run, str]:
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
        march_cells = _march_cells()
        sources = self.sources.reshape(-1, self.sources.shape[-1])  # (members, N)
        inflow = self.inflow.flatten().tolist()

        def steps(t: Tensor, y: Tensor, h: float, number: int) -> Tensor:
            y = y.clone(memory_format=torch.contiguous_format)
            members = y.view(-1, y.shape[-1])
            for state, source, flux in zip(members, sources, inflow, strict=True):
                size = len(source)
                at = state.data_ptr()
                of_source = source.data_ptr()
                march_cells(at, of_source, flux, size, self.spacing, h, number)
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
            highest = min(d, size - 1)
            j = torch.arange(lowest, highest + 1)
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
