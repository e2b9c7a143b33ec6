"""Encoders, decoders and projections as traces: the form in which they are certified."""

import abc
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from romkit.certificates.ranges import Range, hyperbola, log_scale, modulated_slope, slope_of
from romkit.certificates.trace import Argument, Signal, Trace
from romkit.core.errors import InputError
from romkit.projections import AE, ContextAE, ContextCAE, FilmAE, Flow, Projection
from romkit.projections.autoencoders import FilmHead
from romkit.projections.constrained import Constrained
from romkit.projections.flow import Conditioner
from romkit.projections.layers import (
    Embedding,
    FixedBias,
    FixedSlope,
    Linear,
    ModulatedBias,
    ModulatedSlope,
    ReLU,
    SiLU,
    inverse_pair,
)


class Network(abc.ABC):
    """A projection in float64 on a trace, whose inputs are a state, or a latent state, and a context.

    Args:
        model: a single one, without a basis in front.
        trace: its inputs are in physical units.
    """

    def __init__(self, model: Projection, trace: Trace):
        self.trace, self.model = trace, model
        frame = model.frame
        self.shift, self.scale = frame.state_shift, frame.state_scale
        c_shift, c_scale = frame.context_shift, frame.context_scale
        self.context = trace.inputs[1].through(torch.diag(1 / c_scale), -c_shift / c_scale)

    def map(self, which: str) -> Signal:
        """The output of the "encoder", "decoder" or "projection", in physical units."""
        start = self.trace.inputs[0]
        if which == "decoder":
            return self._physical(self.decode(start))
        y = start.through(torch.diag(1 / self.scale), -self.shift / self.scale)
        return self.encode(y) if which == "encoder" else self._physical(self.project(y))

    @abc.abstractmethod
    def encode(self, y: Signal) -> Signal: ...

    @abc.abstractmethod
    def decode(self, z: Signal) -> Signal: ...

    def project(self, y: Signal) -> Signal:
        return self.decode(self.encode(y))

    def _physical(self, y: Signal) -> Signal:
        return y.through(torch.diag(self.scale), self.shift)

    def _linear(self, layer: Linear, x: Signal) -> Signal:
        return x.through(layer.weight.mT, layer.bias)

    def _pointwise(self, activation: SiLU | ReLU, x: Signal) -> Signal:
        return self.trace.units(activation(x.value), Argument(x, slope_of(activation, self.trace.over(x))))

    def _embedding(self, embedding: Embedding) -> Signal:
        s = self.context.through(embedding.bandwidth * torch.eye(len(self.context.value), dtype=torch.float64))
        for layer in embedding.layers[:-1]:
            s = self._pointwise(SiLU(), self._linear(layer, s))
        return self._linear(embedding.layers[-1], s)

    def _scaled_and_shifted(self, film: FilmHead, x: Signal, by: Signal) -> Signal:
        gamma = self._linear(film.gamma, by)
        return self._product(x, gamma._replace(value=1 + gamma.value)).plus(self._linear(film.beta, by))

    def _product(self, x: Signal, factor: Signal) -> Signal:
        ranges = self.trace.over(factor), self.trace.over(x)
        return self.trace.units(x.value * factor.value, Argument(x, ranges[0]), Argument(factor, ranges[1]))


class Pairs(Network):
    """Constrained autoencoders. In P, σ₊ after σ₋ of the same slopes are the identity."""

    def __init__(self, model: Constrained, trace: Trace):
        super().__init__(model, trace)
        constant = not isinstance(model.embedding, Embedding)
        signal = trace.constant(torch.zeros(0)) if constant else self._embedding(model.embedding)
        self.weights = [weight() for weight in model.weights]
        self.biases = [self._bias(bias, signal) for bias in model.biases]
        self.slopes = [self._slope(slope, signal) for slope in model.slopes]

    def encode(self, y: Signal) -> Signal:
        return self._bent(self._inwards(y), 0, -1.0)

    def decode(self, z: Signal) -> Signal:
        return self._outwards(self._bent(z, 0, 1.0))

    def project(self, y: Signal) -> Signal:
        return self._outwards(self._inwards(y))

    def _inwards(self, y: Signal) -> Signal:
        """The encoder without its last activation."""
        for k in reversed(range(len(self.weights))):
            psi = self.weights[k][1]
            y = y.plus(self.biases[k].through(-torch.eye(len(psi), dtype=psi.dtype))).through(psi.mT)
            y = self._bent(y, k, -1.0) if k else y
        return y

    def _outwards(self, z: Signal) -> Signal:
        """The decoder without its first activation."""
        for k, (phi, _) in enumerate(self.weights):
            z = (self._bent(z, k, 1.0) if k else z).through(phi).plus(self.biases[k])
        return z

    def _bent(self, x: Signal, k: int, sign: float) -> Signal:
        alpha, q, angle, rate = self.slopes[k]
        slope, bend = hyperbola(self.trace.over(x), angle, sign)
        value = inverse_pair(alpha)[int(sign > 0)](x.value)
        if q is None:
            return self.trace.units(value, Argument(x, slope))
        return self.trace.units(value, Argument(x, slope), Argument(q, bend * rate))

    def _bias(self, bias: ModulatedBias | FixedBias, signal: Signal) -> Signal:
        if isinstance(bias, ModulatedBias):
            return signal.through(bias.weight.mT, bias.bias)
        return self.trace.constant(bias.bias)

    def _slope(
        self, slope: ModulatedSlope | FixedSlope, signal: Signal
    ) -> tuple[Tensor, Signal | None, Range, Range | None]:
        """α at the center, what it depends on, its range, and that of its derivative."""
        if isinstance(slope, ModulatedSlope):
            q = signal.through(slope.weight.mT)
            return slope(signal.value), q, *modulated_slope(self.trace.over(q))
        alpha = slope(self.context.value)
        return alpha, None, Range(alpha, alpha), None


