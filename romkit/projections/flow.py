"""The coupling flow: an invertible map of the whole state space at every context, of which ρ and φ are parts."""

import math
from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from romkit.core.boundary import Count, Layered, Positive, Sizes, validated
from romkit.core.errors import InputError
from romkit.core.tensors import align, matmul
from romkit.core.types import Dual, Jet
from romkit.projections.autoencoders import Affine, FilmHead, Pointwise
from romkit.projections.base import Projection, check_embedding
from romkit.projections.frame import Frame
from romkit.projections.layers import DecoderStep, Embedding, Linear, SiLU, run, run_jet, run_jvp, uniform
from romkit.projections.linear import leading_modes
from romkit.projections.operator import EncoderDecoder

TURNING = 0.3
"""Learning rate of the rotation, as a share of that of the networks; at their own rate it now and then turns to
coordinates over which the manifold folds, before the networks have learned anything."""


class Shift(NamedTuple):
    """x -> x + s(y), where y is the part of the state that stays."""

    network: Sequence[DecoderStep]

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return x + run(self.network, y)

    def inverse(self, x: Tensor, y: Tensor) -> Tensor:
        return x - run(self.network, y)

    def jvp(self, x: Dual, y: Dual) -> Dual:
        s, ds = run_jvp(self.network, *y)
        return Dual(x.value + s, x.tangent + ds)

    def inverse_jvp(self, x: Dual, y: Dual) -> Dual:
        s, ds = run_jvp(self.network, *y)
        return Dual(x.value - s, x.tangent - ds)

    def jet(self, x: Jet, y: Jet) -> Jet:
        return Jet(*(part + moved for part, moved in zip(x, run_jet(self.network, y), strict=True)))


class ScaleAndShift(NamedTuple):
    """x -> x exp(tanh g(y)) + s(y): the factor stays between 1/e and e, so the inverse is as well conditioned."""

    network: Sequence[DecoderStep]

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        g, s = run(self.network, y).chunk(2, dim=-1)
        return x * g.tanh().exp() + s

    def inverse(self, x: Tensor, y: Tensor) -> Tensor:
        g, s = run(self.network, y).chunk(2, dim=-1)
        return (x - s) * (-g.tanh()).exp()

    def jvp(self, x: Dual, y: Dual) -> Dual:
        (g, s), (dg, ds) = (part.chunk(2, dim=-1) for part in run_jvp(self.network, *y))
        g, factor = g.tanh(), g.tanh().exp()
        return Dual(x.value * factor + s, factor * (x.tangent + x.value * (1 - g * g) * dg) + ds)

    def inverse_jvp(self, x: Dual, y: Dual) -> Dual:
        (g, s), (dg, ds) = (part.chunk(2, dim=-1) for part in run_jvp(self.network, *y))
        g, factor = g.tanh(), (-g.tanh()).exp()
        value = (x.value - s) * factor
        return Dual(value, factor * (x.tangent - ds) - value * (1 - g * g) * dg)

    def jet(self, x: Jet, y: Jet) -> Jet:
        (g, s), (dg, ds), (ddg, dds) = (part.chunk(2, dim=-1) for part in run_jet(self.network, y))
        g = g.tanh()
        slope = 1 - g * g
        log = Jet(g, dg, ddg).through(g, slope, -2 * g * slope)
        factor, d = g.exp(), log.velocity
        velocity = x.velocity + x.value * d
        acceleration = x.acceleration + 2 * x.velocity * d + x.value * (log.acceleration + d * d)
        return Jet(x.value * factor + s, factor * velocity + ds, factor * acceleration + dds)


