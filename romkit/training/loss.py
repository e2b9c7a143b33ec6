"""Loss on snapshots: a list of terms, each with one value per seed; shared values are evaluated
once.
"""

import abc
import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from romkit.core.boundary import NotNegative, Positive, validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.core.tensors import divisor
from romkit.core.types import Dual
from romkit.projections import EncoderDecoder, Frame, Projection
from romkit.projections.activations import Hyperbola
from romkit.projections.layers import LayerPairs
from romkit.projections.linear import leading_modes
from romkit.systems import System
from romkit.training.batches import AnyBatch, Batch, ExtendedBatch


class Evaluated(NamedTuple):
    """A batch with what terms share, in normalised coordinates, for S seeds and B snapshots.

    `encoded` is ρ(y) and Dρ(y) ẏ, `decoded` is P(y) and DP(y) ẏ, `weights` (n,) those of squared
    components in the norm of the loss, `extra` (S, B, k) what `LossTerm.attach` gave for these
    snapshots, and `unit` the time in which velocities are counted.

    Example:
        >>> import romkit
        >>> from romkit.training import LossTerm, Reconstruction
        >>> class SmallLatents(LossTerm):
        ...     def value(self, batch):
        ...         return 1e-3 * batch.encoded.value.square().sum(-1).mean(-1)  # batch is an Evaluated
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> loss = [Reconstruction(), SmallLatents()]
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, loss=loss, epochs=1, verbose=False)
        >>> ncae.report["recipe"]["loss"][1]
        {'term': 'SmallLatents'}
    """

    projection: Projection
    maps: EncoderDecoder
    y: Tensor
    dy: Tensor
    c: Tensor
    encoded: Dual
    decoded: Dual
    weights: Tensor
    system: System | None
    extra: Tensor | None
    unit: float = 1.0

    @property
    def snapshots(self) -> int:
        """B."""
        return self.y.shape[-2]

    def mean(self, squares: Tensor) -> Tensor:
        """(S,) mean over the batch of squared components (S, B, n), each weighed as the norm of the
        loss does.
        """
        return (squares @ self.weights).mean(-1)

    def field(self) -> Tensor:
        """f(Py) (S, B, n) of the full model, which is of first order."""
        frame, y = self.projection.frame, self.decoded.value
        context = align(frame.denormalise_context(self.c), y)
        assert self.system is not None  # of terms that ask for its field
        rate = self.system.rhs(y.new_zeros(()), frame.denormalise(y), context)
        return self.unit * rate / frame.state_scale

    def carried(self, velocity: Tensor) -> Tensor:
        """DP(Py) v (S, B, n) of velocities v there."""
        rate = self.maps.encode_jvp(self.decoded.value, velocity).tangent
        return self.maps.decode_jvp(self.encoded.value, rate).tangent


class LossTerm(abc.ABC):
    """One term of the loss. A user's own goes into the list of `romkit.fit(..., loss=[...])`.

    Attributes:
        needs_field: whether it evaluates the field ẋ = f of the full model.

    Example:
        >>> import romkit
        >>> from romkit.training import LossTerm, Reconstruction
        >>> class SmallLatents(LossTerm):
        ...     def value(self, batch):
        ...         return 1e-3 * batch.encoded.value.square().sum(-1).mean(-1)
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> loss = [Reconstruction(), SmallLatents()]
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, loss=loss, epochs=1, verbose=False)
        >>> [term["term"] for term in ncae.report["recipe"]["loss"]]
        ['Reconstruction', 'SmallLatents']
    """

    needs_field: ClassVar[bool] = False

    @abc.abstractmethod
    def value(self, batch: Evaluated) -> Tensor:
        """(S,) value of each seed on its batch, its weight included."""

    def attach(
        self, rows: Batch, frame: Frame, weights: Tensor, system: System | None
    ) -> Tensor | None:
        """Return numbers (N, k) that go with the snapshots (N, n) into the batches, made once
        before training; or None.

        Only one term of a loss may have them.
        """
        return None

    def prepared(self, rows: Batch) -> "LossTerm":
        """Return the term for a training on these snapshots (N, n): itself, unless it needs
        something of them.
        """
        return self


