"""Ensembles of laws of runs that are drawn again."""

import warnings
from dataclasses import replace
from typing import Annotated

import numpy as np
import torch
import xarray as xr
from annotated_types import Ge
from torch import Tensor

from romkit.core.boundary import Seed, validated
from romkit.core.errors import (
    FitWarning,
    InputError,
)
from romkit.core.parallel import Pool, cut, mapped
from romkit.core.types import Array, Kwargs
from romkit.data import check_states
from romkit.integrators import LearnedField
from romkit.laws import Estimator, LatentSamples, PolynomialLaw
from romkit.laws.samples import SAMPLED
from romkit.projections import Projection, stack
from romkit.verbs.ensemble import Ensemble, stacked
from romkit.verbs.law import chosen_settings


@validated
def bootstrap(
    projection: Projection,
    law: Estimator,
    data: xr.Dataset,
    *,
    members: Annotated[int, Ge(2)] = 20,
    seed: Seed = 0,
    executor: Pool | None = None,
    start: LearnedField | None = None,
) -> Ensemble:
    """Return an ensemble of laws on one projection, each fitted to trajectories that are drawn with
    replacement.

    Intervals are calibrated by the trajectories that a member has not drawn. They know nothing of
    the error of the projection at contexts that it was not trained on: where there are trajectories
    for it, `calibrated(validation)`.

    Args:
        projection: a single one.
        law: settings of the laws.
        data: that the laws are fitted to, with three trajectories or more.
        members: how many laws.
        seed: of the draws, and of the fits.
        executor: fits pieces of the members in other processes; `concurrent.futures`, submitit and
            dask have some.
        start: a law with the settings `law`, fitted to all trajectories, from which polynomial
            laws begin; by default it is fitted here.

    Raises:
        InputError: a stack of projections, or too few trajectories.

    Source: Efron, Tibshirani (1993), of trajectories; Kim, Xu, Barber (2020),
    jackknife+-after-bootstrap.

    Example:
        >>> import romkit
        >>> from romkit.laws import SINDy
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.15, 3.16, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> ensemble = romkit.bootstrap(pod, SINDy(degree=1, threshold=0.0), data, members=5)
        >>> ensemble.law.coefficients.shape  # members, terms, latent coordinates
        torch.Size([5, 6, 2])
    """
    if projection.seeds is not None:
        raise InputError(
            "projection",
            expected="a single one",
            got=f"a stack of {projection.seeds}",
            fix="use it as it is: romkit.Ensemble(projection, law.fit(projection, data))",
        )
    laws, drawn = _resampled_laws(projection, law, data, members, seed, executor, start)
    ensemble = Ensemble(stack([projection] * members), laws)
    number = data.sizes["trajectory"]
    runs = np.arange(number)
    absent = [np.isin(runs, draw, invert=True) for draw in drawn]
    unseen = np.stack(absent)
    usable = unseen.sum(0) >= 2
    if usable.sum() < 2:
        return ensemble
    return ensemble.calibrated(
        data.isel(trajectory=usable), members=torch.from_numpy(unseen[:, usable])
    )


def _resampled_laws(
    projection: Projection,
    law: Estimator,
    data: xr.Dataset,
    members: int,
    seed: int,
    executor: Pool | None,
    start: LearnedField | None,
) -> tuple[LearnedField, Array]:
    """Return a stack of laws of trajectories that are drawn with replacement, and the draws
    (members, C).
    """
    # number of trajectories that a bootstrap draws from
    number = check_states(data).sizes["trajectory"]
    if projection.law_space(data)[0] is not projection:
        raise InputError(
            "projection",
            expected="one without symmetry",
            got=projection.name,
            fix="stack = fit(..., seeds=range(5), symmetry=...), then romkit.Ensemble(stack, law.fit(stack, data))",
        )
    if number < 3:
        raise InputError(
            "data",
            expected="three trajectories or more",
            got=f"{number}",
            fix="give more trajectories, or an ensemble of seeds",
        )
    drawn = np.random.default_rng(seed).integers(number, size=(members, number))
    samples = law.samples(projection, data)
    if len(law.candidates(samples)) > 1:  # chosen once, so that members have the same terms
        law = chosen_settings(law, projection, data, seed)
    if start is None and isinstance(law, PolynomialLaw):
        start = law.fit_samples(samples, seed=seed)
    pieces = [(law, start, samples, drawn[rows], seed) for rows in cut(members, executor)]
    stacks = mapped(_fitted, pieces, executor, "pieces of the members")
    laws = stacks[0] if len(stacks) == 1 else stacked(stacks, torch.cat)
    source = f"{members} bootstraps of {number} trajectories: {laws.source}"
    laws = replace(laws, source=source)
    law.warn_if_useless(laws, _repeated(samples, members))
    return laws, drawn


def _fitted(
    law: Estimator,
    start: LearnedField | None,
    samples: LatentSamples,
    drawn: Array,
    seed: Seed,
) -> LearnedField:
    """Return a stack of laws of trajectories (members, C) that were drawn."""
    draws = [_resampled(samples, torch.from_numpy(draw)) for draw in drawn]
    with warnings.catch_warnings():  # of the ensemble, once, by `bootstrap`
        warnings.simplefilter("ignore", FitWarning)
        # each misses others where samples are missing, so that a stack of samples would miss all
        if not bool(samples.observed.all()):
            return stacked([_one_fitted(law, start, draw, seed) for draw in draws])
        arrays: Kwargs = {
            name: torch.stack([getattr(draw, name) for draw in draws]) for name in SAMPLED
        }
        return _one_fitted(law, start, replace(samples, **arrays), seed)


def _one_fitted(
    law: Estimator, start: LearnedField | None, samples: LatentSamples, seed: Seed
) -> LearnedField:
    if start is not None:
        return law.refitted(start, samples, seed, resampled=True)
    return law.fit_samples(samples.scaled(), seed=seed)


def _repeated(samples: LatentSamples, members: int) -> LatentSamples:
    """Return samples repeated for each member of a stack."""
    arrays = {}
    for name in SAMPLED:
        values = getattr(samples, name)
        arrays[name] = values.expand(members, *values.shape)
    return replace(samples, **arrays)


def _resampled(samples: LatentSamples, draw: Tensor) -> LatentSamples:
    """Return the trajectories of these numbers."""
    assert samples.times is not None  # of whole trajectories
    T = len(samples.times)
    rows = (draw.unsqueeze(-1) * T + torch.arange(T)).flatten()
    arrays = {name: getattr(samples, name)[..., rows, :] for name in SAMPLED}
    return replace(samples, **arrays)
