"""Building blocks of networks: inverse activations, biorthogonal weights, layer pairs, conditioning on the context."""

import abc
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from romkit.core.tensors import align, matmul
from romkit.core.types import Dual, Jet
from romkit.projections.operator import EncoderDecoder


class Hyperbola(NamedTuple):
    """σ(x) = gain · x + offset + bend · √((2x + shift)² + floor), one branch of a hyperbola, with bound slope α.

    Each coefficient is (..., r), leading axes matching those of x from the left.
    """

    gain: Tensor
    offset: Tensor
    bend: Tensor
    shift: Tensor
    floor: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return self._value(x)[0]

    def value_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """σ(x) and σ'(x)."""
        value, gain, bend, _, u, root = self._value(x)
        return value, torch.addcmul(gain, 2 * bend, u / root)

    def value_slope_and_bend(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """σ(x), σ'(x) and σ''(x)."""
        value, gain, bend, floor, u, root = self._value(x)
        return value, torch.addcmul(gain, 2 * bend, u / root), 4 * bend * floor / root**3

    def _value(self, x: Tensor) -> tuple[Tensor, ...]:
        """σ(x), gain, bend, floor, u = 2x + shift and √(u² + floor)."""
        gain, offset, bend, shift, floor = (align(coefficient, x) for coefficient in self)
        u = torch.add(shift, x, alpha=2)
        root = torch.sqrt(torch.addcmul(floor, u, u))
        return torch.addcmul(torch.addcmul(offset, gain, x), bend, root), gain, bend, floor, u, root


def inverse_pair(alpha: Tensor) -> tuple[Hyperbola, Hyperbola]:
    """(σ₋, σ₊) for slopes α in (-π/4, π/4); both are the identity at α = 0, and σ₋ ∘ σ₊ = id.

    With s = sin α, c = cos α:
    σ±(x) = [x ∓ √2 s c² ± s c √((2x ∓ √2 s)² + 2 cos 2α)] / cos 2α, whose slopes run from tan(π/4 - α) to
    tan(π/4 + α). This is the pair of Otto et al. (2023) (Adriaens et al. 2026, appendix "Activation functions")
    multiplied through by s² c², so that nothing is divided by sin α.
    """
    s, c, floor = torch.sin(alpha), torch.cos(alpha), 2 * torch.cos(2 * alpha)
    gain = 2 / floor
    offset, bend, shift = 2**0.5 * s * c * c * gain, s * c * gain, 2**0.5 * s
    return Hyperbola(gain, offset, -bend, shift, floor), Hyperbola(gain, -offset, bend, -shift, floor)


class ReLU:
    """max(x, 0)."""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.relu(x)

    def value_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(x), (x > 0).to(x.dtype)

    def value_slope_and_bend(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """σ(x), σ'(x) and σ''(x), which is 0 wherever it exists."""
        return *self.value_and_slope(x), torch.zeros_like(x)


class SiLU:
    """x · sigmoid(x)."""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.nn.functional.silu(x)

    def value_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = torch.sigmoid(x)
        value = x * gate
        return value, gate + value * (1 - gate)

    def value_slope_and_bend(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """σ(x), σ'(x) and σ''(x)."""
        gate = torch.sigmoid(x)
        value = x * gate
        return value, gate + value * (1 - gate), gate * (1 - gate) * (2 + x - 2 * value)


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
        """What training adds to the loss for the matrices that `forward` gave, one value per seed."""


class BiorthogonalPair(Pair):
    """Φ = Φ̃ (Ψ̃ᵀ Φ̃)⁻¹, Ψ = Ψ̃ with free Φ̃, Ψ̃: exactly biorthogonal at every step of any optimizer.

    Φ is computed in float64 and rounded once, to the precision of the model: rounding errors of an inverse in float32
    would be a large part of the idempotency error. A model trained in float32 and cast to float64 satisfies Ψᵀ Φ = I to
    float64. Source: Otto, Macchio, Rowley (2023), "Learning nonlinear projections for reduced-order modeling of
    dynamical systems using constrained autoencoders".
    """

    def forward(self) -> tuple[Tensor, Tensor]:
        phi, psi = self.phi.double(), self.psi.double()
        # inv_ex neither synchronises a GPU nor raises for a whole stack because of one seed.
        return (phi @ torch.linalg.inv_ex(psi.mT @ phi).inverse).to(self.phi), self.psi

    @staticmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """‖Φ - Ψ‖²: zero at orthonormal weights, it keeps the pair well conditioned."""
        return (phi - psi).square().sum((-1, -2))


class FreePair(Pair):
    """Φ and Ψ without a constraint, as in SoftNcAE."""

    def forward(self) -> tuple[Tensor, Tensor]:
        return self.phi, self.psi

    @staticmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """‖Ψᵀ Φ - I‖², the Euclidean penalty of the paper."""
        eye = torch.eye(phi.shape[-1], dtype=phi.dtype, device=phi.device)
        return (psi.mT @ phi - eye).square().sum((-1, -2))


def orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """(rows, columns) matrix with orthonormal columns, uniformly distributed."""
    gaussian = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    return (q * r.diagonal().sign()).to(torch.get_default_dtype()).contiguous()


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


class LayerEncoder(NamedTuple):
    """ρ(x) = σ₋(Ψᵀ (x - β); α) at one context (Adriaens et al. 2026, section 2.2)."""

    psi: Tensor
    beta: Tensor
    activation: Hyperbola

    def __call__(self, x: Tensor) -> Tensor:
        return self.activation(matmul(x - align(self.beta, x), self.psi))

    def jvp(self, x: Tensor, v: Tensor) -> Dual:
        z, slope = self.activation.value_and_slope(matmul(x - align(self.beta, x), self.psi))
        return Dual(z, slope * matmul(v, self.psi))


class LayerDecoder(NamedTuple):
    """φ(z) = Φ σ₊(z; α) + β: with σ₋ ∘ σ₊ = id and Ψᵀ Φ = I, a right inverse of ρ."""

    phi_t: Tensor
    beta: Tensor
    activation: Hyperbola

    def __call__(self, z: Tensor) -> Tensor:
        x = matmul(self.activation(z), self.phi_t)
        return x + align(self.beta, x)

    def jvp(self, z: Tensor, w: Tensor) -> Dual:
        value, slope = self.activation.value_and_slope(z)
        x = matmul(value, self.phi_t)
        return Dual(x + align(self.beta, x), matmul(slope * w, self.phi_t))

    def jet(self, curve: Jet) -> Jet:
        activated = curve.through(*self.activation.value_slope_and_bend(curve.value))
        x, v, a = (matmul(part, self.phi_t) for part in activated)
        return Jet(x + align(self.beta, x), v, a)

    def last(self) -> LastStep:
        return LastStep([Pointwise(self.activation)], self.phi_t, self.beta)


def layer_pairs(
    weights: Iterable[tuple[Tensor, Tensor]], slopes: nn.ModuleList, biases: nn.ModuleList, signal: Tensor
) -> Networks:
    """ρ = ρ⁽¹⁾ ∘ ... ∘ ρ⁽ᴸ⁾ and φ = φ⁽ᴸ⁾ ∘ ... ∘ φ⁽¹⁾ with weights (Φ, Ψ), slopes and biases at a signal."""
    encoder, decoder = [], []
    for (phi, psi), slope, bias in zip(weights, slopes, biases, strict=True):
        beta, (minus, plus) = bias(signal), inverse_pair(slope(signal))
        encoder.insert(0, LayerEncoder(psi, beta, minus))
        decoder.append(LayerDecoder(phi.mT, beta, plus))
    return Networks(encoder, decoder)
