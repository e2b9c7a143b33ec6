"""Joint least squares on the law of a family and on the hidden contexts of its groups.

Derivatives of the residuals are by the coefficients of each group itself (`romkit.laws.shooting`);
the chain rule leads from there to shared coefficients and contexts, so that a context costs a
column of the same normal equations.
"""

import functools
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.levenberg import levenberg_marquardt
from romkit.core.types import Pair, frozen
from romkit.hidden.family import Family
from romkit.laws.courses import Runs
from romkit.laws.sensitivities import Motion
from romkit.laws.shooting import (
    EXACT,
    FINE,
    GROWTH,
    NEAR,
    NOISY,
    POLISHED,
    REFINED,
    RESOLUTION,
    ROUGH,
    ROUNDING,
    SETTLED,
    SHORTEST,
    Elimination,
    Hold,
    Shots,
    is_coarse,
    lengths,
    noise,
    shots,
)
from romkit.laws.shooting import Structure as LawStructure

LONGEST = 64.0
"""Longest windows [time scales]."""

STEPS, CLOSE = 40, 1e-3
"""Most steps of a fit, and the relative gain of a step after which the last one ends. Laws that are
left earlier in short windows, after twelve say, are lost in longer ones (cubic laws of the wake)."""

FINEST = POLISHED * GROWTH**2
"""Most steps of RK4 in a time scale: short for a motion much faster than that, as there may be one
between samples that are far apart."""

HELD = 1e-9
"""Weight of changes of coefficients and of contexts, relative to the mean square residual, so that
what nothing determines stays where it was."""


class Blocks(NamedTuple):
    """Normal equations of each group by its own coefficients.

    Attributes:
        matrix: (G, K m, K m).
        slope: (G, K m).
        starts: starts of windows as functions of the coefficients; None where they are the data.
    """

    matrix: Tensor
    slope: Tensor
    starts: Elimination | None


@frozen
class Fit:
    """Windows of runs, to be followed by the laws of a family.

    Attributes:
        shots: the windows, with the group of each run.
        law: whether coefficients of the law are fitted, or hold.
        contexts: whether hidden contexts are fitted, or hold.
        resolution: steps of RK4 in a time scale.
    """

    shots: Shots
    law: bool = True
    contexts: bool = True
    resolution: float = FINE

    def cost(self, family: Family, start: Tensor) -> Tensor:
        """Return mean square distance from the data."""
        weights = family.weights.transpose(0, 1)  # (K, G, m)
        return replace(self.shots, mix=_unit(weights), prior=weights).cost(weights, start)

    def blocks(self, family: Family, start: Tensor) -> Blocks:
        """Return normal equations by the coefficients of each group."""
        return Blocks(*self.shots.group_matrices(family.weights, start))

    def free(self, family: Family) -> Tensor:
        """Which of the unknowns (K q m + G r,) are fitted."""
        law = torch.full((family.theta.numel(),), self.law)
        contexts = torch.full((family.hidden.numel(),), self.contexts)
        return torch.cat([law, contexts])


def _unit(weights: Tensor) -> Tensor:
    """Return terms (G, G) that give each group its own coefficients, of coefficients (K, G, m)."""
    return torch.eye(weights.shape[1], dtype=weights.dtype)


def joint_equations(family: Family, blocks: Blocks) -> Pair:
    """Return normal equations (P, P) and (P,) by θ and the hidden contexts, P = K q m + G r."""
    K, q, m = family.theta.shape
    G, r = family.hidden.shape
    mix, tangents = family.mix, family.tangents
    outer = torch.einsum("gq,gp->gqp", mix, mix)
    of_groups = blocks.matrix.reshape(G, K, m, K, m)
    law = torch.einsum("gqp,gkalb->kqalpb", outer, of_groups).reshape(K * q * m, -1)
    along = blocks.matrix @ tangents  # (G, K m, r)
    coupling = torch.einsum("gq,gkar->kqagr", mix, along.unflatten(1, (K, m)))
    coupling = coupling.reshape(K * q * m, G * r)
    matrix = family.theta.new_zeros(K * q * m + G * r, K * q * m + G * r)
    matrix[: K * q * m, : K * q * m] = law
    matrix[: K * q * m, K * q * m :] = coupling
    matrix[K * q * m :, : K * q * m] = coupling.mT
    contexts = torch.block_diag(*(tangents.mT @ along))
    if r:
        matrix[K * q * m :, K * q * m :] = contexts
    of_law = torch.einsum("gq,gka->kqa", mix, blocks.slope.unflatten(1, (K, m)))
    of_contexts = torch.einsum("gnr,gn->gr", tangents, blocks.slope)
    return matrix, torch.cat([of_law.flatten(), of_contexts.flatten()])


