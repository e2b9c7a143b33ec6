"""Least squares for the decoder of a polynomial manifold, and its settings, chosen by leaving whole
contexts out.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.polynomials import Monomials, chebyshev, total_degree
from romkit.core.types import Names, Pair

DEGREES = (1, 2, 3, 4, 5, 6, 7, 9)
"""Degrees in the latents that are tried; pulses want the high ones."""

CONTEXT_DEGREES = (0, 1, 2, 3)
"""Total degrees in the context that are tried."""

RIDGES = tuple(10.0**-power for power in range(11))
"""Regularisations that are tried, relative to monomials of size one, the largest first."""

FIRST = 1e-6
"""Regularisation that is tried first."""

ENOUGH_ROWS = 4000
"""Snapshots from which settings are chosen."""

LARGEST = 130
"""Most monomials that are tried beyond degree two."""

UNKNOWNS = 700
"""Most coefficients of a component that are tried: monomials times terms of the context."""

GAIN = 0.97
"""Share of the error that a less plain setting has to reach, so that ties go to the plain one."""

ENOUGH_FOLDS = 5
"""Folds from which on the scatter of their errors says how uncertain the mean is: that of three is
known to half of itself, and two degrees would be equal by chance.
"""

WORSE = 0.1
"""Share of the smallest error by which a lower degree may be worse, if it is also within one standard
error: a smaller projection error is not always a better rollout."""

FOLDS, BLOCKS = 8, 5
"""Most contexts that are left out in turn, and blocks in time where there are too few contexts."""

CURVED = 1.2
"""Ratio of the ends of a parameter's range from which 1/c and log c differ from c enough to try."""

NEAREST = 0.1
"""Share of the end of the range next to zero at which 1/c and log c stop."""

WARPS: dict[str, Callable[[Tensor], Tensor]] = {
    "c": lambda u: u,
    "1/c": torch.reciprocal,
    "log c": torch.log,
}
"""Functions of a parameter in which the manifold may be a polynomial, by name."""


class ContextTerms:
    """Products of Chebyshev polynomials of the parameters, each warped and scaled to [-1, 1].

    A parameter that had a single value in training has no part in them.

    Args:
        low, high: (p,) ends of the training ranges.
        fixed: whether a parameter had a single value.
        warps: name of the warp of each parameter.
        degree: total degree of the products.
    """

    def __init__(
        self, low: Tensor, high: Tensor, fixed: Sequence[bool], warps: Sequence[str], degree: int
    ):
        self.low, self.high, self.warps, self.degree = low, high, warps, degree
        self.varying = [k for k, stays in enumerate(fixed) if not stays]
        self.powers = total_degree(len(self.varying), degree)

    def __len__(self) -> int:
        return len(self.powers)

    def __call__(self, c: Tensor) -> Tensor:
        """(..., Q) at contexts c (..., p) in physical units."""
        if self.degree == 0 or not self.varying:
            return c.new_ones((*c.shape[:-1], 1))
        columns = []
        for k in self.varying:
            columns.append(chebyshev(self._scaled(c, k), self.degree))  # (..., degree + 1)
        terms = []
        for powers in self.powers:
            factors = [column[..., power] for column, power in zip(columns, powers, strict=True)]
            terms.append(functools.reduce(torch.mul, factors))
        return torch.stack(terms, dim=-1)

    def _scaled(self, c: Tensor, k: int) -> Tensor:
        """Parameter k, warped, its training range as [-1, 1]."""
        u = c[..., k]
        low = self.low[k]
        high = self.high[k]
        if self.warps[k] != "c":
            # in units of the end next to zero, which 1/c and log c must not reach
            unit = torch.where(low.abs() < high.abs(), low, high)
            u = (u / unit).clamp(min=NEAREST)
            low = low / unit
            high = high / unit
        warp = WARPS[self.warps[k]]
        start = warp(low)
        end = warp(high)
        return (2 * warp(u) - start - end) / (end - start)


