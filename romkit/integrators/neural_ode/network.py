"""Small dense networks, one per seed of a stack, as plain tensors."""

import math

import torch
from torch import Tensor

from romkit.broadcast import align, matmul

CLIP = 1.0
"""Largest norm of a field's gradient."""

Layers = tuple[tuple[Tensor, Tensor], ...]
"""Weights (..., inputs, outputs) and biases (..., outputs); the leading axis, if any, is the stack."""


def random_layer(S: int, inputs: int, outputs: int, draw: torch.Generator, like: Tensor) -> tuple[Tensor, Tensor]:
    """Uniform in ±1 / √inputs, as torch.nn.Linear, and the same for each of the S fields."""
    values = (2 * torch.rand(inputs + 1, outputs, generator=draw, dtype=like.dtype) - 1) / math.sqrt(inputs)
    weight, bias = (part.expand(S, *part.shape).clone().requires_grad_() for part in (values[:-1], values[-1]))
    return weight, bias


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W + b along the last axis of x, for one layer or one per seed; b may have axes of x as well."""
    if x.ndim == weight.ndim == 3 and len(x) == len(weight):
        return torch.baddbmm(bias if bias.ndim == 3 else bias.unsqueeze(1), x, weight)
    y = matmul(x, weight)
    return y + align(bias, y)


def clip(gradients: list[Tensor]) -> None:
    """Scales the gradients (S, ...) of each field to a norm of at most CLIP."""
    norm = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
    for g in gradients:
        g.mul_((CLIP / norm.clamp(min=CLIP)).view(-1, *(1,) * (g.ndim - 1)))
