"""Solvers with a fixed step: RK4, the implicit midpoint rule, and restarts at intervals."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from romkit.core.boundary import Count, Positive, validated
from romkit.core.checks import MOST_STEPS
from romkit.core.errors import InputError
from romkit.core.runtime import pieces, track
from romkit.core.types import Field, Pair, TensorFunction
from romkit.engine import Newton, RungeKutta, compiled_if, launched_if
from romkit.engine.captured import CapturedSteps
from romkit.solvers.base import Prepared, Run, Solver, check_field, is_bounded


@dataclass(frozen=True)
class Grid:
    """Step length h (K,), float64, and number of steps (K,), int64, between successive output
    times, on the CPU.
    """

    h: Tensor
    steps: Tensor

    @classmethod
    def cover(cls, times: Tensor, dt: float, *, rounding: float = 1e-3) -> "Grid":
        """Return the fewest equal steps that are no longer than `dt`, but for rounding of the
        times.
        """
        gaps = np.diff(times.numpy(force=True)).astype(np.float64)
        # the fewest equal ones, so that every output time is the end of a step
        steps = np.ceil(gaps / dt - rounding)
        steps = np.maximum(steps, 1)
        if steps.sum() > MOST_STEPS:
            raise InputError(
                "dt",
                expected="2**53 steps in a run at most",
                got=f"{dt:g}",
                fix="give a larger step, in the time unit of the field",
            )
        h = torch.from_numpy(gaps / steps)
        return cls(h, torch.from_numpy(steps.astype(np.int64)))

    @property
    def count(self) -> int:
        """Steps in all."""
        return int(self.steps.sum())


Steps = Callable[[Tensor, Tensor, float, int], Tensor]
"""(t, y, h, number) -> y after this number of steps of length h from time t on."""


class Stepped(Protocol):
    """A solver of steps of one length."""

    @property
    def dt(self) -> float: ...
    @property
    def divergence_threshold(self) -> float: ...


def march(
    solver: Stepped, steps: Steps, y: Tensor, times: Tensor, label: str, rest: float = 0.0
) -> Tensor:
    """Return states (T, ..., d) of a solver with a `dt`, from one output time to the next; lost
    members go on from `rest`.
    """
    grid = Grid.cover(times, solver.dt)
    lengths = grid.h.tolist()
    numbers = grid.steps.tolist()
    states = torch.empty((len(times), *y.shape), dtype=y.dtype, device=y.device)
    states[0] = y
    y = y.clone()  # derivatives along a path need numbers with memory of their own
    for k in track(range(len(lengths)), label):
        y = steps(times[k], y, lengths[k], numbers[k])
        states[k + 1] = y
        # arithmetic with infinities is slow
        y = torch.where(is_bounded(y, solver.divergence_threshold), y, rest)
    return states


@validated
@dataclass(frozen=True)
class RK4(Solver):
    """Order four, fixed step; members that diverge are frozen so that the others run on
    undisturbed.

    Between two output times it takes the fewest equal steps that are no longer than `dt`.

    On a CPU, a field that consists of calls to torch can be compiled together with the loop around
    it (`romkit.engine`), which is tens to hundreds of times faster than one call after the other
    and equal to rounding; on a GPU the run, or each of its steps, is one launch. Compiled for a
    CPU, a member's result does not depend on its neighbours or their number, bit for bit, in
    batches of two and more.

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

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        check_field(field, times[0], y0)
        grid = Grid.cover(times, self.dt)
        evaluations = 4 * grid.count
        if y0.is_cuda and grid.count:
            kernel, name = launched_if(
                engine, RungeKutta, step_tensor, field, times, y0, grid.h[0], evaluations
            )
        else:
            kernel, name = compiled_if(engine, RungeKutta, field, times, y0, evaluations)
        if kernel is None:
            return partial(self._integrate, field, label), name
        return partial(self._integrate_compiled, kernel, label), name

    def _integrate(self, field: Field, label: str, y0: Tensor, times: Tensor) -> Tensor:
        def steps(t: Tensor, y: Tensor, h: float, number: int) -> Tensor:
            for i in range(number):
                y = step(field, t + i * h, y, h)
            return y

        return march(self, steps, y0, times, label)

    def _integrate_compiled(
        self, kernel: RungeKutta | CapturedSteps, label: str, y0: Tensor, times: Tensor
    ) -> Tensor:
        y = y0.contiguous().clone()
        states = torch.empty((len(times), *y.shape), dtype=y.dtype, device=y.device)
        states[0] = y
        grid = Grid.cover(times, self.dt)
        starts = times[:-1]
        h = grid.h.to(y.dtype)
        steps = grid.steps
        bound = self.divergence_threshold
        # in pieces, so that the bar moves and an interrupt is seen
        for piece in pieces(len(steps), label):
            ends = states[1:][piece]
            kernel.integrate(starts[piece], h[piece], steps[piece], bound, y, ends)
        return states