@validated
@dataclass(frozen=True)
class Reconstruction(LossTerm):
    """Mean over the batch of ‖y - P(y)‖² + w ‖ẏ - DP(y) ẏ‖².

    Args:
        velocity_weight: w, for velocities in the unit of time of `romkit.fit`, in which both errors
            are of one size; 0 trains on positions alone.

    Source: Adriaens et al. (2026), appendix "Training objective", with w = 1.

    Example:
        >>> from romkit.training import Recipe, Reconstruction
        >>> Reconstruction()
        Reconstruction(velocity_weight=1.0)
        >>> Recipe().replace_settings({"velocity_weight": 0.5}).loss[0]
        Reconstruction(velocity_weight=0.5)
    """

    velocity_weight: NotNegative = 1.0

    def value(self, batch: Evaluated) -> Tensor:
        image, velocity = batch.decoded
        of_position = (batch.y - image).square()
        of_velocity = (batch.dy - velocity).square()
        return batch.mean(of_position + self.velocity_weight * of_velocity)


@validated
@dataclass(frozen=True)
class Penalty(LossTerm):
    """The method's own penalty (‖Φ - Ψ‖² for exact pairs, ‖Ψᵀ Φ - I‖² for SoftNcAE) times `weight`.

    Example:
        >>> from romkit.training import Penalty, Recipe
        >>> Recipe().replace_settings({"penalty_weight": 0.01}).loss
        (Reconstruction(velocity_weight=1.0), Penalty(weight=0.01))
        >>> Penalty(-1.0)
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: weight: expected a number that is not negative, got -1.0; give weight >= 0
    """

    weight: NotNegative = 1e-3

    def value(self, batch: Evaluated) -> Tensor:
        return self.weight * batch.projection.penalty(batch.maps)


@validated
@dataclass(frozen=True)
class LatentVelocity(LossTerm):
    """`weight` times the mean of ‖ẏ - DP(Py) f(Py)‖²: the latent velocity where the encoder's field
    evaluates it.

    The reconstruction loss sees Dρ on the data alone, the reduced model sees it on the manifold
    alone.

    Example:
        >>> import romkit
        >>> from romkit.training import LatentVelocity, Reconstruction
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> loss = [Reconstruction(), LatentVelocity(weight=0.1)]
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, loss=loss, epochs=1, verbose=False)
        >>> [term["term"] for term in ncae.report["recipe"]["loss"]]
        ['Reconstruction', 'LatentVelocity']
    """

    weight: NotNegative = 1.0
    needs_field = True

    def value(self, batch: Evaluated) -> Tensor:
        error = batch.dy - batch.carried(batch.field())
        return batch.mean(self.weight * error.square())


ANCHORED = 64
"""Most leading modes that latents may be anchored to."""


@validated
@dataclass(frozen=True)
class Anchor(LossTerm):
    """`weight` times the mean of ‖ρ(y, c) - Eᵀ y‖², with the leading modes E of the snapshots.

    Without it the latents of a trained encoder may turn and stretch with the context, and a law has
    to follow them. With it they stay near the coordinates that POD has.

    Example:
        >>> import romkit
        >>> from romkit.training import Anchor, Penalty, Reconstruction
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> loss = [Reconstruction(), Penalty(), Anchor(weight=0.1)]
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, loss=loss, epochs=1, verbose=False)
        >>> ncae.report["recipe"]["loss"][-1]
        {'term': 'Anchor', 'weight': 0.1}
    """

    weight: NotNegative = 1.0

    def prepared(self, rows: Batch) -> LossTerm:
        modes = leading_modes(rows.y, min(ANCHORED, rows.y.shape[1]))
        return _AnchorTo(self.weight, modes.to(rows.y))

    def value(self, batch: Evaluated) -> Tensor:
        raise InputError(
            "loss",
            expected="an anchor to modes",
            got="none",
            fix="call prepared(rows) first, as romkit.fit does",
        )


