"""Sparse least squares: terms at all samples as a design matrix, its Gram matrix or its triangular
factor, and sequentially thresholded regression on either.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.tensors import divisor
from romkit.core.types import Pair, TensorMap
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.samples import LatentSamples, one_axis

CHUNK = 3 * 2**17
"""Entries of one chunk of the design matrix: 3 MiB, few enough for a cache, many enough to hide the
cost of a call.
"""

ON_GPU = 2**26
"""The same on a GPU: 512 MiB, where calls and not a cache are what costs."""

LENGTH = 512
"""Fewest samples of a chunk, long enough for fast products, however many problems there are."""

Solve = Callable[[Tensor, Tensor], Tensor]
"""(mask, ridge) -> solution, each (..., m, K): least squares in the masked columns, ridge 0 where
there is none.
"""


class Thresholds(Protocol):
    """Settings of a sparse regression, as `SINDy` documents them."""

    threshold: float | None
    share: float | None
    alpha: float
    normalize_columns: bool
    unbias: bool
    max_iter: int


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
        context = self.context
        if len(context) > 1:
            # problems may share a context, whose axis then has size 1
            context = context[problems]
        z = self.inputs[problems][:, samples].double()
        c = context[:, samples].double()
        rates = self.targets[problems][:, samples].double()
        columns = z.mT.contiguous().mT  # each column contiguous, which is how the terms read it
        terms = self.basis.scaled_terms(columns, c)
        values = [*terms, *rates.unbind(-1)]
        for row, numbers in zip(out.unbind(-2), values, strict=True):
            row.copy_(numbers)


def design_of(samples: LatentSamples, basis: Features) -> Design:
    """Return samples that are not missing, as they enter the terms.

    Raises:
        InputError: fewer samples than terms.
    """
    terms = len(basis.names)
    samples = samples.complete()
    if len(samples) < terms:
        expected = f"at least {terms} samples, one per candidate term"
        fix = "give more samples or lower the degree"
        raise InputError("z", expected=expected, got=f"{len(samples)}", fix=fix)
    inputs, targets = basis.scaled(samples.inputs, samples.targets)
    context = samples.context
    is_shared = all(size == 1 for size in context.shape[:-2])
    if not is_shared:
        lead = targets.shape[:-2]
        context = context.expand(*lead, *context.shape[-2:])
    return Design(basis, one_axis(inputs), one_axis(context), one_axis(targets))


class Fit(NamedTuple):
    """Coefficients (..., K, m); condition number of the scaled library (...); whether the support
    settled (...); root mean square residual relative to that of the target (..., m).
    """

    coefficients: Tensor
    condition: Tensor
    converged: Tensor
    residual: Tensor


def stacked(fits: list[Fit]) -> Fit:
    """Fits of single problems on a leading axis."""
    fields = zip(*fits, strict=True)
    return Fit(*map(torch.stack, fields))


def equation(kind: str, samples: LatentSamples, basis: Features, fit: Fit) -> Equation:
    """Equation of a fit, or stack of equations where the samples are a stack of problems."""
    lead = samples.targets.shape[:-2]
    numbers = {}
    for name, value in fit._asdict().items():
        numbers[name] = value.reshape((*lead, *value.shape[1:]))
    return Equation(
        basis=basis,
        order=samples.order,
        source=f"{kind} of {samples.source}",
        samples=int(samples.observed.sum()),
        control_names=samples.control_names,
        held=samples.held,
        control_unit=samples.control_unit,
        **numbers,
    )


def gram(design: Design, start: int, stop: int, *, alignment: int = 12) -> Tensor:
    """Return sum (S, K + m, K + m) over samples start ... stop of the products of all terms and
    targets.

    `alignment`: rows of the design matrix are padded to a multiple of this many: matrix
    products are up to twice as fast.
    """
    S = len(design.targets)
    K = design.size
    # matrix products of such sizes are faster
    padded = K + -K % alignment
    # chunks stay in the cache
    entries = ON_GPU if design.targets.is_cuda else CHUNK
    at_once = max(LENGTH, entries // (S * K))
    length = min(stop - start, at_once)
    rows = design.targets.new_zeros((S, padded, length), dtype=torch.float64)
    sums = rows.new_zeros((S, padded, padded))
    for begin in range(start, stop, length):
        end = min(begin + length, stop)
        chunk = rows[..., : end - begin]
        design.write(chunk[:, :K], slice(begin, end))
        sums.baddbmm_(chunk, chunk.mT)
    if not bool(sums.sum().isfinite()):
        fix = "lower the degree or scale the latents"
        raise InputError("library", expected="finite terms", got="an overflow or NaN", fix=fix)
    return sums[:, :K, :K]


def triangular(design: Design, problem: int) -> Tensor:
    """Return factor R (K + m, K + m) with Rᵀ R = the Gram matrix of one problem."""
    N = design.targets.shape[1]
    length = 8 * design.size
    if design.targets.is_cuda:
        length = max(length, ON_GPU // design.size)
    buffer = design.targets.new_empty((1, design.size, min(N, length)), dtype=torch.float64)
    # block by block, so that the design is never whole in memory
    R = buffer.new_empty((0, design.size))
    for start in range(0, N, length):
        stop = min(start + length, N)
        block = buffer[..., : stop - start]
        design.write(block, slice(start, stop), slice(problem, problem + 1))
        rows = torch.cat([R, block[0].mT])
        R = torch.linalg.qr(rows, mode="r").R
    return R


def judged(R: Tensor, coefficients: Tensor, matrix: Tensor, converged: Tensor) -> Fit:
    """Fit of one problem with its residual, from the triangular factor R of (Θ, ż) and the matrix
    that was solved.
    """
    K = len(coefficients)
    terms = R[:, :K]
    target = R[:, K:]
    condition, residual = quality(terms, target, coefficients, matrix)
    return Fit(coefficients, condition, converged, residual)


def quality(terms: Tensor, target: Tensor, coefficients: Tensor, matrix: Tensor) -> Pair:
    """Condition number () of a matrix with columns of norm 1, and the relative residual (m,)."""
    columns = matrix / divisor(matrix.norm(dim=0))
    singular = torch.linalg.svdvals(columns)
    missed = (target - terms @ coefficients).norm(dim=0)
    residual = missed / divisor(target.norm(dim=0))
    return singular[0] / singular[-1], residual


def regress(
    design: Design, grams: Tensor, settings: Thresholds, *, gram_error: float = 3e-8
) -> Fit:
    """Sparse coefficients for each Gram matrix (S, K + m, K + m) of the design.

    The samples are read again where a Gram matrix is ill-conditioned.

    `gram_error`: rounding error expected of a coefficient, ε κ² max(1, |ξ|), above which QR
    replaces the Gram matrix. κ is the condition number of the library, whose Gram matrix has
    its square; ε = 2.2e-16; ξ are coefficients of columns of norm 1, in units of the norm of
    their rate. So κ is 1e4 at most, and less where coefficients are large. Errors were seen to
    be up to five times the expected one.
    """
    N, m = design.targets.shape[1:]
    fit, error = _solve_gram(grams, m, N, settings)
    # a Gram matrix is small, and has the square of the condition number
    is_inexact = ~(error <= gram_error)  # NaN included
    for problem in is_inexact.nonzero().flatten().tolist():
        R = triangular(design, problem)
        exact = _solve_qr(R, m, N, settings)
        for values, value in zip(fit, exact, strict=True):
            values[problem] = value
    return fit


def _solve_gram(grams: Tensor, m: int, N: int, settings: Thresholds) -> tuple[Fit, Tensor]:
    """Fit of each Gram matrix, and the rounding error that is expected of its coefficients."""
    K = grams.shape[-1] - m
    G = grams[..., :K, :K]
    b = grams[..., :K, K:]
    squares = grams.diagonal(dim1=-2, dim2=-1)
    y = squares[..., K:]  # (..., m)
    norms = y.sqrt()
    scale = divisor(squares[..., :K].sqrt())
    per_row = scale.unsqueeze(-1)
    per_column = scale.unsqueeze(-2)
    unit = G / (per_row * per_column)
    right = b / per_row
    solve = normal_equations(unit, right.mT)
    coefficients, converged = stlsq(solve, scale, norms, N, settings)
    explained = coefficients * (2 * b - G @ coefficients)
    missed = y - explained.sum(-2)
    missed = missed.clamp(min=0)
    residual = (missed / divisor(y)).sqrt()  # below about 1e-8 it is rounding
    condition = _condition(unit)
    fit = Fit(coefficients, condition, converged, residual)
    # coefficients of columns of norm 1, in units of the norm of their rate
    per_rate = divisor(norms).unsqueeze(-2)
    sizes = (coefficients * per_row / per_rate).abs()
    largest = sizes.flatten(-2).amax(-1).clamp(min=1)
    eps = torch.finfo(torch.float64).eps
    return fit, eps * condition.square() * largest


def _condition(unit: Tensor) -> Tensor:
    """Condition number (...) of columns of norm 1, from their Gram matrix (..., K, K)."""
    eigenvalues = torch.linalg.eigvalsh(unit)
    smallest = eigenvalues[..., 0].clamp(min=0)  # by rounding it may be negative
    return (eigenvalues[..., -1] / smallest).sqrt()


def _solve_qr(R: Tensor, m: int, N: int, settings: Thresholds) -> Fit:
    """Fit of one problem from the triangular factor of its terms and targets."""
    K = R.shape[-1] - m
    terms = R[:, :K]
    targets = R[:, K:]
    scale = divisor(terms.norm(dim=0))
    square = terms[:K]
    solve = orthogonal(square / scale, targets[:K].mT)
    coefficients, converged = stlsq(solve, scale, targets.norm(dim=0), N, settings)
    return judged(R, coefficients, square, converged)


def normal_equations(G: Tensor, b: Tensor) -> Solve:
    """Least squares by Cholesky, for a Gram matrix G (..., K, K) with unit diagonal and b (..., m,
    K).
    """

    def solve(mask: Tensor, ridge: Tensor) -> Tensor:
        kept = mask.to(G)
        rows = G.unsqueeze(-3) * kept.unsqueeze(-1)
        matrix = rows * kept.unsqueeze(-2)  # (..., m, K, K)
        # a column that is out has the equation w = 0
        diagonal = torch.where(mask, ridge.unsqueeze(-2), 1.0)
        regular = matrix + torch.diag_embed(diagonal)
        factor, _ = torch.linalg.cholesky_ex(regular)
        right = (b * kept).unsqueeze(-1)
        return torch.cholesky_solve(right, factor).squeeze(-1)

    return solve


def orthogonal(R: Tensor, d: Tensor) -> Solve:
    """Least squares of least norm by the singular values of R (K, K) itself, with d = Qᵀ y (m, K)."""

    def solve(mask: Tensor, ridge: Tensor) -> Tensor:
        weights = mask.to(R).unsqueeze(-2)
        ridges = torch.diag(ridge.sqrt())
        matrix = torch.cat([R * weights, ridges * weights], dim=-2)
        U, s, Vh = torch.linalg.svd(matrix, full_matrices=False)
        rows = U[:, : len(R)].mT
        projected = (rows @ d.unsqueeze(-1)).squeeze(-1)
        # directions that rounding alone would determine stay at zero
        rounding = torch.finfo(R.dtype).eps * len(R)
        smallest = s[:, :1] * rounding
        solution = torch.where(s > smallest, projected / s, 0.0)
        return (Vh.mT @ solution.unsqueeze(-1)).squeeze(-1)

    return solve


def stlsq(solve: Solve, scale: Tensor, norms: Tensor, N: int, settings: Thresholds) -> Pair:
    """Ridge regression, dropping small coefficients, until the support stays the same; then without
    ridge, dropping those that become small.

    `solve` sees columns of norm 1, which is only a matter of rounding: ridge and threshold act on
    the coefficients of the terms themselves, or on those of the columns of norm 1 with
    `normalize_columns`. A share compares those of norm 1 with the norm (..., m) of the rates, and
    lets the largest term stay; it has no unit, and the ridge then neither: it acts on columns whose
    mean square over the N samples is 1. Returns the coefficients (..., K, m), and whether the support
    settled (...).

    Source: Brunton, Proctor, Kutz (2016), supporting information; pysindy's STLSQ, whose steps
    these are but for the last one.
    """
    unit = scale
    if settings.normalize_columns:
        unit = torch.ones_like(scale)
    ridge = settings.alpha / unit.square()
    if settings.share is not None and not settings.normalize_columns:
        ridge = torch.full_like(scale, settings.alpha / N)
    unit = unit.unsqueeze(-2)
    norms = norms.unsqueeze(-1)

    def large(w: Tensor) -> Tensor:
        if settings.share is None:
            assert settings.threshold is not None  # one of both is given
            return (w / unit).abs() >= settings.threshold
        sizes = w.abs()
        largest = sizes.amax(-1, keepdim=True)
        return sizes >= torch.minimum(settings.share * norms, largest)

    terms = scale.shape[-1]
    *stack, _ = norms.shape
    shape = (*stack, terms)
    mask = torch.ones(shape, dtype=torch.bool, device=scale.device)
    mask, w, converged = _thresholded(solve, large, mask, ridge, settings.max_iter)
    if settings.unbias:
        # without the ridge a coefficient may be below the threshold, which only then is its size
        without = torch.zeros_like(ridge)
        mask, w, settled = _thresholded(solve, large, mask, without, terms + 1)
        converged = converged & settled
    coefficients = w / scale.unsqueeze(-2)
    return coefficients.mT.contiguous(), converged


def _thresholded(
    solve: Solve, large: TensorMap, mask: Tensor, ridge: Tensor, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Mask, coefficients and whether they settled, after at most so many rounds."""
    for _ in range(most):
        w = torch.where(mask, solve(mask, ridge), 0.0)
        before = mask
        mask = mask & large(w)
        w = torch.where(mask, w, 0.0)
        converged = (mask == before).flatten(-2).all(-1)
        if bool(converged.all()):
            break
    return mask, w, converged
