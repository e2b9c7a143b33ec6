"""The coupling flow: an invertible map of the whole state space at every context, of which ρ and φ
are parts.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import torch
from torch import Tensor, nn

from romkit.core.boundary import Count, Layered, Positive, Sizes, validated
from romkit.core.broadcast import align, matmul
from romkit.core.errors import InputError
from romkit.core.types import TensorTuple
from romkit.projections.base import Projection
from romkit.projections.frame import Frame
from romkit.projections.linear import leading_modes
from romkit.projections.networks import (
    Affine,
    Curve,
    Curves,
    Embedding,
    FilmHead,
    Linear,
    Step,
    joined,
    linears,
    pointwise,
    product,
    run,
    silu,
    steps,
    uniform,
)
from romkit.projections.sizes import check_embedding


@dataclass(frozen=True)
class Shift:
    """x -> x + s(y), where y is the part of the state that stays."""

    network: Sequence[Step]

    def __call__(self, x: Curve, y: Curve) -> Curve:
        return tuple(map(torch.add, x, run(self.network, y)))

    def inverse(self, x: Curve, y: Curve) -> Curve:
        return tuple(map(torch.sub, x, run(self.network, y)))


@dataclass(frozen=True)
class ScaleAndShift:
    """x -> x exp(tanh g(y)) + s(y): the factor stays between 1/e and e, so the inverse is as well
    conditioned.
    """

    network: Sequence[Step]

    def __call__(self, x: Curve, y: Curve) -> Curve:
        g, s = _halves(run(self.network, y))
        scaled = product(torch.mul, x, pointwise(partial(_factor, 1), g))
        return tuple(map(torch.add, scaled, s))

    def inverse(self, x: Curve, y: Curve) -> Curve:
        g, s = _halves(run(self.network, y))
        shifted = tuple(map(torch.sub, x, s))
        return product(torch.mul, shifted, pointwise(partial(_factor, -1), g))


def _halves(curve: Curve) -> tuple[Curve, Curve]:
    """Return both halves of the components along a curve."""
    halves = [derivative.chunk(2, dim=-1) for derivative in curve]
    g, s = zip(*halves, strict=True)
    return g, s


def _factor(sign: int, g: Tensor, order: int) -> TensorTuple:
    """exp(±tanh g) and its derivatives up to this order."""
    t = g.tanh()
    value = (sign * t).exp()
    if order == 0:
        return (value,)
    slope = sign * value * (1 - t * t)
    if order == 1:
        return value, slope
    curvature = slope * (sign * (1 - t * t) - 2 * t)
    return value, slope, curvature


class Rotation:
    """Q = I - U T Uᵀ, the product of the reflections by the columns of U (n, k): orthogonal in any
    precision.

    Source: Schreiber & Van Loan (1989), the compact WY form; T⁻¹ = striu(Uᵀ U) + ½ diag(Uᵀ U).
    """

    def __init__(self, reflectors: Tensor):
        gram = reflectors.mT @ reflectors
        diagonal = gram.diagonal(dim1=-2, dim2=-1)
        inverse = torch.triu(gram, 1) + torch.diag_embed(diagonal / 2)
        T = torch.linalg.inv_ex(inverse).inverse
        self.back = reflectors @ T
        self.forth = reflectors @ T.mT
        self.out = reflectors.mT

    def __call__(self, w: Tensor) -> Tensor:
        """Q w."""
        return w - matmul(matmul(w, self.forth), self.out)

    def inverse(self, y: Tensor) -> Tensor:
        """Qᵀ y."""
        return y - matmul(matmul(y, self.back), self.out)


class Couplings(Curves):
    """φ(z) = Q T⁻¹(z, 0) and ρ(y) = the first m components of T(Qᵀ y), at one context.

    T⁻¹ is a chain of couplings that move, in turn, the other n - m components by the m latent ones
    and these by the others. The chain ends as it begins, with the others; of the first one, an
    encoder sees nothing.
    """

    def __init__(self, rotation: Rotation, chain: Sequence[Shift | ScaleAndShift], n: int, m: int):
        self.rotation = rotation
        self.chain = chain
        self.n = n
        self.m = m

    def decoded(self, z: Curve) -> Curve:
        beside = self.n - self.m
        fixed = z
        free = tuple(derivative.new_zeros(*derivative.shape[:-1], beside) for derivative in z)
        for coupling in self.chain:
            fixed, free = coupling(free, fixed), fixed
        curve = [
            self.rotation(joined(latent, other)) for latent, other in zip(free, fixed, strict=True)
        ]
        return tuple(curve)

    def encoded(self, y: Curve) -> Curve:
        sizes = [self.m, self.n - self.m]
        halves = [self.rotation.inverse(derivative).split(sizes, dim=-1) for derivative in y]
        fixed, free = zip(*halves, strict=True)
        # the first coupling moves what an encoder drops
        for coupling in reversed(self.chain[1:]):
            fixed, free = coupling.inverse(free, fixed), fixed
        return fixed


class Conditioner(nn.Module):
    """The network of a coupling: layers of SiLU units that follow the signal s; zero at the start.

    s moves the biases of the first layer, and scales and shifts what goes from one layer to the
    next.
    """

    def __init__(
        self,
        inputs: int,
        units: Sequence[int],
        outputs: int,
        signal: int,
        generator: torch.Generator,
    ):
        super().__init__()
        self.inner = Linear(inputs, units[0], generator)
        bound = 1 / math.sqrt(signal)
        self.signal = nn.Parameter(uniform((signal, units[0]), bound, generator))
        self.films = nn.ModuleList(FilmHead(signal, width, generator) for width in units[:-1])
        self.hidden = linears(units, generator)
        self.outer = Linear(units[-1], outputs, generator, scale=0.0)

    def forward(self, signal: Tensor) -> list[Step]:
        films = [film(signal) for film in self.films]
        _, *further = steps([self.inner, *self.hidden, self.outer], silu, films)
        shift = matmul(signal, self.signal)
        bias = shift + align(self.inner.bias, shift)
        return [Affine(self.inner.weight, bias), *further]


@validated
class Flow(Projection):
    """A coupling flow T_c of the state space that follows the context: ρ = its first m components,
    φ(z) = T_c⁻¹(z, 0).

    Coordinates are rotated, so that the m leading modes of the data come first; couplings then
    move, in turn, the other components by these and these by the others. Only those that move the
    latent components scale: a scale of the others would multiply zeros in the first coupling and is
    not needed in the last. Exact at every context.

    With one coupling the manifold is a graph over m linear coordinates, which the encoder reads
    off: it needs no network of its own, and its Lipschitz constant is one in normalised
    coordinates. The rotation is then trained as well, since the leading modes need not be the
    coordinates over which the graph bends least.

    Args:
        latent_dim: m.
        units: hidden units of each coupling's network, from the latent side to the state, of an odd
            number of couplings: (24, 16, 24) for three with one layer each, ((32, 32),) for one
            with two layers.
        embedding, bandwidth: of the signal that the context sends to the networks, as for `NcAE`.

    Source: Dinh, Sohl-Dickstein, Bengio (2017), Density estimation using Real NVP, for the
    couplings; Barnett, Farhat, Maday (2023), Neural-network-augmented projection-based model order
    reduction, for graphs, there over fixed modes.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> flow = romkit.fit("flow", data, latent_dim=2, epochs=1, verbose=False)
        >>> P = flow.double()(F=3.15)
        >>> z = torch.randn(5, 2, dtype=torch.float64)
        >>> torch.allclose(P.encode(P.decode(z)), z)
        True
    """

    name = "flow"
    idempotent = True

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        *,
        latent_dim: Count,
        units: Layered,
        embedding: Sizes,
        bandwidth: Positive = 1.0,
    ):
        if len(units) % 2 == 0:
            raise InputError(
                "units",
                expected="an odd number of couplings",
                got=repr(units),
                fix="give units=(24, 16, 24), say",
            )
        n = frame.size
        if latent_dim >= n:
            raise InputError(
                "latent_dim",
                expected=f"less than n = {n}",
                got=latent_dim,
                fix="couplings move components beside the latent ones",
            )
        check_embedding(embedding, frame)
        config = {
            "latent_dim": latent_dim,
            "units": [_plain(layers) for layers in units],
            "embedding": list(embedding),
            "bandwidth": bandwidth,
        }
        super().__init__(frame, config)
        self.latent_dim = latent_dim
        reflectors = uniform((n, latent_dim), 1.0, generator)
        self.reflectors = nn.Parameter(reflectors, requires_grad=False)
        self.turn = None
        if len(units) == 1:
            self.turn = nn.Parameter(torch.zeros(n, latent_dim))
        self.embedding = Embedding(embedding, generator, bandwidth=bandwidth)
        beside = n - latent_dim
        ends = cycle([(latent_dim, beside), (beside, 2 * latent_dim)])
        self.couplings = nn.ModuleList()
        for layers, (inputs, outputs) in zip(units, ends, strict=False):
            conditioner = Conditioner(inputs, _sizes(layers), outputs, embedding[-1], generator)
            self.couplings.append(conditioner)

    def at(self, c: Tensor) -> Couplings:
        signal = self.embedding(c)
        kinds: Iterator[type[Shift] | type[ScaleAndShift]] = cycle((Shift, ScaleAndShift))
        chain = [
            kind(network(signal)) for kind, network in zip(kinds, self.couplings, strict=False)
        ]
        return Couplings(self.rotation, chain, self.frame.size, self.latent_dim)

    @property
    def rotation(self) -> Rotation:
        """Rotation from the coordinates that couplings move to those of the state."""
        if self.turn is None:
            return Rotation(self.reflectors)
        # turned by training at 0.3 of its rate
        return Rotation(self.reflectors + 0.3 * self.turn)

    def initialise(self, y: Tensor, c: Tensor) -> None:
        """Turn the leading modes of the snapshots y (N, n) into the first coordinates."""
        modes = leading_modes(y, self.latent_dim)
        # the product of these reflections begins with the modes, up to sign
        factors = torch.geqrf(modes).a
        unit = torch.eye(*factors.shape, dtype=factors.dtype)
        self.reflectors.data = (torch.tril(factors, -1) + unit).to(self.reflectors)


def _plain(layers: int | Sequence[int]) -> int | list[int]:
    """Return units of the layers of a coupling as plain values: a number where there is one layer."""
    sizes = _sizes(layers)
    return sizes[0] if len(sizes) == 1 else sizes


def _sizes(layers: int | Sequence[int]) -> list[int]:
    return [layers] if isinstance(layers, int) else list(layers)
