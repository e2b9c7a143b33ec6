"""Estimators of laws: one `fit`, and settings that are selected by held-out rollouts."""

import abc
import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Part, Seed, validated
from romkit.core.errors import FitWarning, InputError
from romkit.data.context import interpolated
from romkit.integrators.base import LearnedField, default_solver
from romkit.integrators.laws import samples as sources
from romkit.integrators.laws.samples import LatentSamples, ProjectionFamily
from romkit.integrators.region import Region

HELD_OUT = 0.25
"""Default share of the trajectories by which settings are chosen."""

LOST = 2.0
"""Largest error that counts [standard deviations]; two independent signals have 1.4."""


def choose(
    estimator: "Estimator",
    samples: LatentSamples,
    grid: Mapping[str, Sequence[object]],
    validation: float,
    seed: int,
) -> LearnedField:
    """Law with the combination of settings that follows held-out trajectories best, fitted to all trajectories.

    Args:
        estimator: settings that are not chosen.
        samples: whole trajectories.
        grid: values to choose from, by the name of a setting.
        validation: share of the trajectories that is held out, by context; of a single one, the last part of it.
        seed: of the draw, and of the fits.

    Raises:
        InputError: an unknown setting, samples that are no trajectories, or candidates that all diverge.
    """
    for name in grid:
        checks.one_of("select", name, [field.name for field in fields(estimator)])
    train, held = split(samples, validation, seed)
    candidates = [
        replace(estimator, **dict(zip(grid, each, strict=True))) for each in itertools.product(*grid.values())
    ]
    errors = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        for candidate in candidates:
            try:
                errors.append(rollout_error(candidate.fit_samples(train, seed=seed), held).nanmean().item())
            except InputError:  # more terms than samples, say
                errors.append(LOST)
    best = int(np.argmin(errors))
    if not errors[best] < LOST:
        fix = "widen the grid, or take another kind of law"
        got = f"{len(candidates)} that are lost from the start"
        raise InputError("select", expected="a candidate whose rollouts stay near the data", got=got, fix=fix)
    law = candidates[best].fit_samples(samples, seed=seed)
    chosen = ", ".join(f"{name}={_short(getattr(candidates[best], name))}" for name in grid)
    held_out = f"{len(held) // len(held.times)} held out (error {errors[best]:.2g})"
    return replace(law, source=f"{law.source}; {chosen} chosen out of {len(candidates)} by rollouts of {held_out}")


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def split(samples: LatentSamples, validation: float, seed: int) -> tuple[LatentSamples, LatentSamples]:
    """Trajectories to fit to, and those that are held out: whole contexts, where there are several.

    Raises:
        InputError: single samples, or a share that leaves nothing on one side.
    """
    times = sources.trajectory_times(samples)
    T, number = len(times), len(samples) // len(times)
    if number == 1:
        early = torch.arange(T) < round((1 - validation) * T)
        return samples.only(early, times[early]), samples.only(~early, times[~early])
    draw = np.random.default_rng(seed)
    p = samples.context.shape[-1] - len(samples.control_names)
    starts = samples.context[..., ::T, :p].movedim(-2, 0).flatten(1).cpu().numpy()
    groups = np.unique(starts, axis=0, return_inverse=True)[1].reshape(-1)
    groups = groups if groups.max() > 0 else np.arange(number)
    kinds = draw.permutation(groups.max() + 1)
    out = kinds[: min(len(kinds) - 1, max(1, round(validation * len(kinds))))]
    held = torch.from_numpy(np.isin(groups, out)).repeat_interleave(T)
    return samples.only(~held, times), samples.only(held, times)


def rollout_error(law: LearnedField, samples: LatentSamples) -> Tensor:
    """Error (..., C) of rollouts of a law from the first state of each trajectory: mean over time of the distance.

    The distance is measured in standard deviations of the latent coordinates (root mean square over them), at most
    `LOST`. Missing samples do not count; a trajectory without a first state, where others have one, has NaN.
    """
    m, times = samples.targets.shape[-1], samples.times
    parts = (samples.inputs, samples.context, samples.drift)
    truth, context, drift = (x.double().unflatten(-2, (-1, len(times))) for x in parts)
    complete = truth.isfinite().all(-1).reshape(-1, *truth.shape[-3:-1]).all(0)
    first = int(complete.any(0).int().argmax())
    times, truth = times[first:] - times[first], truth[..., first:, :]
    context, drift = (_filled(x[..., first:, :]).movedim(-2, 0) for x in (context, drift))  # (T, ..., C, k)
    at, drifting = interpolated(times, context), interpolated(times, drift)
    moving = not bool((context == context[:1]).all())
    fixed = None if moving else law.motion(context[0])
    pad = truth.shape[-1] - m

    def field(t: Tensor, w: Tensor) -> Tensor:
        if fixed is not None:
            return fixed(t, w)
        return law.motion(at(t))(t, w) + torch.nn.functional.pad(drifting(t), (0, pad))

    with torch.no_grad():
        start = truth[..., 0, :].contiguous()
        reached = default_solver(times)(field, start, times).states
    z = truth[..., :m]
    deviation = (z - z.nanmean((-3, -2), keepdim=True)).square().nanmean((-3, -2), keepdim=True).sqrt()
    apart = ((reached[..., :m] - z) / torch.where(deviation > 0, deviation, 1.0)).square().mean(-1).sqrt()
    missing = z.isnan().any(-1) | start.isnan().any(-1, keepdim=True)
    return apart.nan_to_num(nan=LOST).clamp(max=LOST).masked_fill(missing, torch.nan).nanmean(-1)


