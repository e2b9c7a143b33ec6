"""Rational laws: polynomials, and polynomials over one saturating denominator."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.core.boundary import Count, Natural, Positive, validated
from romkit.core.errors import InputError
from romkit.core.tensors import divisor, evenly
from romkit.core.types import TensorMap
from romkit.integrators.base import LearnedField
from romkit.integrators.region import Region
from romkit.laws.base import TrajectoryEstimator
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.hamiltonian import corner_weights, known
from romkit.laws.libraries import Polynomial
from romkit.laws.polynomial import HIGHEST, boxed, equation, number_of_contexts
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.scaling import Scaling
from romkit.laws.shooting import CLEAN
from romkit.laws.shorten import drop_shift
from romkit.laws.trajectories import context_terms

# -- the law ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RationalLaw(LearnedField):
    """Law ż = P(z, c) + Q(z, c) / (1 + (z_j / κ(c))ⁿ) with polynomials P and Q: the result of
    `Rational`.

    The denominator is 1 at least, wherever z_j >= 0, as in all data that it was fitted to; what is
    below zero counts as zero.

    Attributes:
        polynomial: P.
        numerator: coefficients (terms, m) of Q, in the terms of P.
        latent: j.
        power: n, of Hill; 1 is the law of Michaelis and Menten.
        half: κ > 0 (corners,) at the corners of the box of contexts, between which it is multilinear.
        box: of the contexts.

    Source: Michaelis, Menten (1913), Die Kinetik der Invertinwirkung; Hill (1910), for other powers.

    Example:
        >>> import torch
        >>> from romkit.laws import LatentSamples, Rational
        >>> from romkit.solvers import RK4
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> start = torch.linspace(0.2, 3, 8, dtype=torch.float64).unsqueeze(-1)
        >>> z = RK4(0.01)(lambda t, z: 0.5 - z / (1 + z), start, t).states  # fed, and eaten
        >>> samples = LatentSamples.first_order(z, torch.zeros_like(z), times=t)
        >>> law = Rational(degree=1).fit_samples(samples)
        >>> round(law.power, 3), [round(value, 3) for value in law.half.tolist()]
        (1.0, [1.0])
    """

    polynomial: Equation
    numerator: Tensor
    latent: Natural
    power: float
    half: Tensor
    box: Scaling
    source: str
    samples: int
    domain: Region | None = None
    report: Sequence[Mapping[str, Any]] = ()

    order = 1
    control_names = ()
    held = None
    control_unit = ""

    @property
    def latent_dim(self) -> int:
        """m."""
        return self.polynomial.latent_dim

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the parameters that the law depends on."""
        return self.polynomial.context_names

    @property
    def coefficient_count(self) -> int:
        """Number of coefficients of all terms that were selected from, those of the denominator
        included: as of a polynomial, whose terms all stay, so that the two compare.
        """
        return 2 * self.numerator.numel() + 1 + len(self.half)

    def context_half(self, c: Tensor) -> Tensor:
        """Return κ (...) at parameters c (..., p)."""
        weights = corner_weights(self.box.on(c)(c), len(self.half))
        # contexts beyond the box may not make it negative
        return (weights @ self.half.to(c)).clamp(min=float(self.half.min()) / 10)

    def right_hand_side(self, c: Tensor) -> TensorMap:
        basis = self.polynomial.basis
        P = self.polynomial.right_hand_side(c)
        Q = basis.at(self.numerator, c)
        half = self.context_half(c)

        def rate(z: Tensor) -> Tensor:
            absent = z.ndim - 1 - half.ndim
            kappa = half.reshape(*half.shape, *(1,) * absent)
            share = z[..., self.latent].clamp(min=0.0) / kappa
            return P(z) + Q(z) / (1 + share**self.power).unsqueeze(-1)

        return rate

    def details(self) -> list[str]:
        """Return the formulas."""
        return self.formulas()

    def formulas(self, digits: Count = 4, most: Count | None = None) -> list[str]:
        """Return equations as text, `z0' = (2.5) + (-100 z0 z1) / D`, and D."""
        numerators = replace(self.polynomial, coefficients=self.numerator)
        rows = zip(
            self.polynomial.formulas(digits, most), numerators.formulas(digits, most), strict=True
        )
        lines = []
        for substitute, of_numerator in rows:
            name, polynomial = substitute.split(" = ", 1)
            numerator = of_numerator.split(" = ", 1)[1]
            fraction = "" if numerator == "0" else f" + ({numerator}) / D"
            lines.append(f"{name} = {polynomial}{fraction}")
        variable = self.polynomial.basis.variables.names[self.latent]
        values = ", ".join(f"{value:.{digits}g}" for value in self.half.tolist())
        where = f"κ = {values}"
        if len(self.half) > 1:
            where += f" at the corners of the box of {', '.join(self.context_names)}"
        return [*lines, f"D = 1 + ({variable} / κ)^{self.power:.{digits}g}, {where}"]


