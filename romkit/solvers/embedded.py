"""What the adaptive solvers of other libraries share: their settings."""

import abc
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor

from romkit import checks
from romkit.boundary import Positive, checked
from romkit.errors import InputError
from romkit.solvers.base import Run, Solver, check_field
from romkit.types import Field


@checked
@dataclass(frozen=True)
class EmbeddedPair(Solver):
    """An embedded Runge–Kutta pair with step-size control: one of `PAIRS`, which each library has its own of."""

    PAIRS: ClassVar[tuple[str, ...]]

    method: str = "dopri5"
    rtol: Positive = 1e-6
    atol: Positive = 1e-8
    divergence_threshold: Positive = 1e6

    def __post_init__(self):
        checks.one_of("method", self.method, self.PAIRS)

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> tuple[Run, str]:
        if engine == "compiled":
            fix = "leave engine out, or take RK4"
            raise InputError("engine", expected=f"'torch' for {type(self).__name__}", got=repr(engine), fix=fix)
        check_field(field, times[0], y0)
        return partial(self._integrate, field), "torch"

    @abc.abstractmethod
    def _integrate(self, field: Field, y0: Tensor, times: Tensor) -> Tensor:
        """States (T, ..., d) at `times`, NaN for a member that was lost."""