class Plain(Network):
    """Autoencoders of the plain kind, with or without FiLM."""

    def __init__(self, model: AE, trace: Trace):
        super().__init__(model, trace)
        film = isinstance(model, FilmAE)
        self.activation = SiLU() if film else ReLU()
        self.films = (model.encoder_film, model.decoder_film) if film else ((), ())

    def encode(self, y: Signal) -> Signal:
        return self._layers(self.model.encoder, self.films[0], y)

    def decode(self, z: Signal) -> Signal:
        return self._layers(self.model.decoder, self.films[1], z)

    def _layers(self, layers: nn.ModuleList, films: Sequence[FilmHead], x: Signal) -> Signal:
        for k, layer in enumerate(layers):
            x = self._linear(layer, x)
            if k == len(layers) - 1:  # the last layer is affine
                return x
            x = self._pointwise(self.activation, x)
            for film in films[k : k + 1]:
                x = self._scaled_and_shifted(film, x, self.context)
        return x


class Chain(Network):
    """A coupling flow."""

    def __init__(self, model: Flow, trace: Trace):
        super().__init__(model, trace)
        self.signal, self.m = self._embedding(model.embedding), model.latent_dim
        eye = torch.eye(len(self.shift), dtype=torch.float64)
        self.rotation = model.rotation(eye).mT

    def encode(self, y: Signal) -> Signal:
        w = y.through(self.rotation.mT)
        eye = torch.eye(len(w.value), dtype=torch.float64)
        fixed, free = w.through(eye[: self.m]), w.through(eye[self.m :])
        for k in reversed(range(1, len(self.model.couplings))):
            fixed, free = self._moved(k, free, fixed, -1.0), fixed
        return fixed

    def decode(self, z: Signal) -> Signal:
        fixed, free = z, self.trace.constant(torch.zeros(len(self.shift) - self.m, dtype=torch.float64))
        for k in range(len(self.model.couplings)):
            fixed, free = self._moved(k, free, fixed, 1.0), fixed
        n = len(self.shift)
        eye = torch.eye(n, dtype=torch.float64)
        return free.through(eye[:, : self.m]).plus(fixed.through(eye[:, self.m :])).through(self.rotation)

    def _moved(self, k: int, x: Signal, y: Signal, sign: float) -> Signal:
        """x after the k-th coupling (sign 1), or before it (sign -1), by the other part y."""
        network: Conditioner = self.model.couplings[k]
        inner = self._linear(network.inner, y).plus(self.signal.through(network.signal.mT))
        h = self._pointwise(SiLU(), inner)
        for film, layer in zip(network.films, network.hidden, strict=True):
            h = self._pointwise(SiLU(), self._linear(layer, self._scaled_and_shifted(film, h, self.signal)))
        out = self._linear(network.outer, h)
        eye = torch.eye(len(out.value), dtype=torch.float64)
        if k % 2 == 0:
            return x.plus(out.through(sign * eye))
        g, s = out.through(eye[: self.m]), out.through(eye[self.m :])
        if sign > 0:
            return self._scaled(x, g, sign).plus(s)
        return self._scaled(x.plus(s.through(-torch.eye(self.m, dtype=torch.float64))), g, sign)

    def _scaled(self, x: Signal, g: Signal, sign: float) -> Signal:
        """x exp(±tanh g)."""
        factor, rate = log_scale(self.trace.over(g), sign)
        value = x.value * (sign * g.value.tanh()).exp()
        return self.trace.units(value, Argument(x, factor), Argument(g, rate * self.trace.over(x)))


def network(model: Projection, trace: Trace) -> Network:
    """The projection on a trace.

    Raises:
        InputError: one whose steps are not known.
    """
    for kinds, found in _NETWORKS.items():
        if isinstance(model, kinds) and not isinstance(model, ContextAE | ContextCAE):
            return found(model, trace)
    expected, fix = "a constrained autoencoder, a flow, or an autoencoder", "what has no network bounds itself"
    raise InputError("projection", expected=expected, got=model.name, fix=fix)


_NETWORKS = {Constrained: Pairs, Flow: Chain, AE: Plain}
