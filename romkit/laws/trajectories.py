"""Samples of a law as runs to shoot along, and coefficients of equations as those of a motion."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.tensors import divisor
from romkit.data.controls import is_held
from romkit.laws import courses
from romkit.laws.courses import Course, Runs, windows
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.sensitivities import Motion
from romkit.laws.shooting import FINE, NUDGE, RESOLUTION
from romkit.laws.terms import LatentTerms
from romkit.numerics import LOST

OUTSIDE, LONGER = 3.0, 10
"""Distance from the mean of the data [largest latent] beyond which a rollout has left them, and how
many times as long as the data it has to stay nearer."""


@dataclass(frozen=True, eq=False)
class ShootingProblem:
    """Trajectories of one law as they are shot along: latents as its terms see them, time in time
    scales of the motion.

    Attributes:
        motion: of the law.
        runs: the trajectories.
        time_scale: τ, the time in which the latents move by one deviation at their typical speed.
        rates: (m,) coefficients of the motion are those of the equation, times these.
        grid: K and q, numbers of latent and context terms.
    """

    motion: Motion
    runs: Runs
    time_scale: float
    rates: Tensor
    grid: tuple[int, int]

    @classmethod
    def build(cls, samples: LatentSamples, basis: Features) -> "ShootingProblem":
        """Whole trajectories (N, m) of a single law with the terms of `basis`."""
        times = trajectory_times(samples)
        m = samples.targets.shape[-1]
        mean, largest = box(samples)
        boxed = (samples.inputs.double() - mean) / largest
        w = _split_runs(boxed, times)  # (n, T, d)
        tau = time_scale(w[..., :m], times)
        motion = _boxed_motion(samples, basis, tau)
        rates = tau * basis.variables.scale[:m] / largest[-m:]
        grid = (motion.terms.number, len(basis.context_names))
        clock = (times - times[0]) / tau
        terms = functools.partial(context_terms, basis)
        context = _split_runs(samples.context.double(), times)  # (n, T, p)
        stays = bool((context == context[:, :1]).all())
        if stays:
            contexts, group = _different(context[:, 0])
            runs = Runs(w, clock, group, terms(contexts))
            return cls(motion, runs, tau, rates, grid)
        drift = _split_runs(samples.drift.double(), times)  # (n, T, m)
        scaled_drift = tau * drift / largest[:m]
        drift = _append_resting_rates(scaled_drift, w.shape[-1])
        held = held_inputs(samples)
        runs = moving_runs(w, clock, filled(context), terms, drift, held)
        return cls(motion, runs, tau, rates, grid)

    def theta(self, coefficients: Tensor) -> Tensor:
        """Return coefficients (K q, m) of an equation as those of the motion, in the shape of its
        combinations.
        """
        scaled = coefficients * self.rates
        if self.runs.moving is not None:
            return scaled.unsqueeze(1)
        return scaled.unflatten(0, self.grid)

    def coefficients(self, theta: Tensor) -> Tensor:
        """Return coefficients (K q, m) of an equation."""
        return theta.flatten(0, 1) / self.rates

    def weights(self, theta: Tensor) -> Tensor:
        """Return coefficients (n, K, m) of each run."""
        return torch.einsum("gq,kqm->gkm", self.runs.mix, theta)[self.runs.group]

    def error(self, theta: Tensor, resolution: float = FINE, length: int | None = None) -> float:
        """Root mean square distance of rollouts from the data, at most `LOST`.

        Args:
            theta: coefficients of the motion.
            resolution: fewest steps of RK4 in a time scale.
            length: of windows side by side that are started at data [intervals]; by default one
                from the first sample of each run to its end.
        """
        if length is None:
            length = len(self.runs.times) - 1 - first_complete(self.runs)
        followed = windows(self.runs, length, length, 1 / resolution)
        reached = self.motion.rollout(self.weights(theta), followed.start, followed.course)
        distance = reached - followed.truth
        square = distance.square().mean(-1)
        square = square.nan_to_num(LOST**2).clamp(max=LOST**2)
        mean = square[followed.seen].mean()
        return float(mean) ** 0.5

    def stays(self, theta: Tensor) -> bool:
        """Tell whether rollouts of each run for `LONGER` times its length stay within `OUTSIDE`
        times the box of the data, from its first sample and from a displaced one; True where a
        context moves.
        """
        runs = self.runs
        if runs.moving is not None:
            return True
        rows = torch.arange(len(runs.states))
        begin = runs.observed.int().argmax(-1)  # (n,)
        start = runs.states[rows, begin].nan_to_num(0.0)
        draw = torch.Generator().manual_seed(0)
        displacement = NUDGE * torch.randn(start.shape, generator=draw, dtype=start.dtype).to(start)
        starts = torch.stack([start, start + displacement], 1)  # (n, 2, d)
        duration = LONGER * float(runs.times[-1])
        number = math.ceil(duration * RESOLUTION)
        steps = start.new_full((number, len(start), 1, 1), 1 / RESOLUTION)
        ends = list(range(1, number + 1))
        course = Course(steps, ends, None, None)
        reached = self.motion.rollout(self.weights(theta), starts, course)
        farthest = reached.abs().nan_to_num(torch.inf).max()
        return bool(farthest <= OUTSIDE)


def _split_runs(values: Tensor, times: Tensor) -> Tensor:
    """Return values (N, k) of all samples as those of trajectories (n, T, k)."""
    return values.unflatten(0, (-1, len(times)))


def _append_resting_rates(drift: Tensor, size: int) -> Tensor:
    """Drift (..., m) of latents, and of the variables behind them: in second order rates ż do not
    move with the context.
    """
    behind = size - drift.shape[-1]
    return torch.nn.functional.pad(drift, (0, behind))


def _boxed_motion(samples: LatentSamples, basis: Features, tau: float) -> Motion:
    """Motion of latents in their box, in time scales, with terms of the variables of a basis."""
    m = samples.targets.shape[-1]
    order = samples.order
    mean, largest = box(samples)
    speed = None
    if order == 2:
        speed = tau * largest[m:] / largest[:m]
    variables = basis.variables
    terms = LatentTerms.build(basis.library, len(variables))
    shift = (mean - variables.shift) / variables.scale
    scale = largest / variables.scale
    unscaled = bool((shift == 0).all()) and bool((scale == 1).all())
    if unscaled:
        return Motion(terms, m, order, speed)
    return Motion(terms, m, order, speed, shift, scale)


def moving_runs(
    w: Tensor,
    clock: Tensor,
    context: Tensor,
    terms: Callable[[Tensor], Tensor],
    drift: Tensor,
    held: int,
) -> Runs:
    """Return runs (n, T, d) along contexts (n, T, p) that move, whose terms belong to those of the
    law.
    """
    group = torch.zeros(len(w), dtype=torch.long, device=w.device)
    one = w.new_ones(1, 1)
    return Runs(w, clock, group, one, context, terms, drift, held)


def held_inputs(samples: LatentSamples) -> int:
    """Return number of inputs that keep their value until the next sample; they are the last
    parameters.

    Where it is not known whether they do, those that look like a staircase count as such.
    """
    number = len(samples.control_names)
    if number == 0:
        return 0
    held = samples.held
    if held is None:
        (paths,) = samples.paths(samples.context[..., -number:])
        held = is_held(paths[0].numpy(force=True))
    return number if held else 0


def filled(values: Tensor) -> Tensor:
    """Return values (..., T, k), missing ones replaced by those before."""
    number = torch.arange(values.shape[-2], device=values.device)
    complete = values.isfinite().all(-1) * number  # (..., T)
    latest = complete.cummax(-1).values
    return values.gather(-2, latest.unsqueeze(-1).expand_as(values))


def box(samples: LatentSamples) -> tuple[Tensor, Tensor]:
    """Return mean, and largest distance from it, (..., d) of the variables of samples; rates ż
    count from 0, and what is at rest has the unit 1.
    """
    w = samples.inputs.double()
    m = samples.targets.shape[-1]
    complete = w.isfinite().all(-1, keepdim=True)
    w = torch.where(complete, w, torch.nan)
    mean = w.nanmean(-2)
    mean[..., m:] = 0.0
    distance = w - mean.unsqueeze(-2)
    largest = distance.abs().nan_to_num(0.0).amax(-2)
    largest = divisor(largest)
    return mean, largest


def _different(context: Tensor) -> tuple[Tensor, Tensor]:
    """Different ones (G, p) of contexts (n, p), and which of them (n,) each is."""
    if context.shape[-1] == 0:
        return context[:1], torch.zeros(len(context), dtype=torch.long, device=context.device)
    return torch.unique(context, dim=0, return_inverse=True)


def context_terms(basis: Features, context: Tensor) -> Tensor:
    """Context factors (..., q) of terms, at contexts (..., p) in physical units."""
    scaled = basis.context.on(context)(context)
    return torch.stack(torch.broadcast_tensors(*basis.context_library(scaled)), -1)


class Forcing(NamedTuple):
    """Context (k, T, p) along trajectories, with what a moving one does to latents.

    Attributes:
        context: its last `held` columns keep their value until the next sample.
        drift: D_cρ ċ (k, T, m).
        held: see there.
    """

    context: Tensor
    drift: Tensor
    held: int


def equation_rollout(
    law: Equation,
    start: Tensor,
    context: Tensor | Forcing,
    times: Tensor,
    tau: float,
    resolution: float = FINE,
) -> Tensor:
    """Latents (k, T, m) of a single equation from starts (k, d) at contexts (k, p), or at contexts
    that move, by at least `resolution` steps of RK4 in τ.
    """
    m = law.latent_dim
    variables = law.basis.variables
    number = len(start)
    scale = variables.scale
    terms = LatentTerms.build(law.basis.library, len(variables))
    speed = None
    if law.order == 2:
        speed = tau * scale[m:] / scale[:m]
    motion = Motion(terms, m, law.order, speed, reach=torch.inf)
    theta = law.coefficients * tau * scale[:m] / scale[-m:]  # (K q, m)
    clock = (times - times[0]) / tau
    states = start.unsqueeze(1)  # (k, 1, d)
    if isinstance(context, Forcing):
        at_context = functools.partial(context_terms, law.basis)
        scaled_drift = tau * context.drift / scale[:m]
        drift = _append_resting_rates(scaled_drift, start.shape[-1])
        runs = moving_runs(states, clock, context.context, at_context, drift, context.held)
        weights = theta.expand(number, -1, -1)
    else:
        factors = context_terms(law.basis, context)  # (k, q)
        runs = Runs(states, clock, torch.arange(number, device=start.device), factors)
        grid = theta.unflatten(0, (terms.number, -1))  # (K, q, m)
        weights = torch.einsum("nq,kqm->nkm", factors, grid)
    sample = torch.arange(len(times))[:, None, None]
    sample = sample.expand(-1, number, 1)
    along = courses.course(runs, sample, 1 / resolution)
    scaled = variables.on(start)(start)
    reached = motion.rollout(weights, scaled.unsqueeze(1), along)  # (T, k, 1, d)
    latents = reached[:, :, 0, :m].transpose(0, 1)
    return latents * scale[:m] + variables.shift[:m]


def first_complete(runs: Runs) -> int:
    """Return first sample that some run has."""
    return int(runs.observed.any(0).int().argmax())


def time_scale(z: Tensor, times: Tensor) -> float:
    """Time in which latents (n, T, m) move by one standard deviation at their root mean square
    speed; that between samples, if they are at rest.
    """
    (rate,) = torch.gradient(z, spacing=(times.to(z),), dim=1)
    distance = z - z.nanmean((0, 1))
    variance = distance.square().nanmean((0, 1)).sum()
    square_speed = rate.square().sum(-1).nanmean()
    tau = float((variance / square_speed).sqrt())
    if 0 < tau < torch.inf:
        return tau
    return float(times.diff().median())
