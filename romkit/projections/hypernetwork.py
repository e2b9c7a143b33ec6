"""From the context to slopes and biases: a shared embedding s = f(c), then one linear head per layer and channel."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from romkit.broadcast import align, matmul

SLOPE_RANGE = (math.pi / 30, math.pi / 6)
"""Interval that modulated slopes are confined to (Adriaens et al. 2026, appendix "Neuromodulation details")."""


class Linear(nn.Module):
    """x W + b with W (n, r), b (r,): like torch's, but its parameters may carry a leading seed axis."""

    def __init__(self, n: int, r: int, generator: torch.Generator, *, scale: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(uniform((n, r), scale / math.sqrt(max(n, 1)), generator))
        self.bias = nn.Parameter(uniform((r,), scale / math.sqrt(max(n, 1)), generator))

    def forward(self, x: Tensor) -> Tensor:
        y = matmul(x, self.weight)
        return y + align(self.bias, y)


class Embedding(nn.Module):
    """s = f(bandwidth · c): a fully connected network with SiLU between its layers, `sizes` = (p, ..., d)."""

    def __init__(self, sizes: Sequence[int], generator: torch.Generator, *, bandwidth: float = 1.0):
        super().__init__()
        self.bandwidth = bandwidth
        self.layers = nn.ModuleList(Linear(n, r, generator, scale=math.sqrt(3)) for n, r in pairwise(sizes))

    def forward(self, c: Tensor) -> Tensor:
        c = self.bandwidth * c
        for layer in self.layers[:-1]:
            c = torch.nn.functional.silu(layer(c))
        return self.layers[-1](c)


class FixedSlope(nn.Module):
    """α, the same for every unit and context."""

    def __init__(self, alpha: float, size: int):
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

    def __init__(self, size: int):
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


def uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> Tensor:
    """Uniform in [-bound, bound], drawn in float64 so that a seed means the same in every precision."""
    draw = torch.rand(shape, generator=generator, dtype=torch.float64)
    return ((2 * draw - 1) * bound).to(torch.get_default_dtype())
