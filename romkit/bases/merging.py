"""Bases of parts of the data, by many tasks say, as one basis of all of them."""

import functools
from collections.abc import Sequence

import torch

from romkit.bases.base import Basis
from romkit.bases.decomposition import OVERSAMPLING
from romkit.bases.summary import Summary
from romkit.bases.weights import Weight, weigher
from romkit.boundary import Count, Widths, checked
from romkit.errors import InputError


@checked
def merge(parts: Sequence[Basis], counts: Widths, rank: Count = 64, weight: Weight = None) -> Basis:
    """The basis of snapshots of which only the bases of parts are at hand; merged ones can be merged again.

    Mean and energy are exact. Modes are those of what the parts kept: give these more modes than are asked for here.
    The energy that is left out is at most that of the best basis and what the parts left out; `energy` counts both.

    Args:
        parts: bases by `romkit.basis` or `merge`.
        counts: the number of snapshots of each.
        rank: number of modes.
        weight: W of the inner product, that of the parts.

    Raises:
        InputError: parts of different sizes, without energy, or in another inner product; more modes than they have.

    Source: Himpe, Leibner, Rave (2018), Hierarchical approximate proper orthogonal decomposition.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> snapshots = np.random.default_rng(0).normal(size=(50, 6))
        >>> parts = [romkit.basis(snapshots[:20], rank=6), romkit.basis(snapshots[20:], rank=6)]
        >>> merged, whole = romkit.bases.merge(parts, [20, 30], rank=3), romkit.basis(snapshots, rank=3)
        >>> np.allclose(merged.singular_values, whole.singular_values)
        True
    """
    _check(parts, counts)
    weigh = weigher(weight, parts[0].size)
    for k, part in enumerate(parts):
        if not torch.allclose(weigh(part.modes), part.dual, rtol=1e-8, atol=1e-12 * part.dual.abs().max().item()):
            raise InputError("weight", expected=f"that of parts[{k}]", got="another", fix="give theirs")
    columns = max(rank, *(part.rank for part in parts)) + OVERSAMPLING
    summaries = (_summary(part, count) for part, count in zip(parts, counts, strict=True))
    whole = functools.reduce(lambda a, b: a.merged(b, columns, weigh), summaries)
    if rank > whole.factor.shape[1]:
        expected = f"at most {whole.factor.shape[1]}, the directions of the parts"
        raise InputError("rank", expected=expected, got=str(rank), fix="give a smaller one")
    factor = whole.factor[:, :rank]
    sigma = (factor * weigh(factor)).sum(0).sqrt()
    share = sigma.square().cumsum(0) / whole.energy
    return Basis(factor / sigma, whole.mean, weight, singular_values=sigma, energy=share)


def _check(parts: Sequence[Basis], counts: Sequence[int]) -> None:
    if len(parts) != len(counts):
        got, fix = f"{len(counts)} for {len(parts)} parts", "give the number of snapshots of each part"
        raise InputError("counts", expected="one for each part", got=got, fix=fix)
    for k, part in enumerate(parts):
        if part.size != parts[0].size:
            got, fix = f"{part.size} components, not {parts[0].size}", "use data on one grid"
            raise InputError(f"parts[{k}]", expected="a basis like the first", got=got, fix=fix)
        if part.singular_values is None or part.energy is None:
            fix = "make it by romkit.basis"
            raise InputError(f"parts[{k}]", expected="a basis with singular values and energy", got="none", fix=fix)


def _summary(part: Basis, count: int) -> Summary:
    sigma = part.singular_values
    return Summary(count, part.mean, part.modes * sigma, sigma.square().sum() / part.energy[-1])
