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


class Fold(NamedTuple):
    """Samples to fit to, and runs (k,) of a judge that are left out."""

    train: LatentSamples
    judge: Judge
    held: Tensor


def folds_of(samples: LatentSamples, number: int = FOLDS) -> list[Tensor]:
    """Divide runs into folds of whole contexts between others; runs, where there is one context.

    A single run is divided into blocks of time, one more than folds: a law forecasts onwards, so
    that the first block is always kept.

    Returns:
        Numbers (k,) of the runs of each fold, of a single run those of its samples.

    Raises:
        InputError: single samples.

    Source: Burman, Chow, Nolan (1994), A cross-validatory method for dependent data, for blocks.
    """
    T = len(trajectory_times(samples))
    if len(samples) == T:
        _, *blocks = torch.arange(T).tensor_split(number + 1)
        return [block for block in blocks if len(block) > 1]
    contexts = _first_contexts(samples)
    return [torch.from_numpy(rows) for rows in folds(contexts, number)]


def drop_runs(samples: LatentSamples, judge: Judge, rows: Tensor) -> Fold:
    """Leave runs (k,) out of samples; of a single run, a block of its samples (k,)."""
    times = trajectory_times(samples)
    T = len(times)
    if len(samples) == T:
        begin, end = int(rows[0]), int(rows[-1]) + 1
        block = torch.zeros(T, dtype=torch.bool)
        block[rows] = True
        train = samples.missing(block)
        if end == T:
            train = samples.only(~block, times[~block])
        return Fold(train, judge.between(begin, end), torch.zeros(1, dtype=torch.long))
    is_left_out = torch.zeros(len(samples) // T, dtype=torch.bool)
    is_left_out[rows] = True
    train = samples.only(~is_left_out.repeat_interleave(T), times)
    return Fold(train, judge, rows)


def _first_contexts(samples: LatentSamples) -> np.ndarray:
    """Context (C, p) of each trajectory at its first time, of all problems side by side."""
    p = samples.context.shape[-1] - len(samples.control_names)
    assert samples.times is not None  # of whole trajectories
    contexts = one_axis(samples.context)[:, :: len(samples.times), :p]
    return contexts.movedim(0, 1).flatten(1).cpu().numpy()
