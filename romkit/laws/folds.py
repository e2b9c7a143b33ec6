"""Folds: samples of contexts that are left out in turn, and those that judge them."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.data.context import between_ends
from romkit.laws.judge import Judge
from romkit.laws.samples import LatentSamples, one_axis, trajectory_times

FEW = 5
"""Most contexts of which only one is held out at a time."""

FOLDS = 3
"""Most folds of so few contexts."""


class Fold(NamedTuple):
    """Samples to fit to, and runs (k,) of a judge that are held out."""

    train: LatentSamples
    judge: Judge
    held: Tensor


def fold(samples: LatentSamples, judge: Judge, validation: float, number: int = 0) -> Fold:
    """Hold out whole contexts between others; trajectories, where there is one context; the last
    part of a single trajectory. A second fold, of number 1, holds out their neighbours; of few
    contexts each fold holds out one, the middle one first.

    Raises:
        InputError: single samples.
    """
    times = trajectory_times(samples)
    T = len(times)
    if len(samples) == T:
        trained = round((1 - validation) * T)
        early = torch.arange(T) < trained
        train = samples.only(early, times[early])
        only_run = torch.zeros(1, dtype=torch.long)
        return Fold(train, judge.since(trained), only_run)
    group = contexts_of(samples)
    contexts = held_out(samples, group, validation, number)
    held = torch.from_numpy(np.isin(group, contexts))
    of_samples = held.repeat_interleave(T)
    train = samples.only(~of_samples, times)
    return Fold(train, judge, held.nonzero().squeeze(-1))


def contexts_of(samples: LatentSamples) -> np.ndarray:
    """Number (C,) of the context of each trajectory, in order; of the trajectory, where there is
    one context.
    """
    starts = _first_contexts(samples)
    group = np.unique(starts, axis=0, return_inverse=True)[1].reshape(-1)
    if group.max() == 0:
        return np.arange(len(starts))
    return group


def _first_contexts(samples: LatentSamples) -> np.ndarray:
    """Context (C, p) of each trajectory at its first time, of all problems side by side."""
    p = samples.context.shape[-1] - len(samples.control_names)
    first = one_axis(samples.context)[:, :: len(samples.times), :p]
    return first.movedim(0, 1).flatten(1).cpu().numpy()


def held_out(
    samples: LatentSamples, group: np.ndarray, validation: float, shift: int = 0
) -> list[int]:
    """Numbers of contexts to hold out, evenly among those that are not at the end of a parameter,
    where one would extrapolate; `shift` later ones, or earlier ones where these are at the end.
    """
    number = int(group.max()) + 1
    if number <= FEW:
        inner = _inner(samples, group)
        return [inner[shift % len(inner)]]
    count = max(1, round(validation * number))
    candidates = np.arange(number)
    contexts = _contexts(samples, group)
    # of one parameter, the first and the last context are its ends
    earliest = 1
    latest = number - 2
    if contexts.shape[-1] > 1:
        inside = np.flatnonzero(between_ends(contexts))
        if len(inside) >= count:
            candidates = inside
        earliest = 0
        latest = len(candidates) - 1
    number = len(candidates)
    even = [k * number // (count + 1) for k in range(1, count + 1)]
    if even[-1] + shift > latest and even[0] - shift >= earliest:
        shift = -shift
    places = [min(place + shift, latest) for place in even]
    return sorted({int(candidates[place]) for place in places})


def folds(samples: LatentSamples) -> range:
    """Numbers of the folds by which settings are compared: of few contexts each inner one is held
    out in turn, because a single one would rank settings by chance.
    """
    return range(min(chosen_by(samples), number_of_folds(samples)))


def chosen_by(samples: LatentSamples) -> int:
    """Most folds by which settings are chosen."""
    return FOLDS if has_few_contexts(samples) else 1


def number_of_folds(samples: LatentSamples) -> int:
    """Number of folds that hold out different samples."""
    if len(samples) == len(trajectory_times(samples)):
        return 1
    if not has_few_contexts(samples):
        return 2
    return len(_inner(samples, contexts_of(samples)))


def has_few_contexts(samples: LatentSamples) -> bool:
    return int(contexts_of(samples).max()) < FEW


def _inner(samples: LatentSamples, group: np.ndarray) -> list[int]:
    """Numbers of the contexts between others, the middle one first; of all, where none is."""
    contexts = _contexts(samples, group)
    inside = np.flatnonzero(between_ends(contexts))
    if len(inside) == 0:
        inside = np.arange(len(contexts))
    middle = len(inside) // 2
    return [*inside[middle:].tolist(), *inside[:middle].tolist()]


def _contexts(samples: LatentSamples, group: np.ndarray) -> np.ndarray:
    """Context (C, p) of each number."""
    _, first = np.unique(group, return_index=True)
    return _first_contexts(samples)[first]
