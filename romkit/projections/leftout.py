"""Settings of the decoder of a polynomial manifold, chosen by leaving whole contexts out."""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.polynomials import Monomials
from romkit.core.types import Floats, Names, Pair, Shape, TensorTuple
from romkit.projections.context_terms import ContextTerms
from romkit.projections.division import Division


class Sums(NamedTuple):
    """Sums over the snapshots of one piece, for least squares of Q terms of the context times K
    monomials.

    Attributes:
        features: (N, Q K); the monomials (N, K) alone where the context of the piece stays.
        gram: of the features.
        moments: of features with the residual, (Q K, R) or (K, R).
        terms: (Q,) at the constant context, else None.
    """

    features: Tensor
    gram: Tensor
    moments: Tensor
    terms: Tensor | None = None

    @classmethod
    def sum_products(cls, features: Tensor, residual: Tensor) -> "Sums":
        """Sum products of features (N, K) and of these with the residual (N, R)."""
        return cls(features, features.mT @ features, features.mT @ residual)

    def fitted(self, weights: Tensor) -> Tensor:
        """Return residual (N, R) by coefficients (Q K, R)."""
        if self.terms is None:
            return self.features @ weights
        grid = weights.unflatten(0, (len(self.terms), -1))
        return self.features @ torch.einsum("q,qkr->kr", self.terms, grid)


class NormalEquations(NamedTuple):
    """Normal equations without a fold, of this many rows."""

    gram: Tensor
    moments: Tensor
    rows: int
    fold: list[int]


def summed(sums: Sequence[Sums]) -> tuple[Tensor, Tensor, int]:
    """Gram matrix (Q K, Q K), moments (Q K, R) and number of rows of several pieces."""
    rows = sum(len(piece.features) for piece in sums)
    if all(piece.terms is not None for piece in sums):
        return *_at_contexts(sums), rows
    pairs = []
    for piece in sums:
        stays = piece.terms is not None
        pairs.append(_at_contexts([piece]) if stays else (piece.gram, piece.moments))
    grams, moments = zip(*pairs, strict=True)
    return functools.reduce(torch.add, grams), functools.reduce(torch.add, moments), rows


def _at_contexts(sums: Sequence[Sums]) -> Pair:
    """Gram matrix (Q K, Q K) and moments (Q K, R) of pieces at constant contexts: sums of
    Kronecker products, without a pass over the snapshots.
    """
    terms = torch.stack([piece.terms for piece in sums if piece.terms is not None])  # (C, Q)
    grams = torch.stack([piece.gram for piece in sums])
    moments = torch.stack([piece.moments for piece in sums])
    squares = terms.unsqueeze(-1) * terms.unsqueeze(-2)  # (C, Q, Q)
    gram = torch.einsum("cqp,ckl->qkpl", squares, grams)
    size = gram.shape[0] * gram.shape[1]
    moment = torch.einsum("cq,ckr->qkr", terms, moments)
    return gram.reshape(size, size), moment.flatten(0, 1)


def regularised(gram: Tensor, ridge: float, moments: Tensor) -> Tensor:
    """(G + λ I)⁻¹ M, which rounding may not make indefinite."""
    rounding = 1e-14 * gram.diagonal().mean()
    shifted = gram.clone()
    shifted.diagonal().add_(ridge + rounding)
    factor, failed = torch.linalg.cholesky_ex(shifted)
    if int(failed):
        return torch.linalg.lstsq(shifted, moments, driver="gelsd").solution
    return torch.cholesky_solve(moments, factor)


@dataclass(frozen=True)
class Tried:
    """Settings that are tried where they are not given, and the effort for it.

    Attributes:
        degrees: in the latents; pulses want the high ones.
        context_degrees: total degrees in the context.
        ridges: relative to monomials of size one, the largest first.
        first: ridge that is tried first.
        rows: snapshots from which settings are chosen.
        monomials: most of them beyond degree two.
        unknowns: most coefficients of a component: monomials times terms of the context.
        gain: share of the error that a less plain setting has to reach, so that ties go to the plain
            one.
    """

    degrees: Shape = (1, 2, 3, 4, 5, 6, 7, 9)
    context_degrees: Shape = (0, 1, 2, 3)
    ridges: Floats = tuple(10.0**-power for power in range(11))
    first: float = 1e-6
    rows: int = 4000
    monomials: int = 130
    unknowns: int = 700
    gain: float = 0.97