@frozen
class Expanded:
    """Quadratic model of a fit about a family and starts (n, W, m): an `Expansion` of one member."""

    fit: Fit
    family: Family
    start: Tensor
    cost: Tensor

    @classmethod
    def expand(cls, fit: Fit, family: Family, start: Tensor | None = None) -> "Expanded":
        """Return model about a family, with windows that start at the data by default."""
        if start is None:
            start = fit.shots.windows.start
        return cls(fit, family, start, fit.cost(family, start).reshape(1))

    def select(self, members: Tensor) -> "Expanded":
        return self

    def replaced(self, members: Tensor, other: "Expanded") -> "Expanded":
        return other if len(members) else self

    @functools.cached_property
    def equations(self) -> tuple[Tensor, Tensor, Elimination | None]:
        """Normal equations by the unknowns that are free, and starts as their functions."""
        blocks = self.fit.blocks(self.family, self.start)
        matrix, slope = joint_equations(self.family, blocks)
        free = self.fit.free(self.family).nonzero().squeeze(-1)
        return matrix[free][:, free], slope[free], blocks.starts

    def moved(self, members: Tensor, damping: Tensor) -> "Expanded":
        matrix, slope, starts = self.equations
        damped = matrix.clone()
        damped.diagonal().add_(damping * matrix.diagonal()).add_(HELD)
        factor, failed = torch.linalg.cholesky_ex(damped)
        if failed:
            return replace(self, cost=torch.full_like(self.cost, torch.inf))
        step = torch.cholesky_solve(slope.unsqueeze(-1), factor).squeeze(-1)
        free = self.fit.free(self.family)
        change = torch.zeros(len(free), dtype=step.dtype)
        change[free] = -step
        theta, hidden = self.family.theta, self.family.hidden
        of_law = change[: theta.numel()].reshape(theta.shape)
        of_contexts = change[theta.numel() :].reshape(hidden.shape)
        start = self.start
        if starts is not None:
            of_groups = torch.einsum("gq,kqm->gkm", self.family.mix, of_law).flatten(1)
            of_groups = of_groups + torch.einsum("gnr,gr->gn", self.family.tangents, of_contexts)
            start = start + starts.change(of_groups[self.fit.shots.group])
        family = replace(self.family, theta=theta + of_law, hidden=hidden + of_contexts)
        return Expanded.expand(self.fit, family, start)


class Stage(NamedTuple):
    """Family after windows of some duration [time scales] and length [intervals]."""

    family: Family
    duration: float
    length: int


def fitted(
    family: Family,
    motion: Motion,
    runs: Runs,
    shortest: float,
    longest: float = LONGEST,
    *,
    law: bool = True,
    contexts: bool = True,
    steps: int = STEPS,
    followed: float = 0.01,
) -> Stage:
    """Fit a family to windows of the runs, from short ones to the longest that it follows.

    Args:
        family: to begin with.
        motion: of its laws.
        runs: with the numbers of their groups.
        shortest: duration of the first windows [time scales].
        longest: of the last ones.
        law: whether its coefficients are fitted.
        contexts: whether hidden parameters are.
        steps: most steps of Gauss-Newton in windows of one length.
        followed: mean square distance from windows [largest latent] up to which longer ones can be
            followed.
    """
    coarse = is_coarse(runs)
    loose = noise(runs) > NOISY and not coarse
    stage = Stage(family, 0.0, 1)
    for duration, length in lengths(runs, shortest):
        if duration > max(longest, shortest):
            break
        is_short = duration < ROUGH
        # in short windows free starts would explain what the law has to
        free = loose and not is_short
        for resolution in _resolutions(duration, length, coarse):
            problem = windows_of(family, motion, runs, length, resolution, free)
            end = levenberg_marquardt(
                Expanded.expand(Fit(problem, law, contexts), family),
                trials=steps,
                absolute=EXACT,
                relative=CLOSE if coarse else SETTLED,
                shrinkage=0.2,
                largest=10.0,
            )
            family = end.family
        stage = Stage(family, duration, length)
        if float(end.cost) > followed and duration > ROUGH:
            break
    return stage


def first_windows(runs: Runs, duration: float) -> float:
    """Duration of the first windows [time scales] of a fit that begins far from its end: where samples
    are far apart all windows are long, and only the path to them tells minima apart.
    """
    return min(duration, SHORTEST) if is_coarse(runs) else duration


