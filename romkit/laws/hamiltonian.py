"""Hamiltonian laws, ż = (J - R) ∂H/∂z: energy is kept, or lost, by construction."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from operator import itemgetter
from typing import TypeVar

import torch
from torch import Tensor

from romkit.core.boundary import Count, Natural, NotNegative, validated
from romkit.core.errors import InputError
from romkit.core.polynomials import Monomials
from romkit.core.tensors import evenly, least_norm
from romkit.laws import symbolic
from romkit.laws.base import TrajectoryEstimator
from romkit.laws.chebyshev import Chebyshev
from romkit.laws.composed import ComposedFit
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.libraries import Polynomial
from romkit.laws.polynomial import PolynomialLaw, boxed, equation, number_of_contexts
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.terms import LatentTerms
from romkit.laws.trajectories import ShootingProblem, context_terms

Value = TypeVar("Value")


def known(value: Value | None) -> Value:
    """Return a setting that is no longer left open."""
    assert value is not None
    return value


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HamiltonianLaw(Equation):
    """Law ż = (J - R(c)) ∂H/∂z with a polynomial H(z, c), J skew and R positive semidefinite: the
    result of `Hamiltonian`.

    Along its trajectories dH/dt = -∂H/∂z · R ∂H/∂z <= 0: H is kept where R = 0, and lost otherwise.
    It is an `Equation` of the rates, too.

    Attributes:
        energy_basis: terms of H.
        energy_coefficients: of these (terms, 1).
        interconnection: J (m, m), of the norm of the canonical one.
        dissipation: R (corners, m, m) at the corners of the box of contexts that it was fitted to,
            between which it is multilinear; (1, m, m) where it does not depend on the context.
            R >= 0 holds in this box.

    Source: van der Schaft, Jeltsema (2014), Port-Hamiltonian systems theory, for the form; Greydanus,
    Dzamba, Yosinski (2019), Hamiltonian neural networks, arXiv:1906.01563, for H from data.

    Example:
        >>> import torch
        >>> from romkit.laws import Hamiltonian, LatentSamples
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z = torch.stack([t.cos(), -t.sin()], dim=-1)  # q' = p, p' = -q
        >>> samples = LatentSamples.first_order(z[None], torch.zeros(1, 61, 2), times=t)
        >>> law = Hamiltonian(degree=2, damped=False).fit_samples(samples)
        >>> law.energy_formula(3)
        'H = 0.5 z0^2 + 0.5 z1^2'
    """

    energy_basis: Features
    energy_coefficients: Tensor
    interconnection: Tensor
    dissipation: Tensor

    @property
    def coefficient_count(self) -> int:
        """Number of coefficients of H, entries of J above its diagonal, and of R on it and above,
        that are not zero, but for the unit of H.
        """
        m = self.latent_dim
        of_dissipation = len(self.dissipation) * m * (m + 1) // 2
        count = int(self.energy_coefficients.count_nonzero()) + m * (m - 1) // 2 - 1
        return count + bool(self.dissipation.any()) * of_dissipation

    def energy(self, z: Tensor, c: Tensor | None = None) -> Tensor:
        """Return H (...) at latents z (..., m) and parameters c (..., p), zero at the mean of the
        data.
        """
        if c is None:
            c = z.new_empty(0)
        terms = self.energy_basis.terms(z, c)
        values = torch.stack(torch.broadcast_tensors(*terms), -1)
        return (values @ self.energy_coefficients.to(values)).squeeze(-1)

    def dissipation_map(self, c: Tensor | None = None) -> Tensor:
        """Return R (..., m, m) at parameters c (..., p)."""
        nodes = self.dissipation
        if len(nodes) == 1:
            return nodes[0]
        assert c is not None  # of a law with parameters
        weights = corner_weights(self.basis.context.on(c)(c), len(nodes))
        return torch.einsum("...k,kab->...ab", weights, nodes.to(weights))

    def energy_formula(self, digits: Count = 4) -> str:
        """Return H in physical latents and parameters as text, without terms that do not show in so
        many digits where the data are, and without those of the parameters alone, which act on
        nothing.
        """
        unit = self.energy_basis.variables.scale[:1]  # as of a rate of the first latent
        (energy,) = symbolic.right_hand_sides(self.energy_basis, self.energy_coefficients / unit)
        shown = symbolic.visible(energy, self.energy_basis, digits)
        text = str(symbolic.rounded(shown, digits)).replace("**", "^").replace("*", " ")
        return f"H = {text}"

    def details(self) -> list[str]:
        """Return lines of the equations, and of H, J and R."""
        lines = [*super().details(), self.energy_formula(), f"J = {_text(self.interconnection)}"]
        if not bool(self.dissipation.any()):
            return [*lines, "R = 0: H is kept"]
        if len(self.dissipation) == 1:
            return [*lines, f"R = {_text(self.dissipation[0])}"]
        return [*lines, *(f"R = {_text(node)} at a corner" for node in self.dissipation)]


def _text(matrix: Tensor) -> str:
    return str([[float(f"{value:.4g}") for value in row] for row in matrix.tolist()])


@validated
@dataclass(frozen=True)
class Hamiltonian(TrajectoryEstimator):
    """Settings of a fit; `fit` returns a `HamiltonianLaw`: a polynomial energy H, whose coefficients
    are Chebyshev polynomials of the context, a skew J, and R that is positive semidefinite.

    Coefficients are fitted to trajectories by multiple shooting, from those of a free polynomial
    law: with f its rates, B = (J - R)⁻¹ is what makes B f a gradient.

    Args:
        degree: of H in the latents, at least 2; by default chosen by forecasts of left-out runs.
        context_degree: of H in the context; by default likewise.
        damped: whether R may differ from zero; by default likewise. Without damping the number of
            latents is even.
        ridge: weight of the squares of all coefficients, as of `PolynomialLaw`.

    Samples have to be whole trajectories of first order, without inputs: positions with momenta or
    velocities among the latents.

    Example:
        >>> import torch
        >>> from romkit.laws import Hamiltonian, LatentSamples
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z = (-0.1 * t).exp()[:, None] * torch.stack([t.cos(), t.sin()], dim=-1)
        >>> samples = LatentSamples.first_order(z[None], torch.zeros(1, 61, 2), times=t)
        >>> law = Hamiltonian(degree=2, damped=True).fit_samples(samples)
        >>> law.energy(z[0]) > law.energy(z[-1])
        tensor(True)
    """

    degree: Count | None = None
    context_degree: Natural | None = None
    damped: bool | None = None
    ridge: NotNegative = 1e-8

    def candidates(self, samples: LatentSamples) -> "list[Hamiltonian]":
        rates = None if self.degree is None else max(1, self.degree - 1)
        free = PolynomialLaw(degree=rates, context_degree=self.context_degree)
        settings = []
        for law in free.candidates(samples):
            degree = self.degree or known(law.degree) + 1
            for damped in self._dampings(samples):
                settings.append(Hamiltonian(degree, law.context_degree, damped, self.ridge))
        return list(dict.fromkeys(settings))

    def compared(self, samples: LatentSamples, seed: int) -> HamiltonianLaw:
        return self._law(samples, ComposedFit.brief)

    def _fit(self, samples: LatentSamples, seed: int) -> HamiltonianLaw:
        return self._law(samples, ComposedFit.whole)

    def _law(
        self, samples: LatentSamples, fitted: Callable[[ComposedFit, Tensor], Tensor]
    ) -> HamiltonianLaw:
        settings = self
        if None in (self.degree, self.context_degree, self.damped):
            settings = self.candidates(samples)[0]
        _check(samples, settings)
        samples = boxed(samples)
        free = PolynomialLaw(max(1, known(settings.degree) - 1), settings.context_degree)
        start = free.compared(samples, 0)
        shape = _Shape.build(start.basis, samples, settings)
        return shape.law(fitted(shape.fit(samples), shape.start(start, samples)), samples)

    def _dampings(self, samples: LatentSamples) -> Sequence[bool]:
        if self.damped is not None:
            return (self.damped,)
        is_even = samples.targets.shape[-1] % 2 == 0
        return (False, True) if is_even else (True,)


def _check(samples: LatentSamples, settings: Hamiltonian) -> None:
    """Refuse samples that have no such law.

    Raises:
        InputError: several projections, second order, inputs, or an odd number of latents without
            damping.
    """
    if samples.inputs.ndim > 2:
        fix = "fit one: projection[0]"
        raise InputError("projection", expected="a single one", got="a stack", fix=fix)
    if samples.order != 1 or samples.control_names:
        got = "inputs" if samples.control_names else "second order"
        fix = "give velocities as states of their own, and take PolynomialLaw for inputs"
        raise InputError("data", expected="states of first order without inputs", got=got, fix=fix)
    m = samples.targets.shape[-1]
    if m % 2 and not settings.damped:
        expected = "an even number of latents where nothing is damped"
        raise InputError("damped", expected=expected, got=f"{m} latents", fix="damped=True")


# -- numbers of a law ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Shape:
    """Parameters of a law in one vector: entries of J above its diagonal, of the factors of R, and
    coefficients of H, in the scaled latents and contexts of the terms.

    Attributes:
        settings: with all degrees.
        energy: monomials of H.
        basis: terms of the rates of a law whose R does not depend on the context.
        corners: number of matrices R; 0 without damping.
    """

    settings: Hamiltonian
    energy: Monomials
    basis: Features
    corners: int

    @classmethod
    def build(cls, basis: Features, samples: LatentSamples, settings: Hamiltonian) -> "_Shape":
        """Return shape for samples, with the scaling of a basis."""
        p = len(samples.parameters)
        corners = 0
        if settings.damped:
            depends = known(settings.context_degree) > 0 and 2**p <= number_of_contexts(samples)
            corners = 2**p if depends else 1
        context = Chebyshev(known(settings.context_degree))
        library = Polynomial(max(1, known(settings.degree) - 1))
        basis = replace(basis, library=library, context_library=context)
        return cls(
            settings, Monomials(len(basis.variables), known(settings.degree)), basis, corners
        )

    @property
    def m(self) -> int:
        return self.energy.variables

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of entries of J, of the factors of R, and of coefficients of H."""
        m = self.m
        of_energy = (len(self.energy) - 1) * len(self.basis.context_names)
        return m * (m - 1) // 2, self.corners * m * (m + 1) // 2, of_energy

    def parts(self, eta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return J (m, m), the factors L (corners, m, m) of R = L Lᵀ, and H (K - 1, q)."""
        of_skew, of_factors, of_energy = eta.split(self.sizes)
        upper = torch.triu_indices(self.m, self.m, 1)
        J = eta.new_zeros(self.m, self.m).index_put((upper[0], upper[1]), of_skew)
        lower = torch.tril_indices(self.m, self.m)
        rows = of_factors.reshape(self.corners, self.m * (self.m + 1) // 2)
        L = eta.new_zeros(self.corners, self.m, self.m)
        corner = torch.arange(self.corners).unsqueeze(-1).expand_as(rows)
        L = L.index_put((corner, lower[0].expand_as(rows), lower[1].expand_as(rows)), rows)
        return J - J.mT, L, of_energy.reshape(len(self.energy) - 1, -1)

    def rates(self, eta: Tensor, scaled: Tensor, factors: Tensor) -> Tensor:
        """Return coefficients (N, K, m) of the rates at scaled contexts (N, p), with terms (N, q)."""
        J, L, h = self.parts(eta)
        A = J.expand(len(factors), -1, -1)
        if self.corners:
            of_corners = corner_weights(scaled, self.corners)  # (N, corners)
            A = A - torch.einsum("gk,kab,kcb->gac", of_corners, L, L)
        degree = max(1, self.energy.degree - 1)
        number = math.comb(self.m + degree, self.m)
        slopes = self.energy.slopes()[:, :number, 1:]  # (m, K, K' - 1)
        gradient = torch.einsum("ikl,lq,gq->gki", slopes, h, factors)
        return gradient @ A.mT

    def fit(self, samples: LatentSamples) -> ComposedFit:
        """Return the fit of such numbers to trajectories, in their time scale."""
        problem = ShootingProblem.build(samples, self.basis)
        contexts = self._contexts(samples)
        scaled = self.basis.context.on(contexts)(contexts)
        factors = context_terms(self.basis, contexts)
        # a number of 1 moves a latent by its box in a time scale
        unit = problem.rates / problem.time_scale

        def coefficients(eta: Tensor) -> Tensor:
            return self.rates(eta, scaled, factors) * unit

        return ComposedFit.build(problem, coefficients, self.settings.ridge)

    def _contexts(self, samples: LatentSamples) -> Tensor:
        """Return contexts (G, p) of the groups of runs, as `ShootingProblem.build` has them."""
        context = samples.context.double()[:: len(trajectory_times(samples))]
        return context[:1] if context.shape[-1] == 0 else torch.unique(context, dim=0)

    def start(self, free: Equation, samples: LatentSamples) -> Tensor:
        """Return numbers whose rates are near those of a free law: of an A = J - R that is skew, or
        of any, whichever has an H with nearer ones.
        """
        points, rates, jacobians = self._field(free, samples)
        tried = []
        for is_skew in self._kinds:
            A = self._interconnection(jacobians, is_skew)
            J = (A - A.mT) / 2
            factors = self._factors((A + A.mT) / -2)
            if self.corners:
                A = J - factors @ factors.mT
            h, missed = self._energy_function(A, points, rates, samples)
            upper = torch.triu_indices(self.m, self.m, 1)
            lower = torch.tril_indices(self.m, self.m)
            of_factors = factors[lower[0], lower[1]].repeat(self.corners)
            tried.append((missed, torch.cat([J[upper[0], upper[1]], of_factors, h])))
        return min(tried, key=itemgetter(0))[1]

    @property
    def _kinds(self) -> Sequence[bool]:
        """Whether A is skew, of the starts that are tried."""
        if not self.corners:
            return (True,)
        return (False,) if self.m % 2 else (True, False)

    def _factors(self, R: Tensor, *, least: float = 1e-4) -> Tensor:
        """Return L (m, m) of a positive definite L Lᵀ near R.

        `least`: of its eigenvalues [those of J]: what is exactly zero would stay zero.
        """
        values, vectors = torch.linalg.eigh(R)
        return torch.linalg.cholesky(vectors @ torch.diag(values.clamp(min=least)) @ vectors.mT)

    def _field(self, free: Equation, samples: LatentSamples) -> tuple[Tensor, Tensor, Tensor]:
        """Return scaled points (N, m) of the data, with the rates of a law and their derivatives
        (N, m, m), in time scales.
        """
        problem = ShootingProblem.build(samples, self.basis)
        rows = self._rows(samples)
        z = samples.latents.double()[rows]
        w = self.basis.variables.on(z)(z)
        context = samples.context.double()[rows]
        factors = context_terms(free.basis, context).expand(len(rows), -1)
        grid = free.coefficients.unflatten(0, (-1, factors.shape[-1])) * problem.time_scale
        weights = torch.einsum("nq,kqm->nkm", factors, grid)
        terms = LatentTerms.build(free.basis.library, self.m)
        phi = terms(w.unsqueeze(1))  # (N, 1, K)
        return w, (phi @ weights).squeeze(1), terms.jacobians(w.unsqueeze(1), phi, weights)[:, 0]

    def _rows(self, samples: LatentSamples, *, most: int = 1_000) -> Tensor:
        complete = samples.observed.nonzero().flatten()
        return complete[evenly(len(complete), most)]

    def _interconnection(
        self,
        jacobians: Tensor,
        is_skew: bool,
        *,
        open_: float = 3.0,
        tried: int = 64,
        indefinite: float = 1e-6,
    ) -> Tensor:
        """Return A = J - R (m, m) for which A⁻¹ f is a gradient, of a field with these derivatives.

        `open_`: factor on the least curl up to which combinations count as of no curl.

        `tried`: combinations of those, of which the one that is best to invert is taken.

        `indefinite`: eigenvalue of R below zero that counts as much as a condition number of one.
        """
        m = self.m
        entries = itertools.product(range(m), repeat=2)
        units = []
        for a, b in entries:
            if is_skew and a >= b:
                continue
            unit = jacobians.new_zeros(m, m)
            unit[a, b] = 1.0
            units.append(unit - unit.mT if is_skew else unit)
        matrices = torch.stack(units)  # (k, m, m)
        products = matrices.unsqueeze(1) @ jacobians  # (k, N, m, m)
        upper = torch.triu_indices(m, m, 1)
        curls = (products - products.mT)[..., upper[0], upper[1]].flatten(1).mT
        _, sizes, directions = torch.linalg.svd(curls, full_matrices=len(curls) < len(matrices))
        sizes = torch.nn.functional.pad(sizes, (0, len(matrices) - len(sizes)))
        free = sizes <= max(open_ * float(sizes[-1]), 1e-6 * float(sizes[0]))
        draw = torch.Generator().manual_seed(0)
        mixed = torch.randn(tried, int(free.sum()), generator=draw, dtype=curls.dtype)
        candidates = torch.einsum("tf,fk,kab->tab", mixed, directions[free], matrices)
        condition = torch.linalg.cond(candidates).nan_to_num(torch.inf)
        if is_skew:
            A = torch.linalg.inv(candidates[condition.argmin()])
            A = A * math.sqrt(m) / A.norm()
            return -A if float(A[0].sum()) < 0 else A
        is_regular = condition < torch.inf
        matrices = torch.linalg.inv(candidates[is_regular])
        matrices = matrices * (math.sqrt(m) / matrices.flatten(1).norm(dim=1))[:, None, None]
        trace = matrices.diagonal(dim1=-2, dim2=-1).sum(-1)
        matrices = torch.where((trace > 0)[:, None, None], -matrices, matrices)
        # R is positive semidefinite, or nearly so where the data leave combinations of that kind
        lowest = torch.linalg.eigvalsh((matrices + matrices.mT) / -2)[:, 0]
        penalty = -lowest.clamp(max=0) / indefinite
        return matrices[(condition[is_regular] + penalty).argmin()]

    def _energy_function(
        self, A: Tensor, points: Tensor, rates: Tensor, samples: LatentSamples
    ) -> tuple[Tensor, float]:
        """Return coefficients of the H whose rates are nearest to given ones, and their distance."""
        gradients = torch.einsum("nk,ikl->nil", self.energy(points), self.energy.slopes()[..., 1:])
        moved = A @ gradients  # (N, m, K - 1)
        factors = context_terms(self.basis, samples.context.double()[self._rows(samples)])
        columns = moved.unsqueeze(-1) * factors.reshape(-1, 1, 1, factors.shape[-1])
        columns = columns.flatten(2).flatten(0, 1)  # (N m, (K - 1) q)
        norm = columns.norm(dim=0).clamp(min=1e-300)
        h = least_norm(columns / norm, rates.flatten().unsqueeze(-1)).squeeze(-1) / norm
        return h, float((columns @ h - rates.flatten()).norm())

    def law(self, eta: Tensor, samples: LatentSamples) -> HamiltonianLaw:
        """Return the law of these numbers, with J of the norm of the canonical one."""
        tau = ShootingProblem.build(samples, self.basis).time_scale
        J, L, h = self.parts(eta)
        scale = self.basis.variables.scale
        outer = scale.unsqueeze(-1) * scale
        norm = (outer * J).norm() / math.sqrt(self.m)
        J = outer * J / norm
        R = outer * (L @ L.mT) / norm if self.corners else torch.zeros_like(J).unsqueeze(0)
        entries = J[torch.triu_indices(self.m, self.m, 1).unbind()]
        leads = entries[entries.abs().argmax()]
        sign = -1.0 if leads < 0 and not self.corners else 1.0
        energy = sign * norm * h / tau  # (K - 1, q)
        energy = torch.cat([torch.zeros_like(energy[:1]), energy])
        basis = replace(self.basis, context_library=self._context_library)
        law = equation(
            samples,
            basis,
            self._coefficients(eta, basis, samples) / tau,
            f"shooting of {samples.source}, with an energy",
        )
        attributes = {field.name: getattr(law, field.name) for field in fields(Equation)}
        of_energy = replace(self.basis, library=Polynomial(self.energy.degree))
        return HamiltonianLaw(
            **attributes,
            energy_basis=of_energy,
            energy_coefficients=energy.reshape(-1, 1),
            interconnection=sign * J,
            dissipation=R,
        )

    @property
    def _context_library(self) -> Chebyshev:
        """Terms of the context of the rates: those of H, times those of R."""
        of_dissipation = len(self.basis.context) if self.corners > 1 else 0
        return Chebyshev(known(self.settings.context_degree) + of_dissipation)

    def _coefficients(self, eta: Tensor, basis: Features, samples: LatentSamples) -> Tensor:
        """Return coefficients (K q, m) of the rates in the terms of the context."""
        p = len(basis.context)
        draw = torch.Generator().manual_seed(0)
        number = 4 * len(basis.context_names)
        scaled = 2 * torch.rand(number, p, generator=draw, dtype=torch.float64) - 1
        before, after = (
            torch.stack(torch.broadcast_tensors(*library(scaled)), -1)
            for library in (self.basis.context_library, basis.context_library)
        )
        rates = self.rates(eta, scaled, before)  # (N, K, m)
        grid = torch.linalg.lstsq(after, rates.flatten(1)).solution  # (q, K m)
        return grid.unflatten(-1, rates.shape[1:]).transpose(0, 1).flatten(0, 1)


def corner_weights(scaled: Tensor, corners: int) -> Tensor:
    """Return multilinear weights (..., corners) of the corners of the box [-1, 1]ᵖ at points (..., p)."""
    weights = scaled.new_ones(*scaled.shape[:-1], 1)
    if corners == 1:
        return weights
    for value in scaled.unbind(-1):
        sides = torch.stack([1 - value, 1 + value], -1) / 2
        weights = (weights.unsqueeze(-1) * sides.unsqueeze(-2)).flatten(-2)
    return weights
