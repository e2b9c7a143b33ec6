"""Short laws: equations with as few terms as left-out runs ask for."""

import functools
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.core.tensors import divisor, least_norm
from romkit.integrators.region import Region
from romkit.laws.chebyshev import Chebyshev
from romkit.laws.determined import relations
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.folds import folds_of, without
from romkit.laws.judge import Judge
from romkit.laws.libraries import Library, Polynomial
from romkit.laws.polynomial import Fit, equation
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.scaling import Scaling
from romkit.laws.shooting import EXACT, FINE, POLISHED, ROUNDING, Hold, shots

FitTo = Callable[[LatentSamples], Equation]
"""Fit of some terms to samples."""

LeftOut = Callable[[FitTo], Tensor]
"""Errors (k,) of forecasts of k left-out runs, by laws that a fit makes of the others."""

FOLDS = 3
"""Most folds of the default left-out error."""

INSIGNIFICANT = 4.0
"""Square of a coefficient in its standard errors up to which it may be zero: two of them, 95 %."""

SINGULAR = 1e-12
"""Part of the diagonal that is added to Gauss-Newton matrices, of unit diagonal: combinations of
terms that the samples leave open have no curvature."""

AT_ONCE = 0.1
"""Share of the terms of a law that are dropped before the others are weighed again."""


@validated
def shortened(
    law: Equation,
    samples: LatentSamples,
    left_out: LeftOut | None = None,
    *,
    seconds: Positive = math.inf,
) -> Equation:
    """Return a law with as few terms as left-out runs ask for, fitted again by shooting.

    Terms are dropped in the order of what the Gauss-Newton model of the fit expects their loss to
    cost, the other coefficients making up for it; of terms that cost nothing the highest degrees
    go first. Supports along this path are fitted again, and the shortest one is taken whose mean
    left-out error is at most that of all terms plus one standard error. Then this law is shortened
    likewise, as long as one is shorter.

    Latents and contexts are not shifted in the result, whatever they are in the law: x y has one
    term there, and four about a mean.

    Args:
        law: a single equation, fitted to the samples.
        samples: whole trajectories.
        left_out: takes a fit, which makes an equation of samples, and returns the errors (k,) of k
            left-out runs by laws of the others; by default forecasts of left-out contexts, runs, or
            blocks of time of a single run, in the deviations of the latents.
        seconds: CPU time after which no further support is tried.

    Returns:
        The shorter law, or the given one where none is as good.

    Raises:
        InputError: a stack of laws, or single samples.

    Source: Hassibi, Stork (1993), Second order derivatives for network pruning: optimal brain
    surgeon; Breiman, Friedman, Olshen, Stone (1984), Classification and regression trees, section
    3.4.3, for one standard error.

    Example:
        >>> import torch
        >>> from romkit.laws import LatentSamples, PolynomialLaw
        >>> from romkit.laws.shorten import shortened
        >>> t = torch.linspace(0, 4, 41, dtype=torch.float64)
        >>> starts = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
        >>> z = 5 / (1 + (5 / starts[:, None] - 1) * torch.exp(-t))  # z' = z - z² / 5
        >>> samples = LatentSamples.first_order(z[..., None], torch.zeros(3, 41, 1), times=t)
        >>> shortened(PolynomialLaw(degree=3).fit_samples(samples), samples).formulas(3)
        ["z0' = -0.2 z0^2 + 1.0 z0"]
    """
    if law.coefficients.ndim > 2:
        fix = "take one: law[0]"
        raise InputError("law", expected="a single equation", got="a stack", fix=fix)
    trajectory_times(samples)
    if left_out is None:
        left_out = _left_out_of(samples)
    deadline = time.process_time() + seconds
    full = unshifted(law, samples)
    errors = left_out(lambda train: _fitted(full, train))
    # fits end before they change errors by less
    allowed = max(float(errors.mean()) + _standard_error(errors), EXACT**0.5)
    shortest = full
    for start in _without_dependent(full, samples):
        candidate = _as_short(start, samples, left_out, allowed, deadline)
        if candidate is not None and candidate.coefficient_count < shortest.coefficient_count:
            shortest = candidate
    if shortest is full:
        return law
    # once more, since a fit holds coefficients a little where it begins
    shortest = _fitted(shortest, samples)
    before = law.coefficient_count
    after = shortest.coefficient_count
    source = f"{law.source}; shortened from {before} to {after} terms"
    named = ", ".join(str(relation) for relation in relations(samples))
    if named:
        source += f", of which others fit as well, since {named} in all samples"
    domain = law.domain or Region.of(samples.latents, samples.times)
    return replace(shortest, source=source, domain=domain, report=law.report)


def _as_short(
    law: Equation, samples: LatentSamples, left_out: LeftOut, allowed: float, deadline: float
) -> Equation | None:
    """Return the shortest law that is as good as is allowed, on a path that begins at a law, and
    on paths that begin at the shorter laws; None where none is.
    """
    shortest = None
    path = [law, *_path(law, samples)]
    while time.process_time() < deadline:
        shorter = _shortest(path, left_out, allowed, deadline)
        if shorter is None:
            break
        shortest = _fitted(shorter, samples)
        path = _path(shortest, samples)
    return shortest


