"""Implicit solvers of SciPy behind romkit's signature, for stiff equations."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.core.runtime import track
from romkit.core.types import Field
from romkit.solvers.base import Run, Solver, check_field


@validated
@dataclass(frozen=True)
class SciPy(Solver):
    """The solvers of `scipy.integrate`, one member after the other, with steps of its own between the output times.

    BDF, Radau and LSODA are implicit, for stiff equations; Jacobians are finite differences of the field, and a member
    of BDF or Radau is lost where one is not finite.

    Args:
        method: one of `METHODS`.
        rtol, atol: relative and absolute tolerance per step.
        divergence_threshold: magnitude from which on a member is lost.

    Source: Shampine & Reichelt (1997) for BDF, Hairer & Wanner (1996) for Radau, Petzold (1983) for LSODA.

    Example:
        >>> import torch
        >>> from romkit.solvers import SciPy
        >>> times = torch.linspace(0, 1, 3, dtype=torch.float64)
        >>> stiff = lambda t, y: -1000 * (y - t.cos())
        >>> solution = SciPy("BDF")(stiff, torch.ones(1, 1, dtype=torch.float64), times)
        >>> bool((solution.states.flatten()[1:] - times[1:].cos()).abs().max() < 1e-2)
        True
    """

    METHODS: ClassVar = ("BDF", "Radau", "LSODA", "RK45", "DOP853")

    method: str = "BDF"
    rtol: Positive = 1e-6
    atol: Positive = 1e-9
    divergence_threshold: Positive = 1e6

    def __post_init__(self):
        checks.one_of("method", self.method, self.METHODS)

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> tuple[Run, str]:
        if engine == "compiled":
            fix = 'take engine="auto", or RK4'
            raise InputError("engine", expected="one that SciPy has", got=repr(engine), fix=fix)

        check_field(field, times[0].double(), y0.detach().double())

        def run(y: Tensor, times: Tensor) -> Tensor:
            rows = y.detach().reshape(-1, y.shape[-1])
            paths = [self._member(field, y, k, times) for k in track(range(len(rows)), label)]
            return torch.stack(paths, dim=1).reshape(len(times), *y.shape).to(y)

        return run, "SciPy"

    def _member(self, field: Field, y0: Tensor, k: int, times: Tensor) -> Tensor:
        """(T, d) states of one member in float64, NaN from where it is lost."""
        batch = y0.detach().double().reshape(-1, y0.shape[-1]).clone()

        def alone(t: float, y: np.ndarray) -> np.ndarray:
            # the context of a field is that of the whole batch, so all of it is evaluated, the others at their start
            batch[k] = torch.from_numpy(y)
            with torch.no_grad():
                rate = field(torch.tensor(t, dtype=torch.float64), batch.reshape(y0.shape))
            return rate.double().reshape(batch.shape)[k].numpy()

        span, start = times.double().numpy(), batch[k].numpy().copy()
        found = np.full((len(span), len(start)), math.nan)
        found[0] = start
        if len(span) > 1 and np.isfinite(start).all() and np.isfinite(alone(span[0], start)).all():
            with np.errstate(all="ignore"):
                self._fill(found, alone, span)
        return torch.from_numpy(found)

    def _fill(self, found: np.ndarray, field: Callable[[float, np.ndarray], np.ndarray], span: np.ndarray) -> None:
        """Write states at the times `span` (T,) into `found` (T, d), which has the first, until the member is lost."""
        from scipy import integrate  # slow to import, and seldom needed

        kind = getattr(integrate, self.method)
        reached = 1
        try:
            steps = kind(field, span[0], found[0], span[-1], rtol=self.rtol, atol=self.atol)
            while steps.status == "running" and np.abs(steps.y).max() <= self.divergence_threshold:
                steps.step()
                ahead = reached + np.searchsorted(span[reached:], steps.t, side="right")
                if ahead > reached and steps.status != "failed":
                    found[reached:ahead] = steps.dense_output()(span[reached:ahead]).T
                    reached = ahead
        except InputError:
            raise
        except ValueError:  # a Jacobian that is not finite
            return
