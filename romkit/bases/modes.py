"""Modes of snapshots in memory: by the method of snapshots, or randomised; and those merged from
parts.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.bases.base import Basis, Weight, weigher
from romkit.core import tensors
from romkit.core.boundary import Count, Numbers, Widths, validated
from romkit.core.errors import InputError
from romkit.core.types import Pair

EXACT = 1500
"""Snapshots (or components, if fewer) up to which their Gram matrix is decomposed: half a second,
and 18 MB.
"""

OVERSAMPLING = 20
"""Additional directions of the randomised decomposition (Halko et al. 2011, section 1.3)."""

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
    """Return the leading left singular vectors of centred snapshots, orthonormal in a metric.

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
        >>> modes, singular_values, energy = decompose(x - x.mean(0), rank=3)
        >>> torch.allclose(modes.mT @ modes, torch.eye(3, dtype=torch.float64))
        True
    """
    tensors.matrix("x", x)
    weighted = weigh(x.mT).mT  # (N, n)
    # in pieces of a million numbers, whose products need no memory to speak of
    rows = max(1, 2**20 // x.shape[1])
    pieces = zip(x.split(rows), weighted.split(rows), strict=True)
    energy = torch.stack([(part * of_part).sum() for part, of_part in pieces]).sum()
    if not energy < math.inf:
        raise InputError(
            "x",
            expected="squares that a float holds",
            got=f"an energy of {energy.item():g}",
            fix="give them in units in which they are not huge",
        )
    if not energy > 0:
        no_modes = x.new_zeros(x.shape[1], 0)
        return Decomposition(no_modes, x.new_zeros(0), energy)
    subspace = _directions(x, weighted, rank, weigh)
    modes, singular_values = ritz(weighted, subspace, rank, weigh)
    return Decomposition(modes, singular_values, energy)


def ritz(weighted: Tensor, subspace: Tensor, rank: int, weigh: Weigher) -> Pair:
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
    # The backward error of the decomposition: smaller singular values are rounding.
    rounding = torch.finfo(sigma.dtype).eps * max(weighted.shape) * sigma[:1]
    rank = min(rank, int((sigma > rounding).sum()))
    modes = subspace @ rotation[:rank].mT  # (n, r)
    largest = modes.abs().argmax(0, keepdim=True)  # (1, r)
    sign = modes.gather(0, largest).sign()
    return modes * sign, sigma[:rank]


def _directions(x: Tensor, weighted: Tensor, rank: int, weigh: Weigher) -> Tensor:
    """(n, k) columns that span the leading modes, and some more where they are cheap."""
    count, n = x.shape
    if count > EXACT and n > EXACT:
        return _random_directions(x, weighted, rank)
    if count <= min(n, EXACT):
        gram = x @ weighted.mT  # (N, N)
        directions = x.mT @ _leading(gram, rank)
    else:
        unit = orthonormalised(torch.eye(n, dtype=x.dtype, device=x.device), weigh)
        gram = unit.mT @ (weighted.mT @ weighted) @ unit  # (n, n)
        directions = unit @ _leading(gram, rank)
    if directions.shape[-1] >= min(rank, count, n):
        return directions
    # Squares of small singular values are lost in rounding; random directions see them.
    return _random_directions(x, weighted, rank)


def _random_directions(x: Tensor, weighted: Tensor, rank: int, *, power: int = 2) -> Tensor:
    """(n, k) random combinations of snapshots, turned towards the leading modes by `power` passes
    (Halko et al. 2011, section 1.3).
    """
    # A seed of its own: a basis is a function of its snapshots.
    generator = torch.Generator().manual_seed(0)
    columns = min(rank + OVERSAMPLING, *x.shape)
    mixing = torch.randn(len(x), columns, generator=generator, dtype=x.dtype).to(x.device)
    subspace = x.mT @ mixing
    for _ in range(power):
        # Orthonormal columns between the products, or all of them turn into the first mode.
        orthonormal = torch.linalg.qr(subspace).Q
        subspace = x.mT @ torch.linalg.qr(weighted @ orthonormal).Q
    return subspace


def _leading(gram: Tensor, rank: int) -> Tensor:
    """Eigenvectors of the largest eigenvalues, as far as these are more than rounding."""
    values, vectors = torch.linalg.eigh(gram)
    number = min(rank + OVERSAMPLING, len(values))
    rounding = values[-1] * len(values) * torch.finfo(values.dtype).eps
    keep = values[-number:] > rounding
    # eigh sorts upwards
    return vectors[:, -number:][:, keep].flip(-1)


def orthonormalised(u: Tensor, weigh: Weigher) -> Tensor:
    """Return columns with the same span that are orthonormal in the metric."""
    length = u.norm(dim=0)
    nonzero = length > 0
    u = u[:, nonzero] / length[nonzero]
    values, vectors = torch.linalg.eigh(u.mT @ weigh(u))
    keep = values > values[-1:] * torch.finfo(u.dtype).eps * len(values)
    return u @ (vectors[:, keep] / values[keep].sqrt())


@dataclass(frozen=True)
class Summary:
    """Number of snapshots, their mean (n,), and the decomposition of their deviations.

    Mean and energy are exact; modes that do not fit into the columns are left out.
    """

    count: int
    mean: Tensor
    deviations: Decomposition

    @classmethod
    def summarise(cls, x: Tensor, columns: int, weigh: Weigher) -> "Summary":
        """Return summary of snapshots (N, n)."""
        mean = x.mean(0)
        return cls(len(x), mean, decompose(x - mean, columns, weigh))

    def merged(self, addition: "Summary", columns: int, weigh: Weigher) -> "Summary":
        """Return summary of both sets of snapshots.

        Source: Himpe, Leibner, Rave (2018), Hierarchical approximate proper orthogonal
        decomposition; Ross et al. (2008) for the mean.
        """
        count = self.count + addition.count
        mean = (self.count * self.mean + addition.count * addition.mean) / count
        # The scatter of both about their common mean is that of each, and a column for the means.
        weight = (self.count * addition.count / count) ** 0.5
        between = weight * (self.mean - addition.mean)  # (n,)
        factors = torch.cat([*self._factors(), *addition._factors(), between.unsqueeze(-1)], dim=-1)
        modes, sigma, _ = decompose(factors.mT, columns, weigh)
        between_energy = between @ weigh(between.unsqueeze(-1)).squeeze(-1)
        energy = self.deviations.energy + addition.deviations.energy + between_energy
        return Summary(count, mean, Decomposition(modes, sigma, energy))

    def _factors(self) -> list[Tensor]:
        """V Σ (n, k), whose outer product is the scatter of the snapshots."""
        return [self.deviations.modes * self.deviations.singular_values]

    @property
    def share(self) -> Tensor:
        """(k,) share of the energy that the first modes hold."""
        return self.deviations.singular_values.square().cumsum(0) / self.deviations.energy

    def basis(self, rank: int, weight: Weight = None) -> Basis:
        """Basis of the first `rank` modes; W is that of the decomposition.

        Raises:
            InputError: fewer modes.
        """
        share = self.share
        if rank > len(share):
            raise InputError(
                "rank",
                expected=f"at most {len(share)}, the directions of the snapshots",
                got=rank,
                fix="lower it, or give snapshots that differ",
            )
        return Basis(
            self.deviations.modes[:, :rank],
            self.mean,
            weight,
            singular_values=self.deviations.singular_values[:rank],
            energy=share[:rank],
        )


@validated
def merge(parts: Sequence[Basis], counts: Widths, rank: Count = 64, weight: Weight = None) -> Basis:
    """Return the basis of snapshots of which only the bases of parts are at hand; merged ones can
    be merged again.

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
        >>> merged = romkit.bases.merge(parts, [20, 30], rank=3)
        >>> at_once = romkit.basis(snapshots, rank=3)
        >>> np.allclose(merged.singular_values, at_once.singular_values)
        True
    """
    if len(parts) != len(counts):
        raise InputError(
            "counts",
            expected="one for each part",
            got=f"{len(counts)} for {len(parts)} parts",
            fix="give the number of snapshots of each part",
        )
    size = parts[0].size
    weigh = weigher(weight, size)
    summaries = []
    for k, (basis, count) in enumerate(zip(parts, counts, strict=True)):
        name = f"parts[{k}]"
        # refuse unless a basis can be merged with ones of this size and inner product
        if basis.size != size:
            raise InputError(
                name,
                expected="a basis like the first",
                got=f"{basis.size} components, not {size}",
                fix="use data on one grid",
            )
        if basis.singular_values is None or basis.energy is None:
            raise InputError(
                name,
                expected="a basis with singular values and energy",
                got="none",
                fix="make it by romkit.basis",
            )
        scale = basis.dual.abs().max().item()
        if not torch.allclose(weigh(basis.modes), basis.dual, rtol=1e-8, atol=1e-12 * scale):
            raise InputError(
                "weight",
                expected=f"that of {name}",
                got="another",
                fix="give the weight of the parts",
            )
        sigma = basis.singular_values
        assert sigma is not None  # as of all that were computed
        assert basis.energy is not None
        energy = sigma.square().sum() / basis.energy[-1]
        summaries.append(Summary(count, basis.mean, Decomposition(basis.modes, sigma, energy)))
    largest = max(basis.rank for basis in parts)
    columns = max(rank, largest) + OVERSAMPLING
    total = functools.reduce(lambda a, b: a.merged(b, columns, weigh), summaries)
    return total.basis(rank, weight)