def _without_dependent(law: Equation, samples: LatentSamples) -> list[Equation]:
    """Return the law without terms of a latent that is a combination of others in all samples, once
    for each choice of the latent; the law itself where all are independent.
    """
    several = [relation.involved for relation in relations(samples)]
    if not several or not isinstance(law.basis.library, Polynomial):
        return [law]
    laws = []
    complete = samples.complete()
    terms = _stacked(law.basis, complete.inputs.double(), complete.context.double())
    rates = terms @ law.coefficients
    norm = divisor(terms.norm(dim=0))
    symbols = law.basis.variables.symbols
    for choice in itertools.product(*several):
        left = [_lacks(name, [symbols[k] for k in choice]) for name in law.terms]
        kept = torch.tensor(left)
        solution = least_norm((terms / norm)[:, kept], rates)
        coefficients = torch.zeros_like(law.coefficients)
        coefficients[kept] = solution / norm[kept, None]
        laws.append(replace(law, coefficients=coefficients))
    return laws


def _lacks(term: str, symbols: list[str]) -> bool:
    """Return whether a term has none of some variables as a factor."""
    factors = {factor.partition("^")[0] for factor in term.split(" ")}
    return factors.isdisjoint(symbols)


def _standard_error(errors: Tensor) -> float:
    """Return that of a mean of errors (k,); 0 of a single one, which tells nothing of it."""
    if len(errors) < 2:
        return 0.0
    return float(errors.std()) / len(errors) ** 0.5


def _left_out_of(samples: LatentSamples) -> LeftOut:
    """Return the left-out error of a few folds, by latents in their deviations."""
    judge = Judge.of_latents(samples)
    several = [without(samples, judge, rows) for rows in folds_of(samples, FOLDS)]

    def left_out(fit: FitTo) -> Tensor:
        errors = []
        for train, of_fold, held in several:
            law = fit(train)
            # a single run has pieces, which have a standard error
            judges = of_fold.pieces() if len(held) == 1 else [of_fold]
            # steps so short that their error is none of the law's
            errors += [piece.errors(law, held, POLISHED) for piece in judges]
        joined = torch.cat(errors)
        return joined[joined.isfinite()]

    return left_out


# -- terms without shifts --------------------------------------------------------------------------


def unshifted(law: Equation, samples: LatentSamples) -> Equation:
    """Return the same law in terms of latents and contexts that are scaled, and not shifted; as it
    is where its terms are no polynomials.
    """
    basis = law.basis
    if not isinstance(basis.library, Polynomial):
        return law
    context_library: Library = basis.context_library
    context = basis.context
    if isinstance(context_library, Chebyshev) and not any(context_library.poles):
        context_library = Polynomial(context_library.degree)
        context = without_shift(context)
    plain = replace(
        basis,
        context_library=context_library,
        variables=without_shift(basis.variables),
        context=context,
    )
    coefficients = in_terms_of(plain, law, samples)
    return equation(samples, plain, coefficients, law.source)


def without_shift(scaling: Scaling) -> Scaling:
    """Return a scaling of the same largest size, that keeps zero."""
    scale = scaling.shift.abs() + scaling.scale
    return replace(scaling, shift=torch.zeros_like(scale), scale=scale)


def in_terms_of(basis: Features, law: Equation, samples: LatentSamples) -> Tensor:
    """Return the coefficients (K, m) of a law in other terms that span the same functions."""
    draw = torch.Generator().manual_seed(0)
    old = law.basis
    d, p = len(old.variables), len(old.context)
    number = 4 * len(old.names) + 100
    z = 2 * torch.rand(number, d, generator=draw, dtype=torch.float64).to(law.coefficients) - 1
    c = 2 * torch.rand(number, p, generator=draw, dtype=torch.float64).to(law.coefficients) - 1
    z = old.variables.shift + old.variables.scale * z
    if not old.context.coordinates:
        c = old.context.shift + old.context.scale * c
    else:
        rows = torch.randint(len(samples), (number,), generator=draw)
        c = samples.context.double().reshape(-1, p)[rows]
    rates = _stacked(old, z, c) @ law.coefficients * old.rate_scale(law.coefficients)
    m = law.latent_dim
    terms = _stacked(basis, z, c)
    norm = divisor(terms.norm(dim=0))
    solution = least_norm(terms / norm, rates / basis.variables.scale[:m])
    coefficients = solution / norm.unsqueeze(-1)
    # what is rounding beside the largest term of a rate is zero
    size = coefficients.abs() * terms.abs().amax(0).unsqueeze(-1)
    rounding = torch.finfo(torch.float64).eps * len(norm) * size.amax(0)
    return torch.where(size > rounding, coefficients, 0.0)


def _stacked(basis: Features, z: Tensor, c: Tensor) -> Tensor:
    """Return the terms (N, K) at latents (N, d) and contexts (N, p)."""
    return torch.stack(torch.broadcast_tensors(*basis.terms(z, c)), -1)


