"""Building blocks of networks: layers, activations with their derivatives, and steps that are written
once for values, tangents and accelerations.
"""

import abc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from romkit.core.broadcast import align, matmul
from romkit.core.types import Dual, Shape, TensorTuple
from romkit.projections.maps import EncoderDecoder


def relu(x: Tensor, order: int) -> TensorTuple:
    """max(x, 0) and its derivatives up to this order."""
    value = torch.relu(x)
    if order == 0:
        return (value,)
    return (value, (x > 0).to(x.dtype), torch.zeros_like(x))[: order + 1]


def silu(x: Tensor, order: int) -> TensorTuple:
    """x · sigmoid(x) and its derivatives up to this order."""
    if order == 0:
        return (torch.nn.functional.silu(x),)
    gate = torch.sigmoid(x)
    value = x * gate
    slope = gate + value * (1 - gate)
    if order == 1:
        return value, slope
    curvature = gate * (1 - gate) * (2 + x - 2 * value)
    return value, slope, curvature


def _is_sizing() -> bool:
    """Tell whether sizes alone are asked for; arithmetic without numbers would import torch's
    compiler, which takes seconds.
    """
    return torch.get_default_device().type == "meta"


def orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """(rows, columns) matrix with orthonormal columns, uniformly distributed."""
    if _is_sizing():
        return torch.empty(rows, columns)
    gaussian = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    return (q * r.diagonal().sign()).to(torch.get_default_dtype()).contiguous()


class Linear(nn.Module):
    """x W + b with W (n, r), b (r,): like torch's, but its parameters may carry a leading seed
    axis.
    """

    def __init__(self, n: int, r: int, generator: torch.Generator, *, scale: float = 1.0):
        super().__init__()
        bound = scale / math.sqrt(max(n, 1))
        self.weight = nn.Parameter(uniform((n, r), bound, generator))
        self.bias = nn.Parameter(uniform((r,), bound, generator))

    def forward(self, x: Tensor) -> Tensor:
        y = matmul(x, self.weight)
        return y + align(self.bias, y)


class Linears(nn.ModuleList):
    """Linear layers."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Linear]: ...


def linears(sizes: Sequence[int], generator: torch.Generator) -> Linears:
    """Layers between these sizes."""
    layers = Linears()
    for n, r in pairwise(sizes):
        layers.append(Linear(n, r, generator, scale=math.sqrt(3)))
    return layers


class Embedding(nn.Module):
    """s = f(bandwidth · c): a fully connected network with SiLU between its layers, `sizes` = (p,
    ..., d).
    """

    def __init__(self, sizes: Sequence[int], generator: torch.Generator, *, bandwidth: float = 1.0):
        super().__init__()
        self.bandwidth = bandwidth
        self.layers = linears(sizes, generator)

    def forward(self, c: Tensor) -> Tensor:
        (signal,) = run(steps(self.layers, silu), (self.bandwidth * c,))
        return signal


def uniform(shape: Shape, bound: float, generator: torch.Generator) -> Tensor:
    """Uniform in [-bound, bound], drawn in float64 so that a seed means the same in every
    precision.
    """
    if _is_sizing():
        return torch.empty(shape)
    draw = torch.rand(shape, generator=generator, dtype=torch.float64)
    return ((2 * draw - 1) * bound).to(torch.get_default_dtype())


Curve = tuple[Tensor, ...]
"""(x,), (x, ẋ) or (x, ẋ, ẍ): a value, and as many of its derivatives along a curve as are needed."""


Step = Callable[[Curve], Curve]
"""Step of a network at a fixed context. It is written once for values, tangents and accelerations."""


Derivatives = Callable[[Tensor, int], tuple[Tensor, ...]]
"""(x, order) -> σ, σ', ... up to this order, component by component."""


def pointwise(sigma: Derivatives, x: Curve) -> Curve:
    """σ along a curve; `partial(pointwise, sigma)` is a step."""
    value, *rates = sigma(x[0], len(x) - 1)
    moved = [rates[0] * rate for rate in x[1:]]
    if len(x) == 3:
        _, bend = rates
        velocity = x[1]
        moved[1] = moved[1] + bend * velocity * velocity
    return value, *moved


def product(form: Callable[[Tensor, Tensor], Tensor], x: Curve, y: Curve) -> Curve:
    """B(x, y) along two curves, of a form that is linear in each."""
    curve = [form(x[0], y[0])]
    if len(x) > 1:
        curve.append(form(x[1], y[0]) + form(x[0], y[1]))
    if len(x) > 2:
        mixed = form(x[1], y[1])
        curve.append(form(x[2], y[0]) + 2 * mixed + form(x[0], y[2]))
    return tuple(curve)