class Division(NamedTuple):
    """Snapshots in pieces, and what is left out of a fit in turn.

    Attributes:
        pieces: numbers of the snapshots of each.
        folds: numbers of the pieces that are left out together.
        contexts: number of contexts.
    """

    pieces: list[Tensor]
    folds: list[list[int]]
    contexts: int

    @property
    def most_terms(self) -> int:
        """Most terms of the context that are tried: a fit without a context has to determine them."""
        left_out = 3 if self.contexts < 7 else 4
        least = min(self.contexts, 2)
        return max(least, self.contexts - left_out)

    @classmethod
    def of(cls, c: Tensor) -> "Division":
        """Division of snapshots with contexts c (N, p), in the order of time: by whole contexts, or
        in blocks of time where no context lies between others, or where contexts move.
        """
        contexts, number = _distinct(c)
        count = len(contexts)
        rows = len(c)
        moving = count > 1 and 2 * count > rows
        if moving and rows > 3 * BLOCKS:
            blocks = torch.arange(rows).tensor_split(BLOCKS)
            folds = [[k] for k in range(BLOCKS)]
            return cls(list(blocks), folds, count)
        pieces = []
        for k in range(count):
            rows_of_context = torch.nonzero(number == k).flatten()
            pieces.append(rows_of_context)
        inner = _inner(contexts)
        if not inner:
            return cls._in_blocks(pieces)
        folds = [[k] for k in inner]
        return cls(pieces, folds, count)

    @classmethod
    def _in_blocks(cls, pieces: list[Tensor]) -> "Division":
        """Division of each context's snapshots into blocks of time, of which the k-th of all
        contexts are left out together.
        """
        blocks = []
        folds = [[] for _ in range(BLOCKS)]
        for piece in pieces:
            for fold, block in zip(folds, piece.tensor_split(BLOCKS), strict=True):
                fold.append(len(blocks))
                blocks.append(block)
        return cls(blocks, folds, len(pieces))


def _distinct(c: Tensor) -> Pair:
    """Contexts (C, p) of snapshots with contexts (N, p), and the number of each snapshot's."""
    if c.shape[1] == 0:
        return c[:1], torch.zeros(len(c), dtype=torch.long)
    return c.unique(dim=0, return_inverse=True)


def _inner(contexts: Tensor) -> list[int]:
    """Numbers of contexts to leave out: every second one without which all ranges stay as they are
    and that is no corner of them, since a fit without it would extrapolate.
    """
    low = contexts.amin(0)
    high = contexts.amax(0)
    varies = high > low
    if not bool(varies.any()):
        return []
    contexts = contexts[:, varies]
    low = low[varies]
    high = high[varies]
    at_ends = (contexts == low) | (contexts == high)
    corner = at_ends.all(1)
    alone = _alone_at(contexts, low) | _alone_at(contexts, high)
    inside = torch.nonzero(~(corner | alone)).flatten().tolist()
    # neighbours that are both left out would leave a gap that no later fit has
    if len(contexts) > 5:
        inside = inside[::2]
    step = max(1, math.ceil(len(inside) / FOLDS))
    return inside[::step]


def _alone_at(contexts: Tensor, end: Tensor) -> Tensor:
    """Whether a context (C, p) is the only one at an end (p,) of some parameter's range."""
    at_end = contexts == end  # (C, p)
    single = at_end.sum(0) == 1
    return (at_end & single).any(1)


@dataclass(frozen=True)
class Settings:
    """Settings of the decoder's polynomial; None is to be chosen."""

    degree: int | None
    context_degree: int | None
    warp: Names | None
    ridge: float | None


class LatentSums(NamedTuple):
    """Sums over the snapshots of one piece, for least squares of K monomials.

    Attributes:
        monomials: (N, K).
        gram: (K, K) of the monomials.
        moments: (K, R) of monomials with the residual.
    """

    monomials: Tensor
    gram: Tensor
    moments: Tensor


class Sums(NamedTuple):
    """Sums over the snapshots of one piece, for least squares of Q terms of the context times K
    monomials.

    Attributes:
        features: (N, Q K); the monomials (N, K) alone where the context of the piece stays.
        gram: of the features.
        moments: of features with the residual, (Q K, R) or (K, R).
        terms: (Q,) at the context that stays, else None.
    """

    features: Tensor
    gram: Tensor
    moments: Tensor
    terms: Tensor | None

    @classmethod
    def along_contexts(cls, terms: Tensor, of_latents: LatentSums, residual: Tensor) -> "Sums":
        """Sums of snapshots at contexts with these terms (N, Q)."""
        products = terms.unsqueeze(-1) * of_latents.monomials.unsqueeze(-2)  # (N, Q, K)
        features = products.flatten(-2)
        return cls(features, features.mT @ features, features.mT @ residual, None)

    def fitted(self, weights: Tensor) -> Tensor:
        """Residual (N, R) by coefficients (Q K, R)."""
        if self.terms is None:
            return self.features @ weights
        grid = weights.unflatten(0, (len(self.terms), -1))
        at_context = torch.einsum("q,qkr->kr", self.terms, grid)
        return self.features @ at_context