# -- the order in which terms go -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Curvature:
    """Gauss-Newton model of the fit of a law about its coefficients, in units in which its diagonal
    is one.

    Attributes:
        matrix: (P, P) of the coefficients that are not zero.
        values: (P,) of them.
        degrees: (P,) of their terms.
        noise: mean square residual of a single observation, over the number of observations.
    """

    matrix: Tensor
    values: Tensor
    degrees: Tensor | None = None
    noise: float = 0.0

    def without(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values (k,) of the coefficients that are kept, which make up for the others as
        far as they can, and what the loss of each (k,) would cost then.
        """
        dropped = torch.ones(len(self.values), dtype=torch.bool)
        dropped[kept] = False
        block = self.matrix[kept][:, kept]
        block = block + SINGULAR * torch.eye(len(kept), dtype=block.dtype, device=block.device)
        inverse = torch.linalg.inv(block)
        moved = inverse @ (self.matrix[kept][:, dropped] @ self.values[dropped])
        values = self.values[kept] + moved
        return values, values.square() / inverse.diagonal()

    def next_ones(self, values: Tensor, costs: Tensor, degrees: Tensor) -> list[int]:
        """Return the places of the coefficients to drop next, of those that are left."""
        most = max(1, int(AT_ONCE * len(values)))
        open_ones = (costs < INSIGNIFICANT * self.noise).nonzero().flatten().tolist()
        if not open_ones:
            return [int(costs.argmin())]
        # of what may be zero, the highest degree and the smallest contribution
        open_ones.sort(key=lambda k: (-int(degrees[k]), abs(float(values[k]))))
        highest = [k for k in open_ones if degrees[k] == degrees[open_ones[0]]]
        return highest[:most]


def _path(law: Equation, samples: LatentSamples) -> list[Equation]:
    """Return laws with fewer and fewer terms, down to one, by the Gauss-Newton model."""
    fit = Fit(samples, law.basis, 0.0, law.support)
    theta = fit.problem.theta(law.coefficients)
    free = fit.structure.free.flatten().nonzero().flatten()
    curvature, units = _curvature(fit, theta, free, law)
    kept = torch.arange(len(free))
    values, costs = curvature.without(kept)
    laws = []
    assert curvature.degrees is not None  # of a polynomial
    while len(kept) > 1:
        places = curvature.next_ones(values, costs, curvature.degrees[kept])
        stays = torch.ones(len(kept), dtype=torch.bool)
        stays[places[: len(kept) - 1]] = False
        kept = kept[stays]
        values, costs = curvature.without(kept)
        shorter = torch.zeros_like(theta).flatten()
        shorter[free[kept]] = values / units[kept]
        coefficients = fit.problem.coefficients(shorter.reshape(theta.shape))
        laws.append(replace(law, coefficients=coefficients))
    return laws


def _curvature(fit: Fit, theta: Tensor, free: Tensor, law: Equation) -> tuple[Curvature, Tensor]:
    """Return the Gauss-Newton model of the longest informative windows, and the units (P,) by which
    coefficients are multiplied in it.
    """
    runs = fit.problem.runs
    longest = fit.longest_windows(theta)
    problem = shots(fit.structure, runs, theta, longest.length, Hold(), FINE)
    matrix = problem.normal_equations(theta, problem.windows.start).matrix
    units = divisor(matrix.diagonal().sqrt())
    matrix = matrix / units / units.unsqueeze(-1)
    cost = float(problem.cost(theta))
    noise = max(cost, ROUNDING) / problem.number
    degrees = _degrees(law).to(theta.device).unsqueeze(-1).expand_as(law.coefficients)
    degrees = degrees.reshape(theta.shape).flatten()[free]
    return Curvature(matrix, theta.flatten()[free] * units, degrees, noise), units


def _degrees(law: Equation) -> Tensor:
    """Return the total degree (K,) of each term, in latents and context; 0 where it has none."""
    degrees = []
    for name in law.terms:
        degree = 0
        for factor in name.split(" "):
            _, _, power = factor.partition("^")
            degree += int(power) if power.isdigit() else int(factor != "1")
        degrees.append(degree)
    return torch.tensor(degrees)


# -- fits of a support -----------------------------------------------------------------------------


def _shortest(
    path: list[Equation], left_out: LeftOut, allowed: float, deadline: float
) -> Equation | None:
    """Return the shortest law of a path whose terms are as good as is allowed, by bisection; None
    where none is.
    """
    good, bad = -1, len(path)
    while bad - good > 1 and time.process_time() < deadline:
        middle = (good + bad) // 2
        errors = left_out(functools.partial(_fitted, path[middle]))
        if float(errors.mean()) <= allowed:
            good = middle
        else:
            bad = middle
    return None if good < 0 else path[good]


def _fitted(law: Equation, samples: LatentSamples) -> Equation:
    """Return the law of the terms of another one, fitted to samples by shooting."""
    fit = Fit(samples, law.basis, 0.0, law.support)
    coefficients = fit.near(law.coefficients)
    return equation(samples, law.basis, coefficients, law.source)
