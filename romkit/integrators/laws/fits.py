"""Fits of one law by shooting: from short windows to whole trajectories."""

from collections.abc import Iterator

import torch
from torch import Tensor

from romkit.integrators.laws.features import Features
from romkit.integrators.laws.samples import LatentSamples
from romkit.integrators.laws.shooting import (
    CLEAN,
    LEAST,
    POLISHED,
    POLISHING,
    RETURN,
    ROUGH,
    SHORTEST,
    Stage,
    Structure,
    polished,
    refinements,
)
from romkit.integrators.laws.trajectories import ShootingProblem

COMPARED = 8.0
"""Longest windows [time scales] of fits that are only compared: longer ones change no order."""

FADED = 1e-5
"""Weight of displaced samples in the longest of these windows."""

FEW = 2
"""Most steps from a law of all samples to one of samples that were drawn from them."""

TRIED = 4
"""Most windows after which coefficients are asked whether their rollouts stay near the data."""

FEW_CONTEXTS, STRAINED = 5, 1.3
"""Most contexts of a law whose windows stop growing where longer ones make it worse on shorter ones,
and the factor on their error from which on they do."""


class Fit:
    """Fit of the coefficients (K q, m) of one law.

    Attributes:
        problem: its trajectories.
        structure: its motion; all coefficients are free.
        ridge: see `PolynomialLaw`.
        zero: coefficients to begin at, where there are no better ones.
    """

    def __init__(self, samples: LatentSamples, basis: Features, ridge: float):
        self.problem = ShootingProblem.of(samples, basis)
        self.ridge = ridge
        m = samples.targets.shape[-1]
        self.zero = torch.zeros(len(basis.names), m, dtype=torch.float64)
        free = torch.ones_like(self.problem.theta(self.zero), dtype=torch.bool)
        self.structure = Structure(self.problem.motion, free)

    def brief(self, near: Tensor | None = None) -> Tensor:
        """Coefficients after windows of some time scales, good enough to be compared; from those of
        a law of another ridge the longest of these windows are enough.
        """
        stages = self._stages(self.zero, SHORTEST)
        if near is not None:
            stages = self._stages(near, COMPARED / 2, FADED)
        for stage in stages:
            if stage.duration >= COMPARED / 2:
                break
        return self.problem.coefficients(stage.theta)

    def whole(self, near: Tensor | None = None) -> Tensor:
        """Coefficients after the windows with which whole trajectories are followed best; from
        those of a law of most of the samples windows of some time scales can begin.
        """
        if near is None:
            refined = self._stages(self.zero, SHORTEST)
        else:
            refined = self._stages(near, ROUGH)
        stages: list[Stage] = []
        for stage in refined:
            if stages and self._strains(stages[-1], stage):
                break
            stages.append(stage)
        return self.problem.coefficients(self._best(stages))

    def _strains(self, shorter: Stage, longer: Stage) -> bool:
        """Whether a law of few contexts follows longer windows at the cost of the shorter ones.

        It then lacks terms, of the context most of all, and what makes up for them at the contexts
        of the data is wrong between them.
        """
        contexts = len(self.problem.runs.mix)
        if not 1 < contexts <= FEW_CONTEXTS or longer.duration <= COMPARED:
            return False
        before = self.problem.error(shorter.theta, length=shorter.length)
        after = self.problem.error(longer.theta, length=shorter.length)
        return after > STRAINED * before

    def resampled(self, near: Tensor) -> Tensor:
        """Coefficients near those of a law of all samples that these were drawn from."""
        stage = self._whole_runs(self.problem.theta(near))
        if self.problem.error(stage.theta, POLISHED) < CLEAN:
            theta = self._polished(stage, FEW)
        else:
            theta = self._best([stage, *self._stages(near, stage.duration, LEAST)])
        return self.problem.coefficients(theta)

    def _whole_runs(self, theta: Tensor) -> Stage:
        """Coefficients before a fit to windows of whole runs."""
        runs = self.problem.runs
        duration = float(runs.times[-1] - runs.times[0])
        return Stage(duration, len(runs.times) - 1, theta)

    def _stages(self, near: Tensor, shortest: float, strongest: float = RETURN) -> Iterator[Stage]:
        return refinements(
            self.structure,
            self.problem.runs,
            self.problem.theta(near),
            shortest=shortest,
            strongest=strongest,
            ridge=self.ridge,
        )

    def _best(self, stages: list[Stage]) -> Tensor:
        """Coefficients that follow whole trajectories best, of those whose rollouts stay near
        them.
        """
        errors = [self.problem.error(stage.theta) for stage in stages]
        ranking = sorted(range(len(stages)), key=errors.__getitem__)
        best = ranking[0]
        for k in ranking[:TRIED]:
            if self.problem.stays(stages[k].theta):
                best = k
                break
        if errors[best] >= CLEAN:
            return stages[best].theta
        theta = self._polished(stages[best])
        # windows that are shorter leave an error that grows over the run
        return self._polished(self._whole_runs(theta), FEW)

    def _polished(self, stage: Stage, trials: int = POLISHING) -> Tensor:
        closer = polished(self.structure, self.problem.runs, stage, self.ridge, trials)
        # without what holds coefficients where there are no data, a rollout may get lost there
        stays = self.problem.stays
        if stays(closer) or not stays(stage.theta):
            return closer
        return stage.theta
