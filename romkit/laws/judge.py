"""Rollouts of laws along trajectories: their errors, and whether they stay where the data are."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from romkit.core import tensors
from romkit.core.runtime import bars
from romkit.data.controls import course
from romkit.integrators.base import LearnedField
from romkit.laws.equations import Equation
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.shooting import FINE, NUDGE, POLISHED, RESOLUTION, SHORTEST
from romkit.laws.trajectories import (
    LONGER,
    OUTSIDE,
    Forcing,
    equation_rollout,
    filled,
    held_inputs,
    time_scale,
)
from romkit.numerics import LOST
from romkit.solvers import RK4

PIECE, PIECES = 16.0, 6
"""Duration of pieces of trajectories [time scales], some periods of an oscillation, and their
number."""

Decoder = Callable[[Tensor, Tensor, int], Tensor]
"""Latents (..., k, T, m) of runs of these numbers (k,), from a sample of this number on -> states in
deviations of the data."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Measure by which laws are compared: whole trajectories, and the states that they are of.

    Attributes:
        samples: of whole trajectories.
        decode: makes states of latents.
        states: (..., C, T, n) in deviations of the data, NaN where missing; as `decode` makes them.
        begin: number of the first sample, where earlier ones were left out.
    """

    samples: LatentSamples
    decode: Decoder
    states: Tensor
    begin: int = 0

    @classmethod
    def compare_latents(cls, samples: LatentSamples) -> "Judge":
        """Compare latents, each in its deviations."""
        T = len(trajectory_times(samples))
        latents = samples.latents.double().unflatten(-2, (-1, T))
        mean = latents.nanmean((-3, -2), keepdim=True)
        distance = latents - mean
        variance = distance.square().nanmean((-3, -2), keepdim=True)
        deviation = torch.where(variance > 0, variance.sqrt(), 1.0)

        def decode(z: Tensor, rows: Tensor, first: int) -> Tensor:
            return (z - mean) / deviation

        return cls(samples, decode, distance / deviation)

    @property
    def runs(self) -> Tensor:
        """Numbers (C,) of all runs."""
        return torch.arange(self.states.shape[-3])

    def between(self, first: int, end: int) -> "Judge":
        """Judge from one sample on to before another one."""
        times = trajectory_times(self.samples)
        number = torch.arange(len(times))
        inside = (number >= first) & (number < end)
        runs = len(self.samples) // len(times)
        samples = self.samples.only(inside.repeat(runs), times[first:end])
        states = self.states[..., first:end, :]
        return replace(self, samples=samples, states=states, begin=self.begin + first)

    def pieces(self) -> "list[Judge]":
        """Judges of pieces of the trajectories, evenly in time, each some periods long.

        Rollouts of whole trajectories that have lost the phase all err alike; in pieces a wrong
        frequency or amplitude shows.
        """
        times = self.samples.times
        tau = time_scale(self._latents.flatten(0, -3), times)
        step = float(times.diff().median())
        length = max(2, round(PIECE * tau / step))
        latest = len(times) - 1 - length
        if latest <= 0:
            return [self]
        starts = tensors.evenly(latest + 1, PIECES).tolist()
        return [self.between(start, start + length + 1) for start in starts]

    @property
    def finest(self) -> float:
        """Steps in a time scale by which laws are compared: shorter ones where samples are so far
        apart that a time scale is that of the samples, and not of the motion.
        """
        times = self.samples.times
        tau = time_scale(self._latents.flatten(0, -3), times)
        is_coarse = float(times.diff().median()) > SHORTEST * tau
        return POLISHED if is_coarse else FINE

    def errors(self, law: LearnedField, rows: Tensor, resolution: float = FINE) -> Tensor:
        """Return errors (..., k) of forecasts of runs (k,): root mean square over components, mean
        over time; by so many steps in a time scale at least.

        NaN for a run without a first state, where others have one.
        """
        starts = self._starts(rows)
        reached = self._rolled(law, starts, 1, resolution)
        truth = self.states[..., rows, starts.first :, :]
        distance = self._distance(reached, truth, rows, starts.first)
        # a lost rollout counts as one, where a missing truth does not count
        distance = distance.nan_to_num(nan=LOST, posinf=LOST).clamp(max=LOST)
        missing = truth.isnan().any(-1)
        not_begun = starts.state.isnan().any(-1, keepdim=True)
        distance = distance.masked_fill(missing | not_begun, torch.nan)
        return distance.nanmean(-1)

    def resolution(
        self,
        law: LearnedField,
        rows: Tensor,
        *,
        halvings: int = 4,
        settled: float = 0.2,
        stable: float = 1.0,
    ) -> float:
        """Return steps in a time scale from which on the error of a law is that of the law, and not
        that of long steps, as far as a few halvings of these tell.

        `halvings`, `settled`, `stable`: most halvings of steps, relative change of an error by which
        it does not depend on them, and the error from which on they may be too long for stability:
        that of rest.
        """
        resolution = FINE
        error = float(self.errors(law, rows, resolution).nanmean())
        for _ in range(halvings):
            finer = float(self.errors(law, rows, 2 * resolution).nanmean())
            # steps that are too long for stability lose most of a run, and shorter ones as much
            if finer < stable and abs(finer - error) <= settled * max(finer, error):
                break
            resolution = 2 * resolution
            error = finer
        return resolution

    def projected(self, rows: Tensor) -> float:
        """Return mean error of the projection on runs (k,), in the same measure."""
        latents = self._latents[..., rows, :, :]
        truth = self.states[..., rows, :, :]
        return float(self._distance(latents, truth, rows, 0).nanmean())

    def _distance(self, latents: Tensor, truth: Tensor, rows: Tensor, first: int) -> Tensor:
        """Root mean square over components (..., k, T) from the truth."""
        states = self.decode(latents, rows, self.begin + first)
        return (states - truth).square().mean(-1).sqrt()

    def stays(
        self, law: LearnedField, rows: Tensor, times: int = LONGER, *, displaced: bool = True
    ) -> bool:
        """Tell whether rollouts of runs (k,) that go on `times` times as long stay near the data,
        from their starts and, unless they are left out, from displaced ones.

        Those of a context that moves go on as long as the data.
        """
        mean, farthest = _box(self._latents)
        farthest = tensors.divisor(farthest)
        starts = self._starts(rows)
        if displaced:
            starts = starts.append_displaced(self._split_runs(self.samples.inputs))
        resolution = self.finest if self.finest > FINE else RESOLUTION
        reached = self._rolled(law, starts, times, resolution)
        relative = (reached - mean) / farthest
        away = relative.abs().amax((-2, -1)).nan_to_num(torch.inf)
        begun = starts.state.isfinite().all(-1)
        is_away = away[begun] > OUTSIDE
        return not bool(is_away.any())

    @property
    def _latents(self) -> Tensor:
        """(..., C, T, m)."""
        return self._split_runs(self.samples.latents)

    def _split_runs(self, values: Tensor) -> Tensor:
        """Return values (..., N, k) of all samples as (..., C, T, k)."""
        return values.double().unflatten(-2, (-1, len(self.samples.times)))

    def _starts(self, rows: Tensor) -> "Starts":
        """Return starts of rollouts of runs (k,): at the first sample that some run has."""
        w, context, drift = (
            self._split_runs(values)[..., rows, :, :]
            for values in (self.samples.inputs, self.samples.context, self.samples.drift)
        )
        complete = w.isfinite().all(-1)
        of_some_run = complete.flatten(0, -2).any(0)  # (T,)
        begin = int(of_some_run.int().argmax())
        start = w[..., begin, :]
        context = context[..., begin:, :]
        drift = drift[..., begin:, :]
        return Starts(begin, start, context, drift)

    def _rolled(
        self, law: LearnedField, starts: "Starts", longer: int, resolution: float
    ) -> Tensor:
        """Latents (..., k, T, m) of rollouts that are `longer` times as long as the data."""
        times = self.samples.times[starts.first :]
        times = times - times[0]
        runs = self._latents.flatten(0, -3)
        tau = time_scale(runs, self.samples.times)
        context = starts.context[..., 0, :]
        if starts.moves:
            held = held_inputs(self.samples)
            context = Forcing(filled(starts.context), filled(starts.drift), held)
        elif longer > 1:
            times = _repeated(times, longer)
        if isinstance(law, Equation) and law.coefficients.ndim == 2:
            return equation_rollout(law, starts.state, context, times, tau, resolution)
        if starts.moves:
            field = _moving_field(law, times, context)
        else:
            exact = law.flow(context)
            if exact is not None:
                return exact(starts.state, times)
            field = law.motion(context)
        m = self.samples.targets.shape[-1]
        return _integrated(field, starts.state, times, tau)[..., :m]


def _repeated(times: Tensor, number: int) -> Tensor:
    """Return times from 0 on, so many times one after the other."""
    following = times[1:]
    pieces = [times]
    for k in range(1, number):
        pieces.append(times[-1] * k + following)
    return torch.cat(pieces)


class Starts(NamedTuple):
    """Starts of rollouts of k runs, and what moves them.

    Attributes:
        first: number of the sample.
        state: (..., k, d).
        context: (..., k, T, p) from there on.
        drift: (..., k, T, m) likewise.
    """

    first: int
    state: Tensor
    context: Tensor
    drift: Tensor

    @property
    def moves(self) -> bool:
        """Whether a context moves."""
        begin = self.context[..., :1, :]
        return not torch.equal(self.context, begin.expand_as(self.context))

    def append_displaced(self, w: Tensor) -> "Starts":
        """Return these starts and displaced ones behind them, for latent states w (..., C, T, d)."""
        return Starts(
            self.first,
            torch.cat([self.state, _displaced(self.state, w)], -2),
            torch.cat([self.context] * 2, -3),
            torch.cat([self.drift] * 2, -3),
        )


def _displaced(start: Tensor, w: Tensor) -> Tensor:
    """Return starts (..., k, d) at a distance, for latent states w (..., C, T, d) of the data."""
    _, largest = _box(w)
    draw = torch.Generator().manual_seed(0)
    direction = torch.randn(start.shape, generator=draw).to(start)
    return start + NUDGE * largest.squeeze(-3) * direction


def _box(w: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean, and largest distance from it, (..., 1, 1, d) of latent states (..., C, T, d)."""
    mean = w.nanmean((-3, -2), keepdim=True)
    distance = (w - mean).abs().nan_to_num(0.0)
    return mean, distance.amax((-3, -2), keepdim=True)


def _integrated(field: Callable[..., Any], start: Tensor, times: Tensor, tau: float) -> Tensor:
    """Return states (..., k, T, d) of a field, by at least `FINE` steps in τ."""
    step = tau / FINE
    if len(times) > 1:
        step = min(step, float(times.diff().min()))
    with torch.no_grad(), bars(False):
        return RK4(step)(field, start.contiguous(), times, engine="torch").states


def _moving_field(law: LearnedField, times: Tensor, forcing: Forcing) -> Callable[..., Any]:
    """Return field of a law along contexts that move, with the motion of their latents."""
    at = course(times, forcing.context.movedim(-2, 0), forcing.held)
    beside = course(times, forcing.drift.movedim(-2, 0))

    def field(t: Tensor, w: Tensor) -> Tensor:
        rate = law.motion(at(t))(t, w)
        moved = beside(t)
        # in second order the rates ż do not move with the context
        rate[..., : moved.shape[-1]] += moved
        return rate

    return field