def _filled(values: Tensor) -> Tensor:
    """Values (..., T, k), missing ones replaced by those before."""
    known = values.isfinite().all(-1) * torch.arange(values.shape[-2])
    return values.gather(-2, known.cummax(-1).values.unsqueeze(-1).expand_as(values))


class Estimator(abc.ABC):
    """Settings of a fit; `fit` returns the law, which `romkit.rollout`, `follow` and `forecast` take as dynamics.

    Example:
        >>> import romkit
        >>> from romkit.integrators import LAWS, Estimator
        >>> all(issubclass(law, Estimator) for law in LAWS.values())
        True
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.15, 3.18])
        >>> law = LAWS["dmd"]().fit(romkit.fit("pod", data, latent_dim=2), data)
        >>> law.latent_dim, law.context_names
        (2, ('F',))
    """

    @validated
    def fit(
        self,
        projection: ProjectionFamily,
        data: xr.Dataset,
        *,
        seed: Seed = 0,
        select: Mapping[str, Sequence[object]] | None = None,
        validation: Part | None = None,
    ) -> LearnedField:
        """Law of a projection on a dataset; of second order where the dataset has a variable `acceleration`.

        Args:
            projection: trained on such data; a stack of seeds gives a stack of laws.
            data: in romkit's schema; without `velocity`, rates come from differentiation in time, and `source` of the
                law says so.
            seed: of all random numbers in the fit, the same for all laws of a stack.
            select: settings to choose by rollouts of held-out trajectories, and the values to choose from:
                `{"threshold": (0.01, 0.03, 0.1), "degree": (2, 3)}`. `source` of the law says which were taken.
            validation: share of the trajectories that is held out for this choice, by default a quarter; the law is
                then fitted to all.

        Raises:
            InputError: data of another shape than the projection's, times that cannot be used, or `validation` with
                nothing to choose.
        """
        samples = self.samples(projection, data).scaled()
        return self.fit_samples(samples, seed=seed, select=select, validation=validation)

    @staticmethod
    @validated
    def samples(projection: ProjectionFamily, data: xr.Dataset) -> LatentSamples:
        """Samples that `fit` fits to, before they are scaled."""
        return (sources.encoded_samples if "velocity" in data else sources.differentiated_samples)(projection, data)

    @validated
    def fit_samples(
        self,
        samples: object,
        zdot: object = None,
        context: object = None,
        *,
        seed: Seed = 0,
        select: Mapping[str, Sequence[object]] | None = None,
        validation: Part | None = None,
        **labels: object,
    ) -> LearnedField:
        """Law of samples, which are taken as they are: scale them by `LatentSamples.scaled`.

        Args:
            samples: `LatentSamples`; or z, with `zdot`, `context` and labels as in `LatentSamples.first_order`.
            zdot: ż where z is given.
            context: of each z.
            seed: as in `fit`.
            select: as in `fit`.
            validation: as in `fit`.
            **labels: `names`, `parameters`, `times`, `source`.

        Raises:
            InputError: shapes that do not match, values that are not finite, or too few samples.
        """
        if not isinstance(samples, LatentSamples):
            samples = LatentSamples.first_order(samples, zdot, context, **labels)
        elif given := [*labels, *(name for name, value in (("zdot", zdot), ("context", context)) if value is not None)]:
            fix = "drop it: LatentSamples have their own"
            raise InputError(", ".join(given), expected="nothing beside samples", got="a value", fix=fix)
        if select is not None:
            return choose(self, samples, select, HELD_OUT if validation is None else validation, seed)
        if validation is not None:
            own = hasattr(self, "validation")  # of an estimator that chooses some settings without `select`
            fix = f"give it to {type(self).__name__}" if own else "name what to choose by it, or drop it"
            raise InputError("validation", expected="select beside it", got=validation, fix=fix)
        return replace(self._fit(samples, seed), domain=Region.of(samples.latents))

    @abc.abstractmethod
    def _fit(self, samples: LatentSamples, seed: int) -> LearnedField: ...
