"""Least squares of products of terms of the context and monomials of the latents, by sums over
pieces of the snapshots.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import Pair


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
        """Return sums of snapshots at contexts with these terms (N, Q)."""
        products = terms.unsqueeze(-1) * of_latents.monomials.unsqueeze(-2)  # (N, Q, K)
        features = products.flatten(-2)
        return cls(features, features.mT @ features, features.mT @ residual, None)

    def fitted(self, weights: Tensor) -> Tensor:
        """Return residual (N, R) by coefficients (Q K, R)."""
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


def summed(sums: Sequence[Sums]) -> tuple[Tensor, Tensor, int]:
    """Gram matrix (Q K, Q K), moments (Q K, R) and number of rows of several pieces."""
    rows = sum(len(piece.features) for piece in sums)
    if all(piece.terms is not None for piece in sums):
        return *_at_contexts(sums), rows
    grams, moments = [], []
    for piece in sums:
        of_gram, of_moments = piece.gram, piece.moments
        if piece.terms is not None:
            of_gram, of_moments = _at_contexts([piece])
        grams.append(of_gram)
        moments.append(of_moments)
    return functools.reduce(torch.add, grams), functools.reduce(torch.add, moments), rows


def _at_contexts(sums: Sequence[Sums]) -> Pair:
    """Gram matrix (Q K, Q K) and moments (Q K, R) of pieces at contexts that stay: sums of
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