# -- the estimator ---------------------------------------------------------------------------------


@validated
@dataclass(frozen=True)
class Rational(TrajectoryEstimator):
    """Settings of a fit; `fit` returns a `RationalLaw` of states that are not negative.

    Rates are integrated from each sample to the next one along trajectories that join them, so that
    coefficients are those of a linear least-squares problem, beside κ and the power, which take steps
    of Gauss-Newton. The trajectories are first splines, then those of the law before, bent to the
    samples: where the law is exact, the coefficients are. The terms are selected anew along each.

    Args:
        degree: of the polynomials in the latents; by default 1 and 2 are tried.
        context_degree: of their coefficients in the context; by default 1 where there are as many
            contexts, else 0.
        latent: number of the latent in the denominator; by default the one that explains most, where one
            explains half of what polynomials leave.
        power: of it, to begin at; by default likewise.

    Samples have to be whole trajectories of first order, without inputs.

    Source: Brunel (2008), Parameter estimation of ODE's via nonparametric estimators, and Dattner,
    Klaassen (2015), Optimal rate of direct estimators in systems of ordinary differential equations
    linear in functions of the parameters, for integrals along estimated trajectories.

    Example:
        >>> import torch
        >>> from romkit.laws import LatentSamples, Rational
        >>> from romkit.solvers import RK4
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> start = torch.linspace(0.2, 3, 8, dtype=torch.float64).unsqueeze(-1)
        >>> z = RK4(0.01)(lambda t, z: 1 / (1 + z**2) - z / 2, start, t).states
        >>> samples = LatentSamples.first_order(z, torch.zeros_like(z), times=t)
        >>> round(Rational(degree=1).fit_samples(samples).power, 2)
        2.0
    """

    degree: Count | None = None
    context_degree: Natural | None = None
    latent: Natural | None = None
    power: Positive | None = None

    def candidates(self, samples: LatentSamples) -> "list[Rational]":
        """Return these settings with each degree, where a denominator explains enough.

        Raises:
            InputError: none does, or states that are negative.
        """
        _check(samples)
        settings = []
        for degree in (1, 2) if self.degree is None else (self.degree,):
            wide = replace(self, degree=degree, context_degree=self._context_degree(samples))
            if 2 * wide._columns(samples) > int(samples.observed.sum()):
                continue
            is_complete = self.latent is not None and self.power is not None
            chosen = wide if is_complete else wide._screened(samples)
            if chosen is not None:
                settings.append(chosen)
        if not settings:
            raise InputError(
                "data",
                expected="samples in which a denominator explains what polynomials leave",
                got="none, or fewer samples than terms",
                fix="take PolynomialLaw, or give latent and power",
            )
        return settings

    def compared(self, samples: LatentSamples, seed: int) -> RationalLaw:
        return self._law(samples, most=2_000, rounds=10, nodes=8)

    def refitted(
        self, law: LearnedField, samples: LatentSamples, seed: int, *, resampled: bool = False
    ) -> RationalLaw:
        """Fit the law by more intervals and nodes, from the denominator of another one."""
        assert isinstance(law, RationalLaw)
        return self._law(samples, most=4_000, rounds=15, nodes=12, near=law)

    def _fit(self, samples: LatentSamples, seed: int) -> RationalLaw:
        return self.refitted(self.compared(samples, seed), samples, seed)

    def _context_degree(self, samples: LatentSamples) -> int:
        if self.context_degree is not None:
            return self.context_degree
        return int(0 < len(samples.parameters) < number_of_contexts(samples))

    def _columns(self, samples: LatentSamples) -> int:
        """Return number of terms of each equation."""
        m, p = samples.targets.shape[-1], len(samples.parameters)
        of_context = math.comb(p + known(self.context_degree), p)
        return 2 * math.comb(m + known(self.degree), m) * of_context

    def _screened(
        self,
        samples: LatentSamples,
        *,
        most: int = 800,
        powers: tuple[float, ...] = (1.0, 2.0, 4.0),
        quantiles: tuple[float, ...] = (0.25, 0.5, 0.75),
        worth: float = 0.5,
    ) -> "Rational | None":
        """Choose the latent and the power of the denominator by least squares along splines; None
        where polynomials alone leave about as much.

        `most`: samples that are enough to compare by.

        `powers`, `quantiles`: that are tried, the latter of the latent as κ.

        `worth`: share of the squares that polynomials leave, which a denominator has to explain.
        """
        intervals = _intervals(samples, self, most)
        corners = intervals.corners.shape[-1]
        # a denominator of one is none
        far = _Denominator(0, 1.0, intervals.begin.new_full((corners,), 1e12))
        _, of_polynomials = _selected(intervals, far)
        best, least = None, of_polynomials + math.log(worth)
        if of_polynomials < 2 * math.log(CLEAN):
            return None
        latents = range(intervals.begin.shape[-1]) if self.latent is None else (self.latent,)
        grid = itertools.product(latents, powers if self.power is None else (self.power,))
        for latent, power in grid:
            for quantile in quantiles:
                half = intervals.begin[:, latent].quantile(quantile)
                if half <= 0:
                    continue
                denominator = _Denominator(latent, power, half.expand(corners))
                _, error = _selected(intervals, denominator)
                if error < least:
                    best, least = replace(self, latent=latent, power=power), error
        return best

    def _law(
        self,
        samples: LatentSamples,
        most: int,
        rounds: int,
        nodes: int,
        near: RationalLaw | None = None,
    ) -> RationalLaw:
        settings = self
        if None in (self.degree, self.context_degree, self.latent, self.power):
            settings = self.candidates(samples)[0]
        intervals = _intervals(samples, settings, most, nodes)
        if near is None:
            start = _best_start(intervals, settings)
        else:
            unit = intervals.basis.variables.scale[near.latent]
            start = _Denominator(near.latent, near.power, near.half / unit)
        fit = _iterated(intervals, start, rounds)
        return _build_law(fit.solution, intervals, samples)