@dataclass(frozen=True)
class _AnchorTo(LossTerm):
    """The anchor to these modes (n, k)."""

    weight: float
    modes: Tensor

    def value(self, batch: Evaluated) -> Tensor:
        z = batch.encoded.value
        m = z.shape[-1]
        if m > self.modes.shape[1]:
            raise InputError(
                "loss",
                expected=f"an anchor of {ANCHORED}",
                got=f"{m} latents",
                fix="leave the term out: anchor_weight=0",
            )
        apart = z - batch.y @ self.modes[:, :m].to(batch.y)
        return self.weight * apart.square().sum(-1).mean(-1)


class Objective(nn.Module):
    """The sum of the terms.

    y is the state in normalised coordinates (see `romkit.projections.frame`), so weights mean the
    same for every system. Component i counts (scale / σᵢ)^(2 weighting) in the norm, σᵢ its
    standard deviation.

    Args:
        projection: a stack; the loss has one entry per seed.
        terms: of the loss.
        weighting: 0 for physical errors, 1 for errors relative to each component's own standard
            deviation.
        system: gives f, where a term needs it.
        unit: of time, in which velocities are counted.
    """

    def __init__(
        self,
        projection: Projection,
        terms: Sequence[LossTerm],
        weighting: float = 0.0,
        system: System | None = None,
        unit: float = 1.0,
    ):
        super().__init__()
        self.projection = projection
        self.terms = terms
        self.component_weighting = weighting
        self.system = system
        self.unit = unit
        self.component_weights: Tensor
        self.register_buffer("component_weights", component_weights(projection.frame, weighting))

    def forward(self, y: Tensor, dy: Tensor, c: Tensor, extra: Tensor | None = None) -> Tensor:
        """(S,) loss of each seed on its batch."""
        maps = self.projection.at(c)
        encoded = maps.encode_jvp(y, dy)
        decoded = maps.decode_jvp(*encoded)
        # every term gets the same maps: evaluated once, they are most of the cost of a step
        batch = Evaluated(
            self.projection,
            maps,
            y,
            dy,
            c,
            encoded,
            decoded,
            self.component_weights,
            self.system,
            extra,
            self.unit,
        )
        values = [term.value(batch) for term in self.terms]
        return functools.reduce(operator.add, values)


def attached(
    rows: Batch,
    terms: Sequence[LossTerm],
    frame: Frame,
    component_weighting: float,
    system: System | None,
) -> AnyBatch:
    """Return the snapshots with what a term attaches to them, if one does."""
    weights = component_weights(frame, component_weighting)
    attachments = [term.attach(rows, frame, weights, system) for term in terms]
    extras = [extra for extra in attachments if extra is not None]
    if len(extras) > 1:
        raise InputError(
            "loss",
            expected="one term with numbers of its own",
            got=str(len(extras)),
            fix="leave one of them out",
        )
    if not extras:
        return rows
    return ExtendedBatch(*rows, *extras)


def component_weights(frame: Frame, component_weighting: float) -> Tensor:
    """(n,) weight of each squared component of a state in normalised coordinates."""
    return (frame.state_scale / divisor(frame.state_std)) ** (2 * component_weighting)


