"""Integration to a tolerance: output times say where the solution is wanted, never how exactly."""

import time
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from romkit.core.boundary import Count, Finite, Positive, validated
from romkit.core.errors import InputError, warn
from romkit.core.runtime import PIECE, track
from romkit.core.types import Field
from romkit.engine import Unsupported, adaptive, compiled_if
from romkit.engine.adaptive import FLOOR, UNCOUNTED, Code, Limits, Progress
from romkit.solvers import stepping
from romkit.solvers.base import (
    Prepared,
    Solver,
    check_field,
    forcing,
    is_bounded,
    is_time_dependent,
    stated,
)
from romkit.solvers.stepping import Stepper

FEW = 200
"""Steps that are tried before a bar shows that there are more."""

WORTHWHILE = {"torch": 1_000, "compiled": 100_000}
"""Explicit steps to come from which implicit ones take less time, of a stiff field, by engine."""

ENDLESS = {"torch": 1e7, "compiled": 1e9}
"""Steps to come from which on a run has no end, by engine: more than an hour, about."""

SLIDING = {"torch": 1e5, "compiled": 1e8}
"""Steps to come where a field jumps in each step: a minute, about."""


@validated
@dataclass(frozen=True)
class Adaptive(Solver):
    """Steps whose error is controlled, of order five, with solutions of order four at any time in
    between.

    Each member has steps of its own, as long as its error in one is within the tolerance, so that
    neither output times nor neighbours change its result by more than that. A field that depends on
    time goes through torch at one time for all members; these then share the steps of the one that
    needs the shortest. Compiled, members have steps of their own there too.

    A member whose steps only stability bounds is stiff, and goes on by a linearly implicit method of
    order four, with the Jacobian of the field by differences.

    Args:
        rtol: error of a step, relative to each component.
        atol: the same in absolute terms; by default a hundredth of `rtol` times the largest
            component that the member has had.
        max_step: largest step; as long as the tolerance allows by default.
        forced_step: largest step where `max_step` is not given and the field depends on time, so
            that no step goes past a short pulse; by default a hundredth of the run.
        jump_times: times at which a field jumps; no step goes across one.
        divergence_threshold: magnitude from which on a member is lost.
        most_steps: number of steps after which a member that still runs is lost, about; any number by
            default.

    Raises:
        InputError: when called, a tolerance that the precision of the state cannot reach.

    Source: Tsitouras (2011), Runge-Kutta pairs of order 5(4) satisfying only the first column
    simplifying assumption; Hairer and Wanner (1996), Solving Ordinary Differential Equations II,
    sections IV.2 (control, stiffness) and IV.7 (the implicit method, RODAS).

    Example:
        >>> import torch
        >>> from romkit.solvers import Adaptive
        >>> times = torch.tensor([0.0, 0.1, 10.0], dtype=torch.float64)  # their distances do not matter
        >>> y0 = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        >>> oscillator = lambda t, y: torch.stack([y[..., 1], -y[..., 0]], dim=-1)
        >>> states = Adaptive(rtol=1e-8)(oscillator, y0, times).states
        >>> bool((states[0, :, 0] - times.cos()).abs().max() < 1e-6)
        True
    """

    rtol: Positive = 1e-6
    atol: Positive | None = None
    max_step: Positive | None = None
    forced_step: Positive | None = None
    jump_times: tuple[Finite, ...] = ()
    divergence_threshold: Positive = 1e6
    most_steps: Count | None = None

    def __str__(self) -> str:
        options = {"atol": self.atol, "max_step": self.max_step, "most_steps": self.most_steps}
        settings = [f"rtol={self.rtol:g}", *stated(options)]
        return f"Adaptive({', '.join(settings)})"

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        check_field(field, times[0], y0)
        self._check_tolerance(y0)
        if len(times) == 1:
            return lambda y, times: y.unsqueeze(0), "torch"
        # members have steps of their own only where no evaluation asks for the time
        timed = is_time_dependent(field, times[0], y0)
        longest, jumps = forcing(self, field, y0, times)
        rate = flatten_field(field, y0)
        rows = y0.detach().reshape(-1, y0.shape[-1])
        limits = self._limits(times, longest, jumps)
        lengths = first_steps(rate, times[0], rows, limits)
        span = times[-1] - times[0]
        # later steps are twice as long, and take 180 calls of torch beside those of the field, about
        steps = float(span / (2.0 * lengths.median()))
        example = (field, times, y0)
        kernel, name = compiled_if(engine, adaptive.Explicit, *example, 6 * steps, 180 * steps)
        if kernel is None:
            way: Torch | Compiled = Torch(rate, timed)
        else:
            way = Compiled(kernel, timed, example)
        return partial(self._integrate, way, longest, jumps, label), name

    def _check_tolerance(self, y0: Tensor, *, reached: float = 1e-3) -> None:
        """Refuse a tolerance that rounding exceeds in every step: steps would shrink without end.

        `reached`: least tolerance in units of the spacing of numbers: that of a step h
        rounds to h times it.
        """
        largest = float(y0.detach().abs().nan_to_num(0.0, 0.0, 0.0).amax())
        least = reached * torch.finfo(y0.dtype).eps
        if self.rtol >= least:
            return
        if self.atol is not None and self.atol > least * largest:
            return
        fix = "raise rtol"
        if y0.dtype != torch.float64:
            fix = "raise rtol, or take float64"
        precision = str(y0.dtype).removeprefix("torch.")
        raise InputError(
            "rtol",
            expected=f"at least {least:.0e}, or an atol, in {precision}",
            got=f"{self.rtol:g}",
            fix=fix,
        )

    def _limits(self, times: Tensor, longest: float, jumps: Tensor) -> Limits:
        return Limits(
            times=times.contiguous(),
            jumps=jumps,
            rtol=self.rtol,
            atol=self.atol or 0.0,
            floor=FLOOR if self.atol is None else 0.0,
            longest=longest,
            bound=self.divergence_threshold,
        )

    def _integrate(
        self,
        way: "Torch | Compiled",
        longest: float,
        jumps: Tensor,
        label: str,
        y0: Tensor,
        times: Tensor,
    ) -> Tensor:
        if not way.timed:
            times = times - times[0]  # late times have fewer digits
        limits = self._limits(times, longest, jumps)
        rows = y0.reshape(-1, y0.shape[-1])  # (N, d)
        # lost members do arithmetic too, which must stay cheap
        alive = is_bounded(rows, self.divergence_threshold)
        start = torch.where(alive, rows, 0.0)
        h = first_steps(way.rate, times[0], start.detach(), limits)
        progress = Progress.begin(times[0], start, h, alive.squeeze(-1))
        states = rows.new_full((len(times), *rows.shape), torch.nan)
        states[0] = rows
        self._drive(way.explicit, progress, limits, states, label, way)
        if bool((progress.code == Code.STIFF).any()):
            self._continues(way, progress, limits, states, label)
        return states.reshape(len(times), *y0.shape)

    def _drive(
        self,
        stepper: Stepper | adaptive.Controlled,
        progress: Progress,
        limits: Limits,
        states: Tensor,
        label: str,
        way: "Torch | Compiled",
        *,
        patience: int = 5_000,
    ) -> None:
        """Take steps until no member runs any more, with a bar where that takes long."""
        # short runs show no bar
        stepper.advance(progress, limits, states, FEW)
        self._lose(progress)
        if not _running(progress):
            return
        attempts = FEW
        outputs = int(progress.next.sum())
        tried = attempts
        members_times_outputs = states[..., 0].numel()
        with track(range(members_times_outputs), label) as bar:
            bar.update(outputs)
            while _running(progress):
                began = time.perf_counter()
                reached = progress.t.clone()
                stepper.advance(progress, limits, states, attempts)
                self._lose(progress)
                tried += attempts
                if tried > patience:
                    _lose_endless(progress, limits, (progress.t - reached) / attempts, way)
                before = outputs
                outputs = int(progress.next.sum())
                bar.update(outputs - before)
                # pieces of work are long enough to be cheap, and short enough for the bar
                if time.perf_counter() - began < PIECE:
                    attempts *= 2

    def _continues(
        self,
        way: "Torch | Compiled",
        progress: Progress,
        limits: Limits,
        states: Tensor,
        label: str,
    ) -> None:
        """Take members that are stiff to the end, by implicit steps where these take less time."""
        stiff = progress.code == Code.STIFF
        remaining = limits.times[-1] - progress.t
        # few short steps cost less than a Jacobian
        steps = (remaining / progress.h)[stiff].max()
        # the test has done its work, whatever method goes on
        progress.stiff = torch.where(stiff, UNCOUNTED, progress.stiff)
        progress.code = torch.where(stiff, int(Code.RUNNING), progress.code)
        stepper: Stepper | adaptive.Controlled = way.explicit
        if steps > WORTHWHILE[way.name]:
            stepper = _implicit(way, progress.y.shape[-1], float(steps))
        self._drive(stepper, progress, limits, states, label, way)

    def _lose(self, progress: Progress) -> None:
        """Give up members that have taken too many steps."""
        if self.most_steps is None:
            return
        spent = (progress.code == Code.RUNNING) & (progress.taken >= self.most_steps)
        progress.code = torch.where(spent, int(Code.LOST), progress.code)


