"""Short laws: equations with as few terms as left-out runs ask for."""

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.core.tensors import divisor, least_norm
from romkit.integrators.base import LearnedField
from romkit.integrators.region import Region
from romkit.laws.chebyshev import Chebyshev
from romkit.laws.determined import relations
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.folds import Fold, drop_runs, folds_of
from romkit.laws.judge import Judge
from romkit.laws.libraries import Library, Polynomial
from romkit.laws.polynomial import Fit, equation
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.scaling import Scaling
from romkit.laws.shooting import EXACT, FINE, POLISHED, ROUNDING, Hold, lengths, shots

FitTo = Callable[[LatentSamples], Equation]
"""Fit of some terms to samples."""

LeftOut = Callable[[FitTo], Iterator[Tensor]]
"""Errors of forecasts of left-out runs, fold by fold, by laws that a fit makes of the others."""

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
    errors: Tensor | None = None,
    seconds: Positive = math.inf,
) -> Equation:
    """Return a law with as few terms as left-out runs ask for, fitted again by shooting.

    By the Gauss-Newton model of the fit, terms are taken up one by one, the one that lowers the
    error most first. Laws of more and more of them are fitted again, until the mean left-out error
    is at most that of all terms plus one standard error. From the shortest such law terms are
    dropped in the order of what the model expects their loss to cost, the other coefficients making
    up for it; of terms that cost nothing the highest degrees go first. The shortest law that is as
    good is shortened likewise, as long as one is shorter.

    Latents and contexts are not shifted in the result, whatever they are in the law: x y has one
    term there, and four about a mean.

    Args:
        law: a single equation, fitted to the samples.
        samples: whole trajectories.
        left_out: takes a fit, which makes an equation of samples, and yields for each fold the errors
            of its left-out runs by a law of the others; by default forecasts of left-out contexts,
            runs, or blocks of time of a single run, in the deviations of the latents.
        errors: (k,) of the left-out runs by laws of all terms, where they are known.
        seconds: CPU time after which no further support is tried.

    Returns:
        The shorter law, or the given one where none is as good.

    Raises:
        InputError: a stack of laws, or single samples.

    Source: Chen, Billings, Luo (1989), Orthogonal least squares methods, for terms that are taken up;
    Hassibi, Stork (1993), Second order derivatives for network pruning: optimal brain surgeon, for
    those that are dropped; Breiman, Friedman, Olshen, Stone (1984), Classification and regression trees, section
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
        left_out = _fold_costs(samples)
    deadline = time.process_time() + seconds
    full = unshifted(law, samples)
    if errors is None:
        errors = torch.cat([*left_out(lambda train: refit_terms(full, train))])
    limit = Limit.build(errors, left_out)
    shortest = full
    for start in _drop_dependent(full, samples):
        candidate = _shorten_samples(start, samples, limit, deadline)
        if candidate is not None and candidate.coefficient_count < shortest.coefficient_count:
            shortest = candidate
    if shortest is full:
        return law
    # once more, since a fit holds coefficients a little where it begins
    shortest = refit_terms(shortest, samples)
    before = law.coefficient_count
    after = shortest.coefficient_count
    source = f"{law.source}; shortened from {before} to {after} terms"
    named = ", ".join(str(relation) for relation in relations(samples))
    if named:
        source += f", of which others fit as well, since {named} in all samples"
    domain = law.domain or Region.fit(samples.latents, samples.times)
    return replace(shortest, source=source, domain=domain, report=law.report)


@dataclass(frozen=True, eq=False)
class Limit:
    """Left-out error up to which a law is as good as that of all terms.

    Attributes:
        left_out: yields the errors of a fit.
        allowed: largest mean of them.
        number: of left-out runs.
    """

    left_out: LeftOut
    allowed: float
    number: int

    @classmethod
    def build(cls, errors: Tensor, left_out: LeftOut) -> "Limit":
        """Allow one standard error above the errors (k,) of all terms."""
        finite = errors[errors.isfinite()]
        # fits end before they change errors by less
        allowed = max(float(finite.mean()) + _standard_error(finite), EXACT**0.5)
        return cls(left_out, allowed, len(finite))

    def admits(self, law: Equation) -> bool:
        """Tell whether a law of these terms is as good; no further fold is fitted once it is not."""
        total = 0.0
        for errors in self.left_out(functools.partial(refit_terms, law)):
            total += float(errors.nansum())
            if not total <= self.allowed * self.number:
                return False
        return True


def _shorten_samples(
    law: Equation, samples: LatentSamples, limit: Limit, deadline: float
) -> Equation | None:
    """Return the shortest law that is as good as is allowed, on a path that begins at no term, and
    on paths that begin at the shorter laws; None where none is.
    """
    path = Curvature.model_shortest_windows(law, samples).rising()
    _, place = _bracket(path, limit, deadline)
    shortest: Equation | None
    if place < len(path):
        shortest = path[place]
    else:
        shortest = _shortest(
            Curvature.model_longest_windows(law, samples).falling(), limit, deadline
        )
    while shortest is not None and time.process_time() < deadline:
        law = refit_terms(shortest, samples)
        shorter = _shortest(
            Curvature.model_longest_windows(law, samples).falling(), limit, deadline
        )
        if shorter is None:
            return law
        shortest = shorter
    return shortest


def _drop_dependent(law: Equation, samples: LatentSamples) -> list[Equation]:
    """Return the law without terms of a latent that is a combination of others in all samples, once
    for each choice of the latent; the law itself where all are independent.
    """
    involved = [relation.involved for relation in relations(samples)]
    if not involved or not isinstance(law.basis.library, Polynomial):
        return [law]
    laws = []
    complete = samples.complete()
    terms = _stacked(law.basis, complete.inputs.double(), complete.context.double())
    rates = terms @ law.coefficients
    norm = divisor(terms.norm(dim=0))
    symbols = law.basis.variables.symbols
    for choice in itertools.product(*involved):
        stays = [_lacks(name, [symbols[k] for k in choice]) for name in law.terms]
        kept = torch.tensor(stays)
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


def _fold_costs(samples: LatentSamples) -> LeftOut:
    """Return the left-out error of a few folds, by latents in their deviations."""
    judge = Judge.compare_latents(samples)
    folds = [drop_runs(samples, judge, rows) for rows in folds_of(samples, FOLDS)]

    def left_out(fit: FitTo) -> Iterator[Tensor]:
        for fold in folds:
            yield errors_of(fold, fit(fold.train))

    return left_out


def errors_of(fold: Fold, law: LearnedField) -> Tensor:
    """Return errors (k,) of forecasts of the runs that a fold leaves out, or of pieces of a single
    one, which have a standard error, and in which errors of chaos have not grown.
    """
    judges = fold.judge.pieces() if len(fold.judge.runs) == 1 else [fold.judge]
    # steps so short that their error is none of the law's
    return torch.cat([judge.errors(law, fold.held, POLISHED) for judge in judges])


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
    if isinstance(context_library, Chebyshev):
        context_library = Polynomial(context_library.degree)
        context = drop_shift(context)
    plain = replace(
        basis,
        context_library=context_library,
        variables=drop_shift(basis.variables),
        context=context,
    )
    coefficients = express(plain, law, samples)
    return equation(samples, plain, coefficients, law.source)


def drop_shift(scaling: Scaling) -> Scaling:
    """Return a scaling of the same largest size, that keeps zero."""
    scale = scaling.shift.abs() + scaling.scale
    return replace(scaling, shift=torch.zeros_like(scale), scale=scale)


def express(basis: Features, law: Equation, samples: LatentSamples) -> Tensor:
    """Return the coefficients (K, m) of a law in other terms that span the same functions."""
    draw = torch.Generator().manual_seed(0)
    source_basis = law.basis
    d, p = len(source_basis.variables), len(source_basis.context)
    number = 4 * len(source_basis.names) + 100
    z = 2 * torch.rand(number, d, generator=draw, dtype=torch.float64).to(law.coefficients) - 1
    c = 2 * torch.rand(number, p, generator=draw, dtype=torch.float64).to(law.coefficients) - 1
    z = source_basis.variables.shift + source_basis.variables.scale * z
    if not source_basis.context.coordinates:
        c = source_basis.context.shift + source_basis.context.scale * c
    else:
        rows = torch.randint(len(samples), (number,), generator=draw)
        c = samples.context.double().reshape(-1, p)[rows]
    rates = (
        _stacked(source_basis, z, c) @ law.coefficients * source_basis.rate_scale(law.coefficients)
    )
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


# -- the order in which terms come and go ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Cost of a fit about its coefficients, in units in which the diagonal is one.

    Attributes:
        matrix: (P, P) of the coefficients that are not zero.
        values: (P,) of them.
    """

    matrix: Tensor
    values: Tensor

    def eliminate(self, kept: Tensor) -> tuple[Tensor, Tensor]:
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

    def rising(self, fewest: int, most: int) -> list[Tensor]:
        """List the places of more and more coefficients, each the one that lowers the cost most
        together with those before it.
        """
        gradient = self.matrix @ self.values  # of the gradient at zero
        alone = self.matrix.diagonal() + SINGULAR  # curvature beside the terms that were taken up
        columns = self.matrix.new_zeros(len(gradient), 0)  # of the triangular factor
        taken: list[int] = []
        supports = []
        while len(taken) < most:
            gains = gradient.square() / alone
            gains[taken] = -1.0
            next_one = int(gains.argmax())
            root = alone[next_one].sqrt()
            column = (self.matrix[next_one] - columns @ columns[next_one]) / root
            gradient = gradient - gradient[next_one] / root * column
            # what rounding alone would tell apart from the others costs nothing
            alone = (alone - column.square()).clamp(min=SINGULAR)
            columns = torch.cat([columns, column.unsqueeze(-1)], dim=-1)
            taken.append(next_one)
            if len(taken) >= fewest:
                supports.append(torch.tensor(sorted(taken)))
        return supports


