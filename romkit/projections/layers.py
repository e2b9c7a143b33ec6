"""Building blocks of networks: inverse activations, biorthogonal weights, layer pairs, conditioning
on the context.
"""

import abc
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from romkit.core.tensors import align, matmul
from romkit.core.types import Dual
from romkit.projections.operator import EncoderDecoder


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


def relu(x: Tensor, order: int) -> tuple[Tensor, ...]:
    """max(x, 0) and its derivatives up to this order."""
    return (
        (torch.relu(x), (x > 0).to(x.dtype), torch.zeros_like(x))[: order + 1]
        if order
        else (torch.relu(x),)
    )


def silu(x: Tensor, order: int) -> tuple[Tensor, ...]:
    """x · sigmoid(x) and its derivatives up to this order."""
    if order == 0:
        return (torch.nn.functional.silu(x),)
    gate = torch.sigmoid(x)
    value = x * gate
    slope = gate + value * (1 - gate)
    return (value, slope) if order == 1 else (value, slope, gate * (1 - gate) * (2 + x - 2 * value))


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
"""Interval that modulated slopes are confined to (Adriaens et al. 2026, appendix "Neuromodulation
details").
"""


MIDDLE_SLOPE = math.pi / 10
"""The middle of the range, and the slope of an NcAE whose modulation weights are zero."""


