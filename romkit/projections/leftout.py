"""Least squares for the decoder of a polynomial manifold, and its settings, chosen by leaving whole
contexts out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.polynomials import Monomials, chebyshev, total_degree

DEGREES = (1, 2, 3, 5, 7, 9)
"""Degrees in the latents that are tried; pulses want the high ones."""

CONTEXT_DEGREES = (0, 1, 2, 3)
"""Total degrees in the context that are tried."""

RIDGES = (1.0, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
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
        columns = [chebyshev(self._scaled(c, k), self.degree) for k in self.varying]
        terms = []
        for powers in self.powers:
            term = columns[0][..., powers[0]]
            for column, power in zip(columns[1:], powers[1:], strict=True):
                term = term * column[..., power]
            terms.append(term)
        return torch.stack(terms, dim=-1)

    def _scaled(self, c: Tensor, k: int) -> Tensor:
        """Parameter k, warped, its training range as [-1, 1]."""
        low, high, warp = self.low[k], self.high[k], WARPS[self.warps[k]]
        u, ends = c[..., k], (low, high)
        if self.warps[k] != "c":
            # in units of the end next to zero, which 1/c and log c must not reach
            unit = torch.where(low.abs() < high.abs(), low, high)
            u, ends = (u / unit).clamp(min=NEAREST), (low / unit, high / unit)
        first, last = warp(ends[0]), warp(ends[1])
        return (2 * warp(u) - first - last) / (last - first)


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
        return max(min(self.contexts, 2), self.contexts - 4 + (self.contexts < 7))

    @classmethod
    def of(cls, c: Tensor) -> "Division":
        """Division of snapshots with contexts c (N, p), in the order of time: by whole contexts, or
        in blocks of time where no context lies between others, or where contexts move.
        """
        contexts, number = _distinct(c)
        count = len(contexts)
        moving = count > 1 and 2 * count > len(c) > 3 * BLOCKS
        if moving:
            blocks = torch.arange(len(c)).tensor_split(BLOCKS)
            return cls(list(blocks), [[k] for k in range(BLOCKS)], count)
        pieces = [torch.nonzero(number == k).flatten() for k in range(count)]
        if inner := _inner(contexts):
            return cls(pieces, [[k] for k in inner], count)
        blocks, folds = [], [[] for _ in range(BLOCKS)]
        for piece in pieces:
            for fold, block in zip(folds, piece.tensor_split(BLOCKS), strict=True):
                fold.append(len(blocks))
                blocks.append(block)
        return cls(blocks, folds, count)


def _distinct(c: Tensor) -> tuple[Tensor, Tensor]:
    """Contexts (C, p) of snapshots with contexts (N, p), and the number of each snapshot's."""
    if c.shape[1] == 0:
        return c[:1], torch.zeros(len(c), dtype=torch.long)
    return c.unique(dim=0, return_inverse=True)