class NormalEquations(NamedTuple):
    """Normal equations without a fold, of this many rows."""

    gram: Tensor
    moments: Tensor
    rows: int
    fold: list[int]


class Trial(NamedTuple):
    """Settings, and the root mean square errors that they leave on snapshots that are left out.

    Attributes:
        settings: all of them known.
        error: over all left-out snapshots.
        of_folds: (F,) of what is left out together.
    """

    settings: Settings
    error: float
    of_folds: Tensor

    @property
    def standard_error(self) -> float:
        """Standard error of the mean of the errors of folds; 0 of a single fold."""
        folds = len(self.of_folds)
        if folds < 2:
            return 0.0
        return float(self.of_folds.std()) / folds**0.5


def simplest(trials: Sequence[Trial], worse: float | None = WORSE) -> Trial:
    """The first of the trials, plain ones first, that is within one standard error of the best.

    Args:
        trials: in the order of their degrees.
        worse: share of the smallest error by which it may be larger at most, if there are
            `ENOUGH_FOLDS`; None for any.

    Source: Breiman, Friedman, Olshen, Stone (1984), Classification and regression trees, section
    3.4.3, for the rule of one standard error.
    """
    best = min(trials, key=lambda trial: trial.error)
    tolerance = best.standard_error
    if worse is not None:
        tolerance = min(tolerance, worse * best.error)
        if len(best.of_folds) < ENOUGH_FOLDS:
            tolerance = 0.0
    enough = best.error + tolerance
    return next(trial for trial in trials if trial.error <= enough)