class Rotation:
    """Q = I - U T Uᵀ, the product of the reflections by the columns of U (n, k): orthogonal in any precision.

    Source: Schreiber & Van Loan (1989), the compact WY form; T⁻¹ = striu(Uᵀ U) + ½ diag(Uᵀ U).
    """

    def __init__(self, reflectors: Tensor):
        gram = reflectors.mT @ reflectors
        inverse = torch.triu(gram, 1) + torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1) / 2)
        T = torch.linalg.inv_ex(inverse).inverse
        self.back, self.forth, self.out = reflectors @ T, reflectors @ T.mT, reflectors.mT

    def __call__(self, w: Tensor) -> Tensor:
        """Q w."""
        return w - matmul(matmul(w, self.forth), self.out)

    def inverse(self, y: Tensor) -> Tensor:
        """Qᵀ y."""
        return y - matmul(matmul(y, self.back), self.out)


class Couplings(EncoderDecoder):
    """φ(z) = Q T⁻¹(z, 0) and ρ(y) = the first m components of T(Qᵀ y), at one context.

    T⁻¹ is a chain of couplings that move, in turn, the other n - m components by the m latent ones and these by the
    others. The chain ends as it begins, with the others; of the first one, an encoder sees nothing.
    """

    def __init__(self, rotation: Rotation, chain: Sequence[Shift | ScaleAndShift], n: int, m: int):
        self.rotation, self.chain, self.n, self.m = rotation, chain, n, m

    def decode(self, z: Tensor) -> Tensor:
        fixed, free = z, self._zeros(z)
        for coupling in self.chain:
            fixed, free = coupling(free, fixed), fixed
        return self.rotation(_joined(free, fixed))

    def encode(self, y: Tensor) -> Tensor:
        fixed, free = self._parts(y)
        for coupling in reversed(self.chain[1:]):
            fixed, free = coupling.inverse(free, fixed), fixed
        return fixed

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        fixed, free = Dual(z, w), Dual(self._zeros(z), self._zeros(w))
        for coupling in self.chain:
            fixed, free = coupling.jvp(free, fixed), fixed
        return Dual(*(self.rotation(_joined(a, b)) for a, b in zip(free, fixed, strict=True)))

    def encode_jvp(self, y: Tensor, v: Tensor) -> Dual:
        fixed, free = map(Dual, self._parts(y), self._parts(v))
        for coupling in reversed(self.chain[1:]):
            fixed, free = coupling.inverse_jvp(free, fixed), fixed
        return fixed

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        zeros = self._zeros(w)
        fixed, free = Jet(z, w, torch.zeros_like(w)), Jet(self._zeros(z), zeros, zeros)
        for coupling in self.chain:
            fixed, free = coupling.jet(free, fixed), fixed
        return self.rotation(_joined(free.acceleration, fixed.acceleration))

    def _zeros(self, z: Tensor) -> Tensor:
        return z.new_zeros(*z.shape[:-1], self.n - self.m)

    def _parts(self, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.rotation.inverse(y).split([self.m, self.n - self.m], dim=-1)


class Conditioner(nn.Module):
    """The network of a coupling: layers of SiLU units that follow the signal s; zero at the start.

    s moves the biases of the first layer, and scales and shifts what goes from one layer to the next.
    """

    def __init__(self, inputs: int, units: Sequence[int], outputs: int, signal: int, generator: torch.Generator):
        super().__init__()
        self.inner = Linear(inputs, units[0], generator)
        self.signal = nn.Parameter(uniform((signal, units[0]), 1 / math.sqrt(signal), generator))
        self.films = nn.ModuleList(FilmHead(signal, width, generator) for width in units[:-1])
        self.hidden = nn.ModuleList(Linear(*pair, generator, scale=math.sqrt(3)) for pair in pairwise(units))
        self.outer = Linear(units[-1], outputs, generator, scale=0.0)

    def forward(self, signal: Tensor) -> list[DecoderStep]:
        bias = matmul(signal, self.signal)
        steps = [Affine(self.inner.weight, bias + align(self.inner.bias, bias)), Pointwise(SiLU())]
        for film, layer in zip(self.films, self.hidden, strict=True):
            steps += [film(signal), Affine(layer.weight, layer.bias), Pointwise(SiLU())]
        return [*steps, Affine(self.outer.weight, self.outer.bias)]


@validated
class Flow(Projection):
    """A coupling flow T_c of the state space that follows the context: ρ = its first m components, φ(z) = T_c⁻¹(z, 0).

    Coordinates are rotated, so that the m leading modes of the data come first; couplings then move, in turn, the
    other components by these and these by the others. Only those that move the latent components scale: a scale of the
    others would multiply zeros in the first coupling and is not needed in the last. Exact at every context.

    With one coupling the manifold is a graph over m linear coordinates, which the encoder reads off: it needs no
    network of its own, and its Lipschitz constant is one in normalised coordinates. The rotation is then trained as
    well, since the leading modes need not be the coordinates over which the graph bends least.

    Args:
        latent_dim: m.
        units: hidden units of each coupling's network, from the latent side to the state, of an odd number of
            couplings: (24, 16, 24) for three with one layer each, ((32, 32),) for one with two layers.
        embedding, bandwidth: of the signal that the context sends to the networks, as for `NcAE`.

    Source: Dinh, Sohl-Dickstein, Bengio (2017), Density estimation using Real NVP, for the couplings; Barnett, Farhat,
    Maday (2023), Neural-network-augmented projection-based model order reduction, for graphs, there over fixed modes.

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
            expected, fix = "an odd number of couplings", "give units=(24, 16, 24), say"
            raise InputError("units", expected=expected, got=repr(units), fix=fix)
        n = frame.size
        if latent_dim >= n:
            fix = "couplings move components beside the latent ones"
            raise InputError("latent_dim", expected=f"less than n = {n}", got=latent_dim, fix=fix)
        check_embedding(embedding, frame)
        sizes = [layers[0] if len(layers) == 1 else list(layers) for layers in units]
        config = {"latent_dim": latent_dim, "units": sizes, "embedding": list(embedding), "bandwidth": bandwidth}
        super().__init__(frame, config)
        self.latent_dim = latent_dim
        self.reflectors = nn.Parameter(uniform((n, latent_dim), 1.0, generator), requires_grad=False)
        self.turn = nn.Parameter(torch.zeros(n, latent_dim)) if len(units) == 1 else None
        self.embedding = Embedding(embedding, generator, bandwidth=bandwidth)
        ends = cycle([(latent_dim, n - latent_dim), (n - latent_dim, 2 * latent_dim)])
        self.couplings = nn.ModuleList(
            Conditioner(inputs, layers, outputs, embedding[-1], generator)
            for layers, (inputs, outputs) in zip(units, ends, strict=False)
        )

    def at(self, c: Tensor) -> Couplings:
        signal = self.embedding(c)
        kinds = cycle((Shift, ScaleAndShift))
        chain = [kind(network(signal)) for kind, network in zip(kinds, self.couplings, strict=False)]
        return Couplings(self.rotation, chain, self.frame.size, self.latent_dim)

    @property
    def rotation(self) -> Rotation:
        """Rotation from the coordinates that couplings move to those of the state."""
        if self.turn is None:
            return Rotation(self.reflectors)
        return Rotation(self.reflectors + TURNING * self.turn)

    def initialise(self, y: Tensor) -> None:
        """Turns the leading modes of the snapshots y (N, n) into the first coordinates."""
        self.reflectors.data = _reflectors(leading_modes(y, self.latent_dim)).to(self.reflectors)


def _reflectors(basis: Tensor) -> Tensor:
    """U (n, m), unit lower triangular, whose `Rotation` begins with the columns of an orthonormal basis, up to sign."""
    reflectors, _ = torch.geqrf(basis)
    return torch.tril(reflectors, -1) + torch.eye(*basis.shape, dtype=basis.dtype)


def _joined(a: Tensor, b: Tensor) -> Tensor:
    """(a, b) along the last axis; leading axes that only one of them has come from its context."""
    lead = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    return torch.cat([a.expand(*lead, -1), b.expand(*lead, -1)], dim=-1)
