"""The trapezoidal rule for Burgers' equation on a square, by one sweep from the inflow corner."""

import ctypes
from collections.abc import Callable
from importlib import resources

import torch
from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.runtime import track
from romkit.core.types import Field
from romkit.engine.build import Unavailable, library
from romkit.solvers import Solver
from romkit.solvers.base import Run, inside
from romkit.solvers.fixed import Grid


class Trapezoidal(Solver):
    """Implicit, of order two, stable at any step.

    Compiled it goes from cell to cell, in torch from one diagonal of cells to the next, which are independent: the same
    to rounding, and some hundred times slower.

    Args:
        dt: largest step.
        spacing: width of a cell.
        sources: (..., N) of u in each column, and `inflow` (...) flux at the left, by member.
    """

    def __init__(self, dt: float, spacing: float, sources: Tensor, inflow: Tensor):
        self.dt, self.spacing, self.sources, self.inflow = dt, spacing, sources.contiguous(), inflow

    def __str__(self) -> str:
        return f"Trapezoidal(dt={self.dt})"

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> tuple[Run, str]:
        if engine == "torch":
            return lambda y, t: self._integrate(self._swept, y, t, label), "torch"
        try:
            march = library(resources.files(__package__).joinpath("march.cpp").read_text(encoding="utf-8")).evaluate
        except Unavailable as verdict:
            if engine == "compiled":
                raise InputError("engine", expected="a compiler", got=str(verdict), fix="take 'auto'") from verdict
            return lambda y, t: self._integrate(self._swept, y, t, label), f"torch ({verdict})"
        march.restype, pointer, number, count = None, ctypes.c_void_p, ctypes.c_double, ctypes.c_long
        march.argtypes = (pointer, pointer, number, count, number, number, count)

        def steps(y: Tensor, h: float, number: int) -> Tensor:
            y = y.clone()
            rows = y.view(-1, y.shape[-1]), self.sources.reshape(-1, self.sources.shape[-1]), self.inflow.flatten()
            for state, source, flux in zip(*rows, strict=True):
                march(state.data_ptr(), source.data_ptr(), flux.item(), len(source), self.spacing, h, number)
            return y

        return lambda y, t: self._integrate(steps, y, t, label), "compiled"

    def _integrate(self, steps: Callable[[Tensor, float, int], Tensor], y: Tensor, times: Tensor, label: str) -> Tensor:
        states, intervals = [y], Grid.between(times, self.dt).intervals()
        y = y.contiguous()
        for k in track(range(len(intervals)), label):
            y = steps(y, *intervals[k])
            states.append(y)
            y = torch.where(inside(y, self.divergence_threshold), y, 1.0)
        return torch.stack(states)

    def _swept(self, y: Tensor, h: float, number: int) -> Tensor:
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
