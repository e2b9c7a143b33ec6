"""Solvers with step-size control of torchdiffeq, torchode and SciPy behind the signature of romkit."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from romkit.core import checks, errors, runtime
from romkit.core.boundary import Positive, Times, validated
from romkit.core.types import Field
from romkit.solvers.base import Run, Solver, check_field, inside


def error_norm(error: Tensor) -> Tensor:
    """(...) root mean square of errors (..., d); never infinite: an overshooting step is tried
    again.
    """
    return error.square().mean(-1).sqrt().nan_to_num(nan=1e10, posinf=1e10).clamp(max=1e10)


@validated
@dataclass(frozen=True)
class Controlled(Solver):
    """Step-size control by another library, whose methods are `PAIRS`."""

    PAIRS: ClassVar[tuple[str, ...]]
    ENGINE: ClassVar = "torch"

    method: str = "dopri5"
    rtol: Positive = 1e-6
    atol: Positive = 1e-8
    divergence_threshold: Positive = 1e6

    def __post_init__(self):
        checks.one_of("method", self.method, self.PAIRS)

    def prepare(
        self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str
    ) -> tuple[Run, str]:
        if engine == "compiled":
            fix = "leave engine out, or take RK4"
            raise errors.InputError(
                "engine", expected=f"'torch' for {type(self).__name__}", got=repr(engine), fix=fix
            )
        check_field(field, times[0], y0)
        return partial(self._integrate, field, label), self.ENGINE

    @abc.abstractmethod
    def _integrate(self, field: Field, label: str, y0: Tensor, times: Tensor) -> Tensor:
        """States (T, ..., d) at `times`, NaN for a member that was lost."""


class Embedded(Controlled):
    """An embedded Runge–Kutta pair of a library that stops at numbers which are not finite.

    So a member is held where it is once its state is beyond the threshold, or its derivative
    overflows when squared.
    """

    def _integrate(self, field: Field, label: str, y0: Tensor, times: Tensor) -> Tensor:
        def usable(y: Tensor, dy: Tensor) -> Tensor:
            return inside(y, self.divergence_threshold) & inside(
                dy, torch.finfo(dy.dtype).max ** 0.5
            )

        def held(t: Tensor, y: Tensor) -> Tensor:
            dy = field(t, y)
            return torch.where(usable(y, dy), dy, 0.0)

        states = self._solve(
            field, held, torch.where(inside(y0, self.divergence_threshold), y0, 0.0), times
        )
        moving = torch.stack([usable(y, field(t, y)) for t, y in zip(times, states, strict=True)])
        return torch.cat([y0.unsqueeze(0), torch.where(moving, states, torch.nan)[1:]])

    @abc.abstractmethod
    def _solve(self, field: Field, held: Field, start: Tensor, times: Tensor) -> Tensor:
        """States (T, ..., d) of the held field at `times`."""


STOPPING = ("dopri8", "bosh3")
"""Pairs that are worse between their steps than at the end of each."""


class Adaptive(Embedded):
    """An embedded Runge–Kutta pair with step-size control, by torchdiffeq.

    The whole batch shares one step, but the error norm is the worst member's, so the tolerances
    hold for each. A member whose state or derivative leaves the finite range is held where it is,
    because torchdiffeq would otherwise abort the batch. Between steps there is torchdiffeq's
    interpolation, but "dopri8" and "bosh3", whose interpolation errs by thousands of tolerances,
    end a step at every output time.

    Args:
        method: one of `PAIRS`.
        rtol, atol: relative and absolute tolerance per step.

    Source: R. T. Q. Chen, torchdiffeq; Dormand & Prince (1980) for the default pair.

    Example:
        >>> import torch
        >>> from romkit.solvers import Adaptive
        >>> times = torch.linspace(0, 1, 5, dtype=torch.float64)
        >>> solution = Adaptive(rtol=1e-8, atol=1e-8)(lambda t, y: -y, torch.ones(3, 2, dtype=torch.float64), times)
        >>> solution.states.shape, solution.status.tolist()
        (torch.Size([3, 5, 2]), [0, 0, 0])
        >>> bool((solution.states[0, -1] - torch.exp(-times[-1])).abs().max() < 1e-6)
        True
    """

    PAIRS = ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun")

    def _solve(self, field: Field, held: Field, start: Tensor, times: Tensor) -> Tensor:
        import torchdiffeq  # it brings half of scipy along

        stops = {"step_t": times[1:]} if self.method in STOPPING else {}
        options = {"norm": lambda error: error_norm(error).max()} | stops
        control = {"rtol": self.rtol, "atol": self.atol, "options": options}
        try:
            return torchdiffeq.odeint(held, start, times, method=self.method, **control)
        except AssertionError as error:  # its steps have become too short to move
            expected, fix = "a tolerance that steps can reach", "raise rtol or atol, or take RK4"
            got = f"{self.rtol:g} and {self.atol:g}"
            raise errors.InputError("rtol, atol", expected=expected, got=got, fix=fix) from error


@validated
def odeint(field: Field, y0: Tensor, times: Times) -> Tensor:
    """States (T, ..., d) at `times` (T,), to train a field with: gradients flow through, and there
    is no status.

    torchdiffeq's fixed-step method of order four (the 3/8 rule), one step between two times, so
    that members of a batch do not influence each other.

    Example:
        >>> import torch
        >>> from romkit.solvers import odeint
        >>> rate = torch.tensor(1.0, requires_grad=True)
        >>> states = odeint(lambda t, y: -rate * y, torch.ones(1), torch.linspace(0, 1, 11))
        >>> states[-1].sum().backward()
        >>> states.shape, rate.grad.round(decimals=3)
        (torch.Size([11, 1]), tensor(-0.3680))
    """
    import torchdiffeq

    return torchdiffeq.odeint(field, y0, times, method="rk4")


class PerMember(Embedded):
    """An embedded Runge–Kutta pair whose step size is controlled for each member by itself, by
    torchode.

    A member that needs small steps does not shorten those of the others, and members do not
    influence each other's results; all of them are evaluated together until the last one is done. A
    member whose state or derivative leaves the finite range is held where it is, because torchode
    would otherwise stop the batch.

    Since members are at different times, a batch needs a field that does not depend on t. torchode
    is installed by `pip install -e ".[torchode]"`.

    Args:
        method: one of `PAIRS`.
        rtol, atol: relative and absolute tolerance per step.

    Source: Lienen & Günnemann (2022), torchode: A parallel ODE solver for PyTorch; Dormand & Prince
    (1980) and Tsitouras (2011) for the pairs.

    Example:
        >>> import torch
        >>> from romkit.solvers import PerMember
        >>> times = torch.linspace(0, 1, 5, dtype=torch.float64)
        >>> rates = torch.tensor([[1.0], [10.0]], dtype=torch.float64)
        >>> solution = PerMember()(lambda t, y: -rates * y, torch.ones(2, 1, dtype=torch.float64), times)
        >>> solution.states.shape, solution.status.tolist()
        (torch.Size([2, 5, 1]), [0, 0])
    """

    PAIRS = ("dopri5", "tsit5", "heun")

    def _solve(self, field: Field, held: Field, start: Tensor, times: Tensor) -> Tensor:
        torchode = checks.extra("solver", "torchode", "torchode")
        rows = start.reshape(-1, start.shape[-1])
        if len(rows) > 1:
            first, *others = (
                field(t, start) for t in (times[0], times[-1], torch.full_like(times[0], torch.nan))
            )
            if not all(
                torch.allclose(first, other, rtol=0, atol=0, equal_nan=True) for other in others
            ):
                expected = "one that does not depend on t, since members are at different times"
                fix = "use Adaptive or RK4, or integrate the members one by one"
                raise errors.InputError("field", expected=expected, got="one that does", fix=fix)
        if len(times) == 1:
            return start.unsqueeze(0)

        def of_rows(t: Tensor, y: Tensor) -> Tensor:
            return held(times[0] + t[0], y.reshape(start.shape)).reshape(y.shape)

        term = torchode.ODETerm(of_rows, with_stats=False)
        control = torchode.IntegralController(self.atol, self.rtol, term=term, norm=error_norm).to(
            start.device
        )
        states = torchode.solve_ivp(
            term, rows, times - times[0], method=self.method, controller=control
        ).ys
        return states.movedim(1, 0).reshape(len(times), *start.shape)


@validated
@dataclass(frozen=True)
class SciPy(Controlled):
    """The solvers of `scipy.integrate`, one member after the other, with steps of its own between
    the output times.

    BDF, Radau and LSODA are implicit, for stiff equations; Jacobians are finite differences of the
    field, and a member of BDF or Radau is lost where one is not finite.

    Args:
        method: one of `METHODS`.
        rtol, atol: relative and absolute tolerance per step.
        divergence_threshold: magnitude from which on a member is lost.

    Source: Shampine & Reichelt (1997) for BDF, Hairer & Wanner (1996) for Radau, Petzold (1983) for
    LSODA.

    Example:
        >>> import torch
        >>> from romkit.solvers import SciPy
        >>> times = torch.linspace(0, 1, 3, dtype=torch.float64)
        >>> stiff = lambda t, y: -1000 * (y - t.cos())
        >>> solution = SciPy("BDF")(stiff, torch.ones(1, 1, dtype=torch.float64), times)
        >>> bool((solution.states.flatten()[1:] - times[1:].cos()).abs().max() < 1e-2)
        True
    """

    PAIRS = METHODS = ("BDF", "Radau", "LSODA", "RK45", "DOP853")
    ENGINE = "SciPy"

    method: str = "BDF"
    atol: Positive = 1e-9

    def prepare(
        self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str
    ) -> tuple[Run, str]:
        return super().prepare(field, y0.detach().double(), times.double(), engine, label)

    def _integrate(self, field: Field, label: str, y0: Tensor, times: Tensor) -> Tensor:
        paths = [
            self._member(field, y0, k, times)
            for k in runtime.track(range(y0[..., 0].numel()), label)
        ]
        return torch.stack(paths, dim=1).reshape(len(times), *y0.shape).to(y0)

    def _member(self, field: Field, y0: Tensor, k: int, times: Tensor) -> Tensor:
        """(T, d) states of one member in float64, NaN from where it is lost."""
        batch = y0.detach().double().reshape(-1, y0.shape[-1]).clone()

        def alone(t: float, y: np.ndarray) -> np.ndarray:
            # the context of a field is that of the whole batch, so all of it is evaluated, the
            # others at their start
            batch[k] = torch.from_numpy(y)
            with torch.no_grad():
                rate = field(torch.tensor(t, dtype=torch.float64), batch.reshape(y0.shape))
            return rate.double().reshape(batch.shape)[k].numpy()

        span, start = times.double().numpy(), batch[k].numpy().copy()
        found = np.full((len(span), len(start)), np.nan)
        found[0] = start
        if len(span) > 1 and np.isfinite(start).all() and np.isfinite(alone(span[0], start)).all():
            with np.errstate(all="ignore"):
                self._fill(found, alone, span)
        return torch.from_numpy(found)

    def _fill(
        self, found: np.ndarray, field: Callable[[float, np.ndarray], np.ndarray], span: np.ndarray
    ) -> None:
        """Write states at the times `span` (T,) into `found` (T, d), which has the first, until the
        member is lost.
        """
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
        except errors.InputError:
            raise
        except ValueError:  # a Jacobian that is not finite
            return