def _resolutions(duration: float, length: int, coarse: bool) -> list[float]:
    """Return steps of RK4 in a time scale, of the fits to windows of a duration.

    Between samples that are far apart a motion may be much faster than its time scale says: single
    intervals are fitted by shorter and shorter steps, and all that follows by the shortest.
    """
    if coarse and length == 1:
        return [RESOLUTION * GROWTH**k for k in range(2 + REFINED)]
    if coarse:
        return [POLISHED]
    return [RESOLUTION if duration < ROUGH else FINE]


def polished(
    stage: Stage,
    motion: Motion,
    runs: Runs,
    *,
    law: bool = True,
    relative: float = CLOSE,
    resolution: float | None = None,
    negligible: float = ROUNDING,
) -> Expanded:
    """Fit to windows of the same length from starts of their own, with steps whose own error is
    negligible: from `resolution` in a time scale on, finer ones as long as they change the fit.

    `relative`: gain of a step after which the last one ends.

    `resolution`: by default the one of fits to long windows.

    `negligible`: mean square change of states.
    """
    family, _, length = stage
    if resolution is None:
        resolution = POLISHED if is_coarse(runs) else FINE
    start = None
    end = None
    while True:
        problem = windows_of(family, motion, runs, length, resolution, True)
        expanded = Expanded.expand(Fit(problem, law, resolution=resolution), family, start)
        if end is not None and _alike(end, expanded, negligible):
            return end
        end = levenberg_marquardt(
            expanded,
            trials=STEPS,
            absolute=ROUNDING,
            relative=relative,
            shrinkage=0.1,
            largest=10.0,
        )
        if resolution >= FINEST:
            return end
        family, start = end.family, end.start
        resolution *= GROWTH


class Extrapolated(NamedTuple):
    """Fit by steps of no length, as two lengths tell it.

    Attributes:
        fine: the fit by halves of the steps.
        family, start: extrapolated from both.
        error: (P,) change of θ and of the hidden contexts that this makes.
    """

    fine: Expanded
    family: Family
    start: Tensor
    error: Tensor

    @classmethod
    def extrapolate(cls, end: Expanded, *, trials: int = 2) -> "Extrapolated":
        """Return the fit without the error of its steps, which is of order four in their length.

        `trials`: steps of Gauss-Newton, whose error is squared by each.

        Source: Richardson (1911), The approximate arithmetical solution by finite differences.
        """
        shots = end.fit.shots
        windows = shots.windows._replace(course=shots.windows.course.halved())
        of_halves = replace(end.fit, shots=replace(shots, windows=windows))
        coarse, fine = (
            levenberg_marquardt(
                Expanded.expand(fit, end.family, end.start), trials=trials, start=0.0, smallest=0.0
            )
            for fit in (end.fit, of_halves)
        )
        of_law = (fine.family.theta - coarse.family.theta) / 15
        of_contexts = (fine.family.hidden - coarse.family.hidden) / 15
        family = replace(
            fine.family,
            theta=fine.family.theta + of_law,
            hidden=fine.family.hidden + of_contexts,
        )
        start = fine.start + (fine.start - coarse.start) / 15
        return cls(fine, family, start, torch.cat([of_law.flatten(), of_contexts.flatten()]))


def _alike(end: Expanded, finer: Expanded, negligible: float) -> bool:
    """Tell whether shorter steps of RK4 change states so little that no mean square distance changes
    by the factor `NEAR`, or by a negligible one.

    Mean square distances of both may be alike by chance, when the states are not.
    """
    shots = end.fit.shots
    weights = end.family.weights[shots.group]
    states = [
        shots.structure.motion.rollout(weights, end.start, model.fit.shots.windows.course)
        for model in (end, finer)
    ]
    change = (states[1] - states[0]).square().sum(-1)[shots.windows.seen].sum() / shots.number
    return bool(change < (NEAR**0.5 - 1) ** 2 * end.cost) or bool(change < negligible)


def windows_of(
    family: Family,
    motion: Motion,
    runs: Runs,
    length: int,
    resolution: float,
    loose: bool,
) -> Shots:
    """Windows of all runs, of so many intervals."""
    weights = family.weights.transpose(0, 1)
    every = torch.ones_like(weights, dtype=torch.bool)
    structure = LawStructure(motion, every)
    runs = replace(runs, mix=_unit(weights))
    return shots(structure, runs, weights, length, Hold(), resolution, loose)
