"""Constrained autoencoders: layer pairs that invert each other exactly, so that P is idempotent by
construction.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

from romkit.core.boundary import Positive, Sizes, validated
from romkit.core.types import Entries, Pair, Shape
from romkit.projections.base import Projection
from romkit.projections.frame import Frame
from romkit.projections.layers import (
    MIDDLE_SLOPE,
    FixedBias,
    FixedSlope,
    LayerPairs,
    ModulatedBias,
    ModulatedSlope,
    layer_pairs,
)
from romkit.projections.linear import leading_modes
from romkit.projections.networks import Embedding, JointMaps
from romkit.projections.sizes import check_chain, check_embedding
from romkit.projections.weights import BiorthogonalPair, FollowingWeight, FreePair, expand_contexts

Slope = Annotated[float, Ge(0), Lt(math.pi / 4)]


def typical_layers(latent_dim: int, n: int, first: int = 24, second: int = 48) -> Shape:
    """Return the default sizes (m, 24, 48, n) of layers of an NcAE behind a basis, or whose weights
    follow the context, as far as n allows.
    """
    inner = min(max(first, latent_dim), n)
    return latent_dim, inner, min(max(second, inner), n), n


Part = Callable[[int, int, torch.Generator], nn.Module]


class Constrained(Projection):
    """Base of the constrained autoencoders: weights, slopes and biases of each layer pair.

    A method is a choice of three kinds of part: pairs of weights (n, r), and slopes and biases of
    units, each fixed or driven by the signal s = embedding(c), whose size is their first argument.
    A subclass sets `embedding`.
    """

    weight: ClassVar[Part] = BiorthogonalPair
    slope: ClassVar[Part] = ModulatedSlope
    bias: ClassVar[Part] = ModulatedBias
    embedding: nn.Module

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        config: Entries,
        sizes: Sequence[int],
        signal: int,
    ):
        super().__init__(frame, config)
        self.latent_dim = sizes[0]
        self.weights = nn.ModuleList(self.weight(n, r, generator) for r, n in pairwise(sizes))
        self.slopes = nn.ModuleList(self.slope(signal, r, generator) for r in sizes[:-1])
        self.biases = nn.ModuleList(self.bias(signal, n, generator) for n in sizes[1:])

    def at(self, c: Tensor) -> LayerPairs:
        weights = [weight() for weight in self.weights]
        return layer_pairs(weights, self.slopes, self.biases, self.embedding(c))

    def penalty(self, maps: LayerPairs) -> Tensor:
        penalties = [
            weight.penalty(layer.phi, layer.psi)
            for weight, layer in zip(self.weights, maps.layers, strict=True)
        ]
        return sum(penalties)


@validated
class CAE(Constrained):
    """The constrained autoencoder of Otto et al. (2023): fixed slopes, no context.

    Args:
        layers: sizes from the latent side to the state, (m, ..., n).
        slope: α of every unit, in (0, π/4).

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> P = romkit.fit("cae", data, latent_dim=2, epochs=1, verbose=False).double()(F=3.15)
        >>> x = torch.from_numpy(data.state.values)
        >>> torch.allclose(P(P(x)), P(x))
        True
    """

    name = "cae"
    idempotent = True
    bias = FixedBias
    joint: ClassVar[bool] = False
    """Whether the layers see the p parameters of the context behind the state."""

    def __init__(
        self, frame: Frame, generator: torch.Generator, *, layers: Sizes, slope: Slope = math.pi / 8
    ):
        check_chain("layers", layers, frame.size)
        *inner, n = layers
        sizes = [*inner, n + (self.joint * len(frame.context_names))]
        super().__init__(frame, generator, {"layers": list(layers), "slope": slope}, sizes, 0)
        self.embedding = nn.Identity()

    def slope(self, signal: int, size: int, generator: torch.Generator) -> FixedSlope:
        """Slope of the settings, for every unit."""
        return FixedSlope(signal, size, generator, alpha=self.config["slope"])


@validated
class ContextCAE(CAE):
    """A cAE of the joint vector (x, c), whose decoded context is thrown away: not idempotent in x
    alone.

    Args: as for `CAE`; the last of `layers` is the size of x, and the p of the context is added to
    it.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> model = romkit.fit("context-cae", data, latent_dim=2, epochs=1, verbose=False)
        >>> model(F=3.15)(data.state.values[0]).shape, model.idempotent
        ((20, 36), False)
    """

    name = "context-cae"
    idempotent = False
    joint = True

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        *,
        layers: Sizes,
        slope: Slope = MIDDLE_SLOPE,
    ):
        super().__init__(frame, generator, layers=layers, slope=slope)

    def at(self, c: Tensor) -> JointMaps:
        return JointMaps(super().at(c), c, self.frame.size)

    def penalty(self, maps: JointMaps) -> Tensor:
        return super().penalty(maps.maps)


@validated
class Modulated(Constrained):
    """Base of the NcAE and its variants: a subclass names the kinds of part that it is made of.

    Args:
        layers: sizes from the latent side to the state, (m, ..., n).
        embedding: sizes of the network that makes the signal s from the context, (p, ..., d).
        bandwidth: how fast the signal may change: the network sees the training range as
            [-bandwidth, bandwidth]. Over a bifurcation, where the manifold changes within a small
            part of the range, more than 1 learns it better.
    """

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        *,
        layers: Sizes,
        embedding: Sizes,
        bandwidth: Positive = 1.0,
    ):
        check_chain("layers", layers, frame.size)
        check_embedding(embedding, frame)
        config = {"layers": list(layers), "embedding": list(embedding), "bandwidth": bandwidth}
        super().__init__(frame, generator, config, layers, embedding[-1])
        self.embedding = Embedding(embedding, generator, bandwidth=bandwidth)

    def initialise_modes(self, y: Tensor) -> None:
        """Weights that read off the leading modes of snapshots y (N, n): a start for training."""
        outer = self.config["layers"][-2]
        for k, weight in enumerate(self.weights):
            start = torch.eye(*weight.phi.shape)
            if k == len(self.weights) - 1:
                start = leading_modes(y, outer)
            weight.phi.data = start.to(weight.phi).clone()
            weight.psi.data = start.to(weight.psi).clone()


class NcAE(Modulated):
    """The neuromodulated constrained autoencoder: slopes and biases of every layer pair follow the
    context.

    Source: Adriaens et al. (2026), section 3.

    Example:
        >>> import torch
        >>> import romkit
        >>> from romkit.projections import NcAE
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> ncae = romkit.fit(NcAE.with_sizes(layers=(2, 12, 36), embedding=(1, 4, 4)), data, epochs=1, verbose=False)
        >>> P = ncae.double()(F=3.15)
        >>> x = torch.from_numpy(data.state.values)
        >>> torch.allclose(P(P(x)), P(x))
        True
    """

    name = "ncae"
    idempotent = True


class WeightsNcAE(Modulated):
    """NcAE whose weights follow the context as well: Φ(c) = Φ + (I - Φ Ψᵀ) Δ(c), exact for any Δ.

    Δ is linear in the signal s that slopes and biases follow, and zero at the start, where the
    network reads off the leading modes of the data. Where an NcAE bends and shifts one subspace of
    each layer, this one turns it.

    Args: as for `NcAE`; by default `layers` are (m, 24, 48, n).

    Source: Adriaens et al. (2026), section 3, for slopes and biases; docs/explanation has the proof
    for the weights.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> model = romkit.fit("ncae-weights", data, latent_dim=2, epochs=1, verbose=False).double()
        >>> P = model(F=3.15)
        >>> x = torch.from_numpy(data.state.values)
        >>> torch.allclose(P(P(x)), P(x))
        True
    """

    name = "ncae-weights"
    idempotent = True

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        *,
        layers: Sizes,
        embedding: Sizes,
        bandwidth: Positive = 1.0,
    ):
        super().__init__(frame, generator, layers=layers, embedding=embedding, bandwidth=bandwidth)
        signal = embedding[-1]
        self.followers = nn.ModuleList(FollowingWeight(signal, n, r) for r, n in pairwise(layers))

    @classmethod
    def default_layers(cls, latent_dim: int, n: int) -> Shape:
        return typical_layers(latent_dim, n)

    def at(self, c: Tensor) -> LayerPairs:
        signal = self.embedding(c)
        return layer_pairs(self._weights(signal), self.slopes, self.biases, signal)

    def _weights(self, signal: Tensor) -> Iterator[Pair]:
        """Φ(c) and Ψ of each layer."""
        for follower, weight in zip(self.followers, self.weights, strict=True):
            phi, psi = weight()
            yield follower(phi, psi, signal), psi

    def penalty(self, maps: LayerPairs) -> Tensor:
        """Return mean of ‖Φ(c) - Ψ‖² over the contexts, summed over layers."""
        total = torch.zeros(())
        for weight, layer in zip(self.weights, maps.layers, strict=True):
            apart = weight.penalty(layer.phi, expand_contexts(layer.psi, layer.phi))
            if apart.ndim > 1:
                apart = apart.flatten(1).mean(1)
            total = total + apart
        return total

    def initialise(self, y: Tensor, c: Tensor) -> None:
        self.initialise_modes(y)


class BiasNcAE(Modulated):
    """NcAE with the bias channel alone; slopes stay in the middle of their range.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> model = romkit.fit("ncae-bias", data, latent_dim=2, epochs=1, verbose=False)
        >>> type(model).__name__, model.idempotent
        ('BiasNcAE', True)
    """

    name = "ncae-bias"
    idempotent = True
    slope = FixedSlope


class SlopeNcAE(Modulated):
    """NcAE with the slope channel alone; biases do not depend on the context.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> model = romkit.fit("ncae-slope", data, latent_dim=2, epochs=1, verbose=False)
        >>> type(model).__name__, model.idempotent
        ('SlopeNcAE', True)
    """

    name = "ncae-slope"
    idempotent = True
    bias = FixedBias


class SoftNcAE(Modulated):
    """NcAE whose weights are free and only penalised by ‖Ψᵀ Φ - I‖², so idempotent only
    approximately.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> model = romkit.fit("soft-ncae", data, latent_dim=2, epochs=1, verbose=False)
        >>> type(model).__name__, model.idempotent
        ('SoftNcAE', False)
    """

    name = "soft-ncae"
    weight = FreePair