@dataclass(frozen=True)
class LeftOut:
    """Least squares of what the latent modes leave of snapshots, and its error on snapshots that
    are left out.

    Attributes:
        z: (N, m) latents.
        residual: (N, R) of the snapshots, in orthonormal modes beside those of the latents.
        c: (N, p) contexts in physical units.
        terms: of the context, by warps and total degree.
        division: of the snapshots.
        kept: sums of each degree, which all settings of the context share.
    """

    z: Tensor
    residual: Tensor
    c: Tensor
    terms: Callable[[Sequence[str], int], ContextTerms]
    division: Division
    kept: dict[int, list[LatentSums]] = field(default_factory=dict)

    def trials(self, settings: Settings, warps: Sequence[Sequence[str]]) -> list[Trial]:
        """Best settings of each degree, lower degrees first.

        Args:
            settings: that are given stay.
            warps: of each parameter that are tried, the plain one first.
        """
        if settings.warp is not None:
            return [*self._best(settings, {}).values()]
        plain = tuple(names[0] for names in warps)
        best = self._best(replace(settings, warp=plain), {})
        for k, names in enumerate(warps):
            for name in names[1:]:
                # one parameter after the other, beside the warps that are best so far
                changed = [*simplest([*best.values()]).settings.warp]
                changed[k] = name
                best = self._best(replace(settings, warp=tuple(changed)), best)
        return [*best.values()]

    def solved(self, settings: Settings) -> Tensor:
        """(Q, K, R) coefficients for all snapshots."""
        terms, monomials = self._features(settings)
        gram, moments, _ = _total(self._sums(terms, monomials))
        ridge = settings.ridge * len(self.z)
        weights = _regularised(gram, ridge, moments)  # (Q K, R)
        return weights.unflatten(0, (len(terms), -1))

    def _features(self, settings: Settings) -> tuple[ContextTerms, Monomials]:
        """Functions of the context and of the latents of which features are products."""
        terms = self.terms(settings.warp, settings.context_degree)
        return terms, Monomials(self.z.shape[1], settings.degree)

    def left_out_contexts(self) -> Tensor:
        """Contexts (C, p) of the pieces that are left out, one fold after the other."""
        contexts = []
        for fold in self.division.folds:
            for k in fold:
                row = self.division.pieces[k][0]
                contexts.append(self.c[row])
        return torch.stack(contexts)

    def without_folds(self, settings: Settings) -> Pair:
        """`left_out_contexts`, and the coefficients of the monomials there (C, K, R), of least
        squares without the fold of each.
        """
        terms, monomials = self._features(settings)
        contexts = self.left_out_contexts()
        values = iter(terms(contexts))  # (C, Q)
        coefficients = []
        for system in self._systems(self._sums(terms, monomials)):
            ridge = settings.ridge * system.rows
            weights = _regularised(system.gram, ridge, system.moments)  # (Q K, R)
            weights = weights.unflatten(0, (len(terms), -1))
            for _ in system.fold:
                at_context = torch.einsum("q,qkr->kr", next(values), weights)
                coefficients.append(at_context)
        return contexts, torch.stack(coefficients)

    def thinned(self) -> "LeftOut":
        """Division with every k-th snapshot, of so many that a choice of settings needs no more."""
        step = math.ceil(len(self.z) / ENOUGH_ROWS)
        if step == 1:
            return self
        pieces = [piece[::step] for piece in self.division.pieces]
        division = self.division._replace(pieces=pieces)
        return replace(self, division=division, kept={})

    def _best(self, settings: Settings, best: dict[int, Trial]) -> dict[int, Trial]:
        """The better of `best` of each degree and the best of the settings that are not given."""
        known_warp = bool(best)
        best = dict(best)
        for candidate in self._candidates(settings):
            # without a context the warp makes no difference
            if known_warp and candidate.context_degree == 0:
                continue
            trial = self._ridged(candidate)
            known = best.get(candidate.degree)
            # at least one trial, were all of them infinite
            if known is None or trial.error < GAIN * known.error:
                best[candidate.degree] = trial
        return best

    def _ridged(self, settings: Settings) -> Trial:
        """The ridge with the smallest error: downhill from a middle one, to larger ones first."""
        sums = self._sums(*self._features(settings))
        systems = self._systems(sums)

        def trial(ridge: float) -> Trial:
            error, of_folds = self._error(sums, systems, ridge)
            return Trial(replace(settings, ridge=ridge), error, of_folds)

        if settings.ridge is not None:
            return trial(settings.ridge)
        middle = trial(FIRST)
        start = RIDGES.index(FIRST)
        larger = RIDGES[:start][::-1]
        smaller = RIDGES[start + 1 :]
        best = _downhill(map(trial, larger), middle)
        if best is middle:
            best = _downhill(map(trial, smaller), middle)
        return best

    def _candidates(self, settings: Settings) -> Iterator[Settings]:
        """Settings with degrees, plain ones first."""
        m = self.z.shape[1]
        for degree in self._degrees(settings):
            size = len(Monomials(m, degree))
            for context_degree in self._context_degrees(settings, size):
                yield replace(settings, degree=degree, context_degree=context_degree)

    def _degrees(self, settings: Settings) -> list[int]:
        """Degrees in the latents that are tried."""
        if settings.degree is not None:
            return [settings.degree]
        m = self.z.shape[1]
        largest = min(LARGEST, len(self.z))
        degrees = []
        for degree in DEGREES:
            if degree <= 2 or len(Monomials(m, degree)) <= largest:
                degrees.append(degree)
        return degrees

    def _context_degrees(self, settings: Settings, size: int) -> list[int]:
        """Degrees in the context that are tried beside so many monomials."""
        if settings.context_degree is not None:
            return [settings.context_degree]
        degrees = [0]
        for degree in CONTEXT_DEGREES[1:]:
            terms = len(self.terms(settings.warp, degree))
            determined = 1 < terms <= self.division.most_terms
            if determined and terms * size <= UNKNOWNS:
                degrees.append(degree)
        return degrees

    def _systems(self, sums: "list[Sums]") -> "list[NormalEquations]":
        """Normal equations without each fold."""
        gram, moments, rows = _total(sums)
        systems = []
        for fold in self.division.folds:
            # sums without a fold are those of all, less its own: a fit costs no pass over the data
            gram_of_fold, moments_of_fold, rows_of_fold = _total([sums[k] for k in fold])
            system = NormalEquations(
                gram - gram_of_fold,
                moments - moments_of_fold,
                rows - rows_of_fold,
                fold,
            )
            systems.append(system)
        return systems

    def _error(
        self, sums: "list[Sums]", systems: "list[NormalEquations]", ridge: float
    ) -> tuple[float, Tensor]:
        """Root mean square error on all snapshots that are left out in turn, and those of folds."""
        squares, counts = [], []
        for system in systems:
            weights = _regularised(system.gram, ridge * system.rows, system.moments)
            square = count = 0
            for k in system.fold:
                residual = self.residual[self.division.pieces[k]]
                deviation = sums[k].fitted(weights) - residual  # (N, R)
                square += deviation.square().sum()
                count += len(residual)
            squares.append(square)
            counts.append(count)
        total = torch.stack(squares)
        number = torch.tensor(counts)
        mean = total.sum() / number.sum().clamp(min=1)
        of_folds = total / number.clamp(min=1)
        return float(mean) ** 0.5, of_folds.sqrt()

    def _sums(self, terms: ContextTerms, monomials: Monomials) -> list[Sums]:
        pieces = self.division.pieces
        of_pieces = self._latent_sums(monomials)
        # of all pieces at once: each call costs as much as a thousand snapshots
        of_contexts = self._of_pieces(terms(self.c[torch.cat(pieces)]))  # (N, Q) each
        sums = []
        for piece, of_context, of_latents in zip(pieces, of_contexts, of_pieces, strict=True):
            stays = len(piece) > 0 and bool((of_context == of_context[0]).all())
            if stays:
                of_piece = Sums(*of_latents, of_context[0])
            else:
                of_piece = Sums.along_contexts(of_context, of_latents, self.residual[piece])
            sums.append(of_piece)
        return sums

    def _latent_sums(self, monomials: Monomials) -> list[LatentSums]:
        """Sums of the monomials alone, of each piece."""
        degree = monomials.degree
        if degree in self.kept:
            return self.kept[degree]
        pieces = self.division.pieces
        several = self._of_pieces(monomials(self.z[torch.cat(pieces)]))  # (N, K) each
        sums = []
        for piece, features in zip(pieces, several, strict=True):
            gram = features.mT @ features
            moments = features.mT @ self.residual[piece]
            sums.append(LatentSums(features, gram, moments))
        self.kept[degree] = sums
        return sums

    def _of_pieces(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Rows of all pieces, one after the other, as those of each piece."""
        return rows.split([len(piece) for piece in self.division.pieces])


def _downhill(trials: Iterable[Trial], best: Trial) -> Trial:
    """The last of the trials, and of the best so far, before the error no longer falls."""
    for trial in trials:
        if trial.error >= best.error:
            break
        best = trial
    return best


def _total(sums: Sequence[Sums]) -> tuple[Tensor, Tensor, int]:
    """Gram matrix (Q K, Q K), moments (Q K, R) and number of rows of several pieces."""
    rows = sum(len(piece.features) for piece in sums)
    if all(piece.terms is not None for piece in sums):
        return *_at_contexts(sums), rows
    gram = moments = 0
    for piece in sums:
        of_gram, of_moments = piece.gram, piece.moments
        if piece.terms is not None:
            of_gram, of_moments = _at_contexts([piece])
        gram = gram + of_gram
        moments = moments + of_moments
    return gram, moments, rows


def _at_contexts(sums: Sequence[Sums]) -> Pair:
    """Gram matrix (Q K, Q K) and moments (Q K, R) of pieces at contexts that stay: sums of
    Kronecker products, without a pass over the snapshots.
    """
    terms = torch.stack([piece.terms for piece in sums])  # (C, Q)
    grams = torch.stack([piece.gram for piece in sums])
    moments = torch.stack([piece.moments for piece in sums])
    squares = terms.unsqueeze(-1) * terms.unsqueeze(-2)  # (C, Q, Q)
    gram = torch.einsum("cqp,ckl->qkpl", squares, grams)
    size = gram.shape[0] * gram.shape[1]
    moment = torch.einsum("cq,ckr->qkr", terms, moments)
    return gram.reshape(size, size), moment.flatten(0, 1)


def _regularised(gram: Tensor, ridge: float, moments: Tensor) -> Tensor:
    """(G + λ I)⁻¹ M, which rounding may not make indefinite."""
    rounding = 1e-14 * gram.diagonal().mean()
    shifted = gram.clone()
    shifted.diagonal().add_(ridge + rounding)
    factor, failed = torch.linalg.cholesky_ex(shifted)
    if int(failed):
        return torch.linalg.lstsq(shifted, moments, driver="gelsd").solution
    return torch.cholesky_solve(moments, factor)