@dataclass(frozen=True)
class Affine:
    """x W + b."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Curve) -> Curve:
        y, *rates = (matmul(derivative, self.weight) for derivative in x)
        return y + align(self.bias, y), *rates


@dataclass(frozen=True)
class Centred:
    """(x - β) W."""

    weight: Tensor
    shift: Tensor

    def __call__(self, x: Curve) -> Curve:
        value, *rates = x
        centred = value - align(self.shift, value)
        return tuple(matmul(derivative, self.weight) for derivative in (centred, *rates))


@dataclass(frozen=True)
class Film:
    """γ x + β, with γ and β from the context (Perez et al. 2018, FiLM)."""

    gamma: Tensor
    beta: Tensor

    def __call__(self, x: Curve) -> Curve:
        y, *rates = (align(self.gamma, derivative) * derivative for derivative in x)
        return y + align(self.beta, y), *rates


class FilmHead(nn.Module):
    """γ = 1 + c W + b and β = c W' + b'."""

    def __init__(self, p: int, size: int, generator: torch.Generator):
        super().__init__()
        self.gamma = Linear(p, size, generator, scale=0.1)
        self.beta = Linear(p, size, generator, scale=0.1)

    def forward(self, c: Tensor) -> Film:
        return Film(1 + self.gamma(c), self.beta(c))


def steps(layers: Iterable[Linear], sigma: Derivatives, films: Sequence[Film] = ()) -> list[Step]:
    """Layers with an activation between them, and behind that a modulation where there are some."""
    network: list[Step] = []
    for k, layer in enumerate(layers):
        network.append(Affine(layer.weight, layer.bias))
        network.append(partial(pointwise, sigma))
        network += films[k : k + 1]
    return network[:-1]  # the last layer is affine


def run(steps: Sequence[Step], x: Curve) -> Curve:
    """Apply one step after the other."""
    for step in steps:
        x = step(x)
    return x


class Curves(EncoderDecoder):
    """Maps that are written once, on curves, for values and tangents alike."""

    @abc.abstractmethod
    def encoded(self, y: Curve) -> Curve:
        """ρ along a curve."""

    @abc.abstractmethod
    def decoded(self, z: Curve) -> Curve:
        """φ along a curve."""

    def encode(self, y: Tensor) -> Tensor:
        (z,) = self.encoded((y,))
        return z

    def decode(self, z: Tensor) -> Tensor:
        (y,) = self.decoded((z,))
        return y

    def encode_jvp(self, y: Tensor, v: Tensor) -> Dual:
        return Dual(*self.encoded((y, v)))

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        return Dual(*self.decoded((z, w)))

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        # along a straight line, whose own acceleration is zero
        line = (z, w, torch.zeros_like(w))
        _, _, curvature = self.decoded(line)
        return curvature


class Networks(Curves):
    """An encoder and a decoder, each a sequence of steps."""

    def __init__(self, encoder: Sequence[Step], decoder: Sequence[Step]):
        self.encoder = encoder
        self.decoder = decoder

    def encoded(self, y: Curve) -> Curve:
        return run(self.encoder, y)

    def decoded(self, z: Curve) -> Curve:
        return run(self.decoder, z)

    def last_layer(self) -> tuple[EncoderDecoder, Tensor, Tensor] | None:
        *hidden, layer = self.decoder
        if not isinstance(layer, Affine):
            return None
        return Networks([], hidden), layer.weight, layer.bias


class JointMaps(Curves):
    """Maps whose encoder sees the joint vector (y, c), and whose decoder gives it or y alone, as
    maps of y (..., n).
    """

    def __init__(self, maps: Curves, c: Tensor, n: int):
        self.maps = maps
        self.c = c
        self.n = n

    def encoded(self, y: Curve) -> Curve:
        value, *rates = y
        size = self.c.shape[-1]
        joint = [joined(value, align(self.c, value))]
        for rate in rates:
            still = rate.new_zeros(*rate.shape[:-1], size)  # the context stays
            joint.append(joined(rate, still))
        return self.maps.encoded(tuple(joint))

    def decoded(self, z: Curve) -> Curve:
        joint = self.maps.decoded(z)
        return tuple(derivative[..., : self.n] for derivative in joint)


def joined(a: Tensor, b: Tensor) -> Tensor:
    """Return (a, b) along the last axis; leading axes that only one of them has come from its
    context.
    """
    lead = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    a = a.expand(*lead, -1)
    b = b.expand(*lead, -1)
    return torch.cat([a, b], dim=-1)