class Linear(nn.Module):
    """x W + b with W (n, r), b (r,): like torch's, but its parameters may carry a leading seed
    axis.
    """

    def __init__(self, n: int, r: int, generator: torch.Generator, *, scale: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(uniform((n, r), scale / math.sqrt(max(n, 1)), generator))
        self.bias = nn.Parameter(uniform((r,), scale / math.sqrt(max(n, 1)), generator))

    def forward(self, x: Tensor) -> Tensor:
        y = matmul(x, self.weight)
        return y + align(self.bias, y)


def linears(sizes: Sequence[int], generator: torch.Generator) -> nn.ModuleList:
    """Layers between these sizes."""
    return nn.ModuleList(Linear(n, r, generator, scale=math.sqrt(3)) for n, r in pairwise(sizes))


class Embedding(nn.Module):
    """s = f(bandwidth · c): a fully connected network with SiLU between its layers, `sizes` = (p,
    ..., d).
    """

    def __init__(self, sizes: Sequence[int], generator: torch.Generator, *, bandwidth: float = 1.0):
        super().__init__()
        self.bandwidth = bandwidth
        self.layers = linears(sizes, generator)

    def forward(self, c: Tensor) -> Tensor:
        return run(steps(self.layers, silu), (self.bandwidth * c,))[0]


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


def uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> Tensor:
    """Uniform in [-bound, bound], drawn in float64 so that a seed means the same in every
    precision.
    """
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
        moved[1] = moved[1] + rates[1] * x[1] * x[1]
    return value, *moved


def product(form: Callable[[Tensor, Tensor], Tensor], x: Curve, y: Curve) -> Curve:
    """B(x, y) along two curves, of a form that is linear in each."""
    found = [form(x[0], y[0])]
    if len(x) > 1:
        found.append(form(x[1], y[0]) + form(x[0], y[1]))
    if len(x) > 2:
        found.append(form(x[2], y[0]) + 2 * form(x[1], y[1]) + form(x[0], y[2]))
    return tuple(found)


class Affine(NamedTuple):
    """x W + b."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Curve) -> Curve:
        y, *rates = (matmul(part, self.weight) for part in x)
        return y + align(self.bias, y), *rates


class Centred(NamedTuple):
    """(x - β) W."""

    weight: Tensor
    shift: Tensor

    def __call__(self, x: Curve) -> Curve:
        parts = (x[0] - align(self.shift, x[0]), *x[1:])
        return tuple(matmul(part, self.weight) for part in parts)


class Film(NamedTuple):
    """γ x + β, with γ and β from the context (Perez et al. 2018, FiLM)."""

    gamma: Tensor
    beta: Tensor

    def __call__(self, x: Curve) -> Curve:
        y, *rates = (align(self.gamma, part) * part for part in x)
        return y + align(self.beta, y), *rates


class FilmHead(nn.Module):
    """γ = 1 + c W + b and β = c W' + b'."""

    def __init__(self, p: int, size: int, generator: torch.Generator):
        super().__init__()
        self.gamma = Linear(p, size, generator, scale=0.1)
        self.beta = Linear(p, size, generator, scale=0.1)

    def forward(self, c: Tensor) -> Film:
        return Film(1 + self.gamma(c), self.beta(c))


def steps(layers: Sequence[Linear], sigma: Derivatives, films: Sequence[Film] = ()) -> list[Step]:
    """Layers with an activation between them, and behind that a modulation where there are some."""
    found: list[Step] = []
    for k, layer in enumerate(layers):
        found += [Affine(layer.weight, layer.bias), partial(pointwise, sigma), *films[k : k + 1]]
    return found[:-1]  # the last layer is affine


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
        return self.encoded((y,))[0]

    def decode(self, z: Tensor) -> Tensor:
        return self.decoded((z,))[0]

    def encode_jvp(self, y: Tensor, v: Tensor) -> Dual:
        return Dual(*self.encoded((y, v)))

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        return Dual(*self.decoded((z, w)))

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        return self.decoded((z, w, torch.zeros_like(w)))[2]


class Networks(Curves):
    """An encoder and a decoder, each a sequence of steps."""

    def __init__(self, encoder: Sequence[Step], decoder: Sequence[Step]):
        self.encoder, self.decoder = encoder, decoder

    def encoded(self, y: Curve) -> Curve:
        return run(self.encoder, y)

    def decoded(self, z: Curve) -> Curve:
        return run(self.decoder, z)

    def last_layer(self) -> tuple[EncoderDecoder, Tensor, Tensor] | None:
        *before, last = self.decoder
        return (Networks([], before), last.weight, last.bias) if isinstance(last, Affine) else None


class JointMaps(Curves):
    """Maps whose encoder sees the joint vector (y, c), and whose decoder gives it or y alone, as
    maps of y (..., n).
    """

    def __init__(self, maps: Curves, c: Tensor, n: int):
        self.maps, self.c, self.n = maps, c, n

    def encoded(self, y: Curve) -> Curve:
        still = (part.new_zeros(*part.shape[:-1], self.c.shape[-1]) for part in y[1:])
        return self.maps.encoded(tuple(map(joined, y, (align(self.c, y[0]), *still))))

    def decoded(self, z: Curve) -> Curve:
        return tuple(part[..., : self.n] for part in self.maps.decoded(z))


def joined(a: Tensor, b: Tensor) -> Tensor:
    """(a, b) along the last axis; leading axes that only one of them has come from its context."""
    lead = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    return torch.cat([a.expand(*lead, -1), b.expand(*lead, -1)], dim=-1)


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


# Geometry of the biorthogonal manifold {(Φ, Ψ): Ψᵀ Φ = I}: metrics, retractions and transports.  A
# point is one tensor x (..., 2, n, r) with Φ = x[..., 0, :, :] and Ψ = x[..., 1, :, :]; a tangent
# vector u = (X, Y) is stacked likewise and obeys Yᵀ Φ + Ψᵀ X = 0. Exchanging Φ and Ψ maps the
# manifold to itself, so a formula for one half read with the halves exchanged (`swap`) gives the
# other, and both are computed at once. Leading axes never mix. Everything here is a pure function
# of tensors that neither synchronises a GPU nor raises because of one bad point.  Sources: Otto,
# Macchio, Rowley (2023), "Learning nonlinear projections for reduced-order modeling of dynamical
# systems using constrained autoencoders", for the manifold; Absil, Mahony, Sepulchre (2008),
# "Optimization algorithms on matrix manifolds", chapters 3, 4 and 8, for metrics, retractions and
# transports.

DOUBLINGS = 18
"""Doublings of the Sylvester series: 12 fall short at a condition number of Φ and Ψ of 100, 16
reach rounding.
"""


def swap(x: Tensor) -> Tensor:
    """(Φ, Ψ) -> (Ψ, Φ)."""
    return x.flip(-3)


def overlap(x: Tensor) -> Tensor:
    """Ψᵀ Φ (..., r, r), the identity on the manifold."""
    phi, psi = x.unbind(-3)
    return psi.mT @ phi


def constraint(x: Tensor, u: Tensor) -> Tensor:
    """(C, Cᵀ) (..., 2, r, r) with C = Yᵀ Φ + Ψᵀ X, the rate of Ψᵀ Φ along u: zero for a tangent
    vector.
    """
    half = swap(x).mT @ u
    return half + swap(half).mT


def restore(x: Tensor) -> Tensor:
    """Φ <- Φ (Ψᵀ Φ)⁻¹: the point with the same range of Φ and the same Ψ."""
    phi, psi = x.unbind(-3)
    return torch.stack([torch.linalg.solve_ex(psi.mT @ phi, phi, left=False).result, psi], -3)


@dataclass(frozen=True)
class EuclideanMetric:
    """⟨u, v⟩ = tr Xᵀ X' + tr Yᵀ Y', and what follows from it on each tangent space.

    Projection: (X - Ψ A, Y - Φ Aᵀ) with (Ψᵀ Ψ) A + A (Φᵀ Φ) = C. Another metric overrides all three
    methods.
    """

    def inner(self, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """⟨u, v⟩ at x, one value per point (...)."""
        return (u * v).sum((-3, -2, -1))

    def project(self, x: Tensor, u: Tensor) -> Tensor:
        """The tangent vector at x nearest to u (..., 2, n, r)."""
        a = sylvester(swap(x.mT @ x), constraint(x, u)[..., 0, :, :])
        u = u - swap(x) @ torch.stack([a, a.mT], -3)
        # At ill-conditioned points the series leaves a normal part; this removes it along (Φ, Ψ),
        # without a solve.
        return u - 0.5 * (x @ constraint(x, u))

    def gradient(self, x: Tensor, g: Tensor) -> Tensor:
        """The tangent vector whose inner product with each tangent v is the derivative Σ g v along
        v.
        """
        return self.project(x, g)


@dataclass(frozen=True)
class Fractional:
    """((Φ + X) ((Ψ + Y)ᵀ (Φ + X))⁻¹, Ψ + Y), with transport by projection. Corrects its own
    rounding errors.

    A retraction: it follows a tangent vector u from x, stays on the manifold, and takes other
    tangent vectors along. For tangent u the matrix to invert is I + Yᵀ X, so it exists while ‖Yᵀ X‖
    < 1.
    """

    def retract(self, x: Tensor, u: Tensor) -> Tensor:
        """The point reached from x along u; it agrees with x + u to first order."""
        return restore(x + u)

    def retract_and_carry(self, x: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The point y reached from x along u, and v carried along: its projection at y is the
        transport of v.
        """
        return restore(x + u), v


def sylvester(grams: Tensor, c: Tensor) -> Tensor:
    """The solution S (..., r, r) of A S + S B = C for symmetric positive definite (A, B) = grams
    (..., 2, r, r).

    S = Σₖ Uᵏ W Vᵏ with U = (A - I)(A + I)⁻¹, V = (B - I)(B + I)⁻¹, W = 2 (A + I)⁻¹ C (B + I)⁻¹,
    summed by doubling (Smith 1968, "Matrix equation XA + BX = C"). The shift 1 is the best one
    here: Ψᵀ Φ = I puts the eigenvalues of Φᵀ Φ and Ψᵀ Ψ between 1/M and M for the M = max(‖Φ‖²,
    ‖Ψ‖²). Unlike with eigenvectors, no seed can fail another.
    """
    shifted = torch.cat([half.reshape(-1, *c.shape[-2:]) for half in grams.unbind(-3)]) + _eye(
        grams
    )
    inverse = torch.linalg.inv_ex(shifted).inverse  # of all A, then of all B
    left, right = inverse.chunk(2)
    solution = 2 * (left @ c.reshape(left.shape) @ right)
    factors = _eye(grams) - 2 * inverse
    for _ in range(DOUBLINGS):
        left, right = factors.chunk(2)
        solution = torch.baddbmm(solution, torch.bmm(left, solution), right)
        factors = torch.bmm(factors, factors)
    return solution.reshape(c.shape)


def _eye(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