def check_autonomous(system: System, rows: Batch, frame: Frame, times: Tensor) -> None:
    """Raise InputError where the field depends on the time, which losses do not know."""
    # ten states are enough: a field that depends on time does so nearly everywhere
    sample = slice(None, None, math.ceil(len(rows.y) / 10))
    x = frame.denormalise(rows.y[sample])
    states = (x, frame.denormalise_tangent(rows.dy[sample]))[: system.order]
    field = system.field(frame.denormalise_context(rows.c[sample]))
    begin = field(times[0], *states)
    middle = field(times[len(times) // 2], *states)
    end = field(times[-1], *states)
    if not torch.equal(begin, middle) or not torch.equal(begin, end):
        raise InputError(
            "system",
            expected="a field that does not depend on time, for a loss that evaluates it",
            got=system.name,
            fix="train without it",
        )


@validated
@dataclass(frozen=True)
class LipschitzBound(LossTerm):
    """`weight` times the square of log(bound / target) where the bound of P is above the target,
    zero elsewhere.

    The bound is the product of the norms of all weights and of the largest slopes at the contexts
    of the batch, in normalised coordinates: of P itself where all states have one unit. That of
    `romkit.certify` is never larger.

    Args:
        target: of the Lipschitz constant of P.
        weight: of the term.

    Example:
        >>> import romkit
        >>> from romkit.training import LipschitzBound, Penalty, Reconstruction
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> loss = [Reconstruction(), Penalty(), LipschitzBound(target=5.0)]
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, loss=loss, epochs=1, verbose=False)
        >>> ncae.report["recipe"]["loss"][-1]
        {'term': 'LipschitzBound', 'target': 5.0, 'weight': 1.0}
    """

    target: Positive = 30.0
    weight: NotNegative = 1.0

    def value(self, batch: Evaluated) -> Tensor:
        excess = log_bound(batch.maps) - torch.tensor(self.target, dtype=batch.y.dtype).log()
        return self.weight * excess.clamp(min=0).square()


@validated
@dataclass(frozen=True)
class ContextSlope(LossTerm):
    """`weight` times the mean over snapshots of the square of log(slope / target) where the slope
    ‖∂P_c(y)/∂d‖ is above the target, zero elsewhere.

    The slope is by the normalised context d, whose range is from -1 to 1, in normalised states: what
    `context_upper` of `romkit.certify` bounds on a ball, at the snapshots themselves.

    Args:
        target: of the slope.
        weight: of the term.

    Example:
        >>> import romkit
        >>> from romkit.training import ContextSlope, Penalty, Reconstruction
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> loss = [Reconstruction(), Penalty(), ContextSlope(target=0.5)]
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, loss=loss, epochs=1, verbose=False)
        >>> ncae.report["recipe"]["loss"][-1]
        {'term': 'ContextSlope', 'target': 0.5, 'weight': 1.0}
    """

    target: Positive = 1.0
    weight: NotNegative = 1.0

    def value(self, batch: Evaluated) -> Tensor:
        def projected(c: Tensor) -> Tensor:
            maps = batch.projection.at(c)
            return maps.decode(maps.encode(batch.y))

        square = torch.zeros_like(batch.y[..., 0])  # (S, B)
        for direction in torch.eye(batch.c.shape[-1], dtype=batch.c.dtype, device=batch.c.device):
            along = direction.expand(batch.c.shape)
            slope = torch.func.jvp(projected, (batch.c,), (along,))[1]  # (S, B, n)
            square = square + slope.square().sum(-1)
        # below the target neither a value nor a gradient
        excess = square.clamp(min=self.target**2).log() / 2 - math.log(self.target)
        return self.weight * excess.square().mean(-1)


def log_bound(maps: object) -> Tensor:
    """(S,) logarithm of the product bound of P; σ₊ after σ₋ in the middle is the identity.

    Raises:
        InputError: maps that are no constrained autoencoder.
    """
    if not isinstance(maps, LayerPairs):
        raise InputError(
            "loss",
            expected="a constrained autoencoder for LipschitzBound",
            got=type(maps).__name__,
            fix="leave the term out, or fit 'ncae' or 'cae'",
        )
    norms, slopes = [], []
    for k, layer in enumerate(maps.layers):
        norms.append(torch.linalg.matrix_norm(layer.psi, 2).log())
        norms.append(torch.linalg.matrix_norm(layer.phi, 2).log())
        if k > 0:  # σ₊ after σ₋ of the innermost layer is the identity
            slopes.append(_steepest(layer.minus).log())
            slopes.append(_steepest(layer.plus).log())
    return sum(norms) + sum(slopes, torch.zeros_like(norms[0]))


def _steepest(activation: Hyperbola) -> Tensor:
    """Return largest slope at any input, unit and context: (S,) of gains (S, ..., r), or () of a
    fixed slope.
    """
    slope = activation.gain + 2 * activation.bend.abs()
    return slope.flatten(1).amax(1) if slope.ndim > 1 else slope.amax()
