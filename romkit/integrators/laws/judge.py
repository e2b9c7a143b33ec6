"""Rollouts of laws along trajectories: their errors, and whether they stay where the data are."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.core.runtime import bars
from romkit.data.controls import course, interpolated
from romkit.integrators.base import LearnedField
from romkit.integrators.laws.equations import Equation
from romkit.integrators.laws.samples import LatentSamples, trajectory_times
from romkit.integrators.laws.shooting import FINE, NUDGE, RESOLUTION
from romkit.integrators.laws.trajectories import LONGER, OUTSIDE, equation_rollout, time_scale
from romkit.solvers import RK4

LOST = 9.0
"""Largest error that counts [deviations of the data]; two independent signals have 1.4."""

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
    def of_latents(cls, samples: LatentSamples) -> "Judge":
        """Compare latents, each in its deviations."""
        T = len(trajectory_times(samples))
        z = samples.latents.double().unflatten(-2, (-1, T))
        mean = z.nanmean((-3, -2), keepdim=True)
        deviation = (z - mean).square().nanmean((-3, -2), keepdim=True).sqrt()
        deviation = torch.where(deviation > 0, deviation, 1.0)
        return cls(samples, lambda z, rows, first: (z - mean) / deviation, (z - mean) / deviation)

    def since(self, first: int) -> "Judge":
        """Judge from a sample of this number on."""
        times = trajectory_times(self.samples)
        late = (torch.arange(len(times)) >= first).repeat(len(self.samples) // len(times))
        samples = self.samples.only(late, times[first:])
        return replace(
            self, samples=samples, states=self.states[..., first:, :], begin=self.begin + first
        )

    def errors(self, law: LearnedField, rows: Tensor) -> Tensor:
        """Errors (..., k) of forecasts of runs (k,): root mean square over components, mean over
        time.

        NaN for a run without a first state, where others have one.
        """
        first, start, reached = self._rolled(law, rows, 1)
        exact = self.states[..., rows, first:, :]
        apart = (self.decode(reached, rows, self.begin + first) - exact).square().mean(-1).sqrt()
        apart = apart.nan_to_num(nan=LOST, posinf=LOST).clamp(max=LOST)
        unknown = exact.isnan().any(-1) | start.isnan().any(-1, keepdim=True)
        return apart.masked_fill(unknown, torch.nan).nanmean(-1)

    def projected(self, rows: Tensor) -> float:
        """Mean error of the projection on runs (k,), in the same measure."""
        z = self._latents[..., rows, :, :]
        apart = (
            (self.decode(z, rows, self.begin) - self.states[..., rows, :, :])
            .square()
            .mean(-1)
            .sqrt()
        )
        return float(apart.nanmean())

    def stays(self, law: LearnedField, rows: Tensor, times: int = LONGER) -> bool:
        """Whether rollouts of runs (k,) that go on `times` times as long stay near the data, from
        their starts and from displaced ones.

        Those of a context that moves go on as long as the data.
        """
        z = self._latents
        mean = z.nanmean((-3, -2), keepdim=True)
        farthest = (z - mean).abs().nan_to_num(0.0).amax((-3, -2), keepdim=True)
        farthest = torch.where(farthest > 0, farthest, 1.0)
        _, start, reached = self._rolled(law, rows, times)
        begun = start.isfinite().all(-1)
        far = ((reached - mean) / farthest).abs().amax((-2, -1)).nan_to_num(torch.inf)
        return not bool((far[begun] > OUTSIDE).any())

    @property
    def _latents(self) -> Tensor:
        """(..., C, T, m)."""
        return self.samples.latents.double().unflatten(-2, (-1, len(self.samples.times)))

    def _rolled(self, law: LearnedField, rows: Tensor, longer: int) -> tuple[int, Tensor, Tensor]:
        """Number of the first sample that some run has, starts (..., k, d) there, and latents
        (..., k, T, m); with `longer` above 1 those from displaced starts follow, on the axis of the
        runs.
        """
        samples, times = self.samples, self.samples.times
        m = samples.targets.shape[-1]
        parts = (samples.inputs, samples.context, samples.drift)
        w, context, drift = (x.double().unflatten(-2, (-1, len(times))) for x in parts)
        complete = w[..., rows, :, :].isfinite().all(-1)
        first = int(complete.reshape(-1, len(times)).any(0).int().argmax())
        start = w[..., rows, first, :]
        context, drift = context[..., rows, first:, :], drift[..., rows, first:, :]
        tau = time_scale(w[..., :m].reshape(-1, len(times), m), times)
        times = times[first:] - times[first]
        if longer > 1:
            start = torch.cat([start, _displaced(start, w)], -2)
            context, drift = (torch.cat([x, x], -3) for x in (context, drift))
        if not bool((context == context[..., :1, :]).all()):
            held = len(samples.control_names) if samples.held else 0
            field = _moving_field(law, times, context, drift, held)
            return first, start, _integrated(field, start, times, tau)[..., :m]
        times = torch.cat([times, *(times[-1] * k + times[1:] for k in range(1, longer))])
        at = context[..., 0, :]
        if isinstance(law, Equation) and law.coefficients.ndim == 2:
            resolution = FINE if longer == 1 else RESOLUTION
            return first, start, equation_rollout(law, start, at, times, tau, resolution)
        return first, start, _integrated(law.motion(at), start, times, tau)[..., :m]


def _displaced(start: Tensor, w: Tensor) -> Tensor:
    """Starts (..., k, d) at a distance, for latent states w (..., C, T, d) of the data."""
    apart = (w - w.nanmean((-3, -2), keepdim=True)).abs().nan_to_num(0.0)
    largest = apart.amax((-3, -2)).unsqueeze(-2)
    draw = torch.Generator().manual_seed(0)
    return start + NUDGE * largest * torch.randn(start.shape, generator=draw).to(start)


def _integrated(field: Callable, start: Tensor, times: Tensor, tau: float) -> Tensor:
    """States (..., k, T, d) of a field, by at least `FINE` steps in τ."""
    step = min(float(times.diff().min()), tau / FINE) if len(times) > 1 else 1.0
    with torch.no_grad(), bars(False):
        return RK4(step)(field, start.contiguous(), times, engine="torch").states


def _moving_field(
    law: LearnedField, times: Tensor, context: Tensor, drift: Tensor, held: int
) -> Callable:
    """Field of a law along contexts (..., T, p) that move, with the motion of their latents; the
    last ones are inputs that are held.
    """
    at = course(times, _filled(context).movedim(-2, 0), held)
    beside = interpolated(times, _filled(drift).movedim(-2, 0))

    def field(t: Tensor, w: Tensor) -> Tensor:
        moved = beside(t)
        return law.motion(at(t))(t, w) + torch.nn.functional.pad(
            moved, (0, w.shape[-1] - moved.shape[-1])
        )

    return field


def _filled(values: Tensor) -> Tensor:
    """Values (..., T, k), missing ones replaced by those before."""
    known = values.isfinite().all(-1) * torch.arange(values.shape[-2])
    return values.gather(-2, known.cummax(-1).values.unsqueeze(-1).expand_as(values))
