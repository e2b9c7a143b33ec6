"""Polynomial laws by multiple shooting."""

import math
from dataclasses import dataclass, replace

import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Natural, validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.integrators.laws.base import Estimator
from romkit.integrators.laws.chebyshev import Chebyshev
from romkit.integrators.laws.equations import Equation, Features, Polynomial
from romkit.integrators.laws.samples import (
    LatentSamples,
    ProjectionFamily,
    Scaling,
    followed_samples,
    one_axis,
    trajectory_times,
)
from romkit.integrators.laws.shooting import Structure, refinements
from romkit.integrators.laws.trajectories import ShootingProblem, box

DEGREES = {
    1: ((3, 1), (5, 1), (5, 2)),
    2: ((5, 1), (5, 2), (7, 1), (3, 2)),
    3: ((3, 1), (3, 2), (5, 1)),
    4: ((3, 1), (3, 2)),
    5: ((3, 1), (2, 1)),
}
"""Degrees in the latents and in the context that are tried, by the number of latents."""

WIDE = ((2, 1), (1, 1))
"""Degrees for more latents than those."""

COEFFICIENTS = 700
"""Most coefficients of a law whose degrees are left open."""

COMPARED = 8.0
"""Longest windows [time scales] of fits that are only compared: longer ones change no order."""

TRIED = 4
"""Most windows after which coefficients are asked whether their rollouts stay near the data."""

ROWS = 2_000
"""Most samples from which the condition of the terms is computed."""


@validated
@dataclass(frozen=True)
class PolynomialLaw(Estimator):
    """Settings of a fit; `fit` returns the equation: a polynomial in the latents, whose coefficients
    are Chebyshev polynomials of the context.

    Coefficients are fitted to trajectories by multiple shooting, so that no derivatives of the data
    are needed: times may be uneven, and samples may be missing. Windows of the data are followed
    from their first sample, and grow from half a time scale of the motion to whole trajectories.

    Args:
        degree: in the latents (and their rates, for second order); by default chosen by forecasts
            of held-out contexts.
        context_degree: in the context, a total degree for several parameters; by default likewise.
        poles: see `romkit.integrators.Chebyshev`; none, so that polynomials are in the context
            itself.

    Samples have to be whole trajectories, arrays z (C, T, m) with `times` (T,).

    Source: Bock, Plitt (1984), A multiple shooting algorithm for direct solution of optimal control
    problems; Baake, Baake, Bock, Briggs (1992), Fitting ordinary differential equations to chaotic
    data.

    Example:
        >>> import torch
        >>> from romkit.integrators import PolynomialLaw
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> law = PolynomialLaw(degree=1).fit_samples(z[None], rate[None], times=t)
        >>> law.predict(torch.tensor([1.0, 0.0], dtype=torch.float64)).round(decimals=3) + 0.0
        tensor([0., 1.], dtype=torch.float64)
    """

    degree: Count | None = None
    context_degree: Natural | None = None
    poles: tuple[float, ...] = ()

    @classmethod
    def choices(cls, projection: ProjectionFamily, data: xr.Dataset) -> list[LatentSamples]:
        """The encoded data, whose rates do not matter."""
        return [followed_samples(projection, data)]

    @staticmethod
    def samples(projection: ProjectionFamily, data: xr.Dataset) -> LatentSamples:
        return followed_samples(projection, data)

    def candidates(self, samples: LatentSamples) -> "list[PolynomialLaw]":
        variables = samples.inputs.shape[-1]
        parameters = samples.context.shape[-1]
        contexts = number_of_contexts(samples)
        found = []
        for degree, context_degree in DEGREES.get(variables, WIDE):
            degree = degree if self.degree is None else self.degree
            wanted = context_degree if self.context_degree is None else self.context_degree
            if self.context_degree is None:
                wanted = min(wanted, _highest(parameters, contexts))
            each = replace(self, degree=degree, context_degree=wanted)
            if each not in found and each._affordable(samples):
                found.append(each)
        lowest = replace(
            self,
            degree=1 if self.degree is None else self.degree,
            context_degree=0 if self.context_degree is None else self.context_degree,
        )
        return found or [lowest]

    def compared(self, samples: LatentSamples, seed: int) -> Equation:
        return self._shot(samples, COMPARED)

    def _fit(self, samples: LatentSamples, seed: int) -> Equation:
        return self._shot(samples, math.inf)

    def _affordable(self, samples: LatentSamples) -> bool:
        number = self._coefficients(samples)
        most = int(samples.latents.isfinite().all(-1).sum()) * samples.targets.shape[-1]
        given = self.degree is not None and self.context_degree is not None
        return number <= min(COEFFICIENTS, most) or given

    def _coefficients(self, samples: LatentSamples) -> int:
        """Number of coefficients of the law."""
        terms = math.comb(samples.inputs.shape[-1] + self.degree, self.degree)
        parameters = samples.context.shape[-1]
        context_terms = math.comb(parameters + self.context_degree, self.context_degree)
        return terms * context_terms * samples.targets.shape[-1]

    def _shot(self, samples: LatentSamples, longest: float) -> Equation:
        settings = self if self.degree is not None else self.candidates(samples)[0]
        settings = (
            settings if settings.context_degree is not None else replace(settings, context_degree=0)
        )
        _check_numbers(samples, settings)
        samples = boxed(samples)
        basis = Features.of(
            samples,
            Polynomial(settings.degree),
            Chebyshev(settings.context_degree, settings.poles),
        )
        found = []
        for problem in range(_problems(samples)):
            found.append(_coefficients(_single(samples, problem), _of(basis, problem), longest))
        coefficients = torch.stack(found) if samples.inputs.ndim > 2 else found[0]
        return equation(samples, basis, coefficients, f"shooting of {samples.source}")