def _is_suitable(samples: LatentSamples) -> bool:
    """Tell whether states of trajectories of first order are few and never negative, and inputs are
    none.
    """
    if samples.inputs.ndim > 2 or samples.order != 1 or samples.control_names:
        return False
    if samples.times is None or samples.targets.shape[-1] > max(HIGHEST):
        return False
    context = samples.context.unflatten(0, (-1, len(trajectory_times(samples))))
    stays = bool((context == context[:, :1]).all())
    return stays and bool((samples.latents.nan_to_num(0.0) >= 0).all())


def _check(samples: LatentSamples) -> None:
    """Refuse samples that are no runs of states that are positive.

    Raises:
        InputError: see there.
    """
    if not _is_suitable(samples):
        raise InputError(
            "data",
            expected=f"runs of at most {max(HIGHEST)} states that are not negative, of first order, at contexts "
            "that stay",
            got="others",
            fix="take PolynomialLaw, or states as they are measured, without a basis",
        )


# -- least squares along trajectories --------------------------------------------------------------


class _Intervals(NamedTuple):
    """Intervals between neighbouring samples, in units of the terms.

    Attributes:
        begin, end: (N, m) states.
        duration: (N, 1).
        path: (N, S, m) states at the nodes between them.
        factors: (N, q) terms of the context.
        corners: (N, k) weights of the corners of its box.
        basis: terms.
    """

    begin: Tensor
    end: Tensor
    duration: Tensor
    path: Tensor
    factors: Tensor
    corners: Tensor
    basis: Features

    def only(self, rows: Tensor) -> "_Intervals":
        """Return some of the intervals, by their numbers."""
        begin, end, duration, path, factors, corners, basis = self
        return _Intervals(
            begin[rows],
            end[rows],
            duration[rows],
            path[rows],
            factors[rows],
            corners[rows],
            basis,
        )

    @property
    def unit(self) -> Tensor:
        """Typical size (m,) of a change."""
        return divisor((self.end - self.begin).square().mean(0).sqrt())


