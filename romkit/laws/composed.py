"""Shooting along trajectories with coefficients that are functions of fewer numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.core.levenberg import levenberg_marquardt
from romkit.laws.shooting import (
    CLEAN,
    CLOSE,
    EXACT,
    FINE,
    NOISY,
    POLISHED,
    POLISHING,
    RESOLUTION,
    ROUGH,
    ROUNDING,
    SHORTEST,
    Hold,
    Shots,
    Stage,
    Structure,
    is_coarse,
    is_informative,
    lengths,
    noise,
    shots,
)
from romkit.laws.trajectories import ShootingProblem

Composition = Callable[[Tensor], Tensor]
"""Numbers (E,) -> coefficients (G, K, m) of the motion of each group of runs."""


@dataclass(frozen=True, eq=False)
class ComposedFit:
    """Fit of numbers η (E,) of which the coefficients of a law are functions.

    Attributes:
        problem: trajectories, each group of runs with coefficients of its own.
        coefficients: of these numbers.
        ridge: weight of the squares of the numbers, beside the mean square distance from the data.
    """

    problem: ShootingProblem
    coefficients: Composition
    ridge: float

    @classmethod
    def build(
        cls, problem: ShootingProblem, coefficients: Composition, ridge: float
    ) -> "ComposedFit":
        """Return the fit of a problem whose contexts stay."""
        unit = torch.eye(len(problem.runs.mix), dtype=torch.float64)
        runs = replace(problem.runs, mix=unit)
        return cls(replace(problem, runs=runs), coefficients, ridge)

    def theta(self, eta: Tensor) -> Tensor:
        """Return coefficients (K, G, m) in the shape of the problem."""
        return self.coefficients(eta).transpose(0, 1)

    def stages(self, eta: Tensor, shortest: float = SHORTEST) -> Iterator[Stage]:
        """Yield numbers after windows of each length, from the shortest to the whole run, or to the
        longest ones that are informative.
        """
        runs = self.problem.runs
        is_noisy = noise(runs) > NOISY
        finest = POLISHED if is_coarse(runs) else RESOLUTION
        for duration, length in lengths(runs, shortest):
            is_long = duration >= ROUGH
            structure = self._structure(eta)
            if is_long and not is_informative(structure, runs, self.theta(eta), length):
                return
            resolution = max(FINE if is_long else RESOLUTION, finest)
            eta = self._shot(eta, length, resolution, loose=is_long and is_noisy)
            yield Stage(duration, length, eta)

    def brief(self, eta: Tensor, *, compared: float = 4.0) -> Tensor:
        """Return numbers after windows of some time scales, good enough to be compared.

        `compared`: duration of the longest windows [time scales].
        """
        for stage in self.stages(eta):
            if stage.duration >= compared:
                break
        return stage.theta

    def whole(self, eta: Tensor, shortest: float = SHORTEST) -> Tensor:
        """Return numbers that follow whole trajectories best, or the longest windows that are
        informative.
        """
        stages = [*self.stages(eta, shortest)]
        longest = stages[-1].length
        resolution = POLISHED if is_coarse(self.problem.runs) else FINE

        def error(stage: Stage) -> float:
            return self.problem.error(self.theta(stage.theta), resolution, longest)

        best = min(stages, key=error)
        if error(best) >= CLEAN:
            return best.theta
        # long steps have an error of their own, for which coefficients make up
        return self._shot(
            best.theta,
            longest,
            POLISHED,
            trials=4 * POLISHING,
            absolute=ROUNDING / 10,
            relative=CLOSE,
            ridge=0.0,
        )

    def _structure(self, eta: Tensor) -> Structure:
        free = torch.ones_like(self.theta(eta), dtype=torch.bool)
        return Structure(self.problem.motion, free)

    def _shot(
        self,
        eta: Tensor,
        length: int,
        resolution: float,
        *,
        loose: bool = False,
        trials: int = 40,
        absolute: float = EXACT,
        relative: float = 10 * CLOSE,
        ridge: float | None = None,
    ) -> Tensor:
        """Return numbers that are fitted to windows of one length."""
        windows = shots(
            self._structure(eta),
            self.problem.runs,
            self.theta(eta),
            length,
            Hold(),
            resolution,
            loose,
        )
        fit = self if ridge is None else replace(self, ridge=ridge)
        end = levenberg_marquardt(
            Expanded.expand(fit, windows, eta, windows.windows.start),
            trials=trials,
            absolute=absolute,
            relative=relative,
            shrinkage=0.2,
            largest=1e3,
        )
        return end.eta


@dataclass(frozen=True, eq=False)
class Expanded:
    """Quadratic model about numbers η (E,) and starts (n, W, d): an `Expansion` of one member."""

    fit: ComposedFit
    shots: Shots
    eta: Tensor
    start: Tensor
    cost: Tensor

    @classmethod
    def expand(cls, fit: ComposedFit, windows: Shots, eta: Tensor, start: Tensor) -> "Expanded":
        """Expand about these numbers and starts."""
        theta = fit.theta(eta)
        distance = replace(windows, prior=theta).cost(theta, start)
        cost = distance + fit.ridge * eta.square().sum()
        return cls(fit, windows, eta, start, cost.reshape(1))

    def select(self, members: Tensor) -> "Expanded":
        return self

    def replaced(self, members: Tensor, other: "Expanded") -> "Expanded":
        return other if len(members) else self

    def moved(self, members: Tensor, damping: Tensor) -> "Expanded":
        W = self.fit.coefficients(self.eta)  # (G, K, m)
        tangents = torch.func.jacfwd(self.fit.coefficients)(self.eta).flatten(1, 2)  # (G, K m, E)
        group_matrices, slope, elimination = self.shots.group_matrices(W, self.start)
        matrix = (tangents.mT @ group_matrices @ tangents).sum(0)
        down = torch.einsum("gpe,gp->e", tangents, slope) + self.fit.ridge * self.eta
        matrix.diagonal().add_(self.fit.ridge)
        # numbers that act on nothing leave a row of zeros
        matrix.diagonal().mul_(1 + damping).add_(1e-14 * matrix.diagonal().max())
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if failed:
            return replace(self, cost=torch.full_like(self.cost, torch.inf))
        change = -torch.cholesky_solve(down.unsqueeze(-1), factor).squeeze(-1)
        start = self.start
        if elimination is not None:
            of_groups = tangents @ change  # (G, K m)
            start = start + elimination.change(of_groups[self.shots.group])
        return Expanded.expand(self.fit, self.shots, self.eta + change, start)
