"""Layer pairs that invert each other, with slopes and biases that follow the context."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from romkit.core.broadcast import align, matmul
from romkit.core.types import Pair
from romkit.projections.activations import Hyperbola, inverse_pair
from romkit.projections.networks import Affine, Centred, Networks, Step, pointwise, uniform

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
        bound = 1 / math.sqrt(signal)
        self.weight = nn.Parameter(uniform((signal, size), bound, generator))

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
        bound = 0.1 / math.sqrt(signal)
        self.weight = nn.Parameter(uniform((signal, size), bound, generator))
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
        encoder: list[Step] = []
        decoder: list[Step] = []
        for phi, psi, beta, minus, plus in layers:
            encoder = [Centred(psi, beta), partial(pointwise, minus.derivatives), *encoder]
            decoder += [partial(pointwise, plus.derivatives), Affine(phi.mT, beta)]
        super().__init__(encoder, decoder)


def layer_pairs(
    weights: Iterable[Pair],
    slopes: nn.ModuleList,
    biases: nn.ModuleList,
    signal: Tensor,
) -> LayerPairs:
    """Layers with weights (Φ, Ψ), slopes and biases at a signal."""
    layers = []
    for pair, slope, bias in zip(weights, slopes, biases, strict=True):
        minus, plus = inverse_pair(slope(signal))
        layers.append(LayerPair(*pair, bias(signal), minus, plus))
    return LayerPairs(layers)
