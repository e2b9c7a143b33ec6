"""Estimators of laws: one `fit`, and settings that are selected by held-out rollouts."""

import abc
import itertools
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Part, Seed, validated
from romkit.core.errors import FitWarning, InputError
from romkit.core.runtime import track
from romkit.data.context import interpolated
from romkit.integrators.base import LearnedField, default_solver
from romkit.integrators.laws import samples as sources
from romkit.integrators.laws.phase import with_phase
from romkit.integrators.laws.samples import LatentSamples, ProjectionFamily
from romkit.integrators.region import Region

HELD_OUT = 0.25
"""Default share of the trajectories by which settings are chosen."""

LOST = 2.0
"""Largest error that counts [standard deviations]; two independent signals have 1.4."""


WANDERING = 10.0
"""Factor on the error of a law whose rollouts leave the data when they go on for as long again."""

AROUND = 3.0
"""Distance from the mean, in the largest one of the data, up to which a rollout that goes on counts
as near them.
"""


class Ranked(NamedTuple):
    """Settings, the samples that they were fitted to, their error on held-out trajectories, and
    seconds.

    The error is infinite for settings that cannot be fitted, or whose rollouts are all lost from
    the start.
    """

    estimator: "Estimator"
    samples: LatentSamples
    error: float
    seconds: float


def ranked(
    candidates: Sequence[tuple["Estimator", LatentSamples]],
    validation: float,
    seed: int,
    seconds: float = math.inf,
) -> list[Ranked]:
    """Fit each of the settings to a part of its samples, and follow the others; the best first.

    Args:
        candidates: settings, and whole trajectories to fit them to.
        validation: share of the trajectories that is held out, by context; of a single one, the
            last part of it.
        seed: of the draw, and of the fits.
        seconds: after which no further candidate is tried.
    """
    found, begun = [], time.perf_counter()
    parts = {id(samples): splits(samples, validation, seed) for _, samples in candidates}
    for estimator, samples in track(candidates, "choosing a law"):
        started = time.perf_counter()
        if found and started - begun > seconds:
            break
        errors = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            for train, held in parts[id(samples)][: estimator.FOLDS]:
                try:
                    errors.append(score(estimator.fit_samples(train, seed=seed), held))
                except InputError:  # more terms than samples, say
                    errors.append(math.inf)
        error = sum(errors) / len(errors)
        error = error if error < WANDERING * LOST else math.inf
        found.append(Ranked(estimator, samples, error, time.perf_counter() - started))
    return sorted(found, key=lambda each: each.error)


def score(law: LearnedField, samples: LatentSamples) -> float:
    """Mean of `rollout_error`, times `WANDERING` for those that do not stay, the largest if all are
    lost.
    """
    errors, stays = rollout_error(law, samples)
    error, late = (
        errors.nanmean().item(),
        1 - 1 / len(samples.times),
    )  # the first sample has no error
    if not error < (1 - 1e-6) * late * LOST:
        return WANDERING * LOST
    return error * (WANDERING + (1 - WANDERING) * stays.item())


def refitted(ranking: Sequence[Ranked], seed: int) -> tuple[LearnedField, Ranked] | None:
    """The best settings fitted to all of their samples, and how they ranked; None where all are
    lost.

    The next ones are fitted as well, as long as they promise less than the fit to all that is the
    best so far: on some data, an equation that followed what was held out diverges once it is
    fitted to all.
    """
    found, least = None, math.inf
    for each in ranking:
        if least <= each.error:
            break
        law = each.estimator.fit_samples(each.samples, seed=seed)
        if (error := score(law, each.samples)) < least:
            found, least = (law, each), error
    return found if least < WANDERING * LOST else None


def chosen_settings(candidates: Sequence[tuple["Estimator", LatentSamples]], chosen: Ranked) -> str:
    """Settings in which candidates differ, with their values in the chosen one, in words."""
    varied = {
        f.name: {getattr(each, f.name) for each, _ in candidates} for f in fields(chosen.estimator)
    }
    names = [name for name, values in varied.items() if len(values) > 1]
    values = ", ".join(f"{name}={_short(getattr(chosen.estimator, name))}" for name in names)
    return f"{values} chosen out of {len(candidates)} by rollouts of held-out trajectories (error {chosen.error:.2g})"


