"""Choice of the settings of a law by forecasts of whole contexts that were held out."""

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from romkit.core.errors import FitWarning, InputError
from romkit.core.runtime import track
from romkit.integrators.base import LearnedField
from romkit.integrators.laws.judge import LOST, Judge
from romkit.integrators.laws.samples import LatentSamples, one_axis, trajectory_times

HELD_OUT = 0.25
"""Default share of the contexts by which settings are chosen."""

LEAVES = 10.0
"""Factor on the error of a law whose rollouts leave the data when they go on for as long again."""

ENOUGH = 1.2
"""Error relative to the projection's from which on a better law can gain nothing."""

NEGLIGIBLE = 1e-3
"""Error [deviations of the data] from which on the search ends, too."""

NEARLY = 0.9
"""Share of the largest error from which on all rollouts count as lost: their first samples are
exact."""

FEW = 5
"""Most contexts of which only one is held out."""


class Settings(Protocol):
    """Settings of a law, a dataclass: an `Estimator`."""

    def compared(self, samples: LatentSamples, seed: int) -> LearnedField:
        """Law that is good enough to be compared with others."""

    def fit_samples(self, samples: LatentSamples, *, seed: int) -> LearnedField:
        """Law of samples."""


class Ranked(NamedTuple):
    """Settings with the samples that they are fitted to, and how they forecast held-out runs.

    Attributes:
        error: mean error [deviations of the data], infinite for settings that cannot be fitted or
            whose rollouts are all lost.
        projected: that of the projection on the same runs.
        seconds: of the processor.
    """

    estimator: Settings
    samples: LatentSamples
    error: float
    projected: float
    seconds: float


class Fold(NamedTuple):
    """Samples to fit to, and runs (k,) of a judge that are held out."""

    train: LatentSamples
    judge: Judge
    held: Tensor


def fold(samples: LatentSamples, judge: Judge, validation: float) -> Fold:
    """Hold out whole contexts between others; trajectories, where there is one context; the last
    part of a single trajectory.

    Raises:
        InputError: single samples.
    """
    times = trajectory_times(samples)
    T, number = len(times), len(samples) // len(times)
    if number == 1:
        early = torch.arange(T) < round((1 - validation) * T)
        train = samples.only(early, times[early])
        return Fold(train, judge.since(int(early.sum())), torch.zeros(1, dtype=torch.long))
    group = contexts_of(samples)
    held = torch.from_numpy(np.isin(group, held_out(samples, group, validation)))
    train = samples.only(~held.repeat_interleave(T), times)
    return Fold(train, judge, held.nonzero().squeeze(-1))


def contexts_of(samples: LatentSamples) -> np.ndarray:
    """Number (C,) of the context of each trajectory, in order; of the trajectory, where there is
    one context.
    """
    starts = _first_contexts(samples)
    group = np.unique(starts, axis=0, return_inverse=True)[1].reshape(-1)
    return group if group.max() > 0 else np.arange(len(starts))


def _first_contexts(samples: LatentSamples) -> np.ndarray:
    """Context (C, p) of each trajectory at its first time, of all problems side by side."""
    p = samples.context.shape[-1] - len(samples.control_names)
    first = one_axis(samples.context)[:, :: len(samples.times), :p]
    return first.movedim(0, 1).flatten(1).cpu().numpy()


def held_out(samples: LatentSamples, group: np.ndarray, validation: float) -> list[int]:
    """Numbers of contexts to hold out, evenly among those that are not at the end of a parameter,
    where one would extrapolate.
    """
    number = int(group.max()) + 1
    count = max(1, round(validation * number)) if number > FEW else 1
    starts = _first_contexts(samples)
    _, first = np.unique(group, return_index=True)
    contexts = starts[first]
    candidates = np.arange(number)
    if contexts.shape[-1] > 1:
        varied = contexts.min(0) < contexts.max(0)
        at_end = (contexts == contexts.min(0)) | (contexts == contexts.max(0))
        inner = np.flatnonzero(~at_end[:, varied].any(-1))
        candidates = inner if len(inner) >= count else candidates
    places = [(k + 1) * len(candidates) // (count + 1) for k in range(count)]
    return sorted({int(candidates[min(place, len(candidates) - 1)]) for place in places})


def ranked(
    candidates: Sequence[tuple[Settings, LatentSamples]],
    judge: Judge,
    validation: float,
    seed: int,
    seconds: float = math.inf,
) -> list[Ranked]:
    """Fit each of the settings to a part of the contexts, and forecast the others; the best first.

    Settings that are as good as the projection end the search.

    Args:
        candidates: settings, and whole trajectories to fit them to.
        judge: of the same trajectories.
        validation: share of the contexts that is held out.
        seed: of the fits.
        seconds: of the processor, after which no further candidate is tried.
    """
    ranking, begun = [], time.process_time()
    for estimator, samples in track(candidates, "choosing a law"):
        started = time.process_time()
        if ranking and started - begun > seconds:
            break
        train, of_held, held = fold(samples, judge, validation)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            error = _error(estimator, train, of_held, held, seed)
        projected = of_held.projected(held)
        took = time.process_time() - started
        ranking.append(Ranked(estimator, samples, error, projected, took))
        if error <= max(ENOUGH * projected, NEGLIGIBLE):
            break
    return sorted(ranking, key=lambda each: each.error)


def _error(
    estimator: Settings, train: LatentSamples, judge: Judge, held: Tensor, seed: int
) -> float:
    """Mean error of forecasts of held-out runs, `LEAVES` times as large where they leave the data
    in twice the time; infinite where there is no law, or all are lost.
    """
    try:
        law = estimator.compared(train, seed)
    except InputError:  # more terms than samples, say
        return math.inf
    error = float(judge.errors(law, held).nanmean())
    if not error < NEARLY * LOST:
        return math.inf
    return error if judge.stays(law, held, 2) else LEAVES * error


def fitted(
    ranking: Sequence[Ranked], judge: Judge, seed: int
) -> tuple[LearnedField, Ranked] | None:
    """The best settings fitted to all of their samples, and how they ranked; None where all are
    lost.

    A law whose rollouts leave the data is passed over, where another one stays: on some data an
    equation that followed what was held out diverges once it is fitted to all.
    """
    rows = torch.arange(judge.states.shape[-3])
    best, least = None, math.inf
    for each in ranking:
        if not each.error < math.inf:
            break
        with warnings.catch_warnings():  # of the law that is returned, once, by who returns it
            warnings.simplefilter("ignore", FitWarning)
            law = each.estimator.fit_samples(each.samples, seed=seed)
        if judge.stays(law, rows):
            return law, each
        error = float(judge.errors(law, rows).nanmean())
        if error < min(least, NEARLY * LOST):
            best, least = (law, each), error
    return best


def chosen_settings(candidates: Sequence[tuple[Settings, LatentSamples]], chosen: Ranked) -> str:
    """Settings in which candidates differ, with their values in the chosen one, in words."""
    varied = []
    for field in fields(chosen.estimator):
        values = {getattr(estimator, field.name) for estimator, _ in candidates}
        if len(values) > 1:
            varied.append(f"{field.name}={_short(getattr(chosen.estimator, field.name))}")
    how = f"by forecasts of held-out contexts (error {chosen.error:.2g})"
    return f"{', '.join(varied)} chosen out of {len(candidates)} {how}"


def _short(value: object) -> str:
    """Short text of a setting."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
