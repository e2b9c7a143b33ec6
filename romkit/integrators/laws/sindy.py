"""SINDy: sparse identification of latent dynamics, in strong and weak form."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.polynomial import Polynomial as Series
from torch import Tensor

from romkit.core.boundary import Count, Natural, NotNegative, Positive, validated
from romkit.core.errors import FitWarning, InputError, warn
from romkit.integrators.laws.base import Estimator
from romkit.integrators.laws.equations import Equation, Features, Library, Polynomial
from romkit.integrators.laws.samples import LatentSamples, one_axis, trajectory_times

GRAM_ERROR = 3e-8
"""Rounding error expected of a coefficient, ε κ² max(1, |ξ|), above which QR replaces the Gram
matrix.

κ is the condition number of the library, whose Gram matrix has its square; ε = 2.2e-16; ξ are
coefficients of columns of norm 1, in units of the norm of their rate. So κ is 1e4 at most, and less
where coefficients are large. Errors were seen to be up to five times the expected one.
"""

CHUNK = 3 * 2**17
"""Entries of one chunk of the design matrix: 3 MiB, few enough for a cache, many enough to hide the
cost of a call.
"""

LENGTH = 512
"""Fewest samples of a chunk, long enough for fast products, however many problems there are."""

ALIGNMENT = 12
"""Rows of the design matrix are padded to a multiple of this many: matrix products are up to twice
as fast.
"""

Solve = Callable[[Tensor, Tensor], Tensor]
"""(mask, ridge) -> solution, each (..., m, K): least squares in the masked columns, ridge 0 where
there is none.
"""


@dataclass(frozen=True)
class Design:
    """Samples of S problems: scaled inputs (S, N, d), context (S or 1, N, p), scaled targets (S, N,
    m); the basis.
    """

    basis: Features
    inputs: Tensor
    context: Tensor
    targets: Tensor

    @functools.cached_property
    def size(self) -> int:
        """Number K + m of terms and targets."""
        return len(self.basis.names) + self.targets.shape[-1]

    def write(self, out: Tensor, samples: slice, problems: slice = slice(None)) -> None:
        """Write the terms of some samples, and below them the targets, into out (S, K + m, n)."""
        context = self.context[problems] if len(self.context) > 1 else self.context
        z, c, y = (
            x[:, samples].double() for x in (self.inputs[problems], context, self.targets[problems])
        )
        columns = z.mT.contiguous().mT  # each column contiguous, which is how the terms read it
        for row, values in zip(
            out.unbind(-2), (*self.basis.terms_of_scaled(columns, c), *y.unbind(-1)), strict=True
        ):
            row.copy_(values)


class Fit(NamedTuple):
    """Coefficients (..., K, m); condition number of the scaled library (...); whether the support
    settled (...); root mean square residual relative to that of the target (..., m).
    """

    coefficients: Tensor
    condition: Tensor
    converged: Tensor
    residual: Tensor


def gram(design: Design, start: int, stop: int) -> Tensor:
    """Sum (S, K + m, K + m) over samples start ... stop of the products of all terms and targets."""
    S, K = len(design.targets), design.size
    padded, length = K + -K % ALIGNMENT, min(stop - start, max(LENGTH, CHUNK // (S * K)))
    rows = design.targets.new_zeros((S, padded, length), dtype=torch.float64)
    sums = rows.new_zeros((S, padded, padded))
    for first in range(start, stop, length):
        a = rows[..., : min(length, stop - first)]
        design.write(a[:, :K], slice(first, first + a.shape[-1]))
        sums.baddbmm_(a, a.mT)
    if not bool(sums.sum().isfinite()):
        fix = "lower the degree or scale the latents"
        raise InputError("library", expected="finite terms", got="an overflow or NaN", fix=fix)
    return sums[:, :K, :K]


def triangular(design: Design, problem: int) -> Tensor:
    """Factor R (K + m, K + m) with Rᵀ R = the Gram matrix of one problem."""
    N, length = design.targets.shape[1], 8 * design.size
    buffer = design.targets.new_empty((1, design.size, min(N, length)), dtype=torch.float64)
    R = buffer.new_empty((0, design.size))
    for start in range(0, N, length):
        block = buffer[..., : min(length, N - start)]
        samples = slice(start, start + block.shape[-1])
        design.write(block, samples, slice(problem, problem + 1))
        R = torch.linalg.qr(torch.cat([R, block[0].mT]), mode="r").R
    return R


def judged(R: Tensor, coefficients: Tensor, matrix: Tensor, converged: Tensor) -> Fit:
    """Fit of one problem with its residual, from the triangular factor R of (Θ, ż) and the matrix
    that was solved.
    """
    K = len(coefficients)
    singular = torch.linalg.svdvals(matrix / nonzero(matrix.norm(dim=0)))
    miss = (R[:, K:] - R[:, :K] @ coefficients).norm(dim=0)
    return Fit(
        coefficients, singular[0] / singular[-1], converged, miss / nonzero(R[:, K:].norm(dim=0))
    )


def nonzero(norms: Tensor) -> Tensor:
    """Norms to divide by: a column of zeros stays one."""
    return torch.where(norms > 0, norms, 1.0)


def regress(design: Design, grams: Tensor, settings: "SINDy") -> Fit:
    """Sparse coefficients for each Gram matrix (S, K + m, K + m) of the design.

    The samples are read again where a Gram matrix is ill-conditioned.
    """
    m, eps = design.targets.shape[-1], torch.finfo(torch.float64).eps
    K, squares = design.size - m, grams.diagonal(dim1=-2, dim2=-1)
    G, b, y = grams[..., :K, :K], grams[..., :K, K:], squares[..., K:]
    scale = nonzero(squares[..., :K].sqrt())
    unit = G / (scale.unsqueeze(-1) * scale.unsqueeze(-2))
    norms = y.sqrt()
    coefficients, converged = stlsq(
        normal_equations(unit, (b / scale.unsqueeze(-1)).mT), scale, norms, settings
    )
    eigenvalues = torch.linalg.eigvalsh(unit)
    condition = (eigenvalues[..., -1] / eigenvalues[..., 0].clamp(min=0)).sqrt()
    explained = (coefficients * (2 * b - G @ coefficients)).sum(-2)
    residual = ((y - explained).clamp(min=0) / nonzero(y)).sqrt()  # below about 1e-8 it is rounding
    fit = Fit(coefficients, condition, converged, residual)
    sizes = coefficients * scale.unsqueeze(-1) / nonzero(norms).unsqueeze(-2)
    error = eps * condition.square() * sizes.abs().flatten(-2).amax(-1).clamp(min=1)
    for problem in (~(error <= GRAM_ERROR)).nonzero().flatten().tolist():  # NaN included
        R = triangular(design, problem)
        scale = nonzero(R[:, :K].norm(dim=0))
        found, settled = stlsq(
            orthogonal(R[:K, :K] / scale, R[:K, K:].mT), scale, R[:, K:].norm(dim=0), settings
        )
        alone = judged(R, found, R[:K, :K], settled)
        for whole, part in zip(fit, alone, strict=True):
            whole[problem] = part
    return fit


def normal_equations(G: Tensor, b: Tensor) -> Solve:
    """Least squares by Cholesky, for a Gram matrix G (..., K, K) with unit diagonal and b (..., m,
    K).
    """

    def solve(mask: Tensor, ridge: Tensor) -> Tensor:
        kept = mask.to(G)
        matrix = G.unsqueeze(-3) * kept.unsqueeze(-1) * kept.unsqueeze(-2)
        diagonal = torch.where(
            mask, ridge.unsqueeze(-2), 1.0
        )  # a column that is out has the equation w = 0
        factor = torch.linalg.cholesky_ex(matrix + torch.diag_embed(diagonal)).L
        return torch.cholesky_solve((b * kept).unsqueeze(-1), factor).squeeze(-1)

    return solve


def orthogonal(R: Tensor, d: Tensor) -> Solve:
    """Least squares of least norm by the singular values of R (K, K) itself, with d = Qᵀ y (m, K)."""

    def solve(mask: Tensor, ridge: Tensor) -> Tensor:
        kept = mask.to(R).unsqueeze(-2)
        matrix = torch.cat([R * kept, torch.diag(ridge.sqrt()) * kept], dim=-2)
        U, s, Vh = torch.linalg.svd(matrix, full_matrices=False)
        projected = (U[:, : len(R)].mT @ d.unsqueeze(-1)).squeeze(-1)
        kept_values = s > s[:, :1] * (torch.finfo(R.dtype).eps * len(R))
        return (Vh.mT @ torch.where(kept_values, projected / s, 0.0).unsqueeze(-1)).squeeze(-1)

    return solve


def stlsq(solve: Solve, scale: Tensor, norms: Tensor, settings: "SINDy") -> tuple[Tensor, Tensor]:
    """Ridge regression, dropping small coefficients, until the support stays the same; then without
    ridge.

    `solve` sees columns of norm 1, which is only a matter of rounding: ridge and threshold act on
    the coefficients of the terms themselves, or on those of the columns of norm 1 with
    `normalize_columns`. A share compares those of norm 1 with the norm (..., m) of the rates, and
    lets the largest term stay. Returns the coefficients (..., K, m), and whether the support
    settled (...).

    Source: Brunton, Proctor, Kutz (2016), supporting information; pysindy's STLSQ, whose steps
    these are.
    """
    unit = torch.ones_like(scale) if settings.normalize_columns else scale
    ridge, unit, norms = settings.alpha / unit.square(), unit.unsqueeze(-2), norms.unsqueeze(-1)
    mask = torch.ones((*norms.shape[:-1], scale.shape[-1]), dtype=torch.bool, device=scale.device)
    for _ in range(settings.max_iter):
        w = solve(mask, ridge)
        w = torch.where(mask, w, 0.0)
        if settings.share is None:
            large = (w / unit).abs() >= settings.threshold
        else:
            large = w.abs() >= torch.minimum(settings.share * norms, w.abs().amax(-1, keepdim=True))
        before, mask = mask, mask & large
        w = torch.where(mask, w, 0.0)
        converged = (mask == before).flatten(-2).all(-1)
        if bool(converged.all()):
            break
    if settings.unbias:
        w = torch.where(mask, solve(mask, torch.zeros_like(ridge)), 0.0)
    return (w / scale.unsqueeze(-2)).mT.contiguous(), converged


MOST_TERMS = 100
"""Terms of the latent coordinates beyond which a degree is not tried by default."""

EXPLAINED = 0.9
"""Share of the variance of a rate that an equation should explain; one that explains less warns."""


@validated
@dataclass(frozen=True)
class SINDy(Estimator):
    """Settings of a fit; `fit` returns the equation. Candidate terms are products of latent and
    context terms.

    Minimises ‖ż - Θ(z, c) ξ‖² + α ‖ξ‖², dropping coefficients below the threshold until the support
    settles, and then fits what is left without α. With a threshold, support and coefficients are
    those of pysindy's STLSQ.

    Args:
        degree: of the polynomials in the latent coordinates (and their rates, for second order); by
            default chosen from `DEGREES` by rollouts of held-out trajectories, and 3 for samples
            that are no trajectories.
        threshold: smallest coefficient that stays, as pysindy's: per unit of time of the data, as
            rates are, so that in milliseconds it is a thousandth of what it is in seconds. In place
            of `share`.
        share: smallest size of a term that stays, relative to its rate (norms over the samples),
            whatever the units; the largest term always stays. By default chosen from `SHARES`, as
            the degree; 0.01 without trajectories.
        alpha: ridge penalty α on the coefficients; sums over samples are not normalised, so it
            weakens with N.
        context_degree: of the polynomials in the context.
        library: candidate terms in place of the polynomials in the latent coordinates.
        context_library: candidate terms in place of the polynomials in the context.
        normalize_columns: whether α and threshold act on terms divided by their norm over the
            samples.
        unbias: whether the coefficients that stay are fitted again without α.
        max_iter: most rounds of thresholding.
        around: standard deviation of samples around the data that lead back to them, in those of
            the latents (see `LatentSamples.returning`); they make an orbit attract. By default
            chosen from `AROUND` as the degree is, and 0, none, with a threshold, in second order,
            and without trajectories.

    `fit(projection, data)` scales the latents; `fit_samples` takes samples as they are. Both warn
    (`FitWarning`) of an equation that explains less than 90 % of the variance of its rate;
    `residual` of the result has the numbers.
    Source: Brunton, Proctor, Kutz (2016); context as a parameter: section "parametric" there, and
    Champion et al. (2019) for latent spaces.

    Example:
        >>> import torch
        >>> from romkit.integrators import SINDy
        >>> t = torch.linspace(0, 6, 100, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> SINDy(degree=1, threshold=0.1).fit_samples(z, rate).equations()
        ["z0' = -1.000 z1", "z1' = 1.000 z0"]
    """

    degree: Natural | None = None
    threshold: NotNegative | None = None
    share: NotNegative | None = None
    alpha: NotNegative = 0.05
    context_degree: Natural = 1
    library: Library | None = None
    context_library: Library | None = None
    normalize_columns: bool = False
    unbias: bool = True
    max_iter: Count = 20
    around: NotNegative | None = None

    DEGREES: ClassVar[tuple[int, ...]] = (3, 5, 1)
    SHARES: ClassVar[tuple[float, ...]] = (0.01, 0.0, 0.03, 0.1)
    AROUND: ClassVar[tuple[float, ...]] = (0.0, 0.1, 0.2)

    def __post_init__(self):
        if self.threshold is not None and self.share is not None:
            fix = "drop one: threshold is per unit of time, share has no unit"
            raise InputError("share", expected="none beside threshold", got=self.share, fix=fix)

    def candidates(self, samples: LatentSamples) -> "list[SINDy]":
        terms = lambda degree: math.comb(samples.inputs.shape[-1] + degree, degree)  # noqa: E731
        grid = {"share": self.SHARES} if self.threshold is None and self.share is None else {}
        if self.degree is None and self.library is None:
            first, *more = self.DEGREES
            grid["degree"] = [first, *(degree for degree in more if terms(degree) <= MOST_TERMS)]
        if self.around is None:
            grid["around"] = (
                self.AROUND if samples.order == 1 and self.threshold is None else (0.0,)
            )
        return [
            replace(self, **dict(zip(grid, values, strict=True)))
            for values in itertools.product(*grid.values())
        ]

    def _fit(self, samples: LatentSamples, seed: int) -> Equation:
        design = self._design(
            samples
        )  # refuses too few samples, of which displaced copies are none
        if self.around:
            design = self._design(samples.returning(self.around, seed))
        targets, N = design.targets, design.targets.shape[1]
        law = equation(self, samples, design.basis, regress(design, gram(design, 0, N), self))
        variance, square = targets.var(-2, correction=0), targets.square().mean(-2)
        lost = law.residual.square().reshape(square.shape) * square / variance
        lost = torch.where(variance > 0, lost, 0.0).nan_to_num(nan=1.0)
        poor = int((lost > 1 - EXPLAINED).sum())
        if poor:
            found = f"{poor} of {lost.numel()} equations explain less than {EXPLAINED:.0%} of the variance"
            worst = f"of the rate, the worst {max(0.0, 1 - float(lost.max())):.0%}"
            fix = "raise the degree, lower the threshold or leave it out, or scale the samples"
            warn(f"SINDy: {found} {worst}; {fix}", FitWarning)
        return law

    def _basis(self, samples: LatentSamples) -> Features:
        context = self.context_library or Polynomial(self.context_degree)
        return Features.of(samples, self.library or Polynomial(self.degree), context)

    def _design(self, samples: LatentSamples) -> Design:
        return design_of(samples, self._basis(samples))


def design_of(samples: LatentSamples, basis: Features) -> Design:
    """Samples that are not missing, as they enter the terms.

    Raises:
        InputError: fewer samples than terms.
    """
    terms, samples = len(basis.names), samples.complete()
    if len(samples) < terms:
        expected, fix = (
            f"at least {terms} samples, one per candidate term",
            "give more samples or lower the degree",
        )
        raise InputError("z", expected=expected, got=f"{len(samples)}", fix=fix)
    context = samples.context
    if any(size > 1 for size in context.shape[:-2]):
        context = context.expand(*samples.targets.shape[:-2], *context.shape[-2:])
    inputs, targets = basis.scaled(samples.inputs, samples.targets)
    return Design(basis, *map(one_axis, (inputs, context, targets)))


def equation(estimator: Estimator, samples: LatentSamples, basis: Features, fit: Fit) -> Equation:
    """Equation of a fit, or stack of equations where the samples are a stack of problems."""
    lead = samples.targets.shape[:-2]
    parts = {
        name: value.reshape((*lead, *value.shape[1:])) for name, value in fit._asdict().items()
    }
    return Equation(
        basis=basis,
        order=samples.order,
        source=f"{type(estimator).__name__} of {samples.source}",
        samples=int(samples.observed.sum()),
        control_names=samples.control_names,
        **parts,
    )


LAGS = 3.0
"""Half width of a window [times in which the latent state moves by one deviation]: half a period of
a wave.
"""


@validated
@dataclass(frozen=True)
class WeakSINDy(SINDy):
    """Settings of a fit for noisy data; `fit` returns the equation. Rates of the data are not used.

    Integration by parts over windows of time, with a test function φ that vanishes at their ends,
    makes of ż = g(z, c)

        - ∫ φ' z dt - ∫ φ d dt = Σₖ ξₖ ∫ φ θₖ(z, c) dt,        φ = (1 - s²)^p,  s in [-1, 1],

    with the drift d of a context that moves (see `LatentSamples`): one equation for each window,
    solved for ξ as `SINDy` does. Integrals are exact for what is linear between samples, so samples
    need not be evenly spaced, and windows in which one is missing are left out. In second order, ż
    of the samples takes the place of z on the left.

    Args:
        windows: for each trajectory, evenly spread; they overlap.
        width: length of a window, in the time unit of the data; by default six times the time in
            which the latent state moves by one standard deviation, at most a quarter of a
            trajectory. Wider ones average more.
        smoothness: p.

    The others are those of `SINDy`, without `around`. Samples have to be whole trajectories, with
    their times.

    Source: Messenger, Bortz (2021), Weak SINDy; Reinbold, Gurevich, Grigoriev (2020); weights as in
    pysindy's WeakPDELibrary.

    Example:
        >>> import torch
        >>> from romkit.integrators import WeakSINDy
        >>> t = torch.linspace(0, 12, 601, dtype=torch.float64)
        >>> z = torch.stack([t.cos(), t.sin()], dim=-1)[None]
        >>> unseen = torch.zeros_like(z)  # rates are not looked at
        >>> law = WeakSINDy(degree=1, windows=50).fit_samples(z, unseen, times=t)
        >>> law.predict(torch.tensor([1.0, 0.0], dtype=torch.float64)).round(decimals=2) + 0.0
        tensor([0., 1.], dtype=torch.float64)
    """

    AROUND: ClassVar[tuple[float, ...]] = (0.0,)

    windows: Count = 200
    width: Positive | None = None
    smoothness: Count = 4

    def _design(self, samples: LatentSamples) -> Design:
        basis, times, m = self._basis(samples), trajectory_times(samples), samples.targets.shape[-1]
        spans = spread_windows(times, self.width or default_width(samples), self.windows)
        within, across = weak_weights(times, spans, self.smoothness)
        z, drift = basis.scaled(samples.inputs, samples.drift)
        terms = torch.stack(
            torch.broadcast_tensors(*basis.terms_of_scaled(z, samples.context)), dim=-1
        )
        known = samples.paths(terms, z[..., -m:], drift)  # (S, C, T, k)
        missing = torch.cat(known, dim=-1).isnan().any(-1).any(0)
        before = torch.nn.functional.pad(missing.cumsum(-1), (1, 0))
        whole = torch.stack(
            [before[:, last + 1] == before[:, first] for first, last in spans], dim=-1
        ).flatten()
        theta, z, drift = (x.nan_to_num(nan=0.0) for x in known)
        rows = torch.cat([within @ theta, -across @ z - within @ drift], dim=-1).flatten(1, 2)[
            :, whole
        ]
        rows = rows / within.sum(-1).mean()  # so that a row weighs as much as a sample
        if rows.shape[1] < len(basis.names):
            expected, fix = (
                f"at least {len(basis.names)} windows, one per term",
                "raise windows or lower the degree",
            )
            raise InputError("windows", expected=expected, got=f"{rows.shape[1]}", fix=fix)
        return WindowDesign(basis, rows, samples.context, rows[..., -m:])


class WindowDesign(Design):
    """Design whose rows (S, N, K + m) of terms and targets are known; they stand in `inputs`."""

    def write(self, out: Tensor, samples: slice, problems: slice = slice(None)) -> None:
        out.copy_(self.inputs[problems, samples].mT)


def weak_weights(times: Tensor, spans: Sequence[tuple[int, int]], p: int) -> tuple[Tensor, Tensor]:
    """Weights w, w' (R, T) with Σ wₖ f(tₖ) = ∫ φ f dt and Σ w'ₖ f(tₖ) = ∫ φ' f dt over each window.

    Exact for f that are linear between samples.

    Args:
        times: (T,) increasing.
        spans: first and last sample of each window.
        p: exponent of φ = (1 - s²)^p.
    """
    bump = Series([1.0, 0.0, -1.0]) ** p
    t, rows = times.numpy(), np.zeros((2, len(spans), len(times)))
    for row, (first, last) in enumerate(spans):
        half = (t[last] - t[first]) / 2
        s = (t[first : last + 1] - t[first]) / half - 1
        for k, (function, factor) in enumerate(((bump, half), (bump.deriv(), 1.0))):
            integrals = function.integ(), (Series([0.0, 1.0]) * function).integ()
            area, moment = (np.diff(integral(s)) for integral in integrals)
            rows[k, row, first:last] += factor * (s[1:] * area - moment) / np.diff(s)
            rows[k, row, first + 1 : last + 1] += factor * (moment - s[:-1] * area) / np.diff(s)
    return torch.from_numpy(rows).unbind()


def spread_windows(times: Tensor, width: float, number: int) -> list[tuple[int, int]]:
    """First and last sample of windows no longer than `width`, spread evenly over the times (T,).

    Raises:
        InputError: no window has three samples.
    """
    t = times.numpy()
    half = min(width, t[-1] - t[0]) / 2
    centres = np.linspace(t[0] + half, t[-1] - half, number)
    tolerance = 1e-9 * (t[-1] - t[0])
    first = np.searchsorted(t, centres - half - tolerance)
    last = np.searchsorted(t, centres + half + tolerance) - 1
    spans = sorted({(int(a), int(b)) for a, b in zip(first, last, strict=True) if b - a >= 2})
    if not spans:
        got = f"{width:g} with {len(t)} samples over {t[-1] - t[0]:g}"
        raise InputError(
            "width", expected="windows of three samples or more", got=got, fix="widen the windows"
        )
    return spans


def default_width(samples: LatentSamples) -> float:
    """2 `LAGS` times the time in which the latent state moves by one standard deviation, the mean
    over a stack.

    At most a quarter of a trajectory. Read from the distance of samples that are some time apart,
    which noise changes little.
    """
    times = trajectory_times(samples)
    step, longest = float(times.diff().mean()), max(1, int((len(times) - 1) / (8 * LAGS)))
    lags = []
    for z in samples.paths(samples.latents.double())[0]:  # (C, T, m) of each problem
        total = (z - z.nanmean((0, 1))).square().nanmean((0, 1)).sum()
        moved = (
            (z[:, lag:] - z[:, :-lag]).square().sum(-1).nanmean() for lag in range(1, longest + 1)
        )
        lags.append(next((lag for lag, square in enumerate(moved, 1) if square >= total), longest))
    return 2 * LAGS * step * sum(lags) / len(lags)
