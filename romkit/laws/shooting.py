"""Multiple shooting: coefficients of a law from trajectories, without derivatives of the data.

A law ẇ = Σₖ φₖ(w) Σ_q T_q(c) θₖ_q is followed through windows of the data, each started at a datum,
and θ minimises the distance from the rest of the windows. Windows begin shorter than the motion's
own time scale, where this is a regression on differences, and double until they span the runs.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core import runtime
from romkit.core.levenberg import levenberg_marquardt
from romkit.laws.compiled import Truth
from romkit.laws.courses import Runs, Windows, windows
from romkit.laws.noise import AGREED
from romkit.laws.sensitivities import Motion, is_small, kept
from romkit.numerics import LOST

SHORTEST, GROWTH = 0.5, 2.0
"""First windows [time scales of the motion], and the factor from one length to the next."""

RESOLUTION, FINE = 2.5, 5.0
"""Fewest steps of RK4 in a time scale, in windows shorter than `ROUGH`, and in longer ones."""

ROUGH = 2.0
"""Duration of windows [time scales] from which on the error of long steps would count."""

RETURN, FADING, LEAST = 1e-2, 0.1, 1e-6
"""Weight of displaced samples that lead back, the factor on it from windows to longer ones, and
its smallest value. Data on an attractor say nothing about what attracts: without such samples laws
of three latents are lost in the first long windows, and with a weight that stays they are biased.
"""

APART, NUDGE, AHEAD = 0.1, 0.02, 1.5
"""Weight of rollouts from displaced starts, deviation of these [largest latent], and the duration
of windows [time scales] from which on they have time to come back."""

PROXIMITY = 1e-9
"""Weight that holds coefficients which nothing determines where they were."""

STEEP = 1e6
"""Derivative at which the rest of a window is left out, as it is at the distance `LOST` from the data
[largest latent]."""

TRIALS, SETTLED, EXACT = 12, 0.03, 1e-9
"""Most steps on windows of one length, and the gain after which they end, relative and as a mean
square [largest latent]."""

CLEAN, NEAR = 3e-3, 1.2
"""Distance from whole runs [largest latent] below which shorter steps of RK4 can pay, and factor on
the mean square distance by which they have to change it."""

REFINED, POLISHING, CLOSE = 3, 12, 1e-3
"""Most halvings of these steps, most steps of the fit after each, and the relative gain of a step
after which it ends."""

NOISY, DIFFERENCES = 2e-3, range(2, 9)
"""Noise of the data [largest latent] from which on windows start beside them, and the orders of
differences that tell it from motion."""

ROUNDING = 1e-16
"""Mean square distance [largest latent] below which nothing can be gained."""

POLISHED = FINE * GROWTH**REFINED
"""Steps of RK4 in a time scale that are short for any law."""

SAMPLES = 10_000
"""Most samples in all windows of one length; of more, windows are farther apart."""

ENTRIES = 400_000
"""Derivatives from which on those of a single run are held at once."""


SPREAD, COPIES = 0.05, 4
"""Deviation of displaced samples [largest latent], and their number for each sample."""


class Returning(NamedTuple):
    """Normal equations of displaced samples for each group: (G, K, K), and (G, K, m)."""

    matrix: Tensor
    target: Tensor

    @classmethod
    def build(cls, motion: Motion, runs: Runs) -> "Returning":
        """Return samples displaced across the motion by a, whose rates differ by -a from those
        beside.

        In second order the displacements of z and ż together make the difference, as those of a
        damped oscillator do.
        """
        draw = torch.Generator().manual_seed(0)
        w = runs.states.nan_to_num(0.0)  # (n, T, d)
        along = torch.nn.functional.normalize(torch.gradient(w, dim=1)[0], dim=-1)
        observed = runs.observed.unsqueeze(-1)
        beside = _terms(motion, runs, w)
        groups = len(runs.mix)
        K = beside.shape[-1]
        matrix = w.new_zeros(groups, K, K)
        target = w.new_zeros(groups, K, motion.latent_dim)
        for _ in range(COPIES):
            apart = SPREAD * torch.randn(w.shape, generator=draw, dtype=w.dtype).to(w)
            across = apart - (apart * along).sum(-1, keepdim=True) * along
            across = across * observed
            difference = _terms(motion, runs, w + across) - beside  # (n, T, K)
            lead_back = across.unflatten(-1, (motion.order, motion.latent_dim)).sum(-2)
            matrix.index_add_(0, runs.group, difference.mT @ difference)
            target.index_add_(0, runs.group, difference.mT @ lead_back)
        number = COPIES * w.shape[1] * len(w)
        return cls(matrix / number, target / number)

    def cost(self, W: Tensor) -> Tensor:
        """Return mean square of what rates of laws (G, K, m) differ from leading back, up to a
        constant.
        """
        square = torch.einsum("gkm,gkl,glm->", W, self.matrix, W)
        product = (W * self.target).sum()
        return square + 2 * product

    def add_to(self, by_group: Tensor, slope: Tensor, W: Tensor, weight: float) -> None:
        """Add half the derivatives of the cost by W to others (G, K m, K m), and (G, K m)."""
        shape = W.shape[1:]
        blocks = by_group.unflatten(1, shape).unflatten(-1, shape)  # (G, K, m, K, m)
        # rates do not depend on the coefficients of others
        of_rates = blocks.diagonal(dim1=2, dim2=4)  # (G, K, K, m)
        of_rates.add_(self.matrix.unsqueeze(-1), alpha=weight)
        down = self.matrix @ W + self.target
        slope.add_(down.flatten(1), alpha=weight)


def _terms(motion: Motion, runs: Runs, w: Tensor) -> Tensor:
    """Return terms (n, T, K) of a law at states, those of a context that moves included."""
    terms = motion.terms(motion.variables(w))
    if runs.moving is None:
        return terms
    assert runs.factors is not None  # of a context that moves
    factors = runs.factors(runs.moving.nan_to_num(0.0)).unsqueeze(-2)  # (n, T, 1, q)
    return (terms.unsqueeze(-1) * factors).flatten(-2)


class Structure(NamedTuple):
    """Fitted part of a law: its motion, and which of its coefficients (K, q, m) are free."""

    motion: Motion
    free: Tensor


class Stage(NamedTuple):
    """Coefficients (K, q, m) after windows of some duration [time scales] and length [intervals]."""

    duration: float
    length: int
    theta: Tensor


class Squares:
    """Sums over rows of derivatives by P coefficients, with a residual behind them, of each group:
    the normal equations of least squares.

    Args:
        groups: number of groups.
        size: P.
        device: of rows and sums.
    """

    def __init__(self, groups: int, size: int, device: torch.device | str = "cpu"):
        self._totals = torch.zeros(groups, size + 1, size + 1, dtype=torch.float64, device=device)

    def add(self, group: int, rows: Tensor) -> None:
        """Add rows (N, P + 1) of a group."""
        from scipy.linalg.blas import dsyrk  # slow to import

        if len(rows) == 0:
            return
        total = self._totals[group]
        if rows.is_cuda:
            total.addmm_(rows.mT, rows)
            return
        # products are symmetric, so that half of them are computed, in place
        dsyrk(1.0, rows.numpy().T, beta=1.0, c=total.numpy().T, overwrite_c=True)

    def normal_equations(self) -> tuple[Tensor, Tensor]:
        """Return matrices (G, P, P) and slopes (G, P)."""
        products = self._totals[:, :-1, :-1]
        slopes = self._totals[:, -1, :-1]
        if products.is_cuda:
            return products, slopes
        # only the lower halves are sums, and the upper ones zeros
        matrix = products + products.mT
        matrix.diagonal(dim1=-2, dim2=-1).mul_(0.5)
        return matrix, slopes


class Elimination(NamedTuple):
    """Best starts of W windows as functions of the coefficients. Behind the K m columns for changes
    of the coefficients stands one for the residuals at these coefficients.

    Attributes:
        coupling: (n, W, d, K m + 1) products of derivatives by the start with these columns.
        response: (n, W, d, K m + 1) what starts are off by, for each change of a coefficient and
            before any.
    """

    coupling: Tensor
    response: Tensor

    @classmethod
    def build(cls, rows: Tensor, by_start: Tensor) -> "Elimination":
        """Return sums over N rows of windows: derivatives by coefficients with residuals behind
        them (n, W, N, K m + 1), and derivatives by the start (n, W, N, d).
        """
        coupling = by_start.mT @ rows
        matrix = by_start.mT @ by_start
        # the datum at the start is a residual, too, so that only windows without data are singular
        unit = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        trace = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
        unused = (trace == 0)[..., None, None]
        factor = torch.linalg.cholesky(matrix + unused * unit)
        return cls(coupling, torch.cholesky_solve(coupling, factor))

    def reduction(self) -> tuple[Tensor, Tensor]:
        """Return parts that starts at their best take from normal equations (n, K m, K m) and (n, K
        m).

        What is left is the Schur complement: a coefficient counts by what no start can make up for.
        """
        products = self.coupling[..., :-1].flatten(1, 2).mT @ self.response.flatten(1, 2)
        return products[..., :-1], products[..., -1]

    def change(self, of_coefficients: Tensor) -> Tensor:
        """Change of the starts (n, W, d), for one (n, K m) of the coefficients."""
        of_changes = torch.einsum("nwik,nk->nwi", self.response[..., :-1], of_coefficients)
        return -(self.response[..., -1] + of_changes)

    @classmethod
    def joined(cls, pieces: "list[Elimination]") -> "Elimination":
        """Return sums of all runs, from pieces of them."""
        return cls(*(torch.cat(tensors) for tensors in zip(*pieces, strict=True)))


class Equations(NamedTuple):
    """Normal equations in the P free coefficients: (P, P), (P,), and starts as their functions."""

    matrix: Tensor
    slope: Tensor
    elimination: Elimination | None


class Beside(NamedTuple):
    """Windows with displaced starts, whose rollouts have to come back.

    Attributes:
        windows: of all runs.
        weight: of their residuals.
        late: number of the first sample that counts: rollouts have the first half to come back.
        radius: distance from the data that costs nothing: a displaced start leads to another phase,
            and to no other motion.
    """

    windows: Windows
    weight: float
    late: int
    radius: float

    def distance(self, states: Tensor) -> Tensor:
        """Return distances (L', n, W, d) of states (L + 1, n, W, d) from the data, late ones."""
        return states[self.late :] - self.windows.truth[self.late :]

    def share(self, distance: Tensor) -> Tensor:
        """Return share (..., 1) of distances (..., d) that costs."""
        norm = distance.norm(dim=-1, keepdim=True)
        return (1 - self.radius / norm).clamp(min=0.0)


@dataclass(frozen=True, eq=False)
class Shots:
    """Windows of one length, with what holds coefficients that they do not determine.

    Attributes:
        structure: of the law.
        mix: (G, q) terms of the context of each group.
        group: (n,) of each run.
        windows: of the runs.
        beside: the same ones with displaced starts, or none.
        loose: whether windows start where it suits them, and not at the datum.
        number: of observed latents in the windows.
        returning: see there, and its weight.
        prior: coefficients before these windows.
        ridge: weight of the squares of all coefficients.
    """

    structure: Structure
    mix: Tensor
    group: Tensor
    windows: Windows
    beside: Beside | None
    loose: bool
    number: int
    returning: Returning | None
    weight: float
    prior: Tensor
    ridge: float

    def expanded(self, theta: Tensor, start: Tensor | None = None) -> "Expanded":
        """Quadratic model about coefficients and starts (n, W, d), which are the data by default."""
        if start is None:
            start = self.windows.start
        return Expanded(self, theta, start, self.cost(theta, start).reshape(1))

    def weights(self, theta: Tensor) -> Tensor:
        """Return coefficients (G, K, m) at the context of each group."""
        return torch.einsum("gq,kqm->gkm", self.mix, theta)

    def reached(self, theta: Tensor) -> Tensor:
        """Return states (L + 1, n, W, d) of windows that start at the data."""
        of_runs = self.weights(theta)[self.group]
        return self.structure.motion.rollout(of_runs, self.windows.start, self.windows.course)

    def is_refuted(self, before: Tensor, end: "Expanded") -> bool:
        """Return whether a fit follows the data worse than the coefficients before it, for the sake
        of rollouts from displaced starts, and errors grow along the data all the same.
        """
        if self.beside is None:
            return False
        alone = replace(self, beside=None, returning=None, ridge=0.0)
        after = alone.cost(end.theta, end.start)
        allowed = torch.clamp(NEAR * alone.cost(before), min=EXACT)
        if after <= allowed:
            return False
        weights = self.weights(end.theta)[self.group]
        return _growth(self.structure.motion, weights, self.windows) > 1

    def cost(self, theta: Tensor, start: Tensor | None = None) -> Tensor:
        """Return mean square distance from the data, each at most `LOST`², and penalties."""
        if start is None:
            start = self.windows.start
        W = self.weights(theta)
        motion = self.structure.motion
        of_runs = W[self.group]
        reached = motion.rollout(of_runs, start, self.windows.course)
        total = _square(reached - self.windows.truth, self.windows.seen)
        beside = self.beside
        if beside is not None:
            displaced = beside.windows
            reached = motion.rollout(of_runs, displaced.start, displaced.course)
            distance = beside.distance(reached)
            # what is lost, NaN included, costs as much as what is far away
            residual = beside.weight * distance * beside.share(distance)
            total = total + _square(residual, displaced.seen[beside.late :])
        return total / self.number + self.penalty(theta, W)

    def penalty(self, theta: Tensor, W: Tensor) -> Tensor:
        """Cost of displaced samples that do not lead back, of steps away from the prior, and of
        large coefficients.
        """
        step = theta - self.prior
        total = PROXIMITY * step.square().sum() + self.ridge * theta.square().sum()
        if self.returning is None:
            return total
        return total + self.weight * self.returning.cost(W)

    def normal_equations(self, theta: Tensor, start: Tensor) -> Equations:
        """Half the derivatives of the cost, by the free coefficients.

        Coefficients of a run are combinations of θ, so that the matrix is a sum of Kronecker
        products over groups: derivatives are needed by K m coefficients of a run, not K q m.
        """
        W = self.weights(theta)
        group_matrices, slope, elimination = self.group_matrices(W, start)
        if self.returning is not None:
            self.returning.add_to(group_matrices, slope, W, self.weight)
        matrix, down = combined(self.mix, group_matrices, slope.unflatten(1, (theta.shape[0], -1)))
        down = down + PROXIMITY * (theta - self.prior) + self.ridge * theta
        free = self.structure.free.flatten().nonzero().squeeze(-1)
        if len(free) < len(matrix):
            matrix = matrix[free][:, free]
        matrix.diagonal().add_(PROXIMITY + self.ridge)
        return Equations(matrix, down.flatten()[free], elimination)

    def group_matrices(self, W: Tensor, start: Tensor) -> tuple[Tensor, Tensor, Elimination | None]:
        """Return matrices (G, K m, K m) and slopes (G, K m) of the windows of each group, and the
        starts.
        """
        size = W[0].numel()
        squares = Squares(len(W), size, W.device)
        eliminations = []
        # derivatives of all runs at once would fill the memory, or leave the cache
        of_a_run = self.windows.truth[:, 0].numel() * size
        at_once = max(1, ENTRIES // of_a_run)
        for rows in torch.arange(len(self.group)).split(at_once):
            weights = W[self.group[rows]]
            if self.loose:
                residuals, elimination = self._loose(weights, start[rows], rows)
                eliminations.append(elimination)
            else:
                residuals = self._data_starts(weights, start[rows], rows)
            for run, of_run in zip(rows.tolist(), residuals, strict=True):
                squares.add(int(self.group[run]), of_run)
        if self.beside is not None:
            for run, residuals in self._displaced(W):
                squares.add(int(self.group[run]), residuals)
        matrix, slope = squares.normal_equations()
        elimination = None
        if self.loose:
            elimination = Elimination.joined(eliminations)
            of_matrix, of_slope = elimination.reduction()
            matrix.index_add_(0, self.group, of_matrix, alpha=-1)
            slope = slope.index_add(0, self.group, of_slope, alpha=-1)
        return matrix.div_(self.number), slope / self.number, elimination

    def _truth(self, rows: Tensor) -> Truth:
        return Truth(self.windows.truth[:, rows], self.windows.seen[:, rows], LOST, STEEP)

    def _data_starts(self, weights: Tensor, start: Tensor, rows: Tensor) -> list[Tensor]:
        """Return derivatives and residuals (N, K m + 1) of each of some runs, up to where windows
        are lost.
        """
        course = self.windows.course.only(rows)
        return self.structure.motion.residual_rows(weights, start, course, self._truth(rows))

    def _loose(
        self, weights: Tensor, start: Tensor, rows: Tensor
    ) -> tuple[list[Tensor], Elimination]:
        """Return derivatives and residuals (N, K m + 1) of each of some runs, and the starts."""
        course = self.windows.course.only(rows)
        motion = self.structure.motion
        states, derivative = motion.sensitivities(weights, start, course, by_start=True)
        truth = self._truth(rows)
        distance = states - truth.states
        counts = kept(distance, derivative, truth)
        # all of a window side by side: (n, W, L + 1, d, ...)
        missed = ~counts.permute(1, 2, 0)[..., None, None]
        residual = distance.permute(1, 2, 0, 3).unsqueeze(-1)
        derivative = derivative.permute(1, 2, 0, 3, 4)
        size = weights[0].numel()
        columns = torch.cat([derivative[..., :size], residual], -1).masked_fill_(missed, 0.0)
        by_start = derivative[..., size:].masked_fill(missed, 0.0)
        elimination = Elimination.build(columns.flatten(2, 3), by_start.flatten(2, 3))
        return [*columns.flatten(1, 3)], elimination

    def _displaced(self, W: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield derivatives and residuals (N, K m + 1) of windows with displaced starts, with the
        number of their run.

        Most of them come back, and cost nothing: derivatives are needed of the others alone.
        """
        beside = self.beside
        windows = beside.windows
        motion = self.structure.motion
        reached = motion.rollout(W[self.group], windows.start, windows.course)
        distance = beside.distance(reached)
        costs = beside.share(distance).squeeze(-1) > 0
        costs = costs & windows.seen[beside.late :]  # (L', n, W)
        for run in costs.any(0).any(-1).nonzero().flatten().tolist():
            numbers = costs[:, run].any(0).nonzero().flatten()
            weights = W[self.group[run]].unsqueeze(0)
            start = windows.start[run, numbers].unsqueeze(0)
            course = windows.course.window_steps(run, numbers)
            _, derivative = motion.sensitivities(weights, start, course)
            residuals = self._excess(
                distance[:, run, numbers], derivative[beside.late :, 0], costs[:, run, numbers]
            )
            yield run, residuals

    def _excess(self, distance: Tensor, derivative: Tensor, costs: Tensor) -> Tensor:
        """Return residuals r (1 - ρ / |r|) beyond the radius ρ of windows of a run, up to where
        they are lost, behind their derivatives (N, K m + 1), from distances r (L', W, d), the
        derivatives of these (..., K m), and where they cost (L', W).
        """
        near = self.beside.weight * distance.abs().amax(-1) < LOST
        gentle = is_small(derivative, STEEP / self.beside.weight)
        before = ((near & gentle) | ~costs).cummin(0).values
        counts = before & costs
        r = distance[counts]  # (N, d)
        slopes = derivative[counts]  # (N, d, K m)
        share = self.beside.share(r)
        # what is across r shrinks as r does, what is along it does not
        unit = torch.nn.functional.normalize(r, dim=-1)
        along = (unit.unsqueeze(-1) * slopes).sum(-2, keepdim=True)
        kept = ((1 - share) * unit).unsqueeze(-1) * along
        by_coefficients = share.unsqueeze(-1) * slopes + kept
        residual = share * r
        rows = torch.cat([by_coefficients, residual.unsqueeze(-1)], -1)
        return self.beside.weight * rows.flatten(0, 1)


def combined(mix: Tensor, group_matrices: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Return normal equations (K q m, K q m), (K, q, m) of coefficients whose combinations by
    context terms (G, q) have the ones (G, K m, K m), (G, K, m).
    """
    _, K, m = slope.shape
    q = mix.shape[-1]
    outer = torch.einsum("gq,gp->gqp", mix, mix)
    sums = outer.flatten(1).mT @ group_matrices.flatten(1)  # (q q, K m K m)
    matrix = sums.reshape(q, q, K, m, K, m).permute(2, 0, 3, 4, 1, 5)
    down = torch.einsum("gq,gka->kqa", mix, slope)
    return matrix.reshape(down.numel(), -1), down


def _square(residual: Tensor, seen: Tensor) -> Tensor:
    """Return sum of squares of residuals (..., d) that are seen (...), each at most `LOST`²; of
    lost ones as much.
    """
    residual = torch.where(seen.unsqueeze(-1), residual, 0.0)
    square = residual.square().nan_to_num(LOST**2).clamp(max=LOST**2)
    return square.sum()


@dataclass(frozen=True, eq=False)
class Expanded:
    """Quadratic model of the cost of shots about coefficients θ and starts: an `Expansion` of one
    member.
    """

    shots: Shots
    theta: Tensor
    start: Tensor
    cost: Tensor

    def select(self, members: Tensor) -> "Expanded":
        return self

    def replaced(self, members: Tensor, other: "Expanded") -> "Expanded":
        return other if len(members) else self

    @functools.cached_property
    def equations(self) -> Equations:
        """Normal equations; several steps of different damping may ask for them."""
        return self.shots.normal_equations(self.theta, self.start)

    def moved(self, members: Tensor, damping: Tensor) -> "Expanded":
        matrix, slope, elimination = self.equations
        damped = matrix.clone()
        # coefficients that act on nothing leave a row of zeros
        damped.diagonal().add_(damping * matrix.diagonal()).add_(1e-14)
        factor, failed = torch.linalg.cholesky_ex(damped)
        if failed:
            lost = torch.full_like(self.cost, torch.inf)
            return replace(self, cost=lost)
        step = torch.cholesky_solve(slope.unsqueeze(-1), factor)
        change = torch.zeros_like(self.theta)
        change[self.shots.structure.free] = -step.squeeze(-1)
        start = self.start
        if elimination is not None:
            of_groups = self.shots.weights(change)
            of_runs = of_groups[self.shots.group].flatten(1)  # (n, K m)
            start = start + elimination.change(of_runs)
        return self.shots.expanded(self.theta + change, start)


class Hold(NamedTuple):
    """Prior of coefficients that windows do not determine.

    Attributes:
        returning: displaced samples that lead back, and their weight.
        apart: weight of rollouts from displaced starts.
        ridge: weight of the squares of all coefficients.
    """

    returning: Returning | None = None
    weight: float = 0.0
    apart: float = 0.0
    ridge: float = 0.0


def shots(
    structure: Structure,
    runs: Runs,
    theta: Tensor,
    length: int,
    hold: Hold,
    resolution: float,
    loose: bool = False,
) -> Shots:
    """Windows of `length` intervals of all runs, and those from starts apart.

    Args:
        structure: of the law.
        runs: whose windows.
        theta: coefficients before.
        length: in intervals.
        hold: see there.
        resolution: steps of RK4 in a time scale.
        loose: whether starts are fitted, too.
    """
    samples = len(runs.states) * len(runs.times)
    thinning = max(1.0, samples / SAMPLES)
    stride = max(1, math.ceil(length * thinning))
    starting = windows(runs, length, stride, 1 / resolution)
    number = int(starting.seen.sum()) * structure.motion.size
    beside = None
    duration = float(starting.course.steps[:, 0, 0].sum())
    if hold.apart and duration > AHEAD:
        beside = _displaced_windows(starting, hold.apart)
    return Shots(
        structure=structure,
        mix=runs.mix,
        group=runs.group,
        windows=starting,
        beside=beside,
        loose=loose,
        number=number,
        returning=hold.returning,
        weight=hold.weight,
        prior=theta,
        ridge=hold.ridge,
    )


def _displaced_windows(starting: Windows, weight: float, *, free: float = 4.0) -> Beside:
    """Windows from displaced starts, which count in their second half.

    `free`: distance of those rollouts from the data that costs nothing [deviations of the
    starts].
    """
    draw = torch.Generator().manual_seed(1)
    start = starting.start
    displacement = torch.randn(start.shape, generator=draw, dtype=start.dtype).to(start)
    displaced = starting._replace(start=start + NUDGE * displacement)
    late = (len(starting.truth) - 1) // 2 + 1
    return Beside(displaced, weight, late, free * NUDGE)


def lengths(runs: Runs, shortest: float = SHORTEST) -> list[tuple[float, int]]:
    """Durations of windows [time scales], and their samples, from the shortest to the whole
    run.
    """
    run_length = len(runs.times) - 1
    step = float(runs.times.diff().median())
    plan: list[tuple[float, int]] = []
    duration, longest = shortest, 0
    while longest < run_length:
        length = max(1, round(duration / step))
        length = min(length, run_length)
        if length > longest:
            plan.append((duration, length))
            longest = length
        duration *= GROWTH
    return plan


def is_coarse(runs: Runs) -> bool:
    """Return whether intervals between samples are longer than the first windows should be."""
    return float(runs.times.diff().median()) > SHORTEST


PIECE = 16
"""Samples in a row whose noise is measured together."""


def noise(runs: Runs) -> float:
    """Return deviation of noise in evenly sampled runs [their unit]; zero where it cannot be told
    from motion, because times are uneven or inputs may jump.

    Differences of high order take motion away, and make noise larger by a known factor.
    """
    steps = runs.times.diff()
    even = float(steps.max()) <= 1.001 * float(steps.min())
    if not even or runs.moving is not None:
        return 0.0
    sizes = [_difference_noise(runs.states, order) for order in DIFFERENCES]
    # NaN are orders that gaps or short runs do not have
    sizes = [size for size in sizes if not math.isnan(size)]
    if not sizes:
        return 0.0
    # each order takes away more of a motion that is sampled coarsely, and nothing of noise
    if sizes[-1] < AGREED * max(sizes[-2:]):
        return 0.0
    return min(sizes)


def _difference_noise(states: Tensor, order: int, *, outlying: float = 4.0) -> float:
    """Return deviation of independent noise that makes differences (n, T - order, d) of this size;
    NaN where there are none.

    `outlying`: variance of a piece, relative to the median, from which on it holds more than
    noise.
    """
    if order >= states.shape[1]:
        return math.nan
    difference = states.diff(n=order, dim=1)
    squares = difference.square().nanmean(-1)  # (n, T - order)
    # noise is there all the time, and a pulse is not
    pieces = squares.split(PIECE, dim=1)
    of_pieces = torch.stack([piece.nanmean(1) for piece in pieces], dim=1)  # (n, pieces)
    usual = of_pieces <= outlying * of_pieces.nanmedian()
    variance = of_pieces[usual].mean() / math.comb(2 * order, order)
    return float(variance) ** 0.5


def end_residual(
    structure: Structure, runs: Runs, theta: Tensor, resolution: float = FINE
) -> Tensor:
    """Return what a law leaves of each variable over single intervals, (d,) root mean squares
    [largest latent].

    Noise of the data is no larger: motion that is sampled coarsely has differences as noise has.
    """
    single = windows(runs, 1, 1, 1 / resolution)
    weights = torch.einsum("gq,kqm->gkm", runs.mix, theta)[runs.group]
    reached = structure.motion.rollout(weights, single.start, single.course)
    distance = (reached - single.truth)[1:].nan_to_num(LOST).clamp(-LOST, LOST)
    return distance[single.seen[1:]].square().mean(0).sqrt()


def error_growth(structure: Structure, runs: Runs, theta: Tensor, length: int) -> float:
    """Return the factor by which a small error grows along windows of `length` intervals, the
    geometric mean over windows side by side.

    Its logarithm, over the duration of the windows, tends to the largest Lyapunov exponent.
    """
    weights = torch.einsum("gq,kqm->gkm", runs.mix, theta)[runs.group]
    return _growth(structure.motion, weights, windows(runs, length, length, 1 / FINE))


def _growth(motion: Motion, weights: Tensor, followed: Windows) -> float:
    """Return the factor on a small error at the start of windows, with coefficients (n, K, m)."""
    start = followed.start
    draw = torch.Generator().manual_seed(2)
    direction = torch.randn(start.shape, generator=draw, dtype=start.dtype).to(start)
    direction = torch.nn.functional.normalize(direction, dim=-1)
    growth = tangent(motion, weights, followed, direction).norm(dim=-1)
    growth = growth[followed.seen[0]].nan_to_num(torch.inf)
    # what is forgotten to the last digit is known to this digit
    step = torch.finfo(start.dtype).eps ** 0.5
    return float(growth.clamp(min=step, max=1 / step).log().mean().exp())


def tangent(motion: Motion, weights: Tensor, followed: Windows, direction: Tensor) -> Tensor:
    """Return what a small displacement (n, W, d) of the starts has become at the ends, relative."""
    # the best step of a difference is the root of the rounding error
    step = torch.finfo(direction.dtype).eps ** 0.5
    reached, beside = (
        motion.rollout(weights, followed.start + apart * direction, followed.course)[-1]
        for apart in (0.0, step)
    )
    return (beside - reached) / step


def is_informative(structure: Structure, runs: Runs, theta: Tensor, length: int) -> bool:
    """Return whether ends of windows of `length` intervals say something about a law.

    The error of one interval, of the datum and of the law together, grows by the factor
    `error_growth` along a window. Where it becomes as large as the data vary, the end of a window is
    as far from its datum as any other state of the motion is, whatever the coefficients are.

    Source: Pisarenko, Sornette (2004), Statistical methods of parameter estimation for
    deterministically chaotic time series; Baake, Baake, Bock, Briggs (1992), for windows in chaos.
    """
    error = end_residual(structure, runs, theta).norm()
    states = runs.states.flatten(0, -2)  # (n T, d)
    variance = (states - states.nanmean(0)).square().nanmean(0).sum()
    growth = error_growth(structure, runs, theta, length)
    return bool(error * growth < variance.sqrt())


def refinements(
    structure: Structure,
    runs: Runs,
    theta: Tensor,
    *,
    shortest: float = SHORTEST,
    returning: bool = True,
    strongest: float = RETURN,
    ridge: float = 0.0,
    of_noise: float = 2.0,
) -> Iterator[Stage]:
    """Yield coefficients after windows of each length, from the shortest to the whole run, or to
    the longest ones that are informative.

    Rollouts from displaced starts have to come back, as those of data on an attractor do, until a
    law that keeps to this follows the data worse than the one before: then errors grow along the
    data themselves, as in chaos, and such rollouts are left out from there on.

    Args:
        structure: of the law.
        runs: its trajectories.
        theta: coefficients to begin at.
        shortest: duration of the first windows [time scales].
        returning: whether displaced samples hold coefficients.
        strongest: weight of these in the first windows.
        ridge: weight of the squares of all coefficients.
        of_noise: smallest weight of displaced samples in data with noise, relative to the variance
            of that.
    """
    back = Returning.build(structure.motion, runs) if returning else None
    deviation = noise(runs)
    apart = APART
    plan = lengths(runs, shortest)
    finest = RESOLUTION
    _, fewest = plan[0]
    if fewest > 1:
        finest, strongest = _plan_windows(runs, strongest)
    for k, (duration, length) in enumerate(plan):
        if duration >= ROUGH and not is_informative(structure, runs, theta, length):
            return
        noisy = deviation > NOISY
        # what noise leaves undetermined must not follow it
        least = max(LEAST, noisy * of_noise * deviation**2)
        weight = max(strongest * FADING**k, least)
        hold = Hold(back, weight, apart, ridge)
        resolution, loose = FINE, noisy
        if duration < ROUGH:
            # in short windows free starts would explain what the law has to
            resolution, loose = RESOLUTION, False
        problem = functools.partial(shots, structure, runs, theta, length, loose=loose)
        followed = problem(hold, max(resolution, finest))
        end = _fitted(followed, theta)
        if length == 1 and is_coarse(runs):
            end = _resolved(problem, end, hold)
            finest, strongest = _plan_windows(runs, strongest)
        # coefficients before the first windows may be of another fit, with other holds
        if k > 0 and followed.is_refuted(theta, end):
            apart = 0.0
            end = _fitted(replace(followed, beside=None), theta)
        theta = end.theta
        yield Stage(duration, length, theta)
        deviation = _bound_noise(deviation, structure, runs, theta, max(FINE, finest))


def _plan_windows(runs: Runs, strongest: float) -> tuple[float, float]:
    """Return the fewest steps in a time scale, and the largest weight of displaced samples, of fits
    that follow those of single intervals: on coarse samples these took short steps, which all that
    follows needs, too, and what has faded does not come back.
    """
    return (POLISHED, LEAST) if is_coarse(runs) else (RESOLUTION, strongest)


def _bound_noise(
    deviation: float, structure: Structure, runs: Runs, theta: Tensor, resolution: float
) -> float:
    """Return the deviation of noise, at most what a law leaves over single intervals."""
    if deviation <= NOISY:
        return deviation
    residual = end_residual(structure, runs, theta, resolution)
    return min(deviation, float(residual.square().mean().sqrt()))


def _resolved(problem: Callable[[Hold, float], Shots], end: Expanded, hold: Hold) -> Expanded:
    """Return a fit of single intervals by steps of RK4 that are short enough for any law.

    Between samples that are far apart a motion may be much faster than its time scale says, which
    is one of these samples. A law of long steps is then another one, and near it there are poor
    minima: each fit is the start of one by shorter steps, with displaced samples that count less.
    """
    resolution = RESOLUTION
    while resolution < POLISHED:
        resolution *= GROWTH
        hold = hold._replace(weight=max(hold.weight * FADING, LEAST))
        end = _fitted(problem(hold, resolution), end.theta, POLISHING * REFINED, CLOSE)
    return end


def _fitted(
    problem: Shots, theta: Tensor, trials: int = TRIALS, relative: float = SETTLED
) -> Expanded:
    """Fit windows of one length, from coefficients of shorter ones on."""
    return levenberg_marquardt(
        problem.expanded(theta),
        trials=trials,
        absolute=EXACT,
        relative=relative,
        shrinkage=0.2,
        largest=10.0,
    )


def polished(structure: Structure, runs: Runs, stage: Stage, trials: int = POLISHING) -> Tensor:
    """Return coefficients that follow windows of the same length with steps whose own error is
    negligible.

    Coefficients that were fitted with long steps make up for the error of these, and are off in a
    rollout whose steps are short. What holds coefficients, a ridge too, is left out, since it biases
    them, and data that are followed this closely determine them: so there is a fit without it where
    steps were short enough, too.
    """

    def problem(resolution: float) -> Shots:
        return shots(structure, runs, stage.theta, stage.length, Hold(), resolution)

    theta = stage.theta
    finer = [problem(FINE * GROWTH**k) for k in range(REFINED + 1)]
    k, fitted = 0, -1
    while True:
        while k < REFINED:
            if _are_short(finer[k], finer[k + 1], theta):
                break
            k += 1
        if k == fitted or runtime.left() <= 0:
            return theta
        end = levenberg_marquardt(
            finer[k].expanded(theta),
            trials=trials,
            absolute=ROUNDING / 10,
            relative=CLOSE,
            shrinkage=0.1,
            largest=10.0,
        )
        theta = end.theta
        fitted = k


def _are_short(problem: Shots, finer: Shots, theta: Tensor, *, share: float = 0.01) -> bool:
    """Tell whether the error of steps of RK4 is negligible beside what a law leaves of the data.

    Costs alone do not tell: coefficients that were fitted with long steps leave as much with these
    as they leave with short ones.

    `share`: of a mean square distance that is negligible: a tenth of the distance.
    """
    apart = _square(problem.reached(theta) - finer.reached(theta), problem.windows.seen)
    apart = apart / problem.number
    least = torch.minimum(problem.cost(theta), finer.cost(theta))
    return bool(apart < share * least) or bool(apart < ROUNDING)
