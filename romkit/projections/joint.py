"""Conditioning by concatenation: maps of the joint vector (y, c), seen as maps of y at a fixed c."""

import torch
from torch import Tensor

from romkit.broadcast import align
from romkit.projections.base import EncoderDecoder
from romkit.types import Dual


def join(y: Tensor, c: Tensor) -> Tensor:
    """(y, c) along the last axis, the leading axes broadcast from the left."""
    c = align(c, y)
    lead = torch.broadcast_shapes(y.shape[:-1], c.shape[:-1])
    return torch.cat([y.expand(*lead, -1), c.expand(*lead, -1)], dim=-1)


def join_tangent(v: Tensor, c: Tensor) -> Tensor:
    """The tangent of `join` in y along v, at a fixed c."""
    return torch.cat([v, v.new_zeros(*v.shape[:-1], c.shape[-1])], dim=-1)


class JointEncoderDecoder(EncoderDecoder):
    """y -> ρ(y, c) and z -> the first n components of φ(z)."""

    def __init__(self, maps: EncoderDecoder, c: Tensor):
        self.maps, self.c = maps, c

    def encode(self, y: Tensor) -> Tensor:
        return self.maps.encode(join(y, self.c))

    def decode(self, z: Tensor) -> Tensor:
        return self._state(self.maps.decode(z))

    def encode_jvp(self, y: Tensor, v: Tensor) -> Dual:
        return self.maps.encode_jvp(join(y, self.c), join_tangent(v, self.c))

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        x, dx = self.maps.decode_jvp(z, w)
        return Dual(self._state(x), self._state(dx))

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        return self._state(self.maps.decode_curvature(z, w))

    def _state(self, joint: Tensor) -> Tensor:
        return joint[..., : joint.shape[-1] - self.c.shape[-1]]