class _Denominator(NamedTuple):
    """1 + (w_j / κ)ⁿ, with κ (k,) at the corners of the contexts."""

    latent: int
    power: float
    half: Tensor


class _Solution(NamedTuple):
    """Coefficients (2 K q, m) for a denominator, and the residuals (N, m) in units of a change.

    Attributes:
        projector: (N, r) orthonormal columns of all terms that some equation has.
    """

    denominator: _Denominator
    coefficients: Tensor
    missed: Tensor
    projector: Tensor


@cache
def _nodes(number: int) -> tuple[Tensor, Tensor]:
    """Return nodes and weights of Gauss in [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    return torch.from_numpy((nodes + 1) / 2), torch.from_numpy(weights / 2)


def _intervals(samples: LatentSamples, settings: Rational, most: int, nodes: int = 6) -> _Intervals:
    """Return intervals of samples, at most so many, joined by splines at so many nodes."""
    from scipy.interpolate import CubicSpline  # slow to import

    boxes = boxed(samples)
    basis = Features.build(
        boxes, Polynomial(known(settings.degree)), Polynomial(known(settings.context_degree))
    )
    context = basis.context if basis.context.coordinates else drop_shift(basis.context)
    basis = replace(basis, variables=drop_shift(basis.variables), context=context)
    times = trajectory_times(samples).double()
    z = samples.latents.double()
    w = basis.variables.on(z)(z).unflatten(0, (-1, len(times)))  # (n, T, m)
    at = times[:-1, None] + times.diff()[:, None] * _nodes(nodes)[0]  # (T - 1, S)
    paths = []
    for run in w:
        seen = run.isfinite().all(-1)
        path = torch.full((*at.shape, run.shape[-1]), torch.nan, dtype=w.dtype)
        if int(seen.sum()) > 3:
            spline = CubicSpline(times[seen].numpy(), run[seen].numpy())
            path = torch.from_numpy(spline(at.numpy()))
        paths.append(path)
    c = samples.context.double().unflatten(0, (-1, len(times)))[:, 0]  # (n, p)
    scaled = samples.parameters.on(c)(c)
    k = 2 ** len(samples.parameters)
    corners = corner_weights(scaled, k if k < number_of_contexts(samples) else 1)
    factors = context_terms(basis, c).expand(len(w), -1)
    T = len(times) - 1
    intervals = _Intervals(
        w[:, :-1].flatten(0, 1),
        w[:, 1:].flatten(0, 1),
        times.diff().repeat(len(w)).unsqueeze(-1),
        torch.stack(paths).flatten(0, 1),
        factors.repeat_interleave(T, 0),
        corners.repeat_interleave(T, 0),
        basis,
    )
    seen = (
        (intervals.begin + intervals.end + intervals.path.sum(1))
        .isfinite()
        .all(-1)
        .nonzero()
        .flatten()
    )
    rows = seen[evenly(len(seen), most)]
    return intervals.only(rows)


def _terms(intervals: _Intervals, w: Tensor, denominator: _Denominator) -> Tensor:
    """Return terms (N, S, 2 K) of the latents at states (N, S, m), those over the denominator behind
    the others.
    """
    phi = torch.stack(torch.broadcast_tensors(*intervals.basis.library(w)), -1)
    return torch.cat([phi, phi / (1 + _share(intervals, w, denominator)[..., None])], -1)


def _share(intervals: _Intervals, w: Tensor, denominator: _Denominator) -> Tensor:
    """Return (w_j / κ)ⁿ (N, S)."""
    half = intervals.corners @ denominator.half
    ratio = w[..., denominator.latent].clamp(min=1e-12) / half.unsqueeze(-1)
    return ratio**denominator.power


def _columns(intervals: _Intervals, denominator: _Denominator) -> Tensor:
    """Return integrals (N, 2 K q) of the terms times those of the context."""
    of_latents = _integrals(intervals, _terms(intervals, intervals.path, denominator))
    return (of_latents.unsqueeze(-1) * intervals.factors.unsqueeze(1)).flatten(1)


def _weights(intervals: _Intervals, solution: "_Solution") -> Tensor:
    """Return coefficients (N, 2 K, m) of the terms of the latents at the contexts."""
    grid = solution.coefficients.unflatten(0, (-1, intervals.factors.shape[-1]))
    return torch.einsum("nq,kqm->nkm", intervals.factors, grid)


def _integrals(intervals: _Intervals, values: Tensor) -> Tensor:
    """Return integrals (N, ...) of values (N, S, ...) at the nodes."""
    _, weights = _nodes(values.shape[1])
    return torch.einsum("ns...,s->n...", values, weights) * intervals.duration


def _least_squares(intervals: _Intervals, denominator: _Denominator, support: Tensor) -> _Solution:
    """Return the coefficients whose rates lead from each sample to the next one."""
    target = (intervals.end - intervals.begin) / intervals.unit
    columns = _columns(intervals, denominator)
    kept = support.any(1).nonzero().flatten()
    columns = columns[:, kept]
    size = divisor(columns.norm(dim=0))
    columns = columns / size
    # one factorisation for the terms of all equations
    Q, R = torch.linalg.qr(columns)
    of_target = Q.mT @ target
    normed = torch.zeros(len(kept), target.shape[1], dtype=columns.dtype)
    for used in torch.unique(support[kept], dim=1).unbind(1):
        alike = (support[kept] == used.unsqueeze(-1)).all(0).nonzero().flatten()
        rows = used.nonzero().flatten()
        normed[rows.unsqueeze(-1), alike] = _solved(R[:, rows], of_target[:, alike])
    coefficients = torch.zeros(support.shape, dtype=columns.dtype)
    coefficients[kept] = normed / size.unsqueeze(-1) * intervals.unit
    return _Solution(denominator, coefficients, target - columns @ normed, Q)


def _solved(columns: Tensor, target: Tensor) -> Tensor:
    """Return least-squares solution; where a denominator is nearly constant, terms are dependent."""
    return torch.linalg.lstsq(columns, target, rcond=1e-11, driver="gelsy").solution


def _stepped(
    intervals: _Intervals,
    solution: _Solution,
    *,
    largest: float = 0.5,
    powers: tuple[float, float] = (0.5, 12.0),
) -> _Denominator:
    """Return a denominator after a step of Gauss-Newton, coefficients at their best.

    `largest`: change of κ, and of the power [their values].

    `powers`: least and largest power.

    Source: Kaufman (1975), A variable projection method for solving separable nonlinear least squares
    problems.
    """
    latent, power, half = before = solution.denominator
    w = intervals.path
    u = _share(intervals, w, before)
    of_corners = intervals.corners @ half
    terms, weights = _terms(intervals, w, before), _weights(intervals, solution)
    K = terms.shape[-1] // 2
    rate = terms[..., K:] @ weights[:, K:] / intervals.unit  # (N, S, m) of Q over the denominator
    share = u / (1 + u)
    by_half = power * share / of_corners.unsqueeze(-1)
    by_power = -share * (w[..., latent].clamp(min=1e-12) / of_corners.unsqueeze(-1)).log()
    slopes = [
        _integrals(intervals, rate * (by_half * weight.unsqueeze(-1)).unsqueeze(-1))
        for weight in intervals.corners.unbind(-1)
    ]
    slopes.append(_integrals(intervals, rate * by_power.unsqueeze(-1)))
    free = torch.stack(slopes, -1).flatten(1)  # (N, m P)
    free = free - solution.projector @ (solution.projector.mT @ free)
    columns = free.unflatten(1, (-1, len(slopes))).flatten(0, 1)
    change = _solved(columns, solution.missed.reshape(-1, 1)).squeeze(-1)
    moved = torch.cat([half, half.new_tensor([power])])
    moved = moved + change.clamp(-largest * moved, largest * moved)
    return _Denominator(latent, float(moved[-1].clamp(*powers)), moved[:-1])


def _joined(
    intervals: _Intervals, solution: _Solution, *, reach: float = 3.0
) -> tuple[_Intervals, float]:
    """Return intervals along trajectories of a solution, bent to end at the samples, and by how much
    that was [typical changes].

    `reach`: largest state of these trajectories [largest datum].
    """
    nodes, _ = _nodes(intervals.path.shape[1])
    stops = torch.cat([nodes.new_zeros(1), nodes, nodes.new_ones(1)])

    weights = _weights(intervals, solution) * intervals.duration.unsqueeze(-1)

    def rate(w: Tensor) -> Tensor:
        return (_terms(intervals, w.unsqueeze(1), solution.denominator) @ weights).squeeze(1)

    state, path = intervals.begin, []
    for h in stops.diff():
        slope = rate(state)
        second = rate(state + h / 2 * slope)
        third = rate(state + h / 2 * second)
        fourth = rate(state + h * third)
        state = state + h / 6 * (slope + 2 * second + 2 * third + fourth)
        state = state.clamp(-reach, reach)
        path.append(state)
    gap = intervals.end - path.pop()
    bent = torch.stack(path, 1) + nodes[:, None] * gap.unsqueeze(1)
    error = float((gap / intervals.unit).square().mean().sqrt())
    return intervals._replace(path=bent), error


def _selected(intervals: _Intervals, denominator: _Denominator) -> tuple[Tensor, float]:
    """Return the terms (2 K q, m) that each equation takes one after the other, each the one that
    explains most beside those before it, as long as it explains a share of what is left; and the mean
    logarithm of the squares that are left.
    """
    target = (intervals.end - intervals.begin) / intervals.unit
    columns = _columns(intervals, denominator)
    columns = columns / divisor(columns.norm(dim=0))
    matrix, products = columns.mT @ columns, columns.mT @ target
    support = torch.zeros(products.shape, dtype=torch.bool)
    total = 0.0
    for i in range(target.shape[1]):
        places, gains = _forward(matrix, products[:, i], float(target[:, i].square().sum()))
        support[places, i] = True
        total += math.log(gains / len(target))
    return support, total / target.shape[1]


def _forward(
    matrix: Tensor,
    products: Tensor,
    squares: float,
    *,
    share: float = 0.01,
    dependent: float = 1e-9,
    exact: float = 1e-14,
) -> tuple[list[int], float]:
    """Return the columns that are taken one after the other, and the squares that they leave of a
    target with these squares.

    `share`: of the squares that are left, which a further column has to explain: what splines miss is
    no noise, and any column explains some of it. Of 0.3, 0.1, 0.02 and the criterion of Bayes the
    first two took too few terms of glycolysis.

    `dependent`: part of a column that those before it leave, below which it adds nothing.

    `exact`: part of the squares below which nothing is left but rounding.

    Source: Chen, Billings, Luo (1989), Orthogonal least squares methods and their application to
    non-linear system identification.
    """
    reduced, correlations = matrix.clone(), products.clone()
    floor = exact * max(squares, 1e-300)
    places: list[int] = []
    while squares > floor:
        diagonal = reduced.diagonal()
        gains = torch.where(
            diagonal > dependent, correlations.square() / diagonal.clamp(min=dependent), 0.0
        )
        k = int(gains.argmax())
        if float(gains[k]) < share * squares:
            break
        places.append(k)
        squares = max(squares - float(gains[k]), floor)
        correlations = correlations - reduced[:, k] * correlations[k] / reduced[k, k]
        reduced = reduced - torch.outer(reduced[:, k], reduced[k]) / reduced[k, k]
    return places, squares


class _Found(NamedTuple):
    """Solution, and by how much its trajectories miss the samples [typical changes]."""

    solution: _Solution
    error: float


def _iterated(
    intervals: _Intervals, denominator: _Denominator, rounds: int, *, settled: float = 1e-2
) -> _Found:
    """Return the solution along trajectories of its own, whose terms are selected anew in each
    round.

    `settled`: relative change of the error by which rounds end.
    """
    best, previous = None, math.inf
    for _ in range(rounds):
        support, _ = _selected(intervals, denominator)
        # with one step a round, some starts end in another minimum
        for _ in range(3):
            denominator = _stepped(intervals, _least_squares(intervals, denominator, support))
        solution = _least_squares(intervals, denominator, support)
        intervals, error = _joined(intervals, solution)
        if best is None or error < best.error:
            best = _Found(solution, error)
        if abs(error - previous) < settled * previous:
            break
        previous = error
    assert best is not None  # there is a round
    return best


def _best_start(
    intervals: _Intervals,
    settings: Rational,
    *,
    most: int = 1_000,
    quantiles: tuple[float, ...] = (0.25, 0.5, 0.75),
    rounds: int = 1,
) -> _Denominator:
    """Return the denominator after a round from which trajectories miss least: there are several
    minima.

    `most`: samples that are enough to compare by.

    `quantiles`: of the latent, as κ to begin at.

    `rounds`: of each start.
    """
    rows = evenly(len(intervals.begin), most)
    few = intervals.only(rows)
    corners, latent = few.corners.shape[-1], known(settings.latent)
    starts = itertools.product((known(settings.power), 2 * known(settings.power)), quantiles)
    guesses = []
    for power, quantile in starts:
        half = few.begin[:, latent].quantile(quantile).clamp(min=1e-3)
        start = _Denominator(latent, power, half.expand(corners))
        guesses.append(_iterated(few, start, rounds))
    return min(guesses, key=attrgetter("error")).solution.denominator


def _build_law(found: _Solution, intervals: _Intervals, samples: LatentSamples) -> RationalLaw:
    basis = intervals.basis
    number = found.coefficients.shape[0] // 2
    source = f"integrals along trajectories of {samples.source}"
    polynomial = equation(samples, basis, found.coefficients[:number], source)
    unit = basis.variables.scale[found.denominator.latent]
    return RationalLaw(
        polynomial,
        found.coefficients[number:],
        found.denominator.latent,
        found.denominator.power,
        found.denominator.half * unit,
        samples.parameters,
        source,
        polynomial.samples,
        domain=Region.fit(samples.latents, samples.times),
    )
