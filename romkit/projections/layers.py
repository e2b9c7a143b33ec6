"""Layer pairs that invert each other: activations with their inverses, biorthogonal weights, slopes
and biases that follow the context.
"""

import abc
import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from romkit.core.broadcast import align, matmul
from romkit.projections.networks import (
    Affine,
    Centred,
    Networks,
    orthonormal,
    pointwise,
    uniform,
)


class Hyperbola(NamedTuple):
    """σ(x) = gain · x + offset + bend · √((2x + shift)² + floor), one branch of a hyperbola, with
    bound slope α.

    Each coefficient is (..., r), leading axes matching those of x from the left.
    """

    gain: Tensor
    offset: Tensor
    bend: Tensor
    shift: Tensor
    floor: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return self.derivatives(x, 0)[0]

    def derivatives(self, x: Tensor, order: int) -> tuple[Tensor, ...]:
        """σ(x) and its derivatives up to this order, at most two."""
        gain, offset, bend, shift, floor = (align(coefficient, x) for coefficient in self)
        u = torch.add(shift, x, alpha=2)
        root = torch.sqrt(torch.addcmul(floor, u, u))
        found = [torch.addcmul(torch.addcmul(offset, gain, x), bend, root)]
        if order > 0:
            found.append(torch.addcmul(gain, 2 * bend, u / root))
        if order > 1:
            found.append(4 * bend * floor / root**3)
        return tuple(found)


def inverse_pair(alpha: Tensor) -> tuple[Hyperbola, Hyperbola]:
    """(σ₋, σ₊) for slopes α in (-π/4, π/4); both are the identity at α = 0, and σ₋ ∘ σ₊ = id.

    With s = sin α, c = cos α: σ±(x) = [x ∓ √2 s c² ± s c √((2x ∓ √2 s)² + 2 cos 2α)] / cos 2α,
    whose slopes run from tan(π/4 - α) to tan(π/4 + α). This is the pair of Otto et al. (2023)
    (Adriaens et al. 2026, appendix "Activation functions") multiplied through by s² c², so that
    nothing is divided by sin α.
    """
    s, c, floor = torch.sin(alpha), torch.cos(alpha), 2 * torch.cos(2 * alpha)
    gain = 2 / floor
    offset, bend, shift = 2**0.5 * s * c * c * gain, s * c * gain, 2**0.5 * s
    return Hyperbola(gain, offset, -bend, shift, floor), Hyperbola(
        gain, -offset, bend, -shift, floor
    )


class Pair(nn.Module, abc.ABC):
    """The two matrices behind a layer's weights, equal and orthonormal at the start.

    Args:
        wide: n, the size on the state side.
        narrow: r, the size on the latent side.
        generator: source of the initial matrix.
    """

    def __init__(self, wide: int, narrow: int, generator: torch.Generator):
        super().__init__()
        basis = orthonormal(wide, narrow, generator)
        self.phi = nn.Parameter(basis.clone())
        self.psi = nn.Parameter(basis)

    @abc.abstractmethod
    def forward(self) -> tuple[Tensor, Tensor]:
        """Φ and Ψ, each (..., n, r)."""

    @staticmethod
    @abc.abstractmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """Term of the training loss for the matrices that `forward` gave, one value per seed."""


class BiorthogonalPair(Pair):
    """Φ = Φ̃ (Ψ̃ᵀ Φ̃)⁻¹, Ψ = Ψ̃ with free Φ̃, Ψ̃: exactly biorthogonal at every step of any
    optimizer.

    Φ is computed in float64 and rounded once, to the precision of the model: rounding errors of an
    inverse in float32 would be a large part of the idempotency error. A model trained in float32
    and cast to float64 satisfies Ψᵀ Φ = I to float64. Source: Otto, Macchio, Rowley (2023),
    "Learning nonlinear projections for reduced-order modeling of dynamical systems using
    constrained autoencoders".
    """

    def forward(self) -> tuple[Tensor, Tensor]:
        phi, psi = self.phi.double(), self.psi.double()
        # inv_ex neither synchronises a GPU nor raises for a whole stack because of one seed.
        return (phi @ torch.linalg.inv_ex(psi.mT @ phi).inverse).to(self.phi), self.psi

    @staticmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """‖Φ - Ψ‖²: zero at orthonormal weights, it keeps the pair well conditioned."""
        return (phi - psi).square().sum((-1, -2))


