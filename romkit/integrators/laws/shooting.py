"""Multiple shooting: coefficients of a law from trajectories, without derivatives of the data.

A law ẇ = Σₖ φₖ(w) Σ_q T_q(c) θₖ_q is followed through windows of the data, each started at a datum,
and θ minimises the distance from the rest of the windows. Windows begin shorter than the motion's
own time scale, where this is a regression on differences, and double until they span the runs.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.levenberg import levenberg_marquardt
from romkit.integrators.laws.courses import Course, Runs, Windows, windows
from romkit.integrators.laws.sensitivities import Motion

SHORTEST, GROWTH = 0.5, 2.0
"""First windows [time scales of the motion], and the factor from one length to the next."""

RESOLUTION, FINE = 2.5, 5.0
"""Fewest steps of RK4 in a time scale, and when whole runs are followed at last and judged."""

RETURN, FADING, LEAST = 1e-2, 0.1, 1e-6
"""Weight of displaced samples that lead back, the factor on it from windows to longer ones, and
its smallest value. Data on an attractor say nothing about what attracts: without such samples laws
of three latents are lost in the first long windows, and with a weight that stays they are biased.
"""

SPREAD, COPIES = 0.05, 4
"""Deviation of displaced samples [largest latent], and their number for each sample."""

APART, NUDGE, AHEAD = 0.1, 0.02, 1.5
"""Weight of rollouts from displaced starts, deviation of these [largest latent], and the duration
of windows [time scales] from which on they have time to come back."""

FREE = 4.0
"""Distance of those rollouts from the data that costs nothing [deviations of the starts]."""

PROXIMITY = 1e-9
"""Weight that holds coefficients which nothing determines where they were."""

LOST, STEEP = 2.0, 1e6
"""Distance from the data [largest latent], and derivative, at which the rest of a window is left
out."""

TRIALS, SETTLED, EXACT = 12, 0.03, 1e-9
"""Most steps on windows of one length, and the gain after which they end, relative and as a mean
square [largest latent]."""

SAMPLES = 10_000
"""Most samples in all windows of one length; of more, windows are farther apart."""

ENTRIES = 8_000_000
"""Most derivatives that are held at once."""


class Structure(NamedTuple):
    """Fitted part of a law: its motion, and which of its coefficients (K, q, m) are free."""

    motion: Motion
    free: Tensor


class Stage(NamedTuple):
    """Coefficients (K, q, m) after windows of some duration [time scales]."""

    duration: float
    theta: Tensor


class Returning(NamedTuple):
    """Normal equations of displaced samples for each group: (G, K, K), and (G, K, m)."""

    matrix: Tensor
    target: Tensor

    @classmethod
    def of(cls, motion: Motion, runs: Runs) -> "Returning":
        """Samples displaced across the motion by a, whose rates differ by -a from those beside.

        In second order the displacements of z and ż together make the difference, as those of a
        damped oscillator do.
        """
        draw = torch.Generator().manual_seed(0)
        w = runs.states.nan_to_num(0.0)
        along = torch.nn.functional.normalize(torch.gradient(w, dim=1)[0], dim=-1)
        observed = runs.observed.unsqueeze(-1)
        factors = None
        if runs.moving is not None:
            factors = runs.factors(runs.moving.nan_to_num(0.0)).unsqueeze(-2)  # (n, T, 1, q)
        groups = len(runs.mix)
        K = motion.terms.number * (1 if factors is None else factors.shape[-1])
        matrix = w.new_zeros(groups, K, K)
        target = w.new_zeros(groups, K, motion.latent_dim)
        for _ in range(COPIES):
            apart = SPREAD * torch.randn(w.shape, generator=draw, dtype=w.dtype)
            across = (apart - (apart * along).sum(-1, keepdim=True) * along) * observed
            displaced = motion.terms(motion.variables(w + across))
            difference = displaced - motion.terms(motion.variables(w))  # (n, T, K)
            if factors is not None:
                difference = (difference.unsqueeze(-1) * factors).flatten(-2)
            lead_back = across.unflatten(-1, (motion.order, motion.latent_dim)).sum(-2)
            matrix.index_add_(0, runs.group, difference.mT @ difference)
            target.index_add_(0, runs.group, difference.mT @ lead_back)
        number = COPIES * w.shape[1] * len(w)
        return cls(matrix / number, target / number)


@dataclass(frozen=True, eq=False)
class Shots:
    """Windows of one length, with what holds coefficients that they do not determine.

    Attributes:
        structure: of the law.
        mix: (G, q) terms of the context of each group.
        group: (n,) of each run.
        windows: of the runs, then those with displaced starts.
        heed: (L + 1, n, W, 1) weight of each residual.
        free: (W, 1) distance from the data that costs nothing: a displaced start leads to another
            phase, and to no other motion.
        number: of observed latents in the windows that start at data.
        returning: see there, and its weight.
        prior: coefficients before these windows.
    """

    structure: Structure
    mix: Tensor
    group: Tensor
    windows: Windows
    heed: Tensor
    free: Tensor
    number: int
    returning: Returning | None
    weight: float
    prior: Tensor

    def expanded(self, theta: Tensor) -> "Expanded":
        return Expanded(self, theta, self.cost(theta).reshape(1))

    def weights(self, theta: Tensor) -> Tensor:
        """Coefficients (G, K, m) at the context of each group."""
        return torch.einsum("gq,kqm->gkm", self.mix, theta)

    def cost(self, theta: Tensor) -> Tensor:
        """Mean square distance from the data, each at most `LOST`², and penalties."""
        W = self.weights(theta)
        start, truth, seen, course = self.windows
        reached = self.structure.motion.rollout(W[self.group], start, course)
        distance = reached - truth
        residual = self.heed * distance * _beyond(distance, self.free)
        apart = torch.where(seen.unsqueeze(-1), residual, 0.0)
        square = apart.square().nan_to_num(LOST**2).clamp(max=LOST**2).sum() / self.number
        return square + self.penalty(theta, W)

    def penalty(self, theta: Tensor, W: Tensor) -> Tensor:
        """Cost of displaced samples that do not lead back, and of steps away from the prior."""
        total = PROXIMITY * (theta - self.prior).square().sum()
        if self.returning is None:
            return total
        matrix, target = self.returning
        bend = torch.einsum("gkm,gkl,glm->", W, matrix, W) + 2 * (W * target).sum()
        return total + self.weight * bend

    def normal_equations(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Matrix (P, P) and slope (P,) in the P free coefficients, half the derivatives of the
        cost.

        Coefficients of a run are combinations of θ, so that the matrix is a sum of Kronecker
        products over groups: derivatives are needed by K m coefficients of a run, not K q m.
        """
        W = self.weights(theta)
        matrix, slope = self._by_group(W)
        if self.returning is not None:
            back, target = self.returning
            unit = torch.eye(W.shape[-1], dtype=W.dtype)
            bend = torch.einsum("gkl,ab->gkalb", back, unit).reshape(matrix.shape)
            matrix = matrix + self.weight * bend
            slope = slope + self.weight * (back @ W + target).flatten(1)
        K, _, m = theta.shape
        outer = torch.einsum("gq,gp->gqp", self.mix, self.mix)
        grid = matrix.reshape(-1, K, m, K, m)
        whole = torch.einsum("gqp,gkalb->kqalpb", outer, grid).reshape(theta.numel(), -1)
        down = torch.einsum("gq,gka->kqa", self.mix, slope.unflatten(1, (K, m))).flatten()
        free = self.structure.free.flatten().nonzero().squeeze(-1)
        prior = (theta - self.prior).flatten()
        whole = whole[free][:, free] + PROXIMITY * torch.eye(len(free), dtype=W.dtype)
        return whole, (down + PROXIMITY * prior)[free]

    def _by_group(self, W: Tensor) -> tuple[Tensor, Tensor]:
        """Matrices (G, K m, K m) and slopes (G, K m) of the windows of each group."""
        groups, size = len(W), W[0].numel()
        matrix = W.new_zeros(groups, size, size)
        slope = W.new_zeros(groups, size)
        each = self.windows.truth[:, 0].numel() * size
        for rows in torch.arange(len(self.group)).split(max(1, ENTRIES // each)):
            residual, derivative = self._residuals(W, rows)
            group = self.group[rows]
            matrix.index_add_(0, group, derivative.mT @ derivative / self.number)
            product = (derivative.mT @ residual.unsqueeze(-1)).squeeze(-1)
            slope.index_add_(0, group, product / self.number)
        return matrix, slope

    def _residuals(self, W: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Residuals (n, N) of some runs and their derivatives (n, N, K m), up to where windows are
        lost.
        """
        start, truth, seen, course = self.windows
        truth, seen, heed = truth[:, rows], seen[:, rows], self.heed[:, rows]
        weights = W[self.group[rows]]
        motion = self.structure.motion
        states, derivative = motion.sensitivities(weights, start[rows], _part(course, rows))
        distance = states - truth
        residual = heed * distance
        derivative = heed.unsqueeze(-1) * derivative
        if bool((self.free > 0).any()):
            # of r (1 - ρ / |r|): what is across r shrinks as r does, what is along it does not
            share = _beyond(distance, self.free)
            unit = torch.nn.functional.normalize(distance, dim=-1).unsqueeze(-1)
            along = (1 - share.unsqueeze(-1)) * (unit * derivative).sum(-2, keepdim=True)
            inside = (share > 0).unsqueeze(-1)
            derivative = share.unsqueeze(-1) * derivative + inside * unit * along
            residual = share * residual
        near = residual.abs().amax(-1) < LOST
        gentle = derivative.abs().amax((-1, -2)) < STEEP
        kept = ((near & gentle) | ~seen).cummin(0).values & seen
        residual = torch.where(kept.unsqueeze(-1), residual, 0.0)
        derivative = torch.where(kept[..., None, None], derivative, 0.0)
        by_run = residual.permute(1, 2, 0, 3).flatten(1)
        return by_run, derivative.permute(1, 2, 0, 3, 4).flatten(1, 3)


def _beyond(distance: Tensor, free: Tensor) -> Tensor:
    """Share (..., 1) of distances (..., d) that is beyond a radius (W, 1) that costs nothing."""
    norm = distance.norm(dim=-1, keepdim=True)
    return (1 - free / norm).nan_to_num(1.0).clamp(min=0.0)


def _part(course: Course, rows: Tensor) -> Course:
    """Steps of some of the runs."""
    factors = None if course.factors is None else course.factors[:, :, rows]
    drift = None if course.drift is None else course.drift[:, :, rows]
    return Course(course.steps[:, rows], course.ends, factors, drift)


@dataclass(frozen=True, eq=False)
class Expanded:
    """Quadratic model of the cost of shots about coefficients θ: an `Expansion` of one member."""

    shots: Shots
    theta: Tensor
    cost: Tensor

    def select(self, members: Tensor) -> "Expanded":
        return self

    def replaced(self, members: Tensor, other: "Expanded") -> "Expanded":
        return other if len(members) else self

    @functools.cached_property
    def equations(self) -> tuple[Tensor, Tensor]:
        """Normal equations; several steps of different damping may ask for them."""
        return self.shots.normal_equations(self.theta)

    def moved(self, members: Tensor, damping: Tensor) -> "Expanded":
        matrix, slope = self.equations
        damped = matrix + damping * torch.diag(matrix.diagonal())
        damped = damped + 1e-14 * torch.eye(len(matrix), dtype=matrix.dtype)
        factor, failed = torch.linalg.cholesky_ex(damped)
        if failed:
            return replace(self, cost=torch.full_like(self.cost, torch.inf))
        step = torch.cholesky_solve(slope.unsqueeze(-1), factor).squeeze(-1)
        theta = self.theta.clone()
        theta[self.shots.structure.free] -= step
        return self.shots.expanded(theta)


def shots(
    structure: Structure,
    runs: Runs,
    theta: Tensor,
    length: int,
    returning: Returning | None,
    weight: float,
    apart: float,
    resolution: float = RESOLUTION,
) -> Shots:
    """Windows of `length` intervals of all runs, and those from starts apart."""
    total = len(runs.states) * (length + 1)
    crowded = 2 * total * len(runs.times) / length  # windows overlap by half
    stride = max(1, math.ceil(length // 2 * max(1.0, crowded / SAMPLES)))
    several = windows(runs, length, stride, 1 / resolution)
    heed = torch.ones_like(several.truth[..., :1])
    free = torch.zeros_like(heed[0, 0])
    number = int(several.seen.sum()) * structure.motion.size
    duration = float(several.course.steps[:, 0, 0].sum())
    if apart and duration > AHEAD:
        several, heed = _with_starts_apart(several, heed, apart)
        free = torch.cat([free, free + FREE * NUDGE])
    windowed = (several, heed, free, number)
    return Shots(structure, runs.mix, runs.group, *windowed, returning, weight, theta)


def _with_starts_apart(several: Windows, heed: Tensor, apart: float) -> tuple[Windows, Tensor]:
    """Windows, and behind them the same ones with displaced starts, which count in their second
    half.
    """
    start, truth, seen, course = several
    draw = torch.Generator().manual_seed(1)
    nudged = start + NUDGE * torch.randn(start.shape, generator=draw, dtype=start.dtype)
    late = torch.linspace(0, 1, len(truth)) > 0.5
    heed = torch.cat([heed, apart * late[:, None, None, None] * heed], 2)
    steps = torch.cat([course.steps] * 2, 2)
    factors = None if course.factors is None else torch.cat([course.factors] * 2, 3)
    drift = None if course.drift is None else torch.cat([course.drift] * 2, 3)
    doubled = Windows(
        torch.cat([start, nudged], 1),
        torch.cat([truth] * 2, 2),
        torch.cat([seen] * 2, 2),
        Course(steps, course.ends, factors, drift),
    )
    return doubled, heed


def lengths(runs: Runs, shortest: float = SHORTEST) -> list[tuple[float, int]]:
    """Durations of windows [time scales], and their samples, from the shortest to the whole
    run.
    """
    T, step = len(runs.times), float(runs.times.diff().median())
    found, duration = [], shortest
    while not found or found[-1][1] < T - 1:
        length = min(max(1, round(duration / step)), T - 1)
        if not found or length > found[-1][1]:
            found.append((duration, length))
        duration *= GROWTH
    return found


def refinements(
    structure: Structure,
    runs: Runs,
    theta: Tensor,
    *,
    shortest: float = SHORTEST,
    returning: bool = True,
    apart: float = APART,
) -> Iterator[Stage]:
    """Coefficients after windows of each length, from the shortest to the whole run."""
    back = Returning.of(structure.motion, runs) if returning else None
    plan = [(duration, length, RESOLUTION) for duration, length in lengths(runs, shortest)]
    plan.append((math.inf, plan[-1][1], FINE))
    for k, (duration, length, resolution) in enumerate(plan):
        weight = max(RETURN * FADING**k, LEAST)
        problem = shots(structure, runs, theta, length, back, weight, apart, resolution)
        start = problem.expanded(theta)
        end = levenberg_marquardt(
            start,
            trials=TRIALS,
            absolute=EXACT,
            relative=SETTLED,
            shrinkage=0.2,
            largest=10.0,
        )
        theta = end.theta
        yield Stage(duration, theta)
