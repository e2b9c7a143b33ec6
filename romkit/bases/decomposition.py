"""Leading singular vectors of snapshots: by the method of snapshots, or randomised where there are many of them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from romkit import arrays
from romkit.boundary import Count, Numbers, checked, hook
from romkit.errors import InputError

EXACT = 1500
"""Snapshots (or components, if fewer) up to which their Gram matrix is decomposed: half a second, and 18 MB."""

OVERSAMPLING = 20
POWER = 2
"""Additional directions and passes of the randomised decomposition (Halko et al. 2011, section 1.3)."""

Weigher = Callable[[Tensor], Tensor]


@hook
class Decomposition(NamedTuple):
    """Modes V (n, r) with Vᵀ W V = I, singular values (r,), and the energy Σ σₖ² of all snapshots, of every mode.

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


@checked
def decompose(x: Numbers, rank: Count, weigh: Weigher = lambda u: u) -> Decomposition:
    """The leading left singular vectors of centred snapshots, orthonormal in a metric.

    Up to `EXACT` snapshots or components by the Gram matrix of the smaller side (Sirovich 1987), and more of both by
    random directions and two passes (Halko, Martinsson, Tropp 2011). A Rayleigh-Ritz step on the subspace restores what
    squaring loses: singular values are accurate to rounding of the largest one.

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
    arrays.matrix("x", x)
    weighted = weigh(x.mT).mT  # (N, n)
    energy = (x * weighted).sum()
    if not energy.item() < math.inf:
        fix = "give them in units in which they are not huge"
        raise InputError("x", expected="squares that a float holds", got=f"an energy of {energy.item():g}", fix=fix)
    if not energy > 0:
        return Decomposition(x.new_zeros(x.shape[1], 0), x.new_zeros(0), energy)
    return Decomposition(*ritz(weighted, _directions(x, weighted, rank, weigh), rank, weigh), energy)


def ritz(weighted: Tensor, subspace: Tensor, rank: int, weigh: Weigher) -> tuple[Tensor, Tensor]:
    """Leading singular vectors (n, r) and values (r,) of X within a subspace (n, k), by Rayleigh and Ritz.

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
    kept = min(rank, int((sigma > sigma[:1] * torch.finfo(sigma.dtype).eps * max(weighted.shape)).sum()))
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
    return found if found.shape[-1] >= min(rank, count, n) else _random_directions(x, weighted, rank)


def _random_directions(x: Tensor, weighted: Tensor, rank: int) -> Tensor:
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
