"""The implicit midpoint rule: symplectic, so that Hamiltonian motions keep their energy for as long as one follows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from romkit.boundary import Count, Positive, checked
from romkit.engine import compiled_if
from romkit.engine.compiled import Newton
from romkit.progress import track
from romkit.solvers.base import Run, Solver, check_field, inside
from romkit.solvers.grid import Grid
from romkit.types import Field

ITERATIONS = 8
"""Of the fixed point that a step takes, about."""

Settle = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(t, known, u) -> the midpoint that the iteration from u ends at."""


@checked
@dataclass(frozen=True)
class ImplicitMidpoint(Solver):
    """y₁ = 2 u - y₀ with u = y₀ + h/2 f(t₀ + h/2, u): order two, symmetric, symplectic, keeps quadratic invariants.

    The midpoint u is found by fixed-point iteration, which converges where h/2 times the Lipschitz constant of f is
    less than one, and is accurate enough that rounding decides about long runs.

    Args:
        dt: largest step; between two output times it takes the fewest equal steps that are no longer.
        iterations: largest number of iterations per step.
        tolerance: length of the last iteration's step, relative to 1 + |u|, member by member.

    Source: Hairer, Lubich, Wanner (2006), Geometric Numerical Integration, theorem VI.3.5.

    Example:
        >>> import torch
        >>> from romkit.solvers import ImplicitMidpoint
        >>> times = torch.linspace(0, 10, 11, dtype=torch.float64)
        >>> oscillator = lambda t, y: torch.stack([y[..., 1], -y[..., 0]], dim=-1)
        >>> y = ImplicitMidpoint(0.1)(oscillator, torch.tensor([[1.0, 0.0]], dtype=torch.float64), times).states
        >>> bool((y.square().sum(-1) - 1).abs().max() < 1e-12)  # quadratic invariants stay
        True
    """

    dt: Positive
    iterations: Count = 20
    tolerance: Positive = 1e-14
    divergence_threshold: Positive = 1e6

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> tuple[Run, str]:
        check_field(field, times[0], y0)
        grid, size = Grid.between(times, self.dt), y0.shape[-1]

        def correction(t: Tensor, known: Tensor, u: Tensor) -> Tensor:
            return known[..., :-1] + known[..., -1:] * field(t, u) - u

        def move(t: Tensor, packed: Tensor) -> Tensor:
            known, u = packed.split([size + 1, size], dim=-1)
            return torch.cat([torch.zeros_like(known), correction(t, known, u)], dim=-1)

        example = torch.cat([_known(y0, y0.new_tensor(self.dt)), y0], dim=-1)
        kernel, name = compiled_if(engine, Newton, move, times, example, ITERATIONS * grid.count)
        settle = partial(self._settle, correction) if kernel is None else partial(self._settle_compiled, kernel)
        return partial(self._integrate, settle, label), name

    def _integrate(self, settle: Settle, label: str, y0: Tensor, times: Tensor) -> Tensor:
        y, moved, states, intervals = y0, torch.zeros_like(y0), [y0], Grid.between(times, self.dt).intervals()
        for k in track(range(len(intervals)), label):
            h = times.new_tensor(intervals[k][0])
            for i in range(intervals[k][1]):
                u = settle(times[k] + (i + 0.5) * h, _known(y, h), y + moved / 2)
                y, moved = 2 * u - y, 2 * (u - y)
            states.append(y)
            healthy = inside(y, self.divergence_threshold)
            y, moved = torch.where(healthy, y, 0.0), torch.where(healthy, moved, 0.0)
        return torch.stack(states)

    def _settle(self, correction: Callable[..., Tensor], t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        moving = torch.ones_like(u[..., :1], dtype=torch.bool)
        for _ in range(self.iterations):
            step = correction(t, known, u)
            u = torch.where(moving, u + step, u)
            moving = moving & (_norm(step) > self._limit(u) * (1 + _norm(u)))  # one that is lost has NaN
            if not bool(moving.any()):
                break
        return u

    def _settle_compiled(self, kernel: Newton, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        packed, start = torch.cat([known, u], dim=-1), known.shape[-1]
        kernel.settle(t.item(), packed, start=start, iterations=self.iterations, tolerance=self._limit(u))
        return packed[..., start:]

    def _limit(self, u: Tensor) -> float:
        """The tolerance, as far as rounding allows."""
        return max(self.tolerance, 16 * torch.finfo(u.dtype).eps)


def _known(y: Tensor, h: Tensor) -> Tensor:
    """y (..., d) with half a step beside it."""
    return torch.cat([y, (h / 2).expand(*y.shape[:-1], 1)], dim=-1)


def _norm(x: Tensor) -> Tensor:
    return x.norm(dim=-1, keepdim=True)
