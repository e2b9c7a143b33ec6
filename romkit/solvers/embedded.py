"""What the adaptive solvers of other libraries share: their settings."""

import abc
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor

from romkit import checks
from romkit.errors import InputError
from romkit.solvers.base import Run, Solver
from romkit.types import Field


@dataclass(frozen=True)
class EmbeddedPair(Solver):
    """An embedded Runge–Kutta pair with step-size control: one of `PAIRS`, which each library has its own of."""

    PAIRS: ClassVar[tuple[str, ...]]

    method: str = "dopri5"
    rtol: float = 1e-6
    atol: float = 1e-8
    divergence_threshold: float = 1e6

    def __post_init__(self):
        checks.one_of("method", self.method, self.PAIRS)
        checks.positive("rtol", self.rtol)
        checks.positive("atol", self.atol)

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> tuple[Run, str]:
        if engine == "compiled":
            fix = "leave engine out, or take RK4"
            raise InputError("engine", expected=f"'torch' for {type(self).__name__}", got=repr(engine), fix=fix)
        return partial(self._integrate, field), "torch"

    @abc.abstractmethod
    def _integrate(self, field: Field, y0: Tensor, times: Tensor) -> Tensor:
        """States (T, ..., d) at `times`, NaN for a member that was lost."""
