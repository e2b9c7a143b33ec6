"""Encoders and decoders that are sequences of steps, and conditioning by concatenation."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from romkit.broadcast import align
from romkit.projections.maps import EncoderDecoder
from romkit.types import Dual, Jet


class Step(Protocol):
    """One step of a network at a fixed context, with its tangent."""

    def __call__(self, x: Tensor) -> Tensor: ...

    def jvp(self, x: Tensor, v: Tensor) -> Dual: ...


class DecoderStep(Step, Protocol):
    """One that can also be followed along a curve."""

    def jet(self, curve: Jet) -> Jet: ...


class Activation(Protocol):
    """A scalar function with its derivatives."""

    def __call__(self, x: Tensor) -> Tensor: ...

    def value_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]: ...

    def value_slope_and_bend(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]: ...


class Pointwise(NamedTuple):
    """An activation, component by component."""

    activation: Activation

    def __call__(self, x: Tensor) -> Tensor:
        return self.activation(x)

    def jvp(self, x: Tensor, v: Tensor) -> Dual:
        value, slope = self.activation.value_and_slope(x)
        return Dual(value, slope * v)

    def jet(self, curve: Jet) -> Jet:
        return curve.through(*self.activation.value_slope_and_bend(curve.value))


class LastStep(NamedTuple):
    """The last step of a decoder, y = shift + a W, apart from those from its input to a: W (k, n), shift (..., n)."""

    steps: list[DecoderStep]
    weight: Tensor
    shift: Tensor


class Networks(EncoderDecoder):
    """An encoder and a decoder, each a sequence of steps."""

    def __init__(self, encoder: Sequence[Step], decoder: Sequence[DecoderStep]):
        self.encoder, self.decoder = encoder, decoder

    def last_layer(self) -> tuple[EncoderDecoder, Tensor, Tensor] | None:
        if not hasattr(self.decoder[-1], "last"):
            return None
        steps, weight, shift = self.decoder[-1].last()
        return Networks([], [*self.decoder[:-1], *steps]), weight, shift

    def encode(self, y: Tensor) -> Tensor:
        return run(self.encoder, y)

    def decode(self, z: Tensor) -> Tensor:
        return run(self.decoder, z)

    def encode_jvp(self, y: Tensor, v: Tensor) -> Dual:
        return run_jvp(self.encoder, y, v)

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        return run_jvp(self.decoder, z, w)

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        return run_jet(self.decoder, Jet(z, w, torch.zeros_like(w))).acceleration


class Joint(EncoderDecoder):
    """Maps whose encoder sees the joint vector (y, c), and whose decoder gives it or y alone, as maps of y (..., n)."""

    def __init__(self, maps: EncoderDecoder, c: Tensor, n: int):
        self.maps, self.c, self.n = maps, c, n

    def encode(self, y: Tensor) -> Tensor:
        return self.maps.encode(self._join(y))

    def decode(self, z: Tensor) -> Tensor:
        return self.maps.decode(z)[..., : self.n]

    def encode_jvp(self, y: Tensor, v: Tensor) -> Dual:
        still = v.new_zeros(*v.shape[:-1], self.c.shape[-1])
        return self.maps.encode_jvp(self._join(y), torch.cat([v, still], dim=-1))

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        x, dx = self.maps.decode_jvp(z, w)
        return Dual(x[..., : self.n], dx[..., : self.n])

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        return self.maps.decode_curvature(z, w)[..., : self.n]

    def _join(self, y: Tensor) -> Tensor:
        """(y, c) along the last axis, the leading axes broadcast from the left."""
        c = align(self.c, y)
        lead = torch.broadcast_shapes(y.shape[:-1], c.shape[:-1])
        return torch.cat([y.expand(*lead, -1), c.expand(*lead, -1)], dim=-1)


def run(steps: Sequence[Step], x: Tensor) -> Tensor:
    """One step after the other."""
    for step in steps:
        x = step(x)
    return x


def run_jvp(steps: Sequence[Step], x: Tensor, v: Tensor) -> Dual:
    """The same, with a tangent."""
    for step in steps:
        x, v = step.jvp(x, v)
    return Dual(x, v)


def run_jet(steps: Sequence[DecoderStep], curve: Jet) -> Jet:
    """The same, along a curve."""
    for step in steps:
        curve = step.jet(curve)
    return curve
