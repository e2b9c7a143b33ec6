"""Which snapshots are left out of a fit in turn: whole contexts, or blocks of time."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import Pair

FOLDS, BLOCKS = 8, 5
"""Most contexts that are left out in turn, and blocks in time where there are too few contexts."""


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
    def build(cls, c: Tensor) -> "Division":
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
            return cls._divide_blocks(pieces)
        folds = [[k] for k in inner]
        return cls(pieces, folds, count)

    @classmethod
    def _divide_blocks(cls, pieces: list[Tensor]) -> "Division":
        """Division of each context's snapshots into blocks of time, of which the k-th of all
        contexts are left out together.
        """
        blocks: list[Tensor] = []
        folds: list[list[int]] = [[] for _ in range(BLOCKS)]
        for piece in pieces:
            for fold, block in zip(folds, piece.tensor_split(BLOCKS), strict=True):
                fold.append(len(blocks))
                blocks.append(block)
        return cls(blocks, folds, len(pieces))


def _distinct(c: Tensor) -> Pair:
    """Return contexts (C, p) of snapshots with contexts (N, p), and the number of each snapshot's."""
    if c.shape[1] == 0:
        return c[:1], torch.zeros(len(c), dtype=torch.long)
    return c.unique(dim=0, return_inverse=True)


def _inner(contexts: Tensor) -> list[int]:
    """Return numbers of contexts to leave out: every second one without which all ranges stay as
    they are and that is no corner of them, since a fit without it would extrapolate.
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
    alone = _isolated(contexts, low) | _isolated(contexts, high)
    inside = torch.nonzero(~(corner | alone)).flatten().tolist()
    # neighbours that are both left out would leave a gap that no later fit has
    if len(contexts) > 5:
        inside = inside[::2]
    step = max(1, math.ceil(len(inside) / FOLDS))
    return inside[::step]


def _isolated(contexts: Tensor, end: Tensor) -> Tensor:
    """Tell whether a context (C, p) is the only one at an end (p,) of some parameter's range."""
    at_end = contexts == end  # (C, p)
    single = at_end.sum(0) == 1
    return (at_end & single).any(1)
