"""Linear and polynomial operators from data: operator inference and dynamic mode decomposition."""

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Natural, NotNegative, validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.tensors import divisor, least_norm
from romkit.core.types import Array
from romkit.data.controls import jump_all_the_time
from romkit.integrators import LearnedField
from romkit.laws.base import Estimator
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.libraries import Polynomial
from romkit.laws.regression import (
    Fit,
    design_of,
    equation,
    judged,
    stacked,
    triangular,
)
from romkit.laws.samples import LatentSamples, interval
from romkit.laws.sources import ProjectionFamily


@validated
@dataclass(frozen=True)
class OperatorInference(Estimator):
    """Settings of a fit; `fit` returns the law, with every polynomial term up to the degree.

    Minimises ‖ż - Θ(z, c) ξ‖² + ‖λ ξ‖², where λ keeps rollouts from drifting and blowing up. Each
    operator is a polynomial in the context.

    Args:
        degree: of the polynomials in the latent coordinates: 1 for c + A z, 2 with H (z ⊗ z), 3
            with a cubic term.
        context_degree: of the operators in the context.
        regularization: λ, one number for all coefficients, or two: for terms up to degree 1, and
            for those above. By default chosen from `CANDIDATES` √N (N samples) by rollouts of
            held-out trajectories.

    `fit(projection, data)` scales the latents, and λ acts on the scaled coefficients.

    Source: Peherstorfer, Willcox (2016); choice of λ: McQuarrie, Huang, Willcox (2021), section
    3.3.

    Example:
        >>> import torch
        >>> from romkit.laws import OperatorInference
        >>> z = torch.linspace(-1, 1, 50, dtype=torch.float64).reshape(50, 1)
        >>> law = OperatorInference(degree=2, regularization=0.0).fit_samples(z, z - z**2)
        >>> law.predict(torch.tensor([[0.5]], dtype=torch.float64)).round(decimals=6)
        tensor([[0.2500]], dtype=torch.float64)
    """

    degree: Count = 2
    context_degree: Natural = 1
    regularization: NotNegative | tuple[NotNegative, ...] | None = None

    CANDIDATES: ClassVar[tuple[tuple[float, ...], tuple[float, ...]]] = (
        (1e-6, 1e-4, 1e-2),
        (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    )
    """λ / √N of terms up to degree 1, and of those above."""

    def __post_init__(self) -> None:
        if isinstance(self.regularization, tuple) and len(self.regularization) != 2:
            expected = "one or two numbers"
            got = repr(self.regularization)
            fix = "give one number, or a pair: up to degree 1, and above"
            raise InputError("regularization", expected=expected, got=got, fix=fix)

    @classmethod
    def choices(cls, projection: ProjectionFamily, data: xr.Dataset) -> list[LatentSamples]:
        if "velocity" not in data and jump_all_the_time(data):
            text = "inputs jump every few samples, across which rates by differentiation are wrong"
            fix = "add velocities, sample more densely, or take PolynomialLaw, which needs no rates"
            warn(f"{cls.__name__}: {text}; {fix}", DataWarning)
        return super().choices(projection, data)

    def candidates(self, samples: LatentSamples) -> "list[OperatorInference]":
        if self.regularization is not None:
            return [self]
        low, high = self.CANDIDATES
        if self.degree == 1:
            low = high
            high = (0.0,)  # there are no terms above
        root = len(samples) ** 0.5
        settings = []
        for a, b in itertools.product(low, high):
            pair = a * root, b * root
            settings.append(replace(self, regularization=pair))
        return settings

    def _fit(self, samples: LatentSamples, seed: int) -> Equation:
        basis = Features.build(samples, Polynomial(self.degree), Polynomial(self.context_degree))
        design = design_of(samples, basis)
        penalty = self._penalty(basis)
        fits = []
        for k in range(len(design.targets)):
            R = triangular(design, k)
            fits.append(_ridge(R, penalty))
        return equation(type(self).__name__, samples, basis, stacked(fits))

    def _penalty(self, basis: Features) -> Tensor:
        """λ (K,) of each term."""
        assert self.regularization is not None  # chosen by now
        if isinstance(self.regularization, tuple):
            simple, further = self.regularization
        else:
            simple = further = self.regularization
        terms = len(basis.latent_names)
        penalty = basis.variables.scale.new_full((terms,), float(further))
        penalty[: 1 + len(basis.variables)] = simple  # 1, z0, z1, ... come first
        return penalty.repeat_interleave(len(basis.context_names))


def _ridge(R: Tensor, penalty: Tensor) -> Fit:
    """Fit with λ (K,) of each term, from the triangular factor R of (Θ, ż)."""
    K = len(penalty)
    terms = R[:, :K]
    targets = R[:, K:]
    rows = torch.diag(penalty)[penalty > 0]
    none = R.new_zeros(len(rows), targets.shape[-1])
    matrix = torch.cat([terms, rows])
    target = torch.cat([targets, none])
    coefficients = least_norm(matrix, target)
    return judged(R, coefficients, matrix, torch.tensor(True))


@validated
@dataclass(frozen=True)
class DMD(Estimator):
    """Settings of a fit; `fit` returns ż = A z + B (1, c), whose motion over one sampling interval
    is that of DMDc.

    Least squares for z(t + dt) = A' z(t) + B' (1, c(t)) over all neighbours in time; (A, B) is the
    matrix logarithm of (A', B'). Inputs are held over an interval, unless the data declare them to
    be linear (`data.control.attrs["between"]`). The context enters as an input, so the eigenvalues
    are the same at all contexts.

    Args:
        rank: how many singular values of the data (z, 1, c) to keep; all by default.

    Samples have to be whole trajectories at evenly spaced times. In second order the state is (z,
    ż), and its last rows are the law: exact for linear systems, a fit for others.

    Source: Proctor, Brunton, Kutz (2016), Dynamic mode decomposition with control, section 3.

    Example:
        >>> import torch
        >>> from romkit.laws import DMD
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> law = DMD().fit_samples(z[None], rate[None], times=t)  # trajectories (C, T, m)
        >>> law.predict(torch.tensor([1.0, 0.0], dtype=torch.float64)).round(decimals=6) + 0.0
        tensor([0., 1.], dtype=torch.float64)
        >>> A, B = law.step(0.1)
        >>> torch.allclose(z[:-1] @ A.mT, z[1:])
        True
    """

    rank: Count | None = None

    def _fit(self, samples: LatentSamples, seed: int) -> Equation:
        step = interval(samples)
        basis = Features.build(samples, Polynomial(1), Polynomial(1))
        *lead, _, m = samples.targets.shape
        w, drift = basis.scaled(samples.inputs, samples.drift)
        d = w.shape[-1]
        # the drift is no part of the law, and enters by the trapezoidal rule
        shift = step / 2 * drift
        half = torch.nn.functional.pad(shift, (0, d - m))
        c = basis.context.on(w)(samples.context.double())
        c = c.expand(*lead, *c.shape[-2:])
        linear = 0
        if samples.held is False:
            linear = len(samples.control_names)
        fits = []
        for states, halves, contexts in zip(*samples.paths(w, half, c), strict=True):
            steps = _steps(states, halves, contexts, linear)
            fits.append(self._one(steps, d, m, linear, step))
        return equation(type(self).__name__, samples, basis, stacked(fits))

    def _unexplained(self, law: LearnedField, samples: LatentSamples) -> Tensor:
        assert isinstance(law, Equation)
        return law.residual.square()  # of steps: rates by differences would be those of others

    def _one(self, steps: "Steps", d: int, m: int, linear: int, step: float) -> Fit:
        """Fit of one problem. The residual is that of a step, relative to the step itself."""
        moved = steps.after - steps.before
        U, s, Vh = torch.linalg.svd(steps.known, full_matrices=False)
        if self.rank:
            keep = slice(self.rank)
        else:
            # directions within rounding would have any operator
            rounding = len(steps.known) * torch.finfo(s.dtype).eps
            keep = s > s[0] * rounding
        # directions that the data do not show to move stay, so the step is what is fitted
        projected = U[:, keep].mT @ moved
        inverse = Vh[keep].mT / s[keep]
        change = inverse @ projected  # (d + 1 + p + linear, d)
        of_rates = slice(-m, None)
        missed = (moved - steps.known @ change)[:, of_rates].norm(dim=0)
        size = moved[:, of_rates].norm(dim=0)
        residual = missed / divisor(size)
        operator = change[: len(change) - linear].clone()
        if linear:
            # an input that stays has the effect of both ends of its line
            operator[-linear:] += change[-linear:]
        operator[:d] += torch.eye(d, dtype=operator.dtype, device=operator.device)
        # the logarithm of a matrix is SciPy's
        generator = _generator(operator.mT.numpy(force=True), step)[-m:]  # (m, d + 1 + p)
        coefficients = _generator_coefficients(generator.to(operator), d)
        condition = s[0] / s[-1]
        return Fit(coefficients, condition, torch.tensor(True), residual)


def _generator_coefficients(generator: Tensor, d: int) -> Tensor:
    """Return coefficients (K, m) of 1, w0, w1, ... times 1, c0, c1, ... of ẇ = generator (w, 1, c)."""
    m, columns = generator.shape
    coefficients = generator.new_zeros(1 + d, columns - d, m)
    coefficients[0] = generator[:, d:].mT
    coefficients[1:, 0] = generator[:, :d].mT
    return coefficients.flatten(0, 1)


class Steps(NamedTuple):
    """Neighbours in time.

    Attributes:
        known: (N, d + 1 + p + linear) states, 1, contexts and inputs before a step, and inputs
            behind it where they are straight lines.
        before, after: (N, d) states without their drift.
    """

    known: Tensor
    before: Tensor
    after: Tensor


def _steps(w: Tensor, half: Tensor, c: Tensor, linear: int) -> Steps:
    """Return steps of scaled states w (C, T, d) with half of their drift, and of contexts c (C, T,
    p), the last `linear` of which are inputs that are straight lines.

    Raises:
        InputError: no two neighbours without a gap.
    """
    before = (w + half)[:, :-1].flatten(0, 1)
    after = (w - half)[:, 1:].flatten(0, 1)
    constant = c.new_ones(len(before), 1)
    context = c[:, :-1].flatten(0, 1)
    inputs = c[:, 1:, c.shape[-1] - linear :]
    later = inputs.flatten(0, 1)
    regressors = torch.cat([before, constant, context, later], dim=-1)
    complete = torch.cat([regressors, after], dim=-1).isfinite().all(-1)
    if not bool(complete.any()):
        expected = "neighbours in time"
        got = "a gap between any two samples"
        fix = "take a law that needs single samples, or data without gaps"
        raise InputError("data", expected=expected, got=got, fix=fix)
    return Steps(regressors[complete], before[complete], after[complete])


def _generator(operator: Array, step: float) -> Tensor:
    """Return matrix (d, d + 1 + p) of ẇ that moves w by `operator` in one step, while the inputs
    stay.

    Raises:
        InputError: no real linear flow does that.
    """
    d, size = operator.shape
    values = np.linalg.eigvals(operator[:, :d])
    is_real = np.abs(values.imag) < 1e-12
    if np.any((values.real <= 0) & is_real):
        worst = values[np.argmin(values.real)].real
        expected = "steps that a linear motion can make"
        got = f"a mode that is multiplied by {worst:.2g} in a step"
        fix = "sample more finely, lower rank or the number of latents, or take another law"
        raise InputError("data", expected=expected, got=got, fix=fix)
    # constants and inputs stay in a step
    square = np.concatenate([operator, np.eye(size)[d:]])
    import scipy.linalg  # slow to import, and seldom needed

    logarithm = np.real(scipy.linalg.logm(square))
    return torch.from_numpy(logarithm[:d] / step)
