"""Steps with a controlled error in torch: what the kernels of `romkit.engine.adaptive` do, for all
members at once.
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.tensors import divisor
from romkit.core.types import Pair
from romkit.engine.adaptive import (
    FLOOR,
    LATER,
    LONGER,
    SAFETY,
    SHORTER,
    STABILISER,
    UNCOUNTED,
    Code,
    Limits,
    Progress,
)
from romkit.engine.pairs import RODAS4, TSIT5

Rate = Callable[[Tensor, Tensor], Tensor]
"""(t, y (N, d)) -> (N, d); t is the time of all members."""


class Method(abc.ABC):
    """Steps of N members from their states y (N, d), as `Method` in `explicit.hpp` and
    `implicit.hpp`.

    Attributes:
        order: of the solution.
    """

    order: int

    @abc.abstractmethod
    def begin(self, t: Tensor, y: Tensor) -> None:
        """Take the rates at a time from which the field is another one."""

    @abc.abstractmethod
    def attempt(
        self, target: "Target", t: Tensor, step: Tensor, h: Tensor, y: Tensor, scale: Tensor
    ) -> Pair:
        """Return states (N, d) a step later, and the estimate of their error.

        Args:
            target: of the step.
            t: time of the field, a scalar; that of any member where the field does not depend on it.
            step: length by which that time goes on, a scalar.
            h: (N,) lengths of the members' own steps.
            y: (N, d) states.
            scale: (N,) largest components so far.
        """

    @abc.abstractmethod
    def unstable(self, h: Tensor, reached: Tensor) -> Tensor:
        """(N,) whether the last steps were as long as stability allows."""

    @abc.abstractmethod
    def between(
        self, member: Tensor, share: Tensor, h: Tensor, y: Tensor, reached: Tensor
    ) -> Tensor:
        """Return states (K, d) of members (K,) at shares (K,) of the step that leads from y to
        `reached`.
        """

    @abc.abstractmethod
    def accept(self, accepted: Tensor) -> None:
        """Go on from the ends of the steps of these members (N,)."""


class Explicit(Method):
    """The pair of Tsitouras."""

    order = TSIT5.order

    def __init__(self, field: Rate):
        self.field = field
        self.rates: list[Tensor] = []
        self.sixth = torch.empty(())

    def begin(self, t: Tensor, y: Tensor) -> None:
        self.rates[:1] = [self.field(t, y)]

    def attempt(
        self, target: "Target", t: Tensor, step: Tensor, h: Tensor, y: Tensor, scale: Tensor
    ) -> Pair:
        length = h.unsqueeze(-1)  # (N, 1)
        rates = self.rates[:1]
        reached = y
        for weights, node in zip(TSIT5.stages[1:], TSIT5.nodes[1:], strict=True):
            # its distance from the seventh tells the stiffness
            self.sixth = reached
            reached = y + length * _combined(weights, rates)
            rates.append(self.field(target.stage(t, step, node), reached))
        self.rates = rates
        return reached, length * _combined(TSIT5.error, rates)

    def unstable(self, h: Tensor, reached: Tensor) -> Tensor:
        rate_change = self.rates[-1] - self.rates[-2]
        state_change = reached - self.sixth
        rates = rate_change.square().sum(-1)
        states = state_change.square().sum(-1)
        return states * TSIT5.stable**2 < (h.square() * rates)

    def between(
        self, member: Tensor, share: Tensor, h: Tensor, y: Tensor, reached: Tensor
    ) -> Tensor:
        start = y[member]  # (K, d)
        # term by term, so that the number of rows makes no difference in the last bit
        slope = torch.zeros_like(start)
        for rate, (a, b, c, d) in zip(self.rates, TSIT5.dense, strict=True):
            weight = share * (a + share * (b + share * (c + share * d)))  # (K,)
            slope = slope + weight.unsqueeze(-1) * rate[member]
        return start + h[member].unsqueeze(-1) * slope

    def accept(self, accepted: Tensor) -> None:
        start_rate, end_rate = self.rates[0], self.rates[-1]
        rate = torch.where(accepted.unsqueeze(-1), end_rate, start_rate)
        self.rates = [rate]


class Implicit(Method):
    """RODAS, with the Jacobian by differences: d is small."""

    order = RODAS4.order

    def __init__(self, field: Rate):
        self.field = field
        self.stages: list[Tensor] = []

    def begin(self, t: Tensor, y: Tensor) -> None:
        pass

    def attempt(
        self, target: "Target", t: Tensor, step: Tensor, h: Tensor, y: Tensor, scale: Tensor
    ) -> Pair:
        length = divisor(h).unsqueeze(-1)  # (N, 1), of members at rest anything
        rate = self.field(target.start, y)
        # (N, d) derivative of the field by the time
        later = LATER * step
        drift = (self.field(target.start + later, y) - rate) / later
        jacobian = self._jacobian(target.start, y, rate, scale)
        factors, pivots = _factorised(jacobian, length)
        stages: list[Tensor] = []
        reached = y
        for s, node in enumerate(RODAS4.nodes):
            if s:
                reached = y + _combined(RODAS4.stages[s], stages)
                rate = self.field(target.stage(t, step, node), reached)
            right = rate + length * RODAS4.drifts[s] * drift
            if s:
                right = right + _combined(RODAS4.couplings[s], stages) / length
            stage = torch.linalg.lu_solve(factors, pivots, right.unsqueeze(-1))
            stages.append(stage.squeeze(-1))
        self.stages = stages
        error = stages[-1]
        return reached + error, error

    def _jacobian(self, t: Tensor, y: Tensor, rate: Tensor, scale: Tensor) -> Tensor:
        """(N, d, d), column by column."""
        smallest = FLOOR * scale.unsqueeze(-1)
        size = torch.maximum(y.abs(), smallest)
        # half of the digits are lost to the difference, half to its error
        share = math.sqrt(torch.finfo(y.dtype).eps)
        distance = share * divisor(size)
        columns = []
        for k in range(y.shape[-1]):
            moved = y.clone()
            moved[:, k] += distance[:, k]
            # as the numbers are, after rounding
            apart = moved[:, k] - y[:, k]
            change = self.field(t, moved) - rate
            columns.append(change / apart.unsqueeze(-1))
        return torch.stack(columns, dim=-1)

    def unstable(self, h: Tensor, reached: Tensor) -> Tensor:
        return torch.zeros_like(h, dtype=torch.bool)

    def between(
        self, member: Tensor, share: Tensor, h: Tensor, y: Tensor, reached: Tensor
    ) -> Tensor:
        stages = [stage[member] for stage in self.stages[:-1]]
        second, third = (_combined(weights, stages) for weights in RODAS4.dense)
        share = share.unsqueeze(-1)  # (K, 1)
        bend = (1 - share) * (second + share * third)
        start = y[member] * (1 - share)
        return start + share * (reached[member] + bend)

    def accept(self, accepted: Tensor) -> None:
        pass


def _factorised(jacobian: Tensor, length: Tensor) -> Pair:
    """Return factors of 1 / (γ h) - J (N, d, d), for lengths (N, 1) of steps."""
    unit = torch.eye(jacobian.shape[-1], dtype=jacobian.dtype, device=jacobian.device)
    matrix = unit / (RODAS4.gamma * length.unsqueeze(-1)) - jacobian
    factors, pivots, _ = torch.linalg.lu_factor_ex(matrix.nan_to_num())
    return factors, pivots


def _combined(weights: Sequence[float], terms: list[Tensor]) -> Tensor:
    total = weights[0] * terms[0]
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        total = total + weight * term
    return total


class Target(NamedTuple):
    """The end of the next steps, at most, and what the stages see of jumps of the field; scalars.

    Attributes:
        start: the present time, behind a jump there.
        stop: time of the next jump, or the last one.
        latest: the last time before that jump, at which the stages stay.
    """

    start: Tensor
    stop: Tensor
    latest: Tensor

    @classmethod
    def begin(cls, t: Tensor, limits: Limits) -> "Target":
        """Course from the present time t on."""
        infinity = torch.full_like(t, math.inf)
        start = t
        # which side of a jump the field counts the jump itself to is not known
        if bool((limits.jumps == t).any()):
            start = torch.nextafter(t, infinity)
        end = limits.times[-1]
        is_ahead = (limits.jumps > t) & (limits.jumps < end)
        ahead = limits.jumps[is_ahead]
        if len(ahead) == 0:
            return cls(start, end, infinity)
        jump = ahead[0]
        return cls(start, jump, torch.nextafter(jump, t))

    def stage(self, t: Tensor, step: Tensor, node: float) -> Tensor:
        """Time at which a stage of a step evaluates the field."""
        return torch.minimum(t + step * node, self.latest)


class Stepper:
    """The run of N members by a method, in torch.

    Members whose field does not depend on time have steps of their own. Else torch evaluates the
    field at one time for all, so they share their steps, which the largest error controls.

    Args:
        method: of the steps.
        together: whether members share their steps.
    """

    def __init__(self, method: Method, *, together: bool):
        self.method, self.together = method, together
        self.safe = torch.empty(())  # the last common step that was taken

    def advance(self, progress: Progress, limits: Limits, states: Tensor, attempts: int) -> None:
        """As `romkit.engine.adaptive.Controlled.advance`."""
        running = progress.code == Code.RUNNING
        if not bool(running.any()):
            return
        self.safe = progress.h
        target = Target.begin(progress.t[running][0], limits)
        self.method.begin(target.start, progress.y)
        for _ in range(attempts):
            arrived = self._step(progress, limits, states, running, target)
            running = progress.code == Code.RUNNING
            if not bool(running.any()):
                return
            target = Target.begin(progress.t[running][0], limits)
            if self.together and arrived:
                self.method.begin(target.start, progress.y)

    def _step(
        self, progress: Progress, limits: Limits, states: Tensor, running: Tensor, target: Target
    ) -> bool:
        """Try a step with those that run; whether it led to where the field jumps."""
        y = progress.y
        remaining = target.stop - progress.t
        h = torch.where(running, self._length(progress, limits, running, remaining), 0.0)
        # where the field depends on time, these are those of all
        t = progress.t[running][0]
        step = h[running][0]
        reached, error = self.method.attempt(target, t, step, h, y, progress.scale)
        norms, largest = error_norm(progress, limits, reached, error)  # (N,)
        norm = norms
        if self.together:
            norm = norms[running].max().expand_as(norms)
        # where the field jumps no step is short enough, so the shortest one is taken
        # (N,) shortest steps that rounding in this precision allows
        eps = torch.finfo(y.dtype).eps
        shortest = 16 * eps * torch.maximum(progress.t.abs(), target.stop.abs())
        is_shortest = (h <= shortest) & norm.isfinite()
        accepted = running & ((norm <= 1) | is_shortest)
        refused = running & ~accepted

        stops = h == remaining
        ends = torch.where(stops, target.stop, progress.t + h)
        unstable = self.method.unstable(h, reached)
        _report(self.method, progress, limits, states, accepted, h, ends, reached)
        self._count_unstable(progress, accepted, unstable)
        self._set_lengths(progress, accepted, refused, norm, h)
        self._lose(progress, refused, norms, shortest)
        self._continues(progress, limits, accepted, ends, reached, largest)
        return bool((accepted & stops).any())

    def _continues(
        self,
        progress: Progress,
        limits: Limits,
        accepted: Tensor,
        ends: Tensor,
        reached: Tensor,
        largest: Tensor,
    ) -> None:
        """Take the ends of accepted steps as present states; some are lost or completed there."""
        progress.t = torch.where(accepted, ends, progress.t)
        progress.y = torch.where(accepted.unsqueeze(-1), reached, progress.y)
        progress.scale = torch.where(accepted, largest, progress.scale)
        progress.taken = progress.taken + accepted
        beyond = accepted & ~(largest <= limits.bound)
        progress.code = torch.where(beyond, int(Code.LOST), progress.code)
        done = accepted & (progress.next == len(limits.times))
        progress.code = torch.where(done, int(Code.COMPLETED), progress.code)
        self.method.accept(accepted)

    def _length(
        self, progress: Progress, limits: Limits, running: Tensor, remaining: Tensor
    ) -> Tensor:
        """(N,) lengths of the next steps: all that remains, if that is nearly as short."""
        h = progress.h.clamp(max=limits.longest)
        if self.together:
            h = h[running].min().expand_as(h)
        # two steps of equal length rather than a long and a tiny one
        halved = torch.where(remaining < 2 * h, remaining / 2, h)
        return torch.where(remaining <= 1.01 * h, remaining, halved)

    def _set_lengths(
        self, progress: Progress, accepted: Tensor, refused: Tensor, norm: Tensor, h: Tensor
    ) -> None:
        """Lengths of the next steps, as `prolong` and `reject` of the kernels."""
        size = norm.clamp(min=1e-10).log()
        longer = self._longer(progress, size, h)
        # an error that is no number says nothing of the step that would do
        back = SAFETY * (-size / self.method.order).exp()
        back = torch.where(norm.isfinite(), back, 0.0)
        shorter = h * back.clamp(SHORTER, 1.0)
        # from here members that are lost let the others go on
        if self.together and bool(accepted.any()):
            self.safe = h
        unchanged = torch.where(refused, shorter, progress.h)
        progress.h = torch.where(accepted, longer, unchanged)
        progress.previous = torch.where(accepted, size.clamp(min=-9.2), progress.previous)
        tried = accepted | refused
        progress.rejected = torch.where(tried, refused.long(), progress.rejected)

    def _longer(self, progress: Progress, size: Tensor, h: Tensor) -> Tensor:
        """(N,) lengths behind accepted steps, by the logarithms of this error and the one before."""
        proportional = 1 / self.method.order - 0.75 * STABILISER
        factor = SAFETY * (STABILISER * progress.previous - proportional * size).exp()
        factor = factor.clamp(SHORTER, LONGER)
        # after a step that was refused the next one does not grow
        factor = torch.where(progress.rejected > 0, factor.clamp(max=1.0), factor)
        longer = h * factor
        # a step that was cut at a jump says little of how long the next one may be
        cut = (h < progress.h) & (factor > 1)
        return torch.where(cut, torch.maximum(progress.h, longer), longer)

    def _lose(self, progress: Progress, refused: Tensor, norms: Tensor, shortest: Tensor) -> None:
        """Give up members whose rates are not finite however short the step; others that share their
        steps go on.
        """
        stuck = refused & (progress.h <= shortest)
        if not bool(stuck.any()):
            return
        lost = stuck & ~norms.isfinite()
        progress.code = torch.where(lost, int(Code.LOST), progress.code)
        length = shortest
        if self.together and bool(lost.any()):
            length = torch.maximum(self.safe, shortest)
        progress.h = torch.where(stuck, length, progress.h)

    @staticmethod
    def _count_unstable(
        progress: Progress,
        accepted: Tensor,
        unstable: Tensor,
        *,
        patience: int = 15,
        calm: int = 6,
    ) -> None:
        """Count steps that stability bounds, in eights, and those since: `calm` of these in a row end
        the count, and `patience` of the others make a member stiff.
        """
        count = progress.stiff
        if not bool((unstable | (count > 0)).any()):
            return
        # eights count unstable steps, the units those since the last of them
        since = count + (count > 0)
        quiet = torch.where(count % 8 == calm - 1, 0, since)
        counted = torch.where(unstable, (count // 8 + 1) * 8, quiet)
        count = torch.where(accepted & (count != UNCOUNTED), counted, count)
        progress.stiff = count
        stiff = accepted & (count >= 8 * patience)
        progress.code = torch.where(stiff, int(Code.STIFF), progress.code)


def error_norm(progress: Progress, limits: Limits, reached: Tensor, error: Tensor) -> Pair:
    """(N,) root mean square of the error in units of what is tolerated, and the largest component so
    far.
    """
    size = torch.maximum(progress.y.abs(), reached.abs())  # (N, d)
    # components that are small beside the largest one need no digits of their own
    largest = torch.maximum(progress.scale, size.amax(-1))
    needed = size + limits.floor * largest.unsqueeze(-1)
    allowed = limits.atol + limits.rtol * needed
    # a component at rest at zero has neither an error nor a tolerance
    ratio = torch.where(error == 0, error, error / allowed)
    norm = ratio.square().mean(-1).sqrt()
    return norm, largest


def _report(
    method: Method,
    progress: Progress,
    limits: Limits,
    states: Tensor,
    accepted: Tensor,
    h: Tensor,
    ends: Tensor,
    reached: Tensor,
) -> None:
    """Write the states at output times that the steps have passed."""
    passed = torch.searchsorted(limits.times, ends, right=True)
    count = torch.where(accepted, passed - progress.next, 0)
    if bool(count.any()):
        # members and numbers of output times (K,), of which each member (N,) has so many
        member = torch.arange(len(count), device=count.device).repeat_interleave(count)
        before = (count.cumsum(0) - count)[member]
        k = progress.next[member] + torch.arange(len(member), device=count.device) - before
        at = limits.times[k]
        share = (at - progress.t[member]) / h[member]
        rows = method.between(member, share, h, progress.y, reached)
        exact = (at == ends[member]).unsqueeze(-1)
        states[k, member] = torch.where(exact, reached[member], rows)
    progress.next = progress.next + count