def step(field: Field, t: Tensor, y: Tensor, h: float) -> Tensor:
    """Return the state one step of length h after t."""
    half = h / 2
    middle = t + half
    k1 = field(t, y)
    k2 = field(middle, torch.add(y, k1, alpha=half))
    k3 = field(middle, torch.add(y, k2, alpha=half))
    k4 = field(t + h, torch.add(y, k3, alpha=h))
    slope = k1 + 2 * (k2 + k3) + k4
    return torch.add(y, slope, alpha=h / 6)


def step_tensor(field: Field, t: Tensor, y: Tensor, h: Tensor) -> Tensor:
    """`step` with the step length in a tensor, which a GPU reads."""
    half = h / 2
    middle = t + half
    k1 = field(t, y)
    k2 = field(middle, y + half * k1)
    k3 = field(middle, y + half * k2)
    k4 = field(t + h, y + h * k3)
    slope = k1 + 2 * (k2 + k3) + k4
    return y + h / 6 * slope


class Rule(abc.ABC):
    """Implicit time stepping rule with an unknown u (..., m) in each step. t and h are scalars.

    Attributes:
        at: time at which the unknown is corrected, as a share of the step.
        corrections: number of them in a step, about; it decides whether compiling pays.
    """

    at: ClassVar[float] = 1.0
    corrections: ClassVar[int] = 3

    @abc.abstractmethod
    def begin(self, t: Tensor, y: Tensor, rate: Tensor, h: Tensor) -> Pair:
        """Known numbers (..., k) of a step of length h from y at t, and a first guess of u.

        `rate` is that of the step before.
        """

    @abc.abstractmethod
    def correction(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        """Return the step from u towards the solution."""

    @abc.abstractmethod
    def end(self, y: Tensor, h: Tensor, known: Tensor, u: Tensor) -> Pair:
        """Return the next state, and the rate that the next step's u is guessed from."""


@dataclass(frozen=True)
class Iterated(Solver):
    """Steps of an implicit rule, whose unknown is corrected for the whole batch until it stays,
    member by member.

    Args:
        rule: of the steps.
        correction: that of the rule, or a faster form of it.
        rate: that before the first step.
        dt: largest step.
        iterations: largest number of corrections in a step.
        tolerance: length of the last correction, relative to 1 + |u|; no smaller than rounding
            allows.
        name: of the solver, in the cost of a run.
        divergence_threshold: magnitude from which on a member is lost.
    """

    rule: Rule
    correction: Callable[[Tensor, Tensor, Tensor], Tensor]
    rate: Tensor
    dt: float
    iterations: int
    tolerance: float
    name: str
    divergence_threshold: float = 1e6

    def __str__(self) -> str:
        return self.name

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        grid = Grid.cover(times, self.dt)
        if not grid.count:  # a single time
            return lambda y, times: y.unsqueeze(0), "torch"
        h = grid.h[0].to(times)
        memory, u = self.rule.begin(times[0], y0, self.rate, h)
        sizes = [memory.shape[-1], u.shape[-1]]

        def move(t: Tensor, packed: Tensor) -> Tensor:
            # Newton's kernel knows one array, of which the known numbers stay
            memory, u = packed.split(sizes, dim=-1)
            still = torch.zeros_like(memory)
            return torch.cat([still, self.correction(t, memory, u)], dim=-1)

        packed = torch.cat([memory, u], dim=-1)
        evaluations = self.rule.corrections * grid.count
        kernel, name = compiled_if(engine, Newton, move, times, packed, evaluations)
        settle = self._settle
        if kernel is not None:
            settle = partial(self._settle_compiled, kernel)
        return partial(self._integrate, settle, label), name

    def _integrate(self, settle: TensorFunction, label: str, y0: Tensor, times: Tensor) -> Tensor:
        rate = self.rate

        def steps(t: Tensor, y: Tensor, h: float, number: int) -> Tensor:
            nonlocal rate
            length = times.new_tensor(h)
            rate = torch.where(rate.isfinite(), rate, 0.0)  # that of a member that was lost
            for i in range(number):
                start = t + i * length
                memory, guess = self.rule.begin(start, y, rate, length)
                u = settle(start + self.rule.at * length, memory, guess)
                y, rate = self.rule.end(y, length, memory, u)
            return y

        return march(self, steps, y0, times, label)

    def _settle(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        moving = torch.ones_like(u[..., :1], dtype=torch.bool)
        for _ in range(self.iterations):
            step = self.correction(t, known, u)
            u = torch.where(moving, u + step, u)
            length = step.norm(dim=-1, keepdim=True)
            size = u.norm(dim=-1, keepdim=True)
            # A member that is lost has NaN here; the others must not wait for it.
            moving = moving & (length > self._limit(u) * (1 + size))
            if not bool(moving.any()):
                break
        return u

    def _settle_compiled(self, kernel: Newton, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        start = known.shape[-1]
        packed = torch.cat([known, u], dim=-1)
        tolerance = self._limit(u)
        kernel.settle(
            t.item(), packed, start=start, iterations=self.iterations, tolerance=tolerance
        )
        return packed[..., start:]

    def _limit(self, u: Tensor) -> float:
        return max(self.tolerance, 16 * torch.finfo(u.dtype).eps)


def append_step(known: Tensor, h: Tensor) -> Tensor:
    """`known` (..., k) with h beside it, member by member."""
    step = h.expand(*known.shape[:-1], 1)
    return torch.cat([known, step], dim=-1)


@dataclass(frozen=True)
class _Midpoint(Rule):
    """Rule u = y₀ + h/2 f(u), y₁ = 2 u - y₀; the rate is y₁ - y₀. Known are y₀ and h/2."""

    at = 0.5
    corrections = 8

    field: Field

    def begin(self, t: Tensor, y: Tensor, rate: Tensor, h: Tensor) -> Pair:
        return append_step(y, h / 2), y + rate / 2

    def correction(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        y = known[..., :-1]
        half = known[..., -1:]
        moved = y + half * self.field(t, u)
        return moved - u

    def end(self, y: Tensor, h: Tensor, known: Tensor, u: Tensor) -> Pair:
        return 2 * u - y, 2 * (u - y)


@validated
@dataclass(frozen=True)
class ImplicitMidpoint(Solver):
    """y₁ = 2 u - y₀ with u = y₀ + h/2 f(t₀ + h/2, u): order two, symmetric, symplectic, keeps
    quadratic invariants.

    The midpoint u is found by fixed-point iteration, which converges where h/2 times the Lipschitz
    constant of f is less than one, and is accurate enough that rounding decides about long runs.

    Args:
        dt: largest step; between two output times it takes the fewest equal steps that are no
            longer.
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

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        check_field(field, times[0], y0)
        rule = _Midpoint(field)
        rate = torch.zeros_like(y0)
        steps = Iterated(
            rule,
            rule.correction,
            rate,
            self.dt,
            self.iterations,
            self.tolerance,
            str(self),
            self.divergence_threshold,
        )
        return steps.prepare(field, y0, times, engine, label)


@validated
@dataclass(frozen=True)
class Restarted(Solver):
    """Another solver that starts again from `jump(t, y)` every `every` output times.

    What is reported at the time of a jump is the state before it.

    Args:
        solver: what integrates in between; a field that it compiles, it compiles once.
        every: output times from one jump to the next.
        jump: (t, y) -> the state (..., d) to go on from.

    Example:
        >>> import torch
        >>> from romkit.solvers import RK4, Restarted
        >>> times = torch.linspace(0, 4, 5, dtype=torch.float64)
        >>> bouncing = Restarted(RK4(0.1), every=2, jump=lambda t, y: torch.ones_like(y))
        >>> bouncing(lambda t, y: -y, torch.ones(1, 1, dtype=torch.float64), times).states.flatten().round(decimals=2)
        tensor([1.0000, 0.3700, 0.1400, 0.3700, 0.1400], dtype=torch.float64)
    """

    solver: Solver
    every: Count
    jump: Callable[[Tensor, Tensor], Tensor]

    @property
    def divergence_threshold(self) -> float:
        """Threshold of the solver in between."""
        return self.solver.divergence_threshold

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        run, name = self.solver.prepare(field, y0, times, engine, label)
        return partial(self._run_parts, run), name

    def _run_parts(self, run: Run, y: Tensor, times: Tensor) -> Tensor:
        runs = [y.unsqueeze(0)]
        for first in track(range(0, len(times) - 1, self.every), "restarting"):
            piece = times[first : first + self.every + 1]
            if first:
                y = self.jump(piece[0], y)
            states = run(y, piece)
            runs.append(states[1:])
            y = states[-1]
        return torch.cat(runs)