def _short(value: object) -> str:
    """Short text of a setting."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def splits(
    samples: LatentSamples, validation: float, seed: int
) -> list[tuple[LatentSamples, LatentSamples]]:
    """Pairs of trajectories to fit to, and others that are held out: whole contexts, where there
    are several.

    Contexts between others are held out once each, as far as their number is a multiple of the
    share.

    Raises:
        InputError: single samples, or a share that leaves nothing on one side.
    """
    times = sources.trajectory_times(samples)
    T, number = len(times), len(samples) // len(times)
    if number == 1:
        early = torch.arange(T) < round((1 - validation) * T)
        return [(samples.only(early, times[early]), samples.only(~early, times[~early]))]
    draw = np.random.default_rng(seed)
    p = samples.context.shape[-1] - len(samples.control_names)
    starts = samples.context[..., ::T, :p].movedim(-2, 0).flatten(1).cpu().numpy()
    groups = np.unique(starts, axis=0, return_inverse=True)[1].reshape(-1)
    groups = groups if groups.max() > 0 else np.arange(number)
    at_end = ((starts == starts.min(0)) | (starts == starts.max(0)))[
        :, starts.min(0) < starts.max(0)
    ].any(-1)
    kinds = draw.permutation(groups.max() + 1)
    inner = ~np.isin(kinds, groups[at_end])
    size = min(len(kinds) - 1, max(1, round(validation * len(kinds))))
    kinds, found = kinds[np.argsort(~inner, kind="stable")], []
    for first in range(0, max(1, inner.sum() - size + 1), size):
        held = torch.from_numpy(np.isin(groups, kinds[first : first + size])).repeat_interleave(T)
        found.append((samples.only(~held, times), samples.only(held, times)))
    return found


def rollout_error(law: LearnedField, samples: LatentSamples) -> tuple[Tensor, Tensor]:
    """Error (..., C) of rollouts of a law from the first state of each trajectory, and the share of
    them that stays.

    The error is the mean over time of the distance in standard deviations of the latent coordinates
    (root mean square over them), at most `LOST`. Missing samples do not count; a trajectory without
    a first state, where others have one, has NaN. A rollout stays if in the second half it moves
    about its mean as far as the data do, up to a factor of two and a tenth of a deviation, and if
    it does not end, at a constant context after as long again, farther from the mean than `AROUND`
    times the farthest datum: a law at rest, whose error is 1, is no better than one that lost the
    phase.
    """
    m, times = samples.targets.shape[-1], samples.times
    parts = (samples.inputs, samples.context, samples.drift)
    truth, context, drift = (x.double().unflatten(-2, (-1, len(times))) for x in parts)
    complete = truth.isfinite().all(-1).reshape(-1, *truth.shape[-3:-1]).all(0)
    first = int(complete.any(0).int().argmax())
    times, truth = times[first:] - times[first], truth[..., first:, :]
    context, drift = (
        _filled(x[..., first:, :]).movedim(-2, 0) for x in (context, drift)
    )  # (T, ..., C, k)
    at, drifting = interpolated(times, context), interpolated(times, drift)
    moving = not bool((context == context[:1]).all())
    fixed = None if moving else law.motion(context[0])
    pad = truth.shape[-1] - m

    def field(t: Tensor, w: Tensor) -> Tensor:
        if fixed is not None:
            return fixed(t, w)
        return law.motion(at(t))(t, w) + torch.nn.functional.pad(drifting(t), (0, pad))

    further = times if moving else torch.cat([times, times[-1] + times[1:]])
    with torch.no_grad():
        start = truth[..., 0, :].contiguous()
        reached = default_solver()(field, start, further, engine="torch").states[..., :m]
    z = truth[..., :m]
    mean = z.nanmean((-3, -2), keepdim=True)
    deviation = (z - mean).square().nanmean((-3, -2), keepdim=True).sqrt()
    deviation = torch.where(deviation > 0, deviation, 1.0)
    apart = ((reached[..., : len(times), :] - z) / deviation).square().mean(-1).sqrt()
    farthest, last = (
        ((x - mean) / deviation).norm(dim=-1) for x in (z, reached[..., -1, :].unsqueeze(-2))
    )
    missing = z.isnan().any(-1) | start.isnan().any(-1, keepdim=True)
    stays = last.squeeze(-1) <= AROUND * farthest.nan_to_num(nan=0.0).amax(
        (-2, -1), keepdim=True
    ).squeeze(-1)
    late = [(x / deviation)[..., len(times) // 2 : len(times), :] for x in (z, reached)]
    true, own = (
        (x - x.nanmean(-2, keepdim=True)).square().sum(-1).nanmean(-1).sqrt() for x in late
    )
    stays &= (own >= true / 2 - 0.1) & (own <= 2 * true + 0.1)
    stays = (stays | start.isnan().any(-1)).double().mean()
    return apart.nan_to_num(nan=LOST).clamp(max=LOST).masked_fill(missing, torch.nan).nanmean(
        -1
    ), stays


def _filled(values: Tensor) -> Tensor:
    """Values (..., T, k), missing ones replaced by those before."""
    known = values.isfinite().all(-1) * torch.arange(values.shape[-2])
    return values.gather(-2, known.cummax(-1).values.unsqueeze(-1).expand_as(values))


class Estimator(abc.ABC):
    """Settings of a fit; `fit` returns the law, which `romkit.rollout`, `follow` and `forecast`
    take as dynamics.

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

    FOLDS: ClassVar[int] = 3
    """Most times that settings are fitted to be judged, each time without other trajectories."""

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
        """Law of a projection on a dataset; of second order where the dataset has a variable
        `acceleration`.

        Args:
            projection: trained on such data; a stack of seeds gives a stack of laws.
            data: in romkit's schema; without `velocity`, rates come from differentiation in time,
                and `source` of the law says so.
            seed: of all random numbers in the fit, the same for all laws of a stack.
            select: settings to choose by rollouts of held-out trajectories, and the values to
                choose from: `{"threshold": (0.01, 0.03, 0.1), "degree": (2, 3)}`. `source` of the
                law says which were taken.
            validation: share of the trajectories that is held out for this choice, by default a
                quarter; the law is then fitted to all. Settings that an estimator leaves open
                (None) are chosen likewise, and with them the window of the differentiation.

        Raises:
            InputError: data of another shape than the projection's, times that cannot be used, or
                `validation` with nothing to choose.
        """
        shape = self._chosen(self.choices(*projection.for_law(data)), seed, select, validation)
        return with_phase(shape, projection, data)

    @classmethod
    def choices(cls, projection: ProjectionFamily, data: xr.Dataset) -> list[LatentSamples]:
        """Scaled samples to choose from: of two windows of differentiation, where the data have no
        velocities.
        """
        several = (
            [cls.samples(projection, data)]
            if "velocity" in data
            else sources.windows(projection, data)
        )
        return [each.scaled() for each in several]

    @staticmethod
    @validated
    def samples(projection: ProjectionFamily, data: xr.Dataset) -> LatentSamples:
        """Samples that `fit` fits to, before they are scaled, with the window that predicts
        left-out latents best.
        """
        return (sources.encoded_samples if "velocity" in data else sources.differentiated_samples)(
            projection, data
        )

    def candidates(self, samples: LatentSamples) -> "list[Estimator]":
        """These settings, once with each value of those that they leave open; the first where
        nothing can choose.
        """
        return [self]

    def affordable(
        self, several: Sequence[LatentSamples], seconds: float
    ) -> "list[tuple[Estimator, LatentSamples]]":
        """Candidates for `romkit.law`: settings that can be fitted within `seconds`, and samples of
        the same states.
        """
        return list(itertools.product(self.candidates(several[0]), several))

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
            samples: `LatentSamples`; or z, with `zdot`, `context` and labels as in
                `LatentSamples.first_order`.
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
        elif given := [
            *labels,
            *(name for name, value in (("zdot", zdot), ("context", context)) if value is not None),
        ]:
            fix = "drop it: LatentSamples have their own"
            raise InputError(
                ", ".join(given), expected="nothing beside samples", got="a value", fix=fix
            )
        return self._chosen([samples], seed, select, validation)

    def _chosen(
        self,
        several: Sequence[LatentSamples],
        seed: int,
        select: Mapping[str, Sequence[object]] | None,
        validation: float | None,
    ) -> LearnedField:
        """Law with the settings and the samples, of the same states, that follow held-out
        trajectories best.
        """
        select = select or {}
        for name in select:
            checks.one_of("select", name, [field.name for field in fields(self)])
        grid = [
            dict(zip(select, each, strict=True)) for each in itertools.product(*select.values())
        ]
        settings = [
            each for given in grid for each in replace(self, **given).candidates(several[0])
        ]
        if select or (len(settings) > 1 and several[0].times is not None):
            candidates = list(itertools.product(settings, several))
            chosen = refitted(
                ranked(candidates, HELD_OUT if validation is None else validation, seed), seed
            )
            if chosen is None:
                settings[0].fit_samples(
                    several[0], seed=seed
                )  # says what is wrong, where it cannot be fitted
                fix = "widen the grid, or take another kind of law"
                got = f"{len(candidates)} that are lost from the start"
                raise InputError(
                    "select",
                    expected="a candidate whose rollouts stay near the data",
                    got=got,
                    fix=fix,
                )
            law, how = chosen
            return replace(law, source=f"{law.source}; {chosen_settings(candidates, how)}")
        if validation is not None:
            fix = "name what to choose by it, or drop it"
            raise InputError("validation", expected="select beside it", got=validation, fix=fix)
        return replace(
            settings[0]._fit(several[0], seed),
            domain=Region.of(several[0].latents, several[0].times),
        )

    @abc.abstractmethod
    def _fit(self, samples: LatentSamples, seed: int) -> LearnedField: ...
