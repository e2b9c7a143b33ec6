"""Folds: runs that are left out of samples together, and the judge that scores them."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.laws.judge import Judge
from romkit.laws.samples import LatentSamples, one_axis, trajectory_times
from romkit.numerics import folds

FOLDS = 5
"""Most folds: each costs a fit of the candidates that are left in the race."""

LAST_PART = 0.25
"""Share of a single run that is left out at its end."""


class Fold(NamedTuple):
    """Samples to fit to, and runs (k,) of a judge that are left out."""

    train: LatentSamples
    judge: Judge
    held: Tensor


def folds_of(samples: LatentSamples, number: int = FOLDS) -> list[Tensor]:
    """Divide runs into folds of whole contexts between others; runs, where there is one context.

    Of a single run the last part is left out.

    Returns:
        Numbers (k,) of the runs of each fold.

    Raises:
        InputError: single samples.
    """
    T = len(trajectory_times(samples))
    if len(samples) == T:
        return [torch.zeros(1, dtype=torch.long)]
    contexts = _first_contexts(samples)
    return [torch.from_numpy(rows) for rows in folds(contexts, number)]


def without(samples: LatentSamples, judge: Judge, rows: Tensor) -> Fold:
    """Leave runs (k,) out of samples; of a single run, its last part."""
    times = trajectory_times(samples)
    T = len(times)
    if len(samples) == T:
        trained = round((1 - LAST_PART) * T)
        early = torch.arange(T) < trained
        return Fold(samples.only(early, times[early]), judge.since(trained), rows)
    is_left_out = torch.zeros(len(samples) // T, dtype=torch.bool)
    is_left_out[rows] = True
    train = samples.only(~is_left_out.repeat_interleave(T), times)
    return Fold(train, judge, rows)


def _first_contexts(samples: LatentSamples) -> np.ndarray:
    """Context (C, p) of each trajectory at its first time, of all problems side by side."""
    p = samples.context.shape[-1] - len(samples.control_names)
    assert samples.times is not None  # of whole trajectories
    first = one_axis(samples.context)[:, :: len(samples.times), :p]
    return first.movedim(0, 1).flatten(1).cpu().numpy()