def _check_numbers(samples: LatentSamples, settings: PolynomialLaw) -> None:
    """Refuse latents at rest, and laws with more coefficients than the data have numbers."""
    trajectory_times(samples)
    known = samples.latents.isfinite().all(-1)
    number, most = settings._coefficients(samples), int(known.sum()) * samples.targets.shape[-1]
    if number > most:
        expected = f"at most {most} coefficients, the numbers in the data"
        got = f"{number} of degree {settings.degree}, {settings.context_degree} in the context"
        raise InputError("degree", expected=expected, got=got, fix="lower it, or give more samples")


def number_of_contexts(samples: LatentSamples) -> int:
    """Number of different contexts, or of trajectories where they move."""
    T = len(trajectory_times(samples))
    context = one_axis(samples.context)[0].unflatten(0, (-1, T))  # (n, T, p)
    return len(torch.unique(context[:, 0], dim=0)) if context.shape[-1] else 1


def _highest(parameters: int, contexts: int) -> int:
    """Highest degree in the context with two contexts more than terms; 1 is always taken where
    there are two.
    """
    if parameters == 0 or contexts < 2:
        return 0
    degree = 1
    while math.comb(parameters + degree + 1, degree + 1) <= contexts - 2:
        degree += 1
    return degree


def boxed(samples: LatentSamples) -> LatentSamples:
    """Samples whose terms see latents in [-1, 1], from their mean."""
    return replace(samples, variables=Scaling(samples.variables.names, *box(samples)))


def _problems(samples: LatentSamples) -> int:
    return math.prod(samples.inputs.shape[:-2])


def _single(samples: LatentSamples, problem: int) -> LatentSamples:
    """Samples of one problem of a stack."""
    parts = {}
    for name in ("inputs", "targets", "context", "drift"):
        values = one_axis(getattr(samples, name))
        parts[name] = values[problem if len(values) > 1 else 0]
    return replace(samples, variables=_flat(samples.variables)[problem], **parts)


def _flat(scaling: Scaling) -> Scaling:
    """Scaling of a stack of problems on one axis."""
    if scaling.shift.ndim == 1:
        return scaling
    return Scaling(scaling.names, scaling.shift.flatten(0, -2), scaling.scale.flatten(0, -2))


def _of(basis: Features, problem: int) -> Features:
    return replace(basis, variables=_flat(basis.variables)[problem])


def _coefficients(samples: LatentSamples, basis: Features, longest: float) -> Tensor:
    """Coefficients (K q, m) after the windows with which whole trajectories are followed best, of
    those whose rollouts stay near the data.
    """
    problem = ShootingProblem.of(samples, basis)
    theta = torch.zeros(len(basis.names), problem.motion.latent_dim, dtype=torch.float64)
    theta = problem.theta(theta)
    structure = Structure(problem.motion, torch.ones_like(theta, dtype=torch.bool))
    stages = []
    for stage in refinements(structure, problem.runs, theta):
        stages.append(stage.theta)
        if stage.duration >= longest / 2:
            break
    if longest < math.inf:
        return problem.coefficients(stages[-1])
    ranking = sorted(stages, key=problem.error)
    staying = (theta for theta in ranking[:TRIED] if problem.stays(theta))
    return problem.coefficients(next(staying, ranking[0]))


def _unit_columns(terms: Tensor) -> Tensor:
    """Terms (..., N, K) of at most `ROWS` samples, each divided by its norm."""
    rows = torch.linspace(0, terms.shape[-2] - 1, min(ROWS, terms.shape[-2])).round().long()
    some = terms[..., rows, :]
    norm = some.norm(dim=-2, keepdim=True)
    return some / torch.where(norm > 0, norm, 1.0)


def equation(
    samples: LatentSamples, basis: Features, coefficients: Tensor, source: str
) -> Equation:
    """Law of coefficients (..., K, m), with what its rates leave unexplained of those of the
    samples.
    """
    lead = coefficients.shape[:-2]
    known = samples.complete()
    terms = torch.stack(torch.broadcast_tensors(*basis.terms(known.inputs, known.context)), -1)
    rates = terms.double() @ coefficients
    target = (
        known.targets.double() / align(basis.variables.scale, known.targets)[..., : rates.shape[-1]]
    )
    size = target.square().mean(-2)
    left = ((rates - target).square().mean(-2) / torch.where(size > 0, size, 1.0)).sqrt()
    return Equation(
        basis,
        coefficients,
        samples.order,
        source,
        int(samples.observed.sum()),
        condition=torch.linalg.cond(_unit_columns(terms.double())),
        converged=torch.ones(lead, dtype=torch.bool),
        residual=left,
        control_names=samples.control_names,
    )
