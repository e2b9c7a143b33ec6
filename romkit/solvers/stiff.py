"""Implicit solvers of SciPy behind romkit's signature, for stiff equations."""

import contextlib
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from romkit import checks
from romkit.boundary import Positive, checked
from romkit.errors import InputError
from romkit.progress import track
from romkit.solvers.base import Run, Solver, check_field
from romkit.types import Field


@checked
@dataclass(frozen=True)
class SciPy(Solver):
    """`scipy.integrate.solve_ivp`, one member after the other, with steps of its own between the output times.

    BDF, Radau and LSODA are implicit, for stiff equations; Jacobians are finite differences of the field. A member of
    BDF or Radau with one that is not finite is NaN from the start on.

    Args:
        method: one of `METHODS`.
        rtol, atol: relative and absolute tolerance per step.

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
        from scipy.integrate import solve_ivp  # slow to import, and seldom needed

        batch = y0.detach().double().reshape(-1, y0.shape[-1]).clone()

        def alone(t: float, y: np.ndarray) -> np.ndarray:
            # the context of a field is that of the whole batch, so all of it is evaluated, the others at their start
            batch[k] = torch.from_numpy(y)
            with torch.no_grad():
                rate = field(torch.tensor(t, dtype=torch.float64), batch.reshape(y0.shape))
            return rate.double().reshape(batch.shape)[k].numpy()

        def leaves(t: float, y: np.ndarray) -> float:
            return self.divergence_threshold - np.abs(y).max()

        leaves.terminal = True
        found, start, span = (
            np.full((len(times), y0.shape[-1]), math.nan),
            batch[k].numpy().copy(),
            times.double().numpy(),
        )
        found[0] = start
        if len(span) > 1 and np.isfinite(start).all() and np.isfinite(alone(span[0], start)).all():
            settings = {"method": self.method, "rtol": self.rtol, "atol": self.atol, "events": leaves}
            with np.errstate(all="ignore"), contextlib.suppress(ValueError):  # a Jacobian that is not finite
                reached = solve_ivp(alone, (span[0], span[-1]), start, t_eval=span, **settings)
                found[: len(reached.t)] = np.reshape(reached.y, (len(start), -1)).T
        return torch.from_numpy(found)