def even_steps(dt: float, *, uncontrolled: float = 1e12) -> Adaptive:
    """Make a solver with steps of one length, of order five: states between them cost nothing, so that
    output times don't shorten steps.

    `uncontrolled`: absolute tolerance that every step meets.
    """
    return Adaptive(rtol=1.0, atol=uncontrolled, max_step=dt)


class Torch:
    """Steps in torch, of rows (N, d)."""

    name = "torch"

    def __init__(self, rate: stepping.Rate, timed: bool):
        self.rate, self.timed = rate, timed
        self.explicit = Stepper(stepping.Explicit(rate), together=timed)

    def implicit(self) -> Stepper:
        """Return steps of a stiff field."""
        return Stepper(stepping.Implicit(self.rate), together=self.timed)


class Compiled:
    """Steps by a kernel; a second one is compiled when a member turns out to be stiff."""

    name = "compiled"

    def __init__(
        self, explicit: adaptive.Explicit, timed: bool, example: tuple[Field, Tensor, Tensor]
    ):
        self.explicit, self.timed = explicit, timed
        self._example = example  # field, times and state
        self._implicit: adaptive.Implicit | None = None

    def rate(self, t: Tensor, rows: Tensor) -> Tensor:
        """Return the field, of rows (N, d)."""
        return self.explicit.evaluate(t.item(), rows)

    def implicit(self) -> adaptive.Implicit:
        """Return steps of a stiff field."""
        # most fields are not stiff, and need no second kernel
        if self._implicit is None:
            self._implicit = adaptive.Implicit(*self._example)
        return self._implicit


