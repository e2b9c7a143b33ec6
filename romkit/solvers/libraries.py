"""Solvers of torchdiffeq and SciPy behind the signature of romkit."""

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from romkit.core import checks, errors, runtime
from romkit.core.boundary import Finite, Positive, Times, validated
from romkit.core.types import Array, Field, Names
from romkit.solvers.base import Prepared, Solver, check_field, forcing, is_bounded, stated


def error_norm(error: Tensor) -> Tensor:
    """(...) root mean square of errors (..., d); never infinite: an overshooting step is tried
    again.
    """
    norm = error.square().mean(-1).sqrt()
    norm = norm.nan_to_num(nan=1e10, posinf=1e10)
    return norm.clamp(max=1e10)


@validated
@dataclass(frozen=True)
class Controlled(Solver):
    """Step-size control by another library, whose methods are `PAIRS`."""

    PAIRS: ClassVar[Names]
    ENGINE: ClassVar = "torch"

    method: str = "dopri5"
    rtol: Positive = 1e-6
    atol: Positive = 1e-8
    max_step: Positive | None = None
    forced_step: Positive | None = None
    jump_times: tuple[Finite, ...] = ()
    divergence_threshold: Positive = 1e6

    def __post_init__(self):
        checks.one_of("method", self.method, self.PAIRS)

    def __str__(self) -> str:
        options = {"rtol": self.rtol, "atol": self.atol, "max_step": self.max_step}
        settings = [self.method, *stated(options)]
        return f"{type(self).__name__}({', '.join(settings)})"

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        if engine == "compiled":
            raise errors.InputError(
                "engine",
                expected=f"'torch' for {type(self).__name__}",
                got=repr(engine),
                fix="leave engine out, or take Adaptive or RK4",
            )
        check_field(field, times[0], y0)
        longest, jumps = forcing(self, field, y0, times)
        return partial(self._integrate, field, label, longest, jumps), self.ENGINE

    @abc.abstractmethod
    def _integrate(
        self, field: Field, label: str, longest: float, jumps: Tensor, y0: Tensor, times: Tensor
    ) -> Tensor:
        """Return states (T, ..., d) at `times`, NaN for a member that was lost, by steps no longer
        than `longest` that end at the jumps (J,).
        """


SPARSE = ("BDF", "Radau")
"""Methods of SciPy that take a pattern of the Jacobian."""

STOPPING = ("dopri8", "bosh3")
"""Pairs that are worse between their steps than at the end of each."""


class TorchDiffEq(Controlled):
    """An embedded Runge–Kutta pair with step-size control, by torchdiffeq.

    The whole batch shares one step, but the error norm is the worst member's, so the tolerances
    hold for each. A member whose state is beyond the threshold, or whose rate overflows when
    squared, is held where it is, because torchdiffeq would otherwise abort the batch. Between steps
    there is torchdiffeq's interpolation, but "dopri8" and "bosh3", whose interpolation errs by
    thousands of tolerances, end a step at every output time.

    Args:
        method: one of `PAIRS`.
        rtol, atol: relative and absolute tolerance per step.
        max_step, forced_step, jump_times: as of `Adaptive`.

    Source: R. T. Q. Chen, torchdiffeq; Dormand & Prince (1980) for the default pair.

    Example:
        >>> import torch
        >>> from romkit.solvers import TorchDiffEq
        >>> times = torch.linspace(0, 1, 5, dtype=torch.float64)
        >>> solution = TorchDiffEq(rtol=1e-8)(lambda t, y: -y, torch.ones(3, 2, dtype=torch.float64), times)
        >>> solution.states.shape, solution.status.tolist()
        (torch.Size([3, 5, 2]), [0, 0, 0])
        >>> bool((solution.states[0, -1] - torch.exp(-times[-1])).abs().max() < 1e-6)
        True
    """

    PAIRS = ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun")

    def _integrate(
        self, field: Field, label: str, longest: float, jumps: Tensor, y0: Tensor, times: Tensor
    ) -> Tensor:
        def usable(y: Tensor, rate: Tensor) -> Tensor:
            # the norm of the error squares rates
            largest = torch.finfo(rate.dtype).max ** 0.5
            return is_bounded(y, self.divergence_threshold) & is_bounded(rate, largest)

        def held(t: Tensor, y: Tensor) -> Tensor:
            rate = field(t, y)
            return torch.where(usable(y, rate), rate, 0.0)

        start = torch.where(is_bounded(y0, self.divergence_threshold), y0, 0.0)
        states = self._solve(held, start, times, longest, jumps)
        solution = [y0]
        for t, y in zip(times[1:], states[1:], strict=True):
            # a member that was held has states that are no solution
            moving = usable(y, field(t, y))
            solution.append(torch.where(moving, y, torch.nan))
        return torch.stack(solution)

    def _solve(
        self, held: Field, start: Tensor, times: Tensor, longest: float, jumps: Tensor
    ) -> Tensor:
        """Return states (T, ..., d) of the held field at `times`."""
        import torchdiffeq  # it brings half of scipy along

        options = {"norm": lambda error: error_norm(error).max(), "max_step": longest}
        if self.method in STOPPING:
            options["step_t"] = times[1:]
        if len(jumps):
            options["jump_t"] = jumps
        control = {"rtol": self.rtol, "atol": self.atol, "options": options}
        try:
            return torchdiffeq.odeint(held, start, times, method=self.method, **control)
        except AssertionError as error:  # its steps have become too short to move
            raise errors.InputError(
                "rtol, atol",
                expected="a tolerance that steps can reach",
                got=f"{self.rtol:g} and {self.atol:g}",
                fix="raise rtol or atol, or take RK4",
            ) from error


