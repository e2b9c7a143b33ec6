"""Schedules of the learning rate, from the progress of a run and the losses of each seed."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Plateaus(NamedTuple):
    """Memory of a schedule for each seed (S,): its factor, its best loss, and epochs without a
    better one.
    """

    factor: Tensor
    best: Tensor
    bad: Tensor

    @classmethod
    def start(cls, like: Tensor) -> "Plateaus":
        """Memory before the first epoch, for the seeds of `like` (S, P)."""
        ones = like.new_ones(len(like))
        return cls(ones, ones * torch.inf, torch.zeros_like(ones))


class Schedule:
    """Factor of the learning rate of each seed, from the progress of the run and the seed's own
    losses: constant.
    """

    def factors(self, progress: float, plateaus: Plateaus) -> Tensor:
        """(S, 1) factors at `progress` in [0, 1) of the run."""
        return plateaus.factor.unsqueeze(1)

    def observe(self, plateaus: Plateaus, losses: Tensor) -> Plateaus:
        """Memory after an epoch with losses (S,)."""
        return plateaus


@dataclass(frozen=True)
class Cosine(Schedule):
    """A linear rise over the first `warmup` of the run, then half a cosine down to zero."""

    warmup: float = 0.01

    def factors(self, progress: float, plateaus: Plateaus) -> Tensor:
        if progress < self.warmup:
            # not quite zero at the first step
            factor = (progress + 1e-3 * self.warmup) / self.warmup
        else:
            share = (progress - self.warmup) / (1 - self.warmup)
            factor = 0.5 * (1 + math.cos(math.pi * share))
        return (plateaus.factor * factor).unsqueeze(1)


@dataclass(frozen=True)
class Plateau(Schedule):
    """torch.optim.lr_scheduler.ReduceLROnPlateau for each seed: `patience` epochs without gain cost
    a `factor`.

    A gain is a loss below (1 - threshold) times the best. Patience and factor as in Adriaens et al.
    (2026).
    """

    patience: int = 250
    factor: float = 0.9
    threshold: float = 1e-4

    def observe(self, plateaus: Plateaus, losses: Tensor) -> Plateaus:
        better = losses < plateaus.best * (1 - self.threshold)
        best = torch.where(better, losses, plateaus.best)
        bad = torch.where(better, 0.0, plateaus.bad + 1)
        lower = bad > self.patience
        factor = torch.where(lower, plateaus.factor * self.factor, plateaus.factor)
        return Plateaus(factor, best, torch.where(lower, 0.0, bad))


SCHEDULES: dict[str, Schedule] = {
    "cosine": Cosine(),
    "plateau": Plateau(),
    "fast-plateau": Plateau(patience=20, factor=0.7),
    "constant": Schedule(),
}
"""Schedules by the name that a recipe gives; "fast-plateau" is for runs of hundreds of epochs, not
thousands.
"""
