"""Modes of snapshots in memory: by the method of snapshots, or randomised; and those merged from
parts.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.bases.base import Basis, Weight, weigher
from romkit.core import tensors
from romkit.core.boundary import Count, Numbers, Widths, validated
from romkit.core.errors import InputError

EXACT = 1500
"""Snapshots (or components, if fewer) up to which their Gram matrix is decomposed: half a second,
and 18 MB.
"""

OVERSAMPLING = 20
POWER = 2
"""Additional directions and passes of the randomised decomposition (Halko et al. 2011, section
1.3).
"""

Weigher = Callable[[Tensor], Tensor]


class Decomposition(NamedTuple):
    """Modes V (n, r) with Vᵀ W V = I, singular values (r,), and the energy Σ σₖ² of all snapshots,
    of every mode.

    Example:
        >>> import torch
        >>> from romkit.bases import decompose
        >>> modes, singular_values, energy = decompose(torch.diag(torch.tensor([3.0, 2.0, 1.0])).double(), rank=2)
        >>> modes.shape, singular_values, energy
        (torch.Size([3, 2]), tensor([3., 2.], dtype=torch.float64), tensor(14., dtype=torch.float64))
    """

    modes: Tensor
    singular_values: Tensor
    energy: Tensor


@validated
def decompose(x: Numbers, rank: Count, weigh: Weigher = lambda u: u) -> Decomposition:
    """The leading left singular vectors of centred snapshots, orthonormal in a metric.

    Up to `EXACT` snapshots or components by the Gram matrix of the smaller side (Sirovich 1987),
    and more of both by random directions and two passes (Halko, Martinsson, Tropp 2011). A
    Rayleigh-Ritz step on the subspace restores what squaring loses: singular values are accurate to
    rounding of the largest one.

    Args:
        x: (N, n) snapshots minus their mean, float64.
        rank: number of modes at most; directions that are zero to rounding are left out.
        weigh: u (n, k) -> W u.

    Raises:
        InputError: numbers that are not finite.

    Example:
        >>> import torch
        >>> from romkit.bases import decompose
        >>> x = torch.randn(100, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> found = decompose(x - x.mean(0), rank=3)
        >>> torch.allclose(found.modes.mT @ found.modes, torch.eye(3, dtype=torch.float64))
        True
    """
    tensors.matrix("x", x)
    weighted = weigh(x.mT).mT  # (N, n)
    energy = (x * weighted).sum()
    if not energy.item() < math.inf:
        fix = "give them in units in which they are not huge"
        raise InputError(
            "x",
            expected="squares that a float holds",
            got=f"an energy of {energy.item():g}",
            fix=fix,
        )
    if not energy > 0:
        return Decomposition(x.new_zeros(x.shape[1], 0), x.new_zeros(0), energy)
    return Decomposition(
        *ritz(weighted, _directions(x, weighted, rank, weigh), rank, weigh), energy
    )


def ritz(weighted: Tensor, subspace: Tensor, rank: int, weigh: Weigher) -> tuple[Tensor, Tensor]:
    """Leading singular vectors (n, r) and values (r,) of X within a subspace (n, k), by Rayleigh
    and Ritz.

    The largest component of a mode is positive, so that rounding does not decide its sign.

    Args:
        weighted: X W, (N, n).
        subspace: columns that span it.
        rank: number of modes at most; directions that are zero to rounding are left out.
        weigh: u (n, k) -> W u.
    """
    for _ in range(2):  # twice is enough (Giraud et al. 2005)
        subspace = orthonormalised(subspace, weigh)
    _, sigma, rotation = torch.linalg.svd(weighted @ subspace, full_matrices=False)
    kept = min(
        rank, int((sigma > sigma[:1] * torch.finfo(sigma.dtype).eps * max(weighted.shape)).sum())
    )
    modes = subspace @ rotation[:kept].mT
    return modes * modes.gather(0, modes.abs().argmax(0, keepdim=True)).sign(), sigma[:kept]


def _directions(x: Tensor, weighted: Tensor, rank: int, weigh: Weigher) -> Tensor:
    """(n, k) columns that span the leading modes, and some more where they are cheap."""
    count, n = x.shape
    if count <= min(n, EXACT):
        found = x.mT @ _leading(x @ weighted.mT, rank)
    elif n <= EXACT:
        unit = orthonormalised(torch.eye(n, dtype=x.dtype, device=x.device), weigh)
        found = unit @ _leading(unit.mT @ (weighted.mT @ weighted) @ unit, rank)
    else:
        return _random_directions(x, weighted, rank)
    # Squares of small singular values are lost in rounding; random directions see them.
    return (
        found if found.shape[-1] >= min(rank, count, n) else _random_directions(x, weighted, rank)
    )


def _random_directions(x: Tensor, weighted: Tensor, rank: int) -> Tensor:
    """(n, k) random combinations of snapshots, turned towards the leading modes by `POWER` passes."""
    generator = torch.Generator().manual_seed(0)  # a basis is a function of its snapshots
    columns = min(rank + OVERSAMPLING, *x.shape)
    subspace = x.mT @ torch.randn(len(x), columns, generator=generator, dtype=x.dtype).to(x.device)
    for _ in range(POWER):
        subspace = x.mT @ torch.linalg.qr(weighted @ torch.linalg.qr(subspace).Q).Q
    return subspace


def _leading(gram: Tensor, rank: int) -> Tensor:
    """Eigenvectors of the largest eigenvalues, as far as these are more than rounding."""
    values, vectors = torch.linalg.eigh(gram)
    largest = slice(-min(rank + OVERSAMPLING, len(values)), None)
    keep = values[largest] > values[-1] * len(values) * torch.finfo(values.dtype).eps
    return vectors[:, largest][:, keep].flip(-1)


def orthonormalised(u: Tensor, weigh: Weigher) -> Tensor:
    """Columns with the same span that are orthonormal in the metric."""
    u = u / u.norm(dim=0)
    values, vectors = torch.linalg.eigh(u.mT @ weigh(u))
    keep = values > values[-1:] * torch.finfo(u.dtype).eps * len(values)
    return u @ (vectors[:, keep] / values[keep].sqrt())


class Summary(NamedTuple):
    """Number of snapshots, their mean (n,), and the decomposition of their deviations.

    Mean and energy are exact; modes that do not fit into the columns are left out.
    """

    count: int
    mean: Tensor
    found: Decomposition

    @classmethod
    def of(cls, x: Tensor, columns: int, weigh: Weigher) -> "Summary":
        """Summary of snapshots (N, n)."""
        mean = x.mean(0)
        return cls(len(x), mean, decompose(x - mean, columns, weigh))

    def merged(self, other: "Summary", columns: int, weigh: Weigher) -> "Summary":
        """Summary of both sets of snapshots.

        Source: Himpe, Leibner, Rave (2018), Hierarchical approximate proper orthogonal
        decomposition; Ross et al. (2008) for the mean.
        """
        count = self.count + other.count
        apart = (self.count * other.count / count) ** 0.5 * (self.mean - other.mean)
        factors = (each.found.modes * each.found.singular_values for each in (self, other))
        found = decompose(torch.cat([*factors, apart.unsqueeze(-1)], dim=-1).mT, columns, weigh)
        energy = (
            self.found.energy + other.found.energy + apart @ weigh(apart.unsqueeze(-1)).squeeze(-1)
        )
        mean = (self.count * self.mean + other.count * other.mean) / count
        return Summary(count, mean, found._replace(energy=energy))

    @property
    def share(self) -> Tensor:
        """(k,) share of the energy that the first modes hold."""
        return self.found.singular_values.square().cumsum(0) / self.found.energy

    def basis(self, rank: int, weight: Weight = None) -> Basis:
        """Basis of the first `rank` modes; W is that of the decomposition.

        Raises:
            InputError: fewer modes.
        """
        if rank > (found := len(self.share)):
            expected = f"at most {found}, the directions of the snapshots"
            raise InputError(
                "rank", expected=expected, got=rank, fix="lower it, or give snapshots that differ"
            )
        modes, sigma = self.found.modes[:, :rank], self.found.singular_values[:rank]
        return Basis(modes, self.mean, weight, singular_values=sigma, energy=self.share[:rank])


@validated
def merge(parts: Sequence[Basis], counts: Widths, rank: Count = 64, weight: Weight = None) -> Basis:
    """The basis of snapshots of which only the bases of parts are at hand; merged ones can be
    merged again.

    Mean and energy are exact. Modes are those of what the parts kept: give these more modes than
    are asked for here. The energy that is left out is at most that of the best basis and what the
    parts left out; `energy` counts both.

    Args:
        parts: bases by `romkit.basis` or `merge`.
        counts: the number of snapshots of each.
        rank: number of modes.
        weight: W of the inner product, that of the parts.

    Raises:
        InputError: parts of different sizes, without energy, or in another inner product; more
            modes than they have.

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
    if len(parts) != len(counts):
        got, fix = (
            f"{len(counts)} for {len(parts)} parts",
            "give the number of snapshots of each part",
        )
        raise InputError("counts", expected="one for each part", got=got, fix=fix)
    weigh, summaries = weigher(weight, parts[0].size), []
    columns = max(rank, *(part.rank for part in parts)) + OVERSAMPLING
    for k, (part, count) in enumerate(zip(parts, counts, strict=True)):
        if part.size != parts[0].size:
            got, fix = f"{part.size} components, not {parts[0].size}", "use data on one grid"
            raise InputError(f"parts[{k}]", expected="a basis like the first", got=got, fix=fix)
        sigma, share = part.singular_values, part.energy
        if sigma is None or share is None:
            fix = "make it by romkit.basis"
            raise InputError(
                f"parts[{k}]",
                expected="a basis with singular values and energy",
                got="none",
                fix=fix,
            )
        if not torch.allclose(
            weigh(part.modes), part.dual, rtol=1e-8, atol=1e-12 * part.dual.abs().max().item()
        ):
            fix = "give the weight of the parts"
            raise InputError("weight", expected=f"that of parts[{k}]", got="another", fix=fix)
        found = Decomposition(part.modes, sigma, sigma.square().sum() / share[-1])
        summaries.append(Summary(count, part.mean, found))
    whole = functools.reduce(lambda a, b: a.merged(b, columns, weigh), summaries)
    return whole.basis(rank, weight)