def flatten_field(field: Field, y0: Tensor) -> stepping.Rate:
    """Return the field of states (N, d), the members one after the other."""
    if y0.ndim == 2:
        return field
    return lambda t, y: field(t, y.reshape(y0.shape)).reshape(y.shape)


def first_steps(rate: stepping.Rate, t: Tensor, y: Tensor, limits: Limits) -> Tensor:
    """Lengths (N,) of first steps, from the sizes of the state (N, d), its rate, and the change of
    that.

    Source: Hairer, Nørsett, Wanner (1993), Solving Ordinary Differential Equations I, section II.4.
    """
    span = limits.times[-1] - limits.times[0]
    y_size = y.abs()
    largest = y_size.amax(-1, keepdim=True)
    allowed = limits.atol + limits.rtol * (y_size + limits.floor * largest)
    tiny = torch.finfo(y.dtype).tiny ** 0.5
    allowed = torch.where(allowed > 0, allowed, tiny)

    def size(x: Tensor) -> Tensor:
        return (x / allowed).square().mean(-1).sqrt()

    with torch.no_grad():
        slope = rate(t, y)
        # a hundredth of the time in which the state would change by itself
        moved = 0.01 * size(y) / size(slope)
        moved = moved.nan_to_num(nan=0.0, posinf=0.0)
        moved = torch.where(moved > 0, moved, 1e-6 * span)
        moved = moved.clamp(max=float(span))
        ahead = y + moved.unsqueeze(-1) * slope
        bend = size(rate(t, ahead) - slope) / moved
    # the error of a step is of fifth order in the larger of both
    steepest = torch.maximum(size(slope), bend)
    h = (0.01 / steepest) ** (1 / 5)
    is_length = h.isfinite() & (h > 0)
    h = torch.where(is_length, h, 1e-3 * span)
    longest = min(float(span), limits.longest)
    return torch.minimum(100 * moved, h).clamp(max=longest)


