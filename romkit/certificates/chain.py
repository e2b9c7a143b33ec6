"""A map of a projection as a chain of affine steps and activations: the form in which it is certified."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.projections.activations import Hyperbola, ReLU, SiLU
from romkit.projections.layer_pairs import LayerDecoder, LayerEncoder
from romkit.projections.networks import Networks
from romkit.projections.unconstrained import Affine, Film, Pointwise

Activation = Hyperbola | ReLU | SiLU

STEEPEST = 2.399357280520547
"""SiLU's slope is largest at this number and smallest at its negative; the other slopes are monotone."""


class Linear(NamedTuple):
    """x -> A x + b, with A (r, n)."""

    matrix: Tensor
    bias: Tensor


class Layer(NamedTuple):
    """x -> σ(A x + b) of a chain, all in float64."""

    matrix: Tensor
    bias: Tensor
    activation: Activation


class Chain(NamedTuple):
    """x (..., n) -> C σ(... σ(A x + b) ...) + d: layers, and a last affine step."""

    layers: tuple[Layer, ...]
    last: Linear

    def value_and_jacobian(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Values (..., r) and Jacobians (..., r, n) at points (..., n)."""
        J = torch.eye(x.shape[-1], dtype=x.dtype).expand(*x.shape, -1)
        for matrix, bias, activation in self.layers:
            x, slope = activation.value_and_slope(x @ matrix.mT + bias)
            J = slope.unsqueeze(-1) * (matrix @ J)
        return x @ self.last.matrix.mT + self.last.bias, self.last.matrix @ J


def chain(maps: Networks, which: str, shift: Tensor, scale: Tensor) -> Chain:
    """The "encoder", "decoder" or "projection" of maps at one context, in physical units x = shift + scale · y."""
    inner = Linear(torch.diag(1 / scale), -shift / scale)
    outer = Linear(torch.diag(scale), shift)
    encoder, decoder = _parts(maps.encoder), _parts(maps.decoder)
    parts = {
        "encoder": [inner, *encoder],
        "decoder": [*decoder, outer],
        "projection": [inner, *_without_inverses(encoder, decoder), outer],
    }
    return _merged(parts[which])


def slope_range(activation: Activation, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Smallest and largest slope of each unit over its interval [low, high]."""
    ends = torch.stack([activation.value_and_slope(x)[1] for x in (low, high)])
    if isinstance(activation, SiLU):
        inside = [torch.full_like(low, x).clamp(low, high) for x in (STEEPEST, -STEEPEST)]
        ends = torch.stack([*ends, *(activation.value_and_slope(x)[1] for x in inside)])
    return ends.amin(0), ends.amax(0)


def _parts(steps: Iterable[object]) -> list[Linear | Activation]:
    return [part for step in steps for part in _PARTS[type(step)](step)]


def _without_inverses(
    encoder: list[Linear | Activation], decoder: list[Linear | Activation]
) -> list[Linear | Activation]:
    """One after the other, without σ₊ after the σ₋ of the same slopes: together they are the identity."""
    if isinstance(encoder[-1], Hyperbola) and isinstance(decoder[0], Hyperbola):
        encoder, decoder = encoder[:-1], decoder[1:]
    return [*encoder, *decoder]


def _merged(parts: Sequence[Linear | Activation]) -> Chain:
    layers, pending = [], None
    for part in parts:
        if isinstance(part, Linear):
            A, b = part
            pending = part if pending is None else Linear(A @ pending.matrix, A @ pending.bias + b)
        else:
            layers.append(Layer(*(pending or _identity(part)), part))
            pending = None
    return Chain(tuple(layers), pending or _identity_of(len(layers[-1].bias)))


def _identity(activation: Activation) -> Linear:
    """What comes before an activation that a chain begins with, which is one of a constrained autoencoder."""
    return _identity_of(activation.gain.shape[-1])


def _identity_of(size: int) -> Linear:
    return Linear(torch.eye(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64))


_PARTS = {
    LayerEncoder: lambda step: (Linear(step.psi.mT, -step.psi.mT @ step.beta), step.activation),
    LayerDecoder: lambda step: (step.activation, Linear(step.phi_t.mT, step.beta)),
    Affine: lambda step: (Linear(step.weight.mT, step.bias),),
    Film: lambda step: (Linear(torch.diag(step.gamma), step.beta),),
    Pointwise: lambda step: (step.activation,),
}
"""What each step of a network consists of."""
