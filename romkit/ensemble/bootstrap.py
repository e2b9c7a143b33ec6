"""Bootstraps of a law: whole trajectories drawn with replacement, a law for each draw."""

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.boundary import Count, Seed, checked
from romkit.data import check_states
from romkit.ensemble.base import Ensemble
from romkit.errors import InputError
from romkit.integrators import Estimator, LatentSamples, LearnedField
from romkit.integrators.samples import SAMPLED
from romkit.projections import Projection, stack

T = TypeVar("T")

MOST_MEMBERS = 10_000
"""Of an ensemble, beyond which it is a slip of the hand."""


@checked
def bootstrap(
    projection: Projection, law: Estimator, data: xr.Dataset, *, members: Count = 20, seed: Seed = 0
) -> Ensemble:
    """An ensemble of laws on one projection, each fitted to trajectories that are drawn with replacement.

    Intervals are calibrated by the trajectories that a member has not drawn. They know nothing of the error of the
    projection at contexts that it was not trained on: where there are trajectories for it, `calibrated(validation)`.

    Args:
        projection: a single one.
        law: settings of the laws.
        data: that the laws are fitted to, with three trajectories or more.
        members: how many laws.
        seed: of the draws, and of the fits.

    Raises:
        InputError: a stack of projections, or too few trajectories.

    Source: Efron, Tibshirani (1993), of trajectories; Kim, Xu, Barber (2020), jackknife+-after-bootstrap.

    Example:
        >>> import romkit
        >>> from romkit.integrators import SINDy
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.15, 3.16, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> ensemble = romkit.bootstrap(pod, SINDy(degree=1, threshold=0.0), data, members=5)
        >>> ensemble.law.coefficients.shape  # members, terms, latent coordinates
        torch.Size([5, 6, 2])
    """
    if not 2 <= members <= MOST_MEMBERS:
        fix = "give members=20, say"
        raise InputError("members", expected=f"2 to {MOST_MEMBERS}", got=members, fix=fix)
    if projection.seeds is not None:
        fix = "use it as it is: romkit.Ensemble(projection, law.fit(projection, data))"
        raise InputError("projection", expected="a single one", got=f"a stack of {projection.seeds}", fix=fix)
    number = check_states(data).sizes["trajectory"]
    if number < 3:
        fix = "give more trajectories, or an ensemble of seeds"
        raise InputError("data", expected="three trajectories or more", got=f"{number}", fix=fix)
    drawn = np.random.default_rng(seed).integers(number, size=(members, number))
    fitted = _fitted(law, law.samples(projection, data), drawn, seed)
    fitted = replace(fitted, source=f"{members} bootstraps of {number} trajectories: {fitted.source}")
    ensemble = Ensemble(stack([projection] * members), fitted)
    unseen = np.stack([~np.isin(np.arange(number), draw) for draw in drawn])
    usable = unseen.sum(0) >= 2
    if usable.sum() < 2:
        return ensemble
    return ensemble._calibrated(data.isel(trajectory=usable), unseen[:, usable])


def _fitted(law: Estimator, samples: LatentSamples, drawn: np.ndarray, seed: Seed) -> LearnedField:
    """A stack of laws: fitted all at once, or where samples are missing one by one, since each misses others."""
    several = [_resampled(samples, torch.from_numpy(draw)) for draw in drawn]
    if not bool(samples.observed.all()):
        return stacked([law.fit_samples(each.scaled(), seed=seed) for each in several])
    parts = {part: torch.stack([getattr(each, part) for each in several]) for part in SAMPLED}
    return law.fit_samples(replace(samples, **parts).scaled(), seed=seed)


def _resampled(samples: LatentSamples, draw: Tensor) -> LatentSamples:
    """The trajectories of these numbers."""
    T = len(samples.times)
    rows = (draw.unsqueeze(-1) * T + torch.arange(T)).flatten()
    parts = {part: getattr(samples, part)[..., rows, :] for part in SAMPLED}
    return replace(samples, **parts)


def stacked(laws: list[T]) -> T:
    """Laws of one kind and one size as a stack; the scaling of the context is shared."""
    first = laws[0]
    if torch.is_tensor(first):
        return torch.stack(laws)
    if isinstance(first, tuple):
        return tuple(map(stacked, zip(*laws, strict=True))) if any(not isinstance(x, str) for x in first) else first
    if not is_dataclass(first):
        return first
    own = {field.name: [getattr(each, field.name) for each in laws] for field in fields(first)}
    return replace(first, **{name: stacked(values) for name, values in own.items() if name != "context"})
