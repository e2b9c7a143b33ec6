"""Plain autoencoders: AE, Context-AE (context concatenated to the input) and FiLM+AE (context
scales and shifts).
"""

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from romkit.core.boundary import Sizes, validated
from romkit.core.errors import InputError
from romkit.projections.base import Projection
from romkit.projections.frame import Frame
from romkit.projections.maps import EncoderDecoder
from romkit.projections.networks import (
    Curves,
    FilmHead,
    JointMaps,
    Networks,
    linears,
    relu,
    silu,
    steps,
)


@validated
class AE(Projection):
    """A plain autoencoder with ReLU, no context and no constraint.

    Args:
        encoder: sizes (n, ..., m).
        decoder: sizes (m, ..., n).

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> ae = romkit.fit("ae", data, latent_dim=2, epochs=1, verbose=False)
        >>> ae.config, ae.idempotent
        ({'encoder': [36, 19, 2], 'decoder': [2, 19, 36]}, False)
    """

    name = "ae"
    joint: ClassVar[bool] = False
    """Whether the encoder sees the p parameters of the context behind the state."""

    def __init__(self, frame: Frame, generator: torch.Generator, *, encoder: Sizes, decoder: Sizes):
        n = frame.size
        if (encoder[0], encoder[-1], decoder[-1]) != (n, decoder[0], n):
            raise InputError(
                "decoder",
                expected=f"sizes (m, ..., {n}) after an encoder ({n}, ..., m)",
                got=f"{decoder} after {encoder}",
                fix="leave both out, and give layers",
            )
        super().__init__(frame, {"encoder": list(encoder), "decoder": list(decoder)})
        self.latent_dim = int(decoder[0])
        beside = self.joint * len(frame.context_names)
        self.encoder = linears([n + beside, *encoder[1:]], generator)
        self.decoder = linears(decoder, generator)
        self._make_heads(encoder, decoder, generator)

    def _make_heads(
        self, encoder: Sequence[int], decoder: Sequence[int], generator: torch.Generator
    ) -> None:
        """Make what a context acts by, at layers of these sizes: nothing here."""

    def at(self, c: Tensor) -> EncoderDecoder:
        return Networks(steps(self.encoder, relu), steps(self.decoder, relu))


class ContextAE(AE):
    """An autoencoder whose encoder also sees the context. Arguments as for `AE`; p is added to the
    encoder's n.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> model = romkit.fit("context-ae", data, latent_dim=2, epochs=1, verbose=False)
        >>> model(F=3.15).encode(data.state.values[0]).shape
        (20, 2)
    """

    name = "context-ae"
    joint = True

    def at(self, c: Tensor) -> JointMaps:
        return JointMaps(cast("Curves", super().at(c)), c, self.frame.size)


class FilmAE(AE):
    """An autoencoder with SiLU whose hidden units are scaled and shifted by the context: γ(c) h +
    β(c).

    γ and β of each hidden layer are affine in c, γ near 1 at the start. Arguments as for `AE`.
    Source: Perez et al. (2018); Adriaens et al. (2026), section 4.1, "Baselines".

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> model = romkit.fit("film-ae", data, latent_dim=2, epochs=1, verbose=False)
        >>> model(F=[3.14, 3.18])(data.state.values).shape
        (2, 20, 36)
    """

    name = "film-ae"

    def _make_heads(
        self, encoder: Sequence[int], decoder: Sequence[int], generator: torch.Generator
    ) -> None:
        p = len(self.frame.context_names)
        self.encoder_film = nn.ModuleList(FilmHead(p, size, generator) for size in encoder[1:-1])
        self.decoder_film = nn.ModuleList(FilmHead(p, size, generator) for size in decoder[1:-1])

    def at(self, c: Tensor) -> Networks:
        return Networks(
            steps(self.encoder, silu, [head(c) for head in self.encoder_film]),
            steps(self.decoder, silu, [head(c) for head in self.decoder_film]),
        )