@dataclass(frozen=True, eq=False)
class Curvature:
    """Gauss-Newton model of the fit of a law about its coefficients.

    Attributes:
        law: a polynomial one.
        fit: of its terms.
        cost: of the fit.
        units: (P,) by which coefficients are multiplied in it.
        degrees: (P,) of their terms.
        noise: mean square residual of a single observation, over the number of observations.
    """

    law: Equation
    fit: Fit
    cost: Quadratic
    units: Tensor
    degrees: Tensor
    noise: float

    @classmethod
    def model_longest_windows(cls, law: Equation, samples: LatentSamples) -> "Curvature":
        """Model the fit to the longest windows that are informative."""
        fit = Fit(samples, law.basis, 0.0, law.support)
        length = fit.longest_windows(fit.problem.theta(law.coefficients)).length
        return cls._measure(law, fit, length)

    @classmethod
    def model_shortest_windows(cls, law: Equation, samples: LatentSamples) -> "Curvature":
        """Model the fit to the shortest windows, in which each term shows in the rate that it is
        part of: over whole runs all of them change the phase most.
        """
        fit = Fit(samples, law.basis, 0.0, law.support)
        _, length = lengths(fit.problem.runs)[0]
        return cls._measure(law, fit, length)

    @classmethod
    def _measure(cls, law: Equation, fit: Fit, length: int) -> "Curvature":
        theta = fit.problem.theta(law.coefficients)
        problem = shots(fit.structure, fit.problem.runs, theta, length, Hold(), FINE)
        matrix = problem.normal_equations(theta, problem.windows.start).matrix
        units = divisor(matrix.diagonal().sqrt())
        matrix = matrix / units / units.unsqueeze(-1)
        noise = max(float(problem.cost(theta)), ROUNDING) / problem.number
        free = fit.structure.free.flatten()
        degrees = _degrees(law).to(theta.device).unsqueeze(-1).expand_as(law.coefficients)
        degrees = degrees.reshape(theta.shape).flatten()[free]
        cost = Quadratic(matrix, theta.flatten()[free] * units)
        return cls(law, fit, cost, units, degrees, noise)

    def rising(self, *, share: float = 0.5) -> list[Equation]:
        """List laws of more and more terms, from one for each latent to a share of all."""
        most = int(share * len(self.units))
        return [self._law(kept) for kept in self.cost.rising(self.law.latent_dim, most)]

    def falling(self) -> list[Equation]:
        """List laws of more and more terms, of those that are left when others go, one by one."""
        kept = torch.arange(len(self.units))
        laws = []
        while len(kept) > 1:
            places = self._next_ones(kept)
            stays = torch.ones(len(kept), dtype=torch.bool)
            stays[places[: len(kept) - 1]] = False
            kept = kept[stays]
            laws.append(self._law(kept))
        return laws[::-1]

    def _next_ones(self, kept: Tensor) -> list[int]:
        """Return the places of the coefficients to drop next, of those that are left."""
        values, costs = self.cost.eliminate(kept)
        degrees = self.degrees[kept]
        most = max(1, int(AT_ONCE * len(values)))
        open_ones = (costs < INSIGNIFICANT * self.noise).nonzero().flatten().tolist()
        if not open_ones:
            return [int(costs.argmin())]
        # of what may be zero, the highest degree and the smallest contribution
        open_ones.sort(key=lambda k: (-int(degrees[k]), abs(float(values[k]))))
        highest = [k for k in open_ones if degrees[k] == degrees[open_ones[0]]]
        return highest[:most]

    def _law(self, kept: Tensor) -> Equation:
        """Make a law of some coefficients (k,), which make up for the others."""
        values, _ = self.cost.eliminate(kept)
        theta = self.fit.problem.theta(self.law.coefficients)
        free = self.fit.structure.free.flatten().nonzero().flatten()
        shorter = torch.zeros_like(theta).flatten()
        shorter[free[kept]] = values / self.units[kept]
        coefficients = self.fit.problem.coefficients(shorter.reshape(theta.shape))
        return replace(self.law, coefficients=coefficients)


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


def _shortest(path: list[Equation], limit: Limit, deadline: float) -> Equation | None:
    """Return the shortest law of a path, from short to long ones, that is as good as is allowed, by
    bisection; None where none is.
    """
    bad, good = _bracket(path, limit, deadline)
    while good < len(path) and good - bad > 1 and time.process_time() < deadline:
        middle = (good + bad) // 2
        if limit.admits(path[middle]):
            good = middle
        else:
            bad = middle
    return path[good] if good < len(path) else None


def _bracket(path: list[Equation], limit: Limit, deadline: float) -> tuple[int, int]:
    """Return the places of a law that is not as good and of one that is, the end where none is.

    Lengths double: short laws cost little.
    """
    bad, good = -1, 0
    while good < len(path) and time.process_time() < deadline:
        if limit.admits(path[good]):
            return bad, good
        bad, good = good, 2 * good + 1
    return bad, len(path)


def refit_terms(law: Equation, samples: LatentSamples) -> Equation:
    """Return the law of the terms of another one, fitted to samples by shooting."""
    fit = Fit(samples, law.basis, 0.0, law.support)
    coefficients = fit.near(law.coefficients)
    return equation(samples, law.basis, coefficients, law.source)
