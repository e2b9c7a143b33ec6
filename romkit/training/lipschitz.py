"""A term of the loss that keeps the Lipschitz bound of a constrained autoencoder below a target."""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.core.boundary import NotNegative, Positive, validated
from romkit.core.errors import InputError
from romkit.projections.layers import Hyperbola, LayerDecoder, LayerEncoder, Networks
from romkit.training.loss import Evaluated, Term


@validated
@dataclass(frozen=True)
class LipschitzBound(Term):
    """`weight` times the square of log(bound / target) where the bound of P is above the target, zero elsewhere.

    The bound is the product of the norms of all weights and of the largest slopes at the contexts of the batch, in
    normalised coordinates: of P itself where all states have one unit. That of `romkit.certify` is never larger.

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


def log_bound(maps: object) -> Tensor:
    """(S,) logarithm of the product bound of P; σ₊ after σ₋ in the middle is the identity.

    Raises:
        InputError: maps that are no constrained autoencoder.
    """
    pairs = isinstance(maps, Networks) and all(isinstance(s, LayerEncoder | LayerDecoder) for s in maps.encoder)
    if not pairs:
        got, fix = type(maps).__name__, "leave the term out, or fit 'ncae' or 'cae'"
        raise InputError("loss", expected="a constrained autoencoder for LipschitzBound", got=got, fix=fix)
    weights = [step.psi for step in maps.encoder] + [step.phi_t for step in maps.decoder]
    activations = [step.activation for step in (*maps.encoder[:-1], *maps.decoder[1:])]
    norms = [torch.linalg.matrix_norm(weight, 2).log() for weight in weights]
    return sum(norms) + sum((_steepest(activation).log() for activation in activations), torch.zeros_like(norms[0]))


def _steepest(activation: Hyperbola) -> Tensor:
    """Largest slope at any input, unit and context: (S,) of gains (S, ..., r), or () of a fixed slope."""
    slope = activation.gain + 2 * activation.bend.abs()
    return slope.flatten(1).amax(1) if slope.ndim > 1 else slope.amax()