def _inner(contexts: Tensor) -> list[int]:
    """Numbers of contexts to leave out: every second one without which all ranges stay as they are
    and that is no corner of them, since a fit without it would extrapolate.
    """
    low, high = contexts.amin(0), contexts.amax(0)
    varies = high > low
    if not bool(varies.any()):
        return []
    contexts, low, high = contexts[:, varies], low[varies], high[varies]
    at_end = (contexts == low) | (contexts == high)
    # the only context at an end of some parameter's range
    alone = [(contexts == end) & ((contexts == end).sum(0) == 1) for end in (low, high)]
    outer = at_end.all(1) | (alone[0] | alone[1]).any(1)
    inside = torch.nonzero(~outer).flatten().tolist()
    if len(contexts) > 5:
        inside = inside[::2]
    step = max(1, -(-len(inside) // FOLDS))
    return inside[::step]


@dataclass(frozen=True)
class Settings:
    """Settings of the decoder's polynomial; None is to be chosen."""

    degree: int | None
    context_degree: int | None
    warp: tuple[str, ...] | None
    ridge: float | None


class Sums(NamedTuple):
    """Sums over the snapshots of one piece, for least squares of Q terms of the context times K
    monomials.

    Attributes:
        features: (N, Q K).
        gram: (Q K, Q K) of the features.
        moments: (Q K, R) of features with the residual.
    """

    features: Tensor
    gram: Tensor
    moments: Tensor


class System(NamedTuple):
    """Normal equations without a fold, of this many rows."""

    gram: Tensor
    moments: Tensor
    rows: int
    fold: list[int]


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
    """

    z: Tensor
    residual: Tensor
    c: Tensor
    terms: Callable[[Sequence[str], int], ContextTerms]
    division: Division

    def chosen(self, settings: Settings, warps: Sequence[Sequence[str]]) -> tuple[float, Settings]:
        """Error of the best settings, root mean square over all left-out snapshots, and these.

        Args:
            settings: that are given stay.
            warps: of each parameter that are tried, the plain one first.
        """
        plain = tuple(each[0] for each in warps) if settings.warp is None else settings.warp
        best = self._best(replace(settings, warp=plain), (float("inf"), settings))
        if settings.warp is not None:
            return best
        for k, names in enumerate(warps):
            for name in names[1:]:
                warp = (*best[1].warp[:k], name, *best[1].warp[k + 1 :])
                best = self._best(replace(settings, warp=warp), best)
        return best

    def solved(self, settings: Settings) -> Tensor:
        """(Q, K, R) coefficients for all snapshots."""
        terms = self.terms(settings.warp, settings.context_degree)
        sums = self._sums(terms, Monomials(self.z.shape[1], settings.degree))
        gram, moments = sum(piece.gram for piece in sums), sum(piece.moments for piece in sums)
        return _regularised(gram, settings.ridge * len(self.z), moments).unflatten(
            0, (len(terms), -1)
        )

    def thinned(self) -> "LeftOut":
        """Division with every k-th snapshot, of so many that a choice of settings needs no more."""
        step = -(-len(self.z) // ENOUGH_ROWS)
        if step == 1:
            return self
        pieces = [piece[::step] for piece in self.division.pieces]
        return replace(self, division=self.division._replace(pieces=pieces))

    def _best(self, settings: Settings, best: tuple[float, Settings]) -> tuple[float, Settings]:
        """The better of `best` and the best of the settings that are not given."""
        for trial in self._trials(settings):
            error, ridge = self._ridged(trial)
            if error < GAIN * best[0] or best[0] == float("inf"):
                best = error, replace(trial, ridge=ridge)
        return best

    def _ridged(self, settings: Settings) -> tuple[float, float]:
        """Smallest error, and the ridge that has it: downhill from a middle one, to larger ones
        first.
        """
        terms = self.terms(settings.warp, settings.context_degree)
        sums = self._sums(terms, Monomials(self.z.shape[1], settings.degree))
        systems = self._systems(sums)
        if settings.ridge is not None:
            return self._error(sums, systems, settings.ridge), settings.ridge
        start = RIDGES.index(FIRST)
        best = self._error(sums, systems, FIRST), FIRST
        for way in (reversed(RIDGES[:start]), RIDGES[start + 1 :]):
            before = best[1]
            for ridge in way:
                error = self._error(sums, systems, ridge)
                if error >= best[0]:
                    break
                best = error, ridge
            if best[1] != before:
                break
        return best

    def _trials(self, settings: Settings) -> Iterator[Settings]:
        """Settings with degrees, plain ones first."""
        m = self.z.shape[1]
        for degree in DEGREES if settings.degree is None else (settings.degree,):
            size = len(Monomials(m, degree))
            if settings.degree is None and degree > 2 and size > min(LARGEST, len(self.z)):
                continue
            known = settings.context_degree
            for context_degree in CONTEXT_DEGREES if known is None else (known,):
                terms = len(self.terms(settings.warp, context_degree))
                plain = context_degree == 0 or terms == 1
                fits = terms <= self.division.most_terms and terms * size <= UNKNOWNS
                if known is not None or context_degree == 0 or (fits and not plain):
                    yield replace(settings, degree=degree, context_degree=context_degree)

    def _systems(self, sums: "list[Sums]") -> "list[System]":
        """Normal equations without each fold."""
        gram, moments = sum(piece.gram for piece in sums), sum(piece.moments for piece in sums)
        total = sum(len(piece.features) for piece in sums)
        systems = []
        for fold in self.division.folds:
            rows = total - sum(len(sums[k].features) for k in fold)
            gram_left = gram - sum(sums[k].gram for k in fold)
            moments_left = moments - sum(sums[k].moments for k in fold)
            systems.append(System(gram_left, moments_left, rows, fold))
        return systems

    def _error(self, sums: "list[Sums]", systems: "list[System]", ridge: float) -> float:
        """Root mean square error on all snapshots that are left out in turn."""
        square = count = 0
        for system in systems:
            weights = _regularised(system.gram, ridge * system.rows, system.moments)
            for k in system.fold:
                error = sums[k].features @ weights - self.residual[self.division.pieces[k]]
                square += float(error.square().sum())
                count += len(error)
        return (square / max(count, 1)) ** 0.5

    def _sums(self, terms: ContextTerms, monomials: Monomials) -> list[Sums]:
        sums = []
        for piece in self.division.pieces:
            products = terms(self.c[piece]).unsqueeze(-1) * monomials(self.z[piece]).unsqueeze(-2)
            features = products.flatten(-2)  # (N, Q K)
            sums.append(Sums(features, features.mT @ features, features.mT @ self.residual[piece]))
        return sums


def _regularised(gram: Tensor, ridge: float, moments: Tensor) -> Tensor:
    """(G + λ I)⁻¹ M, which rounding may not make indefinite."""
    rounding = 1e-14 * gram.diagonal().mean()
    shifted = gram + (ridge + rounding) * torch.eye(len(gram), dtype=gram.dtype)
    factor, failed = torch.linalg.cholesky_ex(shifted)
    if int(failed):
        return torch.linalg.lstsq(shifted, moments, driver="gelsd").solution
    return torch.cholesky_solve(moments, factor)