def _lose_endless(progress: Progress, limits: Limits, pace: Tensor, way: Torch | Compiled) -> None:
    """Give up members whose steps are so short that their run has no end, with a warning: on a
    surface across which the field jumps, states go to and fro in steps as short as the tolerance.

    Args:
        progress: of the members.
        limits: with the end of the run.
        pace: (N,) time that a member got on in each of its latest steps.
        way: that steps are taken in.
    """
    remaining = limits.times[-1] - progress.t
    running = progress.code == Code.RUNNING
    is_endless = running & (remaining > ENDLESS[way.name] * pace)
    is_slow = running & (remaining > SLIDING[way.name] * pace)
    cause = "the field is far faster than the run"
    if bool(is_slow.any()):
        slides = is_slow & _jumps(way.rate, progress)
        if bool(slides.any()):
            cause = "the field jumps where the state stays"
            is_endless = is_endless | slides
    if not bool(is_endless.any()):
        return
    progress.code = torch.where(is_endless, int(Code.LOST), progress.code)
    t = float(progress.t[is_endless][0])
    step = float(pace[is_endless].min())
    fix = "smooth its jumps, tanh(x / width) in place of sign(x), or raise rtol"
    warn(f"steps of {step:.1g} from time {t:.4g} on have no end: {cause}; {fix}", RuntimeWarning)


def _jumps(
    rate: stepping.Rate, progress: Progress, *, along: int = 32, jump: float = 0.5
) -> Tensor:
    """(N,) whether the rate jumps within the next step of a member.

    `along`: parts of a step between which rates of a smooth field are alike.

    `jump`: relative change of a rate in such a part that is a jump.
    """
    t, y = progress.t.min(), progress.y
    with torch.no_grad():
        slope = rate(t, y)
        size = slope.abs()
        before = slope
        largest = torch.zeros_like(y)
        for part in range(1, along + 1):
            ahead = y + (part / along) * progress.h.unsqueeze(-1) * slope
            after = rate(t, ahead)
            largest = torch.maximum(largest, (after - before).abs())
            before = after
    return (largest > jump * size).any(-1)


def _running(progress: Progress) -> bool:
    return bool((progress.code == Code.RUNNING).any())


def _implicit(
    way: Torch | Compiled, size: int, steps: float, *, largest: int = 256
) -> Stepper | adaptive.Controlled:
    """Return implicit steps, or explicit ones with a warning where the state has more components than
    `largest`: Jacobians are made column by column.
    """
    try:
        if size <= largest:
            return way.implicit()
    except Unsupported:
        pass
    fix = "take romkit.solvers.SciPy('BDF'), which is made for this"
    warn(f"the field is stiff: {steps:.0f} short steps are to come; {fix}", RuntimeWarning)
    return way.explicit
