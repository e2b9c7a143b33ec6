"""Adaptive solvers of torchdiffeq behind romkit's signature."""

from dataclasses import dataclass

import torch
import torchdiffeq
from torch import Tensor

from romkit import checks
from romkit.solvers.base import Solver, inside
from romkit.types import Field

METHODS = ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun")


@dataclass(frozen=True)
class Adaptive(Solver):
    """An embedded Runge–Kutta pair with step-size control, by torchdiffeq.

    The whole batch shares one step, but the error norm is the worst member's, so the tolerances hold for
    each. A member whose state or derivative leaves the finite range is held where it is, because torchdiffeq
    would otherwise abort the batch.

    Args:
        method: one of `METHODS`.
        rtol, atol: relative and absolute tolerance per step.

    Source: R. T. Q. Chen, torchdiffeq; Dormand & Prince (1980) for the default pair.
    """

    method: str = "dopri5"
    rtol: float = 1e-6
    atol: float = 1e-8
    bound: float = 1e6

    def __post_init__(self):
        checks.one_of("method", self.method, METHODS)

    def _integrate(self, field: Field, y0: Tensor, times: Tensor) -> Tensor:
        def held(t: Tensor, y: Tensor) -> Tensor:
            dy = field(t, y)
            usable = inside(y, self.bound) & dy.isfinite().all(-1, keepdim=True)
            return torch.where(usable, dy, 0.0)

        states = torchdiffeq.odeint(
            held, y0, times, rtol=self.rtol, atol=self.atol, method=self.method, options={"norm": _worst_member}
        )
        reached = torch.stack([_usable(field, t, y, self.bound) for t, y in zip(times, states, strict=True)])
        return torch.where(reached, states, torch.nan)


def _worst_member(error: Tensor) -> Tensor:
    # A step that overshoots into NaN must be rejected and tried again smaller, not accepted.
    return error.square().mean(-1).sqrt().nan_to_num(nan=1e10).max()


def _usable(field: Field, t: Tensor, y: Tensor, bound: float) -> Tensor:
    return inside(y, bound) & field(t, y).isfinite().all(-1, keepdim=True)


def odeint(field: Field, y0: Tensor, times: Tensor) -> Tensor:
    """States (T, ..., d) at `times` (T,), to train a field with: gradients flow through, and there is no status.

    torchdiffeq's fixed-step method of order four (the 3/8 rule), one step between two times, so that members of a
    batch do not influence each other.
    """
    return torchdiffeq.odeint(field, y0, times, method="rk4")
