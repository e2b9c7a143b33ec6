"""Sequentially thresholded least squares for a batch of problems, from sums over the samples.

The samples enter once, chunk by chunk, through the Gram matrix of the terms and the targets; what follows works on
matrices of the size of the library. Where the library is too ill-conditioned for its square, the triangular factor of a
QR decomposition, built chunk by chunk as well, takes the place of the Gram matrix.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from romkit.core.errors import InputError
from romkit.integrators.laws.equations import Basis

GRAM_ERROR = 3e-8
"""Rounding error expected of a coefficient, ε κ² max(1, |ξ|), above which QR replaces the Gram matrix.

κ is the condition number of the library, whose Gram matrix has its square; ε = 2.2e-16. So κ is 1e4 at most, and less
where coefficients are large. Errors were seen to be up to five times what is expected.
"""

CHUNK = 3 * 2**17
"""Entries of one chunk of the design matrix: 3 MiB, few enough for a cache, many enough to hide what a call costs."""

LENGTH = 512
"""Samples of a chunk with several problems: long enough for the products, and all problems are read side by side."""

ALIGNMENT = 12
"""Rows of the design matrix are padded to a multiple of this many: matrix products are up to twice as fast."""

Solve = Callable[[Tensor, Tensor], Tensor]
"""(mask, ridge) -> solution, each (..., m, K): least squares in the masked columns, ridge 0 where there is none."""


class Thresholding(Protocol):
    """Settings of `stlsq`: those of `romkit.integrators.SINDy`."""

    threshold: float
    alpha: float
    max_iter: int
    unbias: bool
    normalize_columns: bool


@dataclass(frozen=True)
class Design:
    """Samples of S problems: scaled inputs (S, N, d), context (S or 1, N, p), scaled targets (S, N, m); the basis."""

    basis: Basis
    inputs: Tensor
    context: Tensor
    targets: Tensor

    @property
    def rows(self) -> int:
        """N, the samples."""
        return self.targets.shape[-2]

    @property
    def size(self) -> int:
        """K + m: terms and targets."""
        return len(self.basis.names) + self.targets.shape[-1]

    def write(self, out: Tensor, problems: slice, samples: slice) -> None:
        """Write the terms of some problems and samples, and below them the targets, into out (S, K + m, n)."""
        context = self.context[problems] if len(self.context) > 1 else self.context
        z, c, y = (x[:, samples].double() for x in (self.inputs[problems], context, self.targets[problems]))
        columns = z.mT.contiguous().mT  # each column contiguous, which is how the terms read it
        for row, values in zip(out.unbind(-2), (*self.basis.terms_of_scaled(columns, c), *y.unbind(-1)), strict=True):
            row.copy_(values)

    def chunk_shape(self, samples: int) -> tuple[int, int]:
        """Problems and samples of a piece whose rows stay in cache, of so many samples in all."""
        problems = min(len(self.targets), max(1, CHUNK // (self.size * LENGTH)))
        pieces = math.ceil(samples * problems * self.size / CHUNK)
        return problems, math.ceil(samples / pieces)

    def chunks(self, start: int, stop: int) -> Iterator[tuple[slice, slice]]:
        """Pieces of all problems and of samples start ... stop."""
        problems, samples = self.chunk_shape(stop - start)
        for s in range(0, len(self.targets), problems):
            for n in range(start, stop, samples):
                yield slice(s, s + problems), slice(n, min(n + samples, stop))


class Fit(NamedTuple):
    """Coefficients (..., K, m); condition number of the scaled library (...); whether the support settled (...);
    root mean square residual relative to that of the target (..., m).
    """

    coefficients: Tensor
    condition: Tensor
    converged: Tensor
    residual: Tensor


def joined(found: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Fit:
    """The fit of problems that were solved one by one: coefficients, condition and residual of each."""
    coefficients, condition, residual = map(torch.stack, zip(*found, strict=True))
    return Fit(coefficients, condition, torch.ones_like(condition, dtype=torch.bool), residual)


def gram(design: Design, start: int, stop: int) -> Tensor:
    """(S, K + m, K + m) sum over samples start ... stop of the products of all terms and targets."""
    K = design.size
    size, length = design.chunk_shape(stop - start)
    rows = design.targets.new_zeros((size, _padded(K), length), dtype=torch.float64)
    sums = rows.new_zeros((len(design.targets), _padded(K), _padded(K)))
    for problems, samples in design.chunks(start, stop):
        a = rows[: len(sums[problems]), :, : samples.stop - samples.start]
        design.write(a[:, :K], problems, samples)
        sums[problems].baddbmm_(a, a.mT)
    if not bool(sums.sum().isfinite()):
        fix = "lower the degree or scale the latents"
        raise InputError("library", expected="finite terms", got="an overflow or NaN", fix=fix)
    return sums[:, :K, :K]


def _padded(rows: int) -> int:
    return rows + -rows % ALIGNMENT


def triangular(design: Design, problem: int, weights: Tensor | None = None) -> Tensor:
    """(K + m, K + m) R of one problem with Rᵀ R = its Gram matrix, each sample weighted by `weights` (N,)."""
    alone, N = slice(problem, problem + 1), design.targets.shape[1]
    buffer = design.targets.new_empty((1, design.size, min(N, 8 * design.size)), dtype=torch.float64)
    R = buffer.new_empty((0, design.size))
    for start in range(0, N, buffer.shape[-1]):
        samples = slice(start, min(start + buffer.shape[-1], N))
        block = buffer[..., : samples.stop - start]
        design.write(block, alone, samples)
        block = block[0].mT
        if weights is not None:
            block = block * weights[samples, None].sqrt()
        R = torch.linalg.qr(torch.cat([R, block]), mode="r").R
    return R


def regress(design: Design, grams: Tensor, settings: Thresholding, weights: Tensor | None = None) -> Fit:
    """Sparse coefficients for each Gram matrix (..., S, K + m, K + m) of the design.

    Args:
        design: the samples, read again where a Gram matrix is ill-conditioned.
        grams: leading axes are members of an ensemble, the last problems.
        settings: of the thresholding.
        weights: (..., N) sample weights that made each member's Gram matrix; None where all are 1.
    """
    m = design.targets.shape[-1]
    scale = _column_scale(grams.diagonal(dim1=-2, dim2=-1)[..., :-m].sqrt())
    G, b = grams[..., :-m, :-m] / (scale.unsqueeze(-1) * scale.unsqueeze(-2)), grams[..., :-m, -m:]
    eigenvalues = torch.linalg.eigvalsh(G)
    condition = (eigenvalues[..., -1] / eigenvalues[..., 0].clamp(min=0)).sqrt()
    fit = stlsq(normal_equations(G, (b / scale.unsqueeze(-1)).mT), scale, settings, m)
    squares = grams.diagonal(dim1=-2, dim2=-1)[..., -m:]
    fit = Fit(fit.coefficients, condition, fit.converged, _residual(grams, fit.coefficients, squares))
    for index in _ill_conditioned(fit).nonzero().tolist():
        member = None if weights is None else weights[tuple(index[:-1])]
        alone = _regress_by_qr(triangular(design, index[-1], member), settings, m)
        for whole, part in zip(fit, alone, strict=True):
            whole[tuple(index)] = part
    return fit


def _ill_conditioned(fit: Fit) -> Tensor:
    """(...) whether the Gram matrix may have spoiled the coefficients; NaN counts as spoiled."""
    largest = fit.coefficients.abs().flatten(-2).amax(-1).clamp(min=1)
    return ~(torch.finfo(torch.float64).eps * fit.condition.square() * largest <= GRAM_ERROR)


def _regress_by_qr(R: Tensor, settings: Thresholding, m: int) -> Fit:
    K = R.shape[-1] - m
    scale = _column_scale(R[:, :K].norm(dim=0))
    factor, target = R[:K, :K] / scale, R[:K, K:].mT
    singular = torch.linalg.svdvals(factor)
    fit = stlsq(orthogonal(factor, target), scale, settings, m)
    miss = R[:, K:] - R[:, :K] @ fit.coefficients
    residual = miss.norm(dim=0) / R[:, K:].norm(dim=0).clamp(min=torch.finfo(R.dtype).tiny)
    return Fit(fit.coefficients, singular[0] / singular[-1], fit.converged, residual)


def normal_equations(G: Tensor, b: Tensor) -> Solve:
    """Least squares by Cholesky, for a Gram matrix G (..., K, K) with unit diagonal and b (..., m, K)."""

    def solve(mask: Tensor, ridge: Tensor) -> Tensor:
        kept = mask.to(G)
        matrix = G.unsqueeze(-3) * kept.unsqueeze(-1) * kept.unsqueeze(-2)
        diagonal = torch.where(mask, ridge.unsqueeze(-2), 1.0)  # a column that is out has the equation w = 0
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


def stlsq(solve: Solve, scale: Tensor, settings: Thresholding, m: int) -> Fit:
    """Ridge regression, dropping small coefficients, until the support stays the same; then without ridge.

    `solve` sees columns of norm 1, which is only a matter of rounding: ridge and threshold act on the coefficients
    of the terms themselves, or on those of the columns of norm 1 with `normalize_columns`.

    Source: Brunton, Proctor, Kutz (2016), supporting information; pysindy's STLSQ, whose steps these are.
    """
    unit = torch.ones_like(scale) if settings.normalize_columns else scale
    ridge, unit = settings.alpha / unit.square(), unit.unsqueeze(-2)
    mask = torch.ones((*scale.shape[:-1], m, scale.shape[-1]), dtype=torch.bool, device=scale.device)
    for _ in range(settings.max_iter):
        w = solve(mask, ridge)
        before, mask = mask, mask & ((w / unit).abs() >= settings.threshold)
        w = torch.where(mask, w, 0.0)
        converged = (mask == before).flatten(-2).all(-1)
        if bool(converged.all()):
            break
    if settings.unbias:
        w = torch.where(mask, solve(mask, torch.zeros_like(ridge)), 0.0)
    return Fit((w / scale.unsqueeze(-2)).mT.contiguous(), scale.new_empty(0), converged, scale.new_empty(0))


def _residual(grams: Tensor, coefficients: Tensor, squares: Tensor) -> Tensor:
    """From the sums alone; below about 1e-8 it is rounding."""
    K = coefficients.shape[-2]
    G, b = grams[..., :K, :K], grams[..., :K, K:]
    explained = (coefficients * (2 * b - G @ coefficients)).sum(-2)
    return ((squares - explained).clamp(min=0) / squares.clamp(min=torch.finfo(squares.dtype).tiny)).sqrt()


def _column_scale(norms: Tensor) -> Tensor:
    """Norms to divide by; a column of zeros stays one."""
    return torch.where(norms > 0, norms, 1.0)