@validated
def odeint(field: Field, y0: Tensor, times: Times) -> Tensor:
    """Return states (T, ..., d) at `times` (T,), to train a field with: gradients flow through, and
    there is no status.

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


@validated
@dataclass(frozen=True)
class SciPy(Controlled):
    """The solvers of `scipy.integrate`, one member after the other, with steps of its own between
    the output times.

    BDF, Radau and LSODA are implicit, for stiff equations; Jacobians are finite differences of the
    field, and a member of BDF or Radau is lost where one is not finite. With `jac_sparsity` these
    two solve sparse systems, and differences of components that no rate shares are taken at once.

    Args:
        method: one of `METHODS`.
        rtol, atol: relative and absolute tolerance per step.
        max_step, forced_step, jump_times: as of `Adaptive`.
        divergence_threshold: magnitude from which on a member is lost.
        jac_sparsity: (d, d) array or sparse matrix, zero where a rate does not depend on a
            component; of BDF and Radau.

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
    jac_sparsity: object = field(default=None, compare=False)

    def __post_init__(self):
        super().__post_init__()
        shape = np.shape(self.jac_sparsity)
        is_square = len(shape) == 2 and shape[0] == shape[1]
        if self.jac_sparsity is None or (is_square and self.method in SPARSE):
            return
        raise errors.InputError(
            "jac_sparsity",
            expected=f"a square matrix, of {' or '.join(SPARSE)}",
            got=f"shape {shape}, of {self.method}",
            fix="give one row for each rate, or another method",
        )

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        return super().prepare(field, y0.detach().double(), times.double(), engine, label)

    def _integrate(
        self, field: Field, label: str, longest: float, jumps: Tensor, y0: Tensor, times: Tensor
    ) -> Tensor:
        ends = [*jumps.tolist(), float(times[-1])]
        members = y0[..., 0].numel()
        paths = [
            self._member(field, y0, k, times, longest, ends)
            for k in runtime.track(range(members), label)
        ]
        states = torch.stack(paths, dim=1)  # (T, members, d)
        return states.reshape(len(times), *y0.shape).to(y0)

    def _member(
        self, field: Field, y0: Tensor, k: int, times: Tensor, longest: float, ends: list[float]
    ) -> Tensor:
        """(T, d) states of one member in float64, NaN from where it is lost."""
        if self.jac_sparsity is not None and np.shape(self.jac_sparsity)[0] != y0.shape[-1]:
            raise errors.InputError(
                "jac_sparsity",
                expected=f"a matrix of {y0.shape[-1]} rates by as many components",
                got=f"shape {np.shape(self.jac_sparsity)}",
                fix="give one row for each rate",
            )
        batch = y0.detach().double().reshape(-1, y0.shape[-1]).clone()
        start = batch[k].numpy().copy()

        def alone(t: float, y: Array) -> Array:
            # the context of a field is that of the whole batch, so all of it is evaluated, the
            # others at their start
            batch[k] = torch.from_numpy(y)
            time = torch.tensor(t, dtype=torch.float64)
            with torch.no_grad():
                rates = field(time, batch.reshape(y0.shape))
            return rates.double().reshape(batch.shape)[k].numpy()

        instants = times.double().numpy()
        states = np.full((len(instants), len(start)), np.nan)
        states[0] = start
        if len(instants) == 1 or not _is_finite(start):
            return torch.from_numpy(states)
        if _is_finite(alone(instants[0], start)):
            try:
                with np.errstate(all="ignore"):
                    self._fill(states, alone, instants, longest, ends)
            except errors.InputError:  # of the user's field, and a ValueError too
                raise
            except ValueError:
                pass  # a Jacobian that is not finite loses the member
        return torch.from_numpy(states)

    def _fill(
        self,
        states: Array,
        field: Callable[[float, Array], Array],
        times: Array,
        longest: float,
        ends: list[float],
    ) -> None:
        """Write states at `times` (T,) into `states` (T, d), which has the first, until the member is
        lost. Steps begin anew at each of `ends`.
        """
        from scipy import integrate  # slow to import, and seldom needed

        method = getattr(integrate, self.method)
        control = {"rtol": self.rtol, "atol": self.atol, "max_step": longest}
        if self.jac_sparsity is not None:
            control["jac_sparsity"] = self.jac_sparsity
        begin, y = times[0], states[0]
        count = 1
        for end in ends:
            # the rate at a jump is that behind it, which the last stages before it must not see
            before = end
            if end != times[-1]:
                before = np.nextafter(end, -np.inf)
            # a jump ends what the method knows of earlier steps
            steps = method(field, begin, y, before, **control)
            while steps.status == "running" and np.abs(steps.y).max() <= self.divergence_threshold:
                steps.step()
                passed = count + np.searchsorted(times[count:], steps.t, side="right")
                if passed > count and steps.status != "failed":
                    between = steps.dense_output()(times[count:passed])
                    states[count:passed] = between.T
                    count = passed
            if steps.status != "finished":
                return
            begin = np.nextafter(end, np.inf)
            y = steps.y


def _is_finite(numbers: Array) -> bool:
    return bool(np.isfinite(numbers).all())
