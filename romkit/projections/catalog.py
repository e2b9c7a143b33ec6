"""Methods by name, and their layer sizes from a latent dimension."""

import inspect
from collections.abc import Sequence

from romkit.core import checks
from romkit.core.boundary import Count, Sizes, validated
from romkit.core.errors import InputError
from romkit.projections.autoencoders import AE, ContextAE, FilmAE
from romkit.projections.base import Projection, check_chain
from romkit.projections.constrained import CAE, BiasNcAE, ContextCAE, NcAE, SlopeNcAE, SoftNcAE
from romkit.projections.flow import Flow
from romkit.projections.frame import Frame
from romkit.projections.linear import POD, QuadraticManifold

WIDEST = 128
"""Widest middle layer of a default architecture: it does not grow with n, so neither does the work per component."""


@validated
def architecture(
    method: type[Projection],
    frame: Frame,
    *,
    latent_dim: Count | None = None,
    layers: Sizes | None = None,
    **settings: object,
) -> dict[str, object]:
    """Arguments that build `method` for this state and context.

    Args:
        method: class of the projection.
        frame: of the system, state and context that it is for.
        latent_dim: m; needed where sizes are.
        layers: sizes (m, ..., n) from the latent side to the state, for the decoder and mirrored for the encoder.
        **settings: any further argument of the method, for example `embedding=(1, 8, 8)`.

    Raises:
        InputError: neither `latent_dim` nor `layers` is known, sizes do not fit the state, an unknown setting.

    Example:
        >>> import romkit
        >>> from romkit.projections import NcAE, architecture
        >>> architecture(NcAE, romkit.load("ncae-lorenz96").frame, latent_dim=2)
        {'embedding': (1, 4, 4), 'layers': (2, 19, 36)}
    """
    accepted = arguments(method)
    for name in settings:
        checks.one_of(f"setting of {method.name}", name, accepted)
    if "embedding" in accepted and not frame.context_names:
        expected = f"a context for {method.name}: a floating-point coordinate along trajectory"
        fix = "add the coordinate, or fit a method without context such as 'cae'"
        raise InputError("data", expected=expected, got="none", fix=fix)
    sizes = {"embedding": (len(frame.context_names), 4, 4)}
    if {"latent_dim", "layers", "encoder", "decoder"} & {*accepted} - {*settings}:
        chain = _chain(frame.size, latent_dim, layers)
        sizes |= {"units": (min(64, max(24, 4 * chain[0])),) * 3}
        sizes |= {"latent_dim": chain[0], "layers": chain, "encoder": chain[::-1], "decoder": chain}
    return {**{name: size for name, size in sizes.items() if name in accepted}, **settings}


def arguments(method: type[Projection]) -> list[str]:
    """Names of the arguments that build `method`, beside its frame and generator."""
    return list(inspect.signature(method).parameters)[2:]


def _chain(n: int, latent_dim: int | None, layers: Sequence[int] | None) -> tuple[int, ...]:
    if layers is None and latent_dim is None:
        fix = "add latent_dim=... (or layers=...)"
        raise InputError("latent_dim", expected="the number of latent coordinates", got="none", fix=fix)
    if layers is None:
        m = latent_dim
        chain = (m, min(n, max(2 * m, min(WIDEST, (m + n) // 2))), n)
    else:
        chain = layers
    if latent_dim not in (None, chain[0]):
        fix = "drop one of the two"
        raise InputError("latent_dim", expected=f"{chain[0]}, as layers begin", got=latent_dim, fix=fix)
    check_chain("latent_dim" if layers is None else "layers", chain, n)
    return chain


METHODS: dict[str, type[Projection]] = {
    method.name: method
    for method in (
        POD,
        QuadraticManifold,
        AE,
        ContextAE,
        FilmAE,
        CAE,
        ContextCAE,
        SoftNcAE,
        NcAE,
        BiasNcAE,
        SlopeNcAE,
        Flow,
    )
}
"""The methods that ship with romkit, by the name that `romkit.fit` takes."""


@validated
def method_named(name: str) -> type[Projection] | None:
    """The class of a method: one that ships, or the newest of the user's own with this name; None without any.

    Example:
        >>> import romkit
        >>> romkit.projections.method_named("ncae").__name__
        'NcAE'
        >>> romkit.projections.method_named("nothing") is None
        True
    """
    found, classes = METHODS.get(name), [Projection]
    for cls in classes:  # which grows: the classes below follow in the order of their definition
        classes += cls.__subclasses__()
        found = cls if name not in METHODS and cls.__dict__.get("name") == name else found
    return found