@dataclass(frozen=True)
class Settings:
    """Settings of the decoder's polynomial; None is to be chosen."""

    degree: int | None
    context_degree: int | None
    warp: Names | None
    ridge: float | None


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


def simplest(trials: Sequence[Trial], worse: float | None = 0.1, enough_folds: int = 5) -> Trial:
    """Return the first of the trials, plain ones first, that is within one standard error of the
    best.

    Args:
        trials: in the order of their degrees.
        worse: share of the smallest error by which it may be larger at most, since a smaller
            projection error is not always a better rollout; None for any.
        enough_folds: folds from which on the scatter of their errors says how uncertain the mean is;
            of fewer none is worse: the scatter of three is known to half of itself, and two degrees
            would be equal by chance.

    Source: Breiman, Friedman, Olshen, Stone (1984), Classification and regression trees, section
    3.4.3, for the rule of one standard error.
    """
    best = min(trials, key=lambda trial: trial.error)
    tolerance = best.standard_error
    if worse is not None:
        tolerance = min(tolerance, worse * best.error)
        if len(best.of_folds) < enough_folds:
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
        tried: settings that are tried where none are given.
    """

    z: Tensor
    residual: Tensor
    c: Tensor
    terms: Callable[[Sequence[str], int], ContextTerms]
    division: Division
    kept: dict[int, list[Sums]] = field(default_factory=dict)
    tried: Tried = field(default_factory=Tried)

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
        gram, moments, _ = summed(self._sums(terms, monomials))
        weights = regularised(gram, settings.ridge * len(self.z), moments)  # (Q K, R)
        return weights.unflatten(0, (len(terms), -1))

    def _features(self, settings: Settings) -> tuple[ContextTerms, Monomials]:
        """Functions of the context and of the latents of which features are products."""
        terms = self.terms(settings.warp, settings.context_degree)
        return terms, Monomials(self.z.shape[1], settings.degree)

    def validation_contexts(self) -> Tensor:
        """Return contexts (C, p) of the pieces that are left out, one fold after the other."""
        begins = [self.division.pieces[k][0] for fold in self.division.folds for k in fold]
        return self.c[torch.stack(begins)]

    def drop_folds(self, settings: Settings) -> Pair:
        """`validation_contexts`, and the coefficients of the monomials there (C, K, R), of least
        squares without the fold of each.
        """
        terms, monomials = self._features(settings)
        contexts = self.validation_contexts()
        values = iter(terms(contexts))  # (C, Q)
        coefficients = []
        for system in self._systems(self._sums(terms, monomials)):
            ridge = settings.ridge * system.rows
            weights = regularised(system.gram, ridge, system.moments)  # (Q K, R)
            weights = weights.unflatten(0, (len(terms), -1))
            for _ in system.fold:
                coefficients.append(torch.einsum("q,qkr->kr", next(values), weights))
        return contexts, torch.stack(coefficients)

    def thinned(self) -> "LeftOut":
        """Division with every k-th snapshot, of so many that a choice of settings needs no more."""
        step = math.ceil(len(self.z) / self.tried.rows)
        if step == 1:
            return self
        pieces = [piece[::step] for piece in self.division.pieces]
        return replace(self, division=self.division._replace(pieces=pieces), kept={})

    def _best(self, settings: Settings, best: dict[int, Trial]) -> dict[int, Trial]:
        """Return the better of `best` of each degree and the best of the settings that are not
        given.
        """
        known_warp = bool(best)
        best = dict(best)
        for candidate in self._candidates(settings):
            # without a context the warp makes no difference
            if known_warp and candidate.context_degree == 0:
                continue
            trial = self._ridged(candidate)
            before = best.get(candidate.degree)
            # at least one trial, were all of them infinite
            if before is None or trial.error < self.tried.gain * before.error:
                best[candidate.degree] = trial
        return best

    def _ridged(self, settings: Settings) -> Trial:
        """Return the ridge with the smallest error: downhill from a middle one, to larger ones
        first.
        """
        sums = self._sums(*self._features(settings))
        systems = self._systems(sums)

        def trial(ridge: float) -> Trial:
            return Trial(replace(settings, ridge=ridge), *self._error(sums, systems, ridge))

        if settings.ridge is not None:
            return trial(settings.ridge)
        ridges = self.tried.ridges
        middle = trial(self.tried.first)
        start = ridges.index(self.tried.first)
        best = _downhill(map(trial, ridges[:start][::-1]), middle)
        if best is middle:
            best = _downhill(map(trial, ridges[start + 1 :]), middle)
        return best

    def _candidates(self, settings: Settings) -> Iterator[Settings]:
        """Yield settings with degrees, plain ones first."""
        tried = self.tried
        m = self.z.shape[1]
        degrees = [settings.degree]
        if settings.degree is None:
            largest = min(tried.monomials, len(self.z))
            sizes = {degree: len(Monomials(m, degree)) for degree in tried.degrees}
            degrees = [degree for degree, size in sizes.items() if degree <= 2 or size <= largest]
        for degree in degrees:
            size = len(Monomials(m, degree))
            for context_degree in self._context_degrees(settings, size):
                yield replace(settings, degree=degree, context_degree=context_degree)

    def _context_degrees(self, settings: Settings, size: int) -> list[int]:
        """Degrees in the context that are tried beside so many monomials."""
        if settings.context_degree is not None:
            return [settings.context_degree]
        degrees = [0]
        for degree in self.tried.context_degrees[1:]:
            terms = len(self.terms(settings.warp, degree))
            determined = 1 < terms <= self.division.most_terms
            if determined and terms * size <= self.tried.unknowns:
                degrees.append(degree)
        return degrees

    def _systems(self, sums: "list[Sums]") -> "list[NormalEquations]":
        """Return normal equations without each fold."""
        gram, moments, rows = summed(sums)
        systems = []
        for fold in self.division.folds:
            # sums without a fold are those of all, less its own: a fit costs no pass over the data
            of_gram, of_moments, of_rows = summed([sums[k] for k in fold])
            left = gram - of_gram, moments - of_moments, rows - of_rows
            systems.append(NormalEquations(*left, fold))
        return systems

    def _error(
        self, sums: "list[Sums]", systems: "list[NormalEquations]", ridge: float
    ) -> tuple[float, Tensor]:
        """Root mean square error on all snapshots that are left out in turn, and those of folds."""
        squares, counts = [], []
        for system in systems:
            weights = regularised(system.gram, ridge * system.rows, system.moments)
            square = count = 0
            for k in system.fold:
                residual = self.residual[self.division.pieces[k]]
                square += (sums[k].fitted(weights) - residual).square().sum()
                count += len(residual)
            squares.append(square)
            counts.append(count)
        total, number = torch.stack(squares), torch.tensor(counts)
        mean = total.sum() / number.sum().clamp(min=1)
        return float(mean) ** 0.5, (total / number.clamp(min=1)).sqrt()

    def _sums(self, terms: ContextTerms, monomials: Monomials) -> list[Sums]:
        pieces = self.division.pieces
        # of all pieces at once: each call costs as much as a thousand snapshots
        of_contexts = self._piece_rows(terms(self.c[torch.cat(pieces)]))  # (N, Q) each
        sums = []
        for piece, of_context, latents in zip(
            pieces, of_contexts, self._latent_sums(monomials), strict=True
        ):
            if len(piece) > 0 and bool((of_context == of_context[0]).all()):
                sums.append(latents._replace(terms=of_context[0]))
                continue
            products = of_context.unsqueeze(-1) * latents.features.unsqueeze(-2)  # (N, Q, K)
            sums.append(Sums.sum_products(products.flatten(-2), self.residual[piece]))
        return sums

    def _latent_sums(self, monomials: Monomials) -> list[Sums]:
        """Return sums of the monomials alone, of each piece."""
        degree = monomials.degree
        if degree not in self.kept:
            pieces = self.division.pieces
            features = self._piece_rows(monomials(self.z[torch.cat(pieces)]))  # (N, K) each
            self.kept[degree] = [
                Sums.sum_products(of_piece, self.residual[piece])
                for piece, of_piece in zip(pieces, features, strict=True)
            ]
        return self.kept[degree]

    def _piece_rows(self, rows: Tensor) -> TensorTuple:
        """Return rows of all pieces, one after the other, as those of each piece."""
        return rows.split([len(piece) for piece in self.division.pieces])


def _downhill(trials: Iterable[Trial], best: Trial) -> Trial:
    """Return the last of the trials, and of the best so far, before the error no longer falls."""
    for trial in trials:
        if trial.error >= best.error:
            break
        best = trial
    return best
