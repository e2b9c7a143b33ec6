"""`romkit.law`: from a projection and data to the latent dynamics that forecast best."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, cast

import torch
import xarray as xr
from annotated_types import MinLen
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Seconds, Seed, validated
from romkit.core.errors import FitWarning, InputError, warn
from romkit.core.tensors import copy_to_device
from romkit.data import check_states
from romkit.engine import Device
from romkit.integrators import LearnedField
from romkit.laws import (
    DMD,
    LAWS,
    Equation,
    Estimator,
    Fourier,
    LatentSamples,
    Polynomial,
    PolynomialLaw,
    SINDy,
    chaos,
)
from romkit.laws.baselines import mean_error, nearest_and_shifted
from romkit.laws.bounded import bounded_law
from romkit.laws.choice import ALL, LawCandidate, Space, fitted
from romkit.laws.decoding import make_judge
from romkit.laws.folds import Fold, drop_runs, folds_of
from romkit.laws.joint import jointly
from romkit.laws.noise import is_map
from romkit.laws.phase import add_phase
from romkit.laws.refine import refined
from romkit.laws.samples import one_axis
from romkit.laws.shorten import FitTo, errors_of, shortened
from romkit.laws.sources import ProjectionFamily, placed
from romkit.laws.useless import USEFUL, warn_if_useless
from romkit.projections import Identity
from romkit.select import Candidate, Policy, Trial, preferred, search

BOUNDED = ("polynomial", "limit-cycle")
"""Laws that are tried by default where they have to be bounded."""

KINDS = (*BOUNDED, "rational")
"""Laws that are tried by default, in this order, but for those that refuse the data; the search ends
where one errs by `Policy.enough`.
"""

READABLE = 4
"""Most variables of an equation that is read: of such sines are tried, and terms are dropped."""

ANGLES = SINDy(library=Polynomial(1) + Fourier(1), refine=False)
"""Sines and cosines beside linear terms, for states that are angles. They are not refined: along
runs of such terms a step costs as much as all their regressions.
"""

FIX = "another latent_dim (motion on a torus needs more), more contexts, or longer runs"
"""Advice where no law is as good as the projection."""


@validated
def law(
    projection: ProjectionFamily,
    data: xr.Dataset,
    *,
    seconds: Seconds = 120.0,
    kinds: Annotated[Sequence[str | Estimator], MinLen(1)] | None = None,
    bounded: bool = False,
    device: Device | None = None,
    seed: Seed = 0,
) -> LearnedField:
    """Fit latent dynamics to data: the kind, with the settings, that forecasts runs best that were
    left out.

    By default polynomials of several degrees in the latents and in the context, fitted to
    trajectories by multiple shooting, closed orbits, rational laws, and sines of few states are raced on folds of left-out
    contexts, of one context on folds of runs, of a single run on blocks of time. Errors are those of
    decoded states over whole runs; where no law keeps the phase over these, over segments of some periods.
    The simplest law within one standard error of the best is fitted to all runs. Its rollouts stay
    near the data for ten times their length, also from displaced starts, or the next one is taken.

    Where the data have noise, an equation is fitted together with their states: its `last` are the
    latents at the ends of the runs without noise, from which forecasts continue them.

    A law knows states that data come near. A fixed point inside a limit cycle, and its growth rate,
    are extrapolated unless some runs start beside it.

    Args:
        projection: trained on such data; a stack of seeds gives a stack of laws.
        data: in romkit's schema. Times may be uneven, and states may be missing.
        seconds: of the processor, about how long it may take. Candidates are tried as far as there
            is time. The result is the same wherever there is time for all.
        kinds: names of `LAWS`, or their settings, `SINDy(degree=2)`; those that are left open are
            chosen. Kinds that cannot be fitted to such data are left out.
        bounded: make it a law that cannot blow up: within twice the distance of the farthest datum
            it stays as it is, and from three times this distance on all trajectories lead inwards,
            at every context of the data (`romkit.laws.bounded`).
        device: "cpu" or "cuda", where to fit, by default where the projection is: a GPU pays for
            regressions on millions of samples, and not for shooting along some runs. The law is
            returned on the CPU.
        seed: of all random numbers.

    Returns:
        The law, for `dynamics=` of `romkit.rollout` and `romkit.forecast`. Its `report` has a row
        for each candidate that was tried, the best first (`pandas.DataFrame(law.report)`): its name `law`, the
        geometric mean of the `error` on left-out runs in standard deviations of the states, of
        segments of them where whole runs lose the phase, its `settings`, the number of `terms` and
        of `folds` that it was tried on, `seconds` of the processor, and whether it was `chosen`.

    Raises:
        InputError: an unknown kind, data of another shape than the projection's, kinds that all
            cannot be fitted to such data, or rollouts that are all lost.

    Source: `romkit.select.Policy` has the rule and its sources.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.15, 3.16, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> law = romkit.law(pod, data, kinds=["operator-inference", "dmd"])
        >>> {row["law"] for row in law.report} == {"dmd", "operator-inference"}
        True
        >>> romkit.rollout(data, pod, dynamics=law).rom.dims
        ('trajectory', 'time', 'component')
    """
    check_states(data)
    projection = placed(projection, device)
    family, shapes = projection.law_space(data)
    policy = Policy()
    usual = BOUNDED if bounded else KINDS
    settings = [law_settings(kind) for kind in kinds or usual]
    is_physical = isinstance(projection, Identity)
    if kinds is None and not bounded and is_physical and projection.latent_dim <= READABLE:
        settings.append(ANGLES)
    candidates = _candidates(settings, family, shapes, seconds, seed)
    # a single candidate has nothing to be compared with
    folds = len(candidates[0].folds) if len(candidates) > 1 else 1
    trials = search([candidates], folds, policy, seconds)
    order = preferred(trials, policy)
    best = fitted(order, policy)
    if best is None:
        raise _refusal(candidates)
    fit, trial = best
    candidate = cast("LawCandidate", trial.candidate)
    samples, _ = candidate.space(ALL)
    fit = _finished(fit, candidate, is_physical, seconds)
    _warn(fit, trial, policy)
    report = trial_rows(order, candidate, policy)
    source = f"{fit.source}; the best of {len(trials)} by forecasts of runs that were left out"
    source += chaos.describe_horizon(fit, samples)
    fit = replace(fit, source=source, report=report)
    if bounded:
        fit = bounded_law(fit, samples)
    return copy_to_device(add_phase(fit, projection, data), "cpu")


def _finished(
    law: LearnedField, candidate: LawCandidate, is_physical: bool, seconds: float
) -> LearnedField:
    """Refine the law of all runs, take the noise out of their states, or drop terms."""
    samples, judge = candidate.space(ALL)
    if candidate.estimator.refine:
        law = refined(law, samples, judge)
    without_noise = jointly(law, samples, seconds)
    if is_physical and without_noise is law:
        # equations of physical quantities are read; those of latents are not
        return short(law, candidate, seconds)
    return without_noise


def short(law: LearnedField, candidate: LawCandidate, seconds: float) -> LearnedField:
    """Drop the terms that left-out runs do not ask for of polynomials in few variables; laws of
    others, and of other kinds, stay as they are.
    """
    if not _is_readable(law):
        return law
    samples, judge = candidate.space(ALL)
    folds = [drop_runs(samples, judge, rows) for rows in candidate.folds]

    def left_out(fit: FitTo) -> Iterator[Tensor]:
        for fold in folds:
            yield errors_of(fold, fit(fold.train))

    errors = None
    if not candidate.estimator.refine:  # its laws are followed along whole trajectories already
        fits = [candidate.fit(number) for number in range(len(folds))]
        errors = torch.cat([errors_of(*pair) for pair in zip(folds, fits, strict=True)])
    shorter = shortened(law, samples, left_out, errors=errors, seconds=seconds)
    # it has to follow the runs that it was fitted to as well, as far as errors count
    policy = replace(Policy(), floor=Policy().enough)
    every = Fold(samples, judge, judge.runs)
    of_both = [
        policy.logarithms(errors_of(every, each).numpy(force=True)) for each in (shorter, law)
    ]
    return shorter if policy.is_as_good(*of_both) else law


def _is_readable(law: LearnedField) -> bool:
    """Tell whether a law is one polynomial in few variables."""
    # kinds of equations with more structure than their terms keep all of these
    if type(law) is not Equation or law.coefficients.ndim != 2:
        return False
    return isinstance(law.basis.library, Polynomial) and len(law.basis.variables) <= READABLE


def law_settings(kind: str | Estimator) -> Estimator:
    """Look up the settings of a law that is given by its name or by them."""
    if isinstance(kind, Estimator):
        return kind
    name = checks.one_of("kinds", kind, LAWS)
    return LAWS[name]()


def affordable(kind: Estimator, samples: LatentSamples, seconds: float) -> Sequence[Estimator]:
    """List settings of a kind that can be fitted within some seconds of the processor; in place of
    polynomials of any degree, where none can, DMD, which is linear least squares and has no windows.

    Raises:
        InputError: none can.
    """
    try:
        return kind.affordable(samples, seconds)
    except InputError:
        if kind != PolynomialLaw():
            raise
        return [DMD()]


def chosen_settings(
    estimator: Estimator, projection: ProjectionFamily, data: xr.Dataset, seed: int
) -> Estimator:
    """Choose the settings that an estimator leaves open by forecasts of runs that are left out."""
    policy = Policy()
    candidates = _candidates([estimator], *projection.law_space(data), math.inf, seed)
    if len(candidates) == 1:
        return candidates[0].estimator
    trials = search([candidates], len(candidates[0].folds), policy)
    return preferred(trials, policy)[0].candidate.estimator


def _candidates(
    kinds: Sequence[Estimator],
    family: ProjectionFamily,
    shapes: xr.Dataset,
    seconds: float,
    seed: int,
) -> list[LawCandidate]:
    """List settings with samples of kinds that can be fitted to such data.

    Raises:
        InputError: none can.
    """
    candidates: list[LawCandidate] = []
    refusals: list[InputError] = []
    judge = None
    for kind in kinds:
        try:
            several = kind.choices(family, shapes)
            judge = judge or make_judge(family, shapes, several[0])
            folds = folds_of(several[0])
            settings = affordable(kind, several[0], seconds / (1 + len(folds)))
        except InputError as error:
            refusals.append(error)
            continue
        for number, samples in enumerate(several):
            space = Space(samples, judge)
            label = "" if number == 0 else "smoother rates, "
            for estimator in settings:
                candidate = LawCandidate(
                    estimator, lambda fold, space=space: space, folds, seed, label
                )
                candidates.append(candidate)
    if not candidates:
        raise refusals[0]
    if all(candidate.estimator == candidates[0].estimator for candidate in candidates):
        return candidates[:1]  # nothing is to choose, as in `Estimator.fit`
    return candidates


def _refusal(candidates: Sequence[LawCandidate]) -> InputError:
    """Say why no candidate gives a law."""
    refusals = [candidate.refusal for candidate in candidates]
    if all(refusals):
        return refusals[0]
    names = ", ".join(dict.fromkeys(law_kind(candidate.estimator) for candidate in candidates))
    expected = "a law whose rollouts stay near the data"
    fix = "train the projection longer, give more trajectories, or more seconds"
    return InputError("data", expected=expected, got=f"{names}, all lost", fix=fix)


def law_kind(estimator: Estimator) -> str:
    """Return name the kind of a law."""
    names = {kind: name for name, kind in LAWS.items()}
    return names.get(type(estimator), type(estimator).__name__)


def trial_rows(trials: Sequence[Trial], chosen: Candidate, policy: Policy) -> list[dict]:
    """Make a row for each trial, in their order; its terms are those before a law is shortened."""
    rows = []
    for trial in trials:
        candidate = trial.candidate
        kind, terms = "interpolation", 0
        if isinstance(candidate, LawCandidate):
            kind, terms = law_kind(candidate.estimator), candidate.complexity
        row = {"law": kind, "error": trial.error(policy, trial.horizon), "settings": trial.name}
        row |= {"terms": terms, "folds": len(trial.errors)}
        rows.append(row | {"seconds": trial.seconds, "chosen": candidate is chosen})
    return rows


def _warn(
    law: LearnedField, trial: Trial, policy: Policy, *, poor: float = 0.1, ratio: float = 5.0
) -> None:
    """Warn once where a law forecasts left-out runs no better than what needs no law.

    `poor`, `ratio`: error of a law [deviations of the data], and in the projection's, from
    which on it warns.

    Raises:
        InputError: no law is of use, and the data are iterates of a map.
    """
    candidate = trial.candidate
    samples, judge = candidate.space(ALL)
    error = trial.error(policy, trial.horizon)
    (paths,) = samples.paths(samples.latents.double())
    if error >= USEFUL and any(is_map(path) for path in paths):
        raise InputError(
            "data",
            expected="samples of a motion in continuous time",
            got="neighbours in time that are less alike than any two samples, as of a map",
            fix="sample more finely; laws of maps are not fitted here",
        )
    share = candidate.estimator._unexplained(law, samples)
    nearest, shifted = _baseline_errors(candidate) if trial.horizon == 0 else (None, None)
    name = f"romkit.law ({law_kind(candidate.estimator)})"
    warned = warn_if_useless(
        name,
        unexplained=None if share is None else float(share.max()),
        error=error,
        nearest=nearest,
        shifted=shifted,
        fix=FIX,
    )
    runs = judge.runs
    if len(runs) > 1:
        runs = torch.cat(list(candidate.folds[: len(trial.errors)]))
    projected = judge.projected(runs)
    if not warned and error > max(ratio * projected, poor):
        text = f"{name}: forecasts of runs that were left out err by {error:.2g} deviations"
        warn(f"{text} of the data, the projection by {projected:.2g}; try {FIX}", FitWarning)


def _baseline_errors(candidate: LawCandidate) -> tuple[float | None, float | None]:
    """Measure the nearest training run on left-out runs, as it is and shifted in time; None where no
    run is left out whole, or there are several projections.
    """
    samples, judge = candidate.space(ALL)
    states = judge.states
    if states.ndim != 3 or len(states) == 1:
        return None, None
    held = candidate.folds[0]
    train = torch.ones(len(states), dtype=torch.bool)
    train[held] = False
    T = len(samples.times)
    starts = one_axis(samples.context)[0, ::T].double()
    contexts = samples.parameters.on(starts)(starts)
    truth = states[held]
    nearest, shifted = nearest_and_shifted(
        states[train], contexts[train], contexts[held], truth[:, 0]
    )
    return mean_error(nearest, truth), mean_error(shifted, truth)
