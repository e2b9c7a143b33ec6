"""Which snapshots are left out of a fit in turn: whole contexts, or blocks of time."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


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
        return max(min(self.contexts, 2), self.contexts - left_out)

    @classmethod
    def build(cls, c: Tensor, blocks: int = 5) -> "Division":
        """Division of snapshots with contexts c (N, p), in the order of time: by whole contexts, or
        in so many blocks of time where no context lies between others, or where contexts move.
        """
        rows = len(c)
        contexts, number = c[:1], torch.zeros(rows, dtype=torch.long)
        if c.shape[1]:
            contexts, number = c.unique(dim=0, return_inverse=True)
        count = len(contexts)
        if 3 * blocks < rows < 2 * count:
            pieces = list(torch.arange(rows).tensor_split(blocks))
            return cls(pieces, [[k] for k in range(blocks)], count)
        pieces = [torch.nonzero(number == k).flatten() for k in range(count)]
        inner = _inner(contexts)
        if inner:
            return cls(pieces, [[k] for k in inner], count)
        # blocks of each context, of which the k-th of all contexts are left out together
        parts = [part for piece in pieces for part in piece.tensor_split(blocks)]
        folds = [list(range(k, len(parts), blocks)) for k in range(blocks)]
        return cls(parts, folds, count)


def _inner(contexts: Tensor, folds: int = 8) -> list[int]:
    """Return numbers of contexts to leave out: every second one without which all ranges stay as
    they are and that is no corner of them, since a fit without it would extrapolate.
    """
    low = contexts.amin(0)
    high = contexts.amax(0)
    varies = high > low
    if not bool(varies.any()):
        return []
    at_low, at_high = contexts[:, varies] == low[varies], contexts[:, varies] == high[varies]
    outer = (at_low | at_high).all(1)  # corners
    for at_end in (at_low, at_high):  # (C, p)
        # without a single end of a parameter, a fit would have to extrapolate
        outer = outer | (at_end & (at_end.sum(0) == 1)).any(1)
    inside = torch.nonzero(~outer).flatten().tolist()
    # neighbours that are both left out would leave a gap that no later fit has
    if len(contexts) > 5:
        inside = inside[::2]
    step = max(1, math.ceil(len(inside) / folds))
    return inside[::step]
