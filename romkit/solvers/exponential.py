"""Exact steps of affine fields, by matrix exponentials."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.types import Field
from romkit.solvers.base import Prepared, Solver, check_field, is_bounded


@validated
@dataclass(frozen=True)
class Exponential(Solver):
    """Exact steps of ẏ = A y + b, from one output time to the next by exp(h A).

    A and b are read from the field at the origin and along the axes, so a field that is not affine
    is integrated wrongly: it is for laws that say of themselves that they are linear.

    Args:
        divergence_threshold: magnitude from which on a member is lost.

    Source: Moler and Van Loan (2003), Nineteen dubious ways to compute the exponential of a matrix.

    Example:
        >>> import torch
        >>> from romkit.solvers import Exponential
        >>> oscillator = lambda t, y: torch.stack([y[..., 1], -100 * y[..., 0]], dim=-1)
        >>> times = torch.tensor([0.0, 50.0], dtype=torch.float64)  # eighty periods in one step
        >>> y = Exponential()(oscillator, torch.tensor([[1.0, 0.0]], dtype=torch.float64), times).states
        >>> bool((y[0, 1, 0] - torch.cos(10 * times[1])).abs() < 1e-10)
        True
    """

    divergence_threshold: Positive = 1e6

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        check_field(field, times[0], y0)
        return partial(self._integrate, augmented(field, times[0], y0)), "exponential"

    def _integrate(self, matrix: Tensor, y: Tensor, times: Tensor) -> Tensor:
        states = torch.empty((len(times), *y.shape), dtype=y.dtype, device=y.device)
        states[0] = y
        steps: dict[float, Tensor] = {}
        span = float(times[-1] - times[0])
        resolution = 1e-9 * span
        for k, h in enumerate(times.diff().tolist()):
            # times are rounded, and equal intervals share an exponential, which costs most
            interval = round(h / resolution)
            if interval not in steps:
                steps[interval] = torch.linalg.matrix_exp(h * matrix)
            # once out, out for good
            y = torch.where(is_bounded(y, self.divergence_threshold), y, torch.nan)
            y = advanced(steps[interval], y)
            states[k + 1] = y
        return states


def augmented(field: Field, t: Tensor, y: Tensor) -> Tensor:
    """Return [[A, b], [0, 0]] (..., d + 1, d + 1) of an affine field of states like y (..., d)."""
    # at states as large as the given one, the field rounds as it does there; beside a constant,
    # changes along a state near zero would be lost in rounding
    largest = y.abs().nan_to_num(0.0, 0.0, 0.0).amax()
    scale = largest.clamp(min=1.0)
    constant = field(t, torch.zeros_like(y))  # b
    columns = []
    for k in range(y.shape[-1]):
        along = torch.zeros_like(y)
        along[..., k] = scale
        columns.append((field(t, along) - constant) / scale)
    rows = torch.stack([*columns, constant], dim=-1)  # (..., d, d + 1)
    zeros = torch.zeros_like(rows[..., :1, :])
    return torch.cat([rows, zeros], dim=-2)


def advanced(step: Tensor, y: Tensor) -> Tensor:
    """Return the state after a step, from the exponential of the augmented matrix."""
    size = y.shape[-1]
    matrix = step[..., :size, :size]
    moved = (matrix @ y.unsqueeze(-1)).squeeze(-1)
    return moved + step[..., :size, size]
