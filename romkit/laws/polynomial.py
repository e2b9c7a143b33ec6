"""Polynomial laws by multiple shooting."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.core import runtime, tensors
from romkit.core.boundary import Count, Natural, NotNegative, validated
from romkit.core.broadcast import align
from romkit.core.errors import FitWarning, InputError, warn
from romkit.core.memory import refuse_too_large
from romkit.integrators.region import Region
from romkit.laws.base import Estimator, TrajectoryEstimator
from romkit.laws.chebyshev import Chebyshev
from romkit.laws.determined import warn_if_undetermined
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.judge import Judge
from romkit.laws.libraries import Polynomial
from romkit.laws.samples import LatentSamples, one_axis, trajectory_times
from romkit.laws.scaling import Scaling
from romkit.laws.shooting import (
    CLEAN,
    FINE,
    LEAST,
    POLISHED,
    POLISHING,
    RETURN,
    ROUGH,
    SAMPLES,
    SHORTEST,
    TRIALS,
    Stage,
    Structure,
    is_coarse,
    is_informative,
    lengths,
    polished,
    refinements,
)
from romkit.laws.trajectories import ShootingProblem, box

DEGREES = ((1, 0), (1, 1), (2, 0), (2, 1), (1, 2), (3, 1), (2, 2), (3, 2), (5, 1), (5, 2), (7, 1))
"""Degrees in the latents and in the context that are tried, from simple to complex laws."""

HIGHEST = {1: 7, 2: 7, 3: 7, 4: 3, 5: 3, 6: 2, 7: 2, 8: 2}
"""Highest degree by the number of latents; 1 for more: the number of terms grows with its power."""

RIDGES = (1e-8, 1e-7, 1e-6)
"""Ridges that are tried, each as long as the one before does no harm."""

COMPARED = 8.0
"""Longest windows [time scales] of fits that are only compared: longer ones change no order."""

FEW = 2
"""Most steps from a law of all samples to one of samples that were drawn from them."""

CONSTANT = (
    "PolynomialLaw: expected runs at three contexts or more to choose context_degree by, got two; the "
    "law is the same at both, context_degree=1 makes it linear between them"
)
"""Warning of a law that does not depend on its context, of which a run held out of two tells nothing."""

ROWS = 2_000
"""Most samples from which the condition of the terms is computed."""


@validated
@dataclass(frozen=True)
class PolynomialLaw(TrajectoryEstimator):
    """Settings of a fit; `fit` returns the equation: a polynomial in the latents, whose coefficients
    are Chebyshev polynomials of the context.

    Coefficients are fitted to trajectories by multiple shooting, so that no derivatives of the data
    are needed: times may be uneven, and samples may be missing. Windows of the data are followed
    from their first sample, and grow from half a time scale of the motion to whole trajectories.

    Args:
        degree: in the latents (and their rates, for second order); by default chosen by forecasts
            of held-out contexts.
        context_degree: in the context, a total degree for several parameters; by default likewise.
        ridge: weight of the squares of the coefficients, beside the mean square distance from the
            data, both in units of the largest latent. Where degrees are chosen, 1e-8 is tried with
            the best of them, then ten times as much, as long as forecasts stay as good.

    Samples have to be whole trajectories, arrays z (C, T, m) with `times` (T,).

    Source: Bock, Plitt (1984), A multiple shooting algorithm for direct solution of optimal control
    problems; Baake, Baake, Bock, Briggs (1992), Fitting ordinary differential equations to chaotic
    data.

    Example:
        >>> import torch
        >>> from romkit.laws import PolynomialLaw
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> law = PolynomialLaw(degree=1).fit_samples(z[None], rate[None], times=t)
        >>> law.predict(torch.tensor([1.0, 0.0], dtype=torch.float64)).round(decimals=3) + 0.0
        tensor([0., 1.], dtype=torch.float64)
    """

    degree: Count | None = None
    context_degree: Natural | None = None
    ridge: NotNegative = 1e-8

    def candidates(self, samples: LatentSamples) -> "list[PolynomialLaw]":
        of_context = _highest(samples)
        highest = HIGHEST.get(samples.inputs.shape[-1], 1)
        settings: list[PolynomialLaw] = []
        for degree, context_degree in DEGREES:
            candidate = self._set_degrees(min(degree, highest), min(context_degree, of_context))
            if candidate not in settings and candidate._affordable(samples):
                settings.append(candidate)
        if not settings:
            return [self._set_degrees(1, 0)]
        return settings

    def _set_degrees(self, degree: int, context_degree: int) -> "PolynomialLaw":
        """Return these settings, with degrees where they leave them open."""
        if self.degree is not None:
            degree = self.degree
        if self.context_degree is not None:
            context_degree = self.context_degree
        return replace(self, degree=degree, context_degree=context_degree)

    def neighbours(self, samples: LatentSamples) -> "list[PolynomialLaw]":
        """List the law with a larger ridge, which helps where noise or few contexts determine many
        coefficients.
        """
        return [replace(self, ridge=ridge) for ridge in RIDGES if ridge > self.ridge][:1]

    def compared(self, samples: LatentSamples, seed: int) -> Equation:
        return self._shot(samples, Fit.brief)

    def warn_if_useless(
        self, law: Equation, samples: LatentSamples, judge: Judge | None = None
    ) -> None:
        super().warn_if_useless(law, samples, judge)
        warn_if_undetermined(type(self).__name__, law, samples)
        is_open = self.context_degree is None and samples.context.shape[-1] > 0
        if is_open and law.basis.context_library.degree == 0 and number_of_contexts(samples) == 2:
            warn(CONSTANT, FitWarning)

    @property
    def _context_terms(self) -> Chebyshev:
        """Terms of the context, where its degree is chosen."""
        return Chebyshev(self.context_degree)

    def refitted(
        self, law: Equation, samples: LatentSamples, seed: int, *, resampled: bool = False
    ) -> Equation:
        """Return law with the terms of another one, from whose coefficients windows of some time
        scales begin, or the longest ones alone.
        """
        lead = samples.inputs.shape[:-2]
        scaling = law.basis.variables
        shift = scaling.shift.expand(*lead, -1)
        scale = scaling.scale.expand(*lead, -1)
        basis = replace(law.basis, variables=Scaling(scaling.names, shift, scale))
        starts = law.coefficients.expand(*lead, -1, -1)
        size = starts.shape[-2:]
        laws = []
        for problem, near in enumerate(starts.reshape(-1, *size)):
            single = _single(samples, problem)
            fit = Fit(single, _build(basis, problem), self.ridge)
            if resampled:
                laws.append(fit.resampled(near))
            else:
                laws.append(fit.whole(near))
        coefficients = torch.stack(laws).reshape(*lead, *size)
        refit = equation(samples, basis, coefficients, f"shooting of {samples.source}")
        return replace(refit, domain=Region.fit(samples.latents, samples.times))

    def _fit(self, samples: LatentSamples, seed: int) -> Equation:
        _check_contexts(samples, self)
        return self._shot(samples, Fit.whole)

    def affordable(self, samples: LatentSamples, seconds: float) -> "Sequence[Estimator]":
        """List candidates that can be fitted to windows of one length within some seconds.

        Raises:
            InputError: none can.
        """
        candidates = self.candidates(samples)
        settings = [c for c in candidates if TRIALS * c._step(samples) <= seconds]
        if settings:
            return settings
        expected = f"{TRIALS * candidates[0]._step(samples):.2g} or more for {candidates[0]}"
        fix = "fewer latents, or kinds=['dmd']"
        raise InputError("seconds", expected=expected, got=f"{seconds:.2g} for each fit", fix=fix)

    def _step(self, samples: LatentSamples, *, speed: float = 2e10) -> float:
        """Return seconds of a step of Gauss-Newton: of its products of derivatives by the
        coefficients of a run, and of its solution for all of them.

        `speed`: operations of a processor in a second, in products of matrices: half of the 3.8e10 and
        4.5e10 that steps of 1 092 and 4 620 coefficients were measured to make on an EPYC core.
        """
        m = samples.targets.shape[-1]
        of_a_run = math.comb(samples.inputs.shape[-1] + self.degree, self.degree) * m
        rows = min(int(samples.observed.sum()), SAMPLES) * m
        return (rows * of_a_run**2 + self._coefficients(samples) ** 3 / 3) / speed

    def _affordable(self, samples: LatentSamples) -> bool:
        complete = samples.latents.isfinite().all(-1)
        numbers = int(complete.sum()) * samples.targets.shape[-1]
        return self._coefficients(samples) <= numbers

    def _coefficients(self, samples: LatentSamples) -> int:
        """Return number of coefficients of the law."""
        terms = math.comb(samples.inputs.shape[-1] + self.degree, self.degree)
        parameters = samples.context.shape[-1]
        context_terms = math.comb(parameters + self.context_degree, self.context_degree)
        return terms * context_terms * samples.targets.shape[-1]

    def _shot(
        self,
        samples: LatentSamples,
        coefficients_of: "Callable[[Fit], Tensor]",
    ) -> Equation:
        """Return law of windows that begin from zero."""
        settings = self
        if self.degree is None or self.context_degree is None:
            settings = self.candidates(samples)[0]
        _check_numbers(samples, settings)
        samples = boxed(samples)
        basis = Features.build(samples, Polynomial(settings.degree), settings._context_terms)
        laws = []
        for problem in range(_problems(samples)):
            fit = Fit(_single(samples, problem), _build(basis, problem), self.ridge)
            laws.append(coefficients_of(fit))
        coefficients = torch.stack(laws) if samples.inputs.ndim > 2 else laws[0]
        return equation(samples, basis, coefficients, f"shooting of {samples.source}")


def _check_numbers(samples: LatentSamples, settings: PolynomialLaw) -> None:
    """Refuse latents at rest, and laws with more coefficients than the data have numbers."""
    times = trajectory_times(samples)
    complete = samples.latents.isfinite().all(-1)
    number = settings._coefficients(samples)
    # normal equations and their factor, and derivatives of a run in the windows that are followed
    derivatives = min(len(times), SAMPLES) * samples.targets.shape[-1]
    needed = 8 * number * (2 * number + derivatives)
    refuse_too_large("latent_dim", needed, multiple=1, fix="fewer latents, or DMD")
    most = int(complete.sum()) * samples.targets.shape[-1]
    if number > most:
        expected = f"at most {most} coefficients, the numbers in the data"
        got = f"{number} of degree {settings.degree}, {settings.context_degree} in the context"
        raise InputError("degree", expected=expected, got=got, fix="lower it, or give more samples")


def _check_contexts(samples: LatentSamples, settings: PolynomialLaw) -> None:
    """Refuse polynomials of contexts that stay, with more terms than there are contexts."""
    degree = settings.context_degree
    parameters = samples.context.shape[-1]
    (context,) = samples.paths(samples.context)  # (S, C, T, p)
    if degree is None or not bool((context == context[..., :1, :]).all()):
        return
    contexts = number_of_contexts(samples)
    terms = math.comb(parameters + degree, degree)
    if terms > contexts:
        expected = f"at most {contexts} terms of the context, one for each of the contexts"
        got = f"{terms} of degree {degree}"
        fix = "lower it, or give runs at more contexts"
        raise InputError("context_degree", expected=expected, got=got, fix=fix)


def number_of_contexts(samples: LatentSamples) -> int:
    """Return number of different contexts, or of trajectories where they move."""
    T = len(trajectory_times(samples))
    context = one_axis(samples.context)[0].unflatten(0, (-1, T))  # (n, T, p)
    if context.shape[-1] == 0:
        return 1
    return len(torch.unique(context[:, 0], dim=0))


def _highest(samples: LatentSamples, *, of_inputs: int = 2) -> int:
    """Highest degree in the context with two contexts more than terms; 1 is always taken where
    there are two.

    Inputs need no contexts: they move, so that the samples of each run tell of them.

    `of_inputs`: highest degree in inputs where no parameter differs between runs.
    """
    inputs = len(samples.control_names)
    parameters = samples.context.shape[-1] - inputs
    if parameters == 0 and inputs:
        return of_inputs
    contexts = number_of_contexts(samples)
    if parameters == 0 or contexts < 2:
        return min(inputs, 1)
    degree = 1
    while math.comb(parameters + degree + 1, degree + 1) <= contexts - 2:
        degree += 1
    return degree


def boxed(samples: LatentSamples) -> LatentSamples:
    """Return samples whose terms see latents in [-1, 1], from their mean."""
    return replace(samples, variables=Scaling(samples.variables.names, *box(samples)))


def _problems(samples: LatentSamples) -> int:
    return math.prod(samples.inputs.shape[:-2])


def _single(samples: LatentSamples, problem: int) -> LatentSamples:
    """Return samples of one problem of a stack."""
    fields = {}
    for name in ("inputs", "targets", "context", "drift"):
        values = one_axis(getattr(samples, name))
        fields[name] = values[problem if len(values) > 1 else 0]
    return replace(samples, variables=_flat(samples.variables)[problem], **fields)


def _flat(scaling: Scaling) -> Scaling:
    """Scaling of a stack of problems on one axis."""
    if scaling.shift.ndim == 1:
        return scaling
    shift = scaling.shift.flatten(0, -2)
    scale = scaling.scale.flatten(0, -2)
    return Scaling(scaling.names, shift, scale)


def _build(basis: Features, problem: int) -> Features:
    return replace(basis, variables=_flat(basis.variables)[problem])


class Fit:
    """Fit of the coefficients (K q, m) of one law.

    Attributes:
        problem: its trajectories.
        structure: its motion, and which coefficients are free.
        ridge: see `PolynomialLaw`.
        zero: coefficients to begin at, where there are no better ones.
    """

    def __init__(
        self, samples: LatentSamples, basis: Features, ridge: float, support: Tensor | None = None
    ):
        self.problem = ShootingProblem.build(samples, basis)
        self.ridge = ridge
        m = samples.targets.shape[-1]
        self.zero = samples.latents.new_zeros(len(basis.names), m, dtype=torch.float64)
        if support is None:
            support = torch.ones_like(self.zero, dtype=torch.bool)
        free = self.problem.theta(support.double()) != 0
        self.structure = Structure(self.problem.motion, free)

    def brief(self) -> Tensor:
        """Return coefficients after windows of some time scales, good enough to be compared, whether
        or not processor time is left: those of all runs are no worse than those of a fold.
        """
        for stage in self._stages(self.zero, SHORTEST):
            if stage.duration >= COMPARED / 2:
                break
        return self.problem.coefficients(stage.theta)

    def whole(self, near: Tensor | None = None) -> Tensor:
        """Return coefficients after the windows with which whole trajectories are followed best;
        from those of a law that is good enough to be compared windows of some time scales can begin.
        They grow as long as processor time is left.
        """
        # where samples are coarse, all windows are long, and only the path to them tells minima apart
        if near is None or is_coarse(self.problem.runs):
            refined = self._stages(self.zero, SHORTEST)
        else:
            refined = self._stages(near, ROUGH)
        stages: list[Stage] = []
        for stage in refined:
            if stages and self._strains(stages[-1], stage):
                break
            stages.append(stage)
            if runtime.left() <= 0:
                break
        if not stages and near is not None:
            # its errors grow within the first windows already, which would tell no more
            return near
        return self.problem.coefficients(self._best(stages))

    def _strains(
        self, shorter: Stage, longer: Stage, *, few_contexts: int = 5, strained: float = 1.3
    ) -> bool:
        """Tell whether a law of few contexts follows longer windows at the cost of the shorter
        ones.

        It then lacks terms, of the context most of all, and what makes up for them at the contexts
        of the data is wrong between them.

        `few_contexts`, `strained`: most contexts of a law whose windows stop growing where
        longer ones make it worse on shorter ones, and the factor on their error from which
        on they do.
        """
        contexts = len(self.problem.runs.mix)
        if not 1 < contexts <= few_contexts or longer.duration <= COMPARED:
            return False
        before = self.problem.error(shorter.theta, length=shorter.length)
        after = self.problem.error(longer.theta, length=shorter.length)
        return after > strained * before

    def near(self, near: Tensor) -> Tensor:
        """Return coefficients near others, after windows from some time scales on."""
        stages = [*self._stages(near, ROUGH, LEAST)]
        if not stages:
            return near
        return self.problem.coefficients(self._best(stages))

    def resampled(self, near: Tensor) -> Tensor:
        """Return coefficients near those of a law of all samples that these were drawn from."""
        stage = self.longest_windows(self.problem.theta(near))
        if self.problem.error(stage.theta, POLISHED, length=stage.length) < CLEAN:
            theta = self._polished(stage, FEW)
        else:
            theta = self._best([stage, *self._stages(near, stage.duration, LEAST)])
        return self.problem.coefficients(theta)

    def longest_windows(self, theta: Tensor) -> Stage:
        """Return coefficients before a fit to the longest windows that are informative."""
        runs = self.problem.runs
        complete = self._whole_runs(theta)
        plan = [Stage(duration, length, theta) for duration, length in lengths(runs)[:-1]]
        for stage in (complete, *reversed(plan)):
            if is_informative(self.structure, runs, theta, stage.length):
                return stage
        return complete

    def _followed(self, stages: list[Stage]) -> int | None:
        """Return the length of the windows that tell coefficients apart; None for whole runs."""
        runs = self.problem.runs
        longest = stages[-1]
        length = len(runs.times) - 1
        if longest.length == length or is_informative(self.structure, runs, longest.theta, length):
            return None
        return longest.length

    def _stages(self, near: Tensor, shortest: float, strongest: float = RETURN) -> Iterator[Stage]:
        return refinements(
            self.structure,
            self.problem.runs,
            self.problem.theta(near),
            shortest=shortest,
            strongest=strongest,
            ridge=self.ridge,
        )

    def _best(self, stages: list[Stage], *, tried: int = 4) -> Tensor:
        """Return coefficients that follow whole trajectories best, or the longest windows that are
        informative, of those whose rollouts stay near them.

        `tried`: most windows after which coefficients are asked whether their rollouts stay
        near the data.
        """
        length = self._followed(stages)
        resolution = POLISHED if is_coarse(self.problem.runs) else FINE
        errors = [self.problem.error(stage.theta, resolution, length) for stage in stages]
        ranking = sorted(range(len(stages)), key=errors.__getitem__)
        best = ranking[0]
        for k in ranking[:tried]:
            if self.problem.stays(stages[k].theta):
                best = k
                break
        if length is None:
            if errors[best] >= CLEAN:
                return stages[best].theta
            theta = self._polished(stages[best])
            # windows that are shorter leave an error that grows over the run
            theta = self._polished(self._whole_runs(theta), FEW)
            if self.problem.error(theta, POLISHED) < CLEAN:
                return theta
        return self._polished_chaos(stages, stages[best].theta)

    def _polished_chaos(self, stages: list[Stage], theta: Tensor) -> Tensor:
        """Return coefficients after shorter steps of RK4, in short windows first: in long ones the
        error of longer steps has grown too large.
        """
        if self.problem.error(theta, length=1) >= CLEAN:
            return theta
        long = [stage for stage in stages if stage.duration >= ROUGH] or stages
        closest = min(long, key=lambda stage: self.problem.error(stage.theta, length=1))
        theta = self._polished(long[0]._replace(theta=closest.theta))
        for stage in reversed(long):
            # where the error of long steps has grown beyond this, it looks like that of the law
            if self.problem.error(theta, length=stage.length) < CLEAN:
                return self._polished(stage._replace(theta=theta), FEW)
        return theta

    def _whole_runs(self, theta: Tensor) -> Stage:
        """Return coefficients before a fit to windows of whole runs."""
        runs = self.problem.runs
        duration = float(runs.times[-1] - runs.times[0])
        return Stage(duration, len(runs.times) - 1, theta)

    def _polished(self, stage: Stage, trials: int = POLISHING) -> Tensor:
        if runtime.left() <= 0:
            return stage.theta
        closer = polished(self.structure, self.problem.runs, stage, trials)
        # without what holds coefficients where there are no data, a rollout may get lost there
        stays = self.problem.stays
        if stays(closer) or not stays(stage.theta):
            return closer
        return stage.theta


def _unit_columns(terms: Tensor) -> Tensor:
    """Return terms (..., N, K) of at most `ROWS` samples, each divided by its norm."""
    rows = tensors.evenly(terms.shape[-2], ROWS)
    columns = terms[..., rows, :]
    norm = columns.norm(dim=-2, keepdim=True)
    norm = tensors.divisor(norm)
    return columns / norm


def equation(
    samples: LatentSamples, basis: Features, coefficients: Tensor, source: str
) -> Equation:
    """Return law of coefficients (..., K, m), with what its rates leave unexplained of those of the
    samples.
    """
    lead = coefficients.shape[:-2]
    complete = samples.complete()
    terms = basis.terms(complete.inputs, complete.context)
    terms = torch.stack(torch.broadcast_tensors(*terms), -1).double()  # (..., N, K)
    rates = terms @ coefficients
    scale = align(basis.variables.scale, complete.targets)
    scale = scale[..., : rates.shape[-1]]
    target = complete.targets.double() / scale
    size = target.square().mean(-2)
    missed = (rates - target).square().mean(-2)
    unexplained = (missed / tensors.divisor(size)).sqrt()
    return Equation(
        basis,
        coefficients,
        samples.order,
        source,
        int(samples.observed.sum()),
        condition=torch.linalg.cond(_unit_columns(terms)),
        converged=torch.ones(lead, dtype=torch.bool, device=coefficients.device),
        residual=unexplained,
        control_names=samples.control_names,
        held=samples.held,
        control_unit=samples.control_unit,
    )
