"""The classical Runge–Kutta method of order four, batched, with a fixed step."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from romkit.boundary import Positive, checked
from romkit.engine import captured_if, compiled_if
from romkit.engine.captured import CapturedSteps
from romkit.engine.compiled import RungeKutta
from romkit.progress import pieces, track
from romkit.solvers.base import Run, Solver, check_field, inside
from romkit.solvers.grid import Grid
from romkit.types import Field

STAGES = 4
"""Evaluations of the field in a step."""


@checked
@dataclass(frozen=True)
class RK4(Solver):
    """Order four, fixed step; members that diverge are frozen so that the others run on undisturbed.

    Between two output times it takes the fewest equal steps that are no longer than `dt`.

    On a CPU, a field that consists of calls to torch can be compiled together with the loop around it
    (`romkit.engine`), which is tens to hundreds of times faster than one call after the other and equal to rounding; on
    a GPU its steps are launched as a whole. Compiled for a CPU, a member's result does not depend on its neighbours or
    their number, bit for bit, in batches of two and more.

    Args:
        dt: largest step, in the time unit of the field.

    Source: Hairer, Nørsett, Wanner, Solving Ordinary Differential Equations I, table II.1.2.

    Example:
        >>> import torch
        >>> from romkit.solvers import RK4
        >>> times = torch.linspace(0, 1, 11, dtype=torch.float64)
        >>> solution = RK4(0.01)(lambda t, y: y * (1 - y), torch.tensor([[0.5], [-2.0]], dtype=torch.float64), times)
        >>> solution.states.shape, solution.status.tolist()  # the second member blows up
        (torch.Size([2, 11, 1]), [0, 1])
    """

    dt: Positive
    divergence_threshold: Positive = 1e6

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> tuple[Run, str]:
        check_field(field, times[0], y0)
        grid = Grid.between(times, self.dt)
        if y0.is_cuda and grid.count:
            kernel, name = captured_if(engine, step_by_tensor, field, times, y0, grid.h[0], STAGES * grid.count)
        else:
            kernel, name = compiled_if(engine, RungeKutta, field, times, y0, STAGES * grid.count)
        if kernel is None:
            return partial(self._integrate, field, label), name
        return partial(self._integrate_compiled, kernel, label), name

    def _integrate(self, field: Field, label: str, y0: Tensor, times: Tensor) -> Tensor:
        y, intervals = y0.clone(), Grid.between(times, self.dt).intervals()
        states = torch.empty((len(times), *y.shape), dtype=y.dtype, device=y.device)
        states[0] = y
        for k in track(range(len(intervals)), label):
            h, steps = intervals[k]
            for i in range(steps):
                y = step(field, times[k] + i * h, y, h)
            states[k + 1] = y
            y = torch.where(inside(y, self.divergence_threshold), y, 0.0)
        return states

    def _integrate_compiled(self, kernel: RungeKutta | CapturedSteps, label: str, y0: Tensor, times: Tensor) -> Tensor:
        y, grid = y0.contiguous().clone(), Grid.between(times, self.dt)
        states = torch.empty((len(times), *y.shape), dtype=y.dtype, device=y.device)
        states[0] = y
        h, steps = grid.h.to(y.dtype), grid.steps
        for part in pieces(len(steps), label):
            kernel.integrate(times[:-1][part], h[part], steps[part], self.divergence_threshold, y, states[1:][part])
        return states


def step(field: Field, t: Tensor, y: Tensor, h: float) -> Tensor:
    k1 = field(t, y)
    k2 = field(t + h / 2, torch.add(y, k1, alpha=h / 2))
    k3 = field(t + h / 2, torch.add(y, k2, alpha=h / 2))
    k4 = field(t + h, torch.add(y, k3, alpha=h))
    return torch.add(y, k1 + 2 * (k2 + k3) + k4, alpha=h / 6)


def step_by_tensor(field: Field, t: Tensor, y: Tensor, h: Tensor) -> Tensor:
    """`step` of a length that is in a tensor, as a GPU reads it."""
    k1 = field(t, y)
    k2 = field(t + h / 2, y + h / 2 * k1)
    k3 = field(t + h / 2, y + h / 2 * k2)
    k4 = field(t + h, y + h * k3)
    return y + h / 6 * (k1 + 2 * (k2 + k3) + k4)
