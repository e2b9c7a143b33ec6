"""Sizes of the networks of a method: as given or by default, and what they must satisfy."""

import inspect
from collections.abc import Sequence

from romkit.core import checks
from romkit.core.boundary import Count, Sizes, validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Entries, Shape
from romkit.projections.base import Projection
from romkit.projections.frame import Frame


def check_chain(argument: str, sizes: Sequence[int], n: int) -> None:
    """Raise unless sizes go from the latent side to the n coordinates of the state, and never down."""
    if sizes[-1] != n or list(sizes) != sorted(sizes):
        raise InputError(
            argument,
            expected=f"sizes that do not decrease from the latent side to n = {n}",
            got=str(tuple(sizes)),
            fix=f"end with {n} and start with the latent dimension",
        )


def check_embedding(sizes: Sequence[int], frame: Frame) -> None:
    """Raise unless the sizes of an embedding start with the number of context parameters."""
    p = len(frame.context_names)
    if sizes[0] != p:
        raise InputError(
            "embedding",
            expected=f"sizes that start with the {p} context parameters",
            got=str(tuple(sizes)),
            fix=f"give ({p}, ..., size of the signal)",
        )


@validated
def architecture(
    method: type[Projection],
    frame: Frame,
    *,
    latent_dim: Count | None = None,
    layers: Sizes | None = None,
    **settings: object,
) -> Entries:
    """Return arguments that build `method` for this state and context.

    Args:
        method: class of the projection.
        frame: of the system, state and context that it is for.
        latent_dim: m; needed where sizes are.
        layers: sizes (m, ..., n) from the latent side to the state, for the decoder and mirrored
            for the encoder.
        **settings: any further argument of the method, for example `embedding=(1, 8, 8)`.

    Raises:
        InputError: neither `latent_dim` nor `layers` is known, sizes do not fit the state, an
            unknown setting.

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
        raise InputError(
            "data",
            expected=f"a context for {method.name}: a floating-point coordinate along trajectory",
            got="none",
            fix="add the coordinate, or fit a method without context such as 'cae'",
        )
    defaults = _defaults(method)
    sizes: Entries = {"embedding": (len(frame.context_names), 4, 4)}
    of_layers = {"latent_dim", "layers", "encoder", "decoder"} & {*accepted}
    needed = of_layers - {*settings} - defaults
    is_sized = latent_dim is not None or layers is not None
    if not of_layers:
        _warn_sizes(method, latent_dim=latent_dim, layers=layers)
    if is_sized or needed:
        sizes |= _layer_sizes(_chain(method, frame.size, latent_dim, layers))
    # a default of the method's own is the better guess
    guessed = {"embedding", "units"} & defaults
    config = {
        name: size for name, size in sizes.items() if name in accepted and name not in guessed
    }
    return config | settings


def _warn_sizes(method: type[Projection], **sizes: object) -> None:
    """Say which sizes are left out, of a method that takes none."""
    for name, size in sizes.items():
        if size is not None:
            text = f"{name}: left out, the sizes of {method.name} are those of the state"
            warn(text, DataWarning)


def _defaults(method: type[Projection]) -> set[str]:
    """Return arguments of a method that have a default."""
    names = set()
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.default is not parameter.empty:
            names.add(name)
    return names


def _layer_sizes(chain: Sequence[int]) -> Entries:
    """Return arguments of methods by the sizes (m, ..., n) from the latent side to the state."""
    m = chain[0]
    units = min(64, max(24, 4 * m))
    return {
        "units": (units,) * 3,
        "latent_dim": m,
        "layers": chain,
        "encoder": chain[::-1],
        "decoder": chain,
    }


def arguments(method: type[Projection]) -> list[str]:
    """Return names of the arguments that build `method`, beside its frame and generator."""
    return list(inspect.signature(method).parameters)[2:]


def _chain(
    method: type[Projection], n: int, latent_dim: int | None, layers: Sequence[int] | None
) -> Shape:
    """Return sizes (m, ..., n) from the latent side to the state, as given or by default."""
    if layers is None:
        if latent_dim is None:
            raise InputError(
                "latent_dim",
                expected="the number of latent coordinates",
                got="none",
                fix="add latent_dim=... (or layers=...)",
            )
        sizes = method.default_layers(latent_dim, n)
        check_chain("latent_dim", sizes, n)
        return tuple(sizes)
    if latent_dim not in (None, layers[0]):
        raise InputError(
            "latent_dim",
            expected=f"{layers[0]}, as layers begin",
            got=latent_dim,
            fix="drop one of the two",
        )
    check_chain("layers", layers, n)
    return tuple(layers)