class FollowingWeight(nn.Module):
    """Φ(c) = Φ + (I - Φ Ψᵀ) Δ(c) with Δ(c) = Σₖ sₖ Aₖ, linear in the signal s and zero at the start.

    Ψᵀ Φ(c) = I for every Δ where Ψᵀ Φ = I: at a fixed Ψ the matrices with this property are an affine
    space. So Φ(c) needs no inverse at each context, and is as smooth as s.

    Args:
        signal: size d of s.
        wide, narrow: n and r of the pair.
    """

    def __init__(self, signal: int, wide: int, narrow: int):
        super().__init__()
        self.directions = nn.Parameter(torch.zeros(signal, wide, narrow))

    def forward(self, phi: Tensor, psi: Tensor, signal: Tensor) -> Tensor:
        """Φ(c) (..., n, r), of a pair that may have a seed axis and a signal (..., d)."""
        inside = psi.mT.unsqueeze(-3) @ self.directions  # (..., d, r, r)
        beside = self.directions - phi.unsqueeze(-3) @ inside  # (..., d, n, r)
        moved = matmul(signal, beside.flatten(-2)).unflatten(-1, phi.shape[-2:])
        return over_contexts(phi, moved) + moved


def over_contexts(matrix: Tensor, like: Tensor) -> Tensor:
    """A matrix (n, r), or one per seed (S, n, r), with axes put in for the contexts of `like` (...,
    n, r).
    """
    missing = like.ndim - matrix.ndim
    return matrix.reshape(*matrix.shape[:-2], *(1,) * missing, *matrix.shape[-2:])


class FreePair(Pair):
    """Φ and Ψ without a constraint, as in SoftNcAE."""

    def forward(self) -> tuple[Tensor, Tensor]:
        return self.phi, self.psi

    @staticmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """‖Ψᵀ Φ - I‖², the Euclidean penalty of the paper."""
        eye = torch.eye(phi.shape[-1], dtype=phi.dtype, device=phi.device)
        return (psi.mT @ phi - eye).square().sum((-1, -2))


SLOPE_RANGE = (math.pi / 30, math.pi / 6)
"""Interval that modulated slopes are confined to (Adriaens et al. 2026, appendix "Neuromodulation
details").
"""


MIDDLE_SLOPE = math.pi / 10
"""The middle of the range, and the slope of an NcAE whose modulation weights are zero."""


class FixedSlope(nn.Module):
    """α, the same for every unit and context."""

    def __init__(
        self, signal: int, size: int, generator: torch.Generator, *, alpha: float = MIDDLE_SLOPE
    ):
        super().__init__()
        self.alpha, self.size = alpha, size

    def forward(self, signal: Tensor) -> Tensor:
        return signal.new_full((self.size,), self.alpha)


class ModulatedSlope(nn.Module):
    """α = α_min + (α_max - α_min) · sigmoid(Wᵀ s), within `SLOPE_RANGE` at every context."""

    def __init__(self, signal: int, size: int, generator: torch.Generator):
        super().__init__()
        self.weight = nn.Parameter(uniform((signal, size), 1 / math.sqrt(signal), generator))

    def forward(self, signal: Tensor) -> Tensor:
        low, high = SLOPE_RANGE
        return low + (high - low) * torch.sigmoid(matmul(signal, self.weight))


class FixedBias(nn.Module):
    """β = b, a parameter that no context changes."""

    def __init__(self, signal: int, size: int, generator: torch.Generator):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, signal: Tensor) -> Tensor:
        return self.bias


class ModulatedBias(nn.Module):
    """β = Wᵀ s + b."""

    def __init__(self, signal: int, size: int, generator: torch.Generator):
        super().__init__()
        self.weight = nn.Parameter(uniform((signal, size), 0.1 / math.sqrt(signal), generator))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, signal: Tensor) -> Tensor:
        y = matmul(signal, self.weight)
        return y + align(self.bias, y)


class LayerPair(NamedTuple):
    """ρ(x) = σ₋(Ψᵀ (x - β); α) and φ(z) = Φ σ₊(z; α) + β (Adriaens et al. 2026, section 2.2).

    With σ₋ ∘ σ₊ = id and Ψᵀ Φ = I, φ is a right inverse of ρ.
    """

    phi: Tensor
    psi: Tensor
    beta: Tensor
    minus: Hyperbola
    plus: Hyperbola


class LayerPairs(Networks):
    """ρ = ρ⁽¹⁾ ∘ ... ∘ ρ⁽ᴸ⁾ and φ = φ⁽ᴸ⁾ ∘ ... ∘ φ⁽¹⁾, of layers from the latent side to the state."""

    def __init__(self, layers: Sequence[LayerPair]):
        self.layers = layers
        encoder, decoder = [], []
        for phi, psi, beta, minus, plus in layers:
            encoder = [Centred(psi, beta), partial(pointwise, minus.derivatives), *encoder]
            decoder += [partial(pointwise, plus.derivatives), Affine(phi.mT, beta)]
        super().__init__(encoder, decoder)


def layer_pairs(
    weights: Iterable[tuple[Tensor, Tensor]],
    slopes: nn.ModuleList,
    biases: nn.ModuleList,
    signal: Tensor,
) -> LayerPairs:
    """Layers with weights (Φ, Ψ), slopes and biases at a signal."""
    parts = zip(weights, slopes, biases, strict=True)
    return LayerPairs(
        [
            LayerPair(*pair, bias(signal), *inverse_pair(slope(signal)))
            for pair, slope, bias in parts
        ]
    )
