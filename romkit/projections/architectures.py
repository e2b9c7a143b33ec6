"""Layer sizes: those of the paper for its systems, and a rule for everything else."""

import inspect
from collections.abc import Sequence

from romkit import checks
from romkit.errors import InputError
from romkit.projections.base import Projection
from romkit.projections.normalization import Signature

_LORENZ_AE = {"encoder": (36, 24, 12, 2), "decoder": (2, 12, 24, 36)}
_LORENZ_NCAE = {"layers": (2, 18, 36), "embedding": (1, 2, 2, 2)}
_PENDULUM_AE = {"encoder": (16, 16, 16, 8, 4), "decoder": (4, 8, 16, 16, 16)}
_PENDULUM_NCAE = {"layers": (4, 8, 12, 14, 16), "embedding": (4, 4, 4)}

PAPER: dict[tuple[str, str], dict[str, object]] = {
    ("lorenz96", "pod"): {"latent_dim": 2},
    ("lorenz96", "ae"): _LORENZ_AE,
    ("lorenz96", "context-ae"): {"encoder": (36, 20, 2), "decoder": (2, 12, 24, 36)},
    ("lorenz96", "film-ae"): _LORENZ_AE,
    ("lorenz96", "cae"): {"layers": (2, 21, 36)},
    ("lorenz96", "context-cae"): {"layers": (2, 20, 36)},
    ("lorenz96", "soft-ncae"): _LORENZ_NCAE,
    ("lorenz96", "ncae"): _LORENZ_NCAE,
    ("lorenz96", "ncae-bias"): _LORENZ_NCAE,
    ("lorenz96", "ncae-slope"): _LORENZ_NCAE,
    ("pendulum", "pod"): {"latent_dim": 4},
    ("pendulum", "ae"): _PENDULUM_AE,
    ("pendulum", "context-ae"): _PENDULUM_AE,
    ("pendulum", "film-ae"): _PENDULUM_AE,
    ("pendulum", "cae"): {"layers": (4, 8, 16, 16, 16)},
    ("pendulum", "context-cae"): {"layers": (4, 8, 12, 14, 16)},
    ("pendulum", "soft-ncae"): {"layers": (4, 8, 12, 14, 16), "embedding": (4, 4)},
    ("pendulum", "ncae"): _PENDULUM_NCAE,
    ("pendulum", "ncae-bias"): _PENDULUM_NCAE,
    ("pendulum", "ncae-slope"): _PENDULUM_NCAE,
}
"""Sizes of each (system, method), from the hyperparameter tables of Adriaens et al. (2026); POD to match."""


def architecture(
    method: type[Projection],
    signature: Signature,
    *,
    latent_dim: int | None = None,
    layers: Sequence[int] | None = None,
    **settings: object,
) -> dict[str, object]:
    """Arguments that build `method` for this state and context.

    Args:
        method: class of the projection.
        signature: system, state and context that it is for.
        latent_dim: m; needed where the paper has no sizes for the system.
        layers: sizes (m, ..., n) from the latent side to the state, for the decoder and mirrored for the encoder.
        **settings: any further argument of the method, for example `embedding=(1, 8, 8)`.

    Raises:
        InputError: neither `latent_dim` nor `layers` is known, sizes do not fit the state, an unknown setting.
    """
    accepted = [p.name for p in inspect.signature(method.__init__).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in settings:
        if name not in accepted:
            fix = f"{method.name} takes {', '.join(sorted({*accepted, 'layers', 'latent_dim'}))}"
            raise InputError(name, expected="an architecture setting", got="an unknown name", fix=fix)
    if "embedding" in accepted and not signature.context_names:
        raise InputError(
            "data",
            expected=f"a context for {method.name}: a floating-point coordinate along trajectory",
            got="none",
            fix="add the coordinate, or fit a method without context such as 'cae'",
        )
    if "embedding" in settings:
        _check_embedding(settings["embedding"], len(signature.context_names))
    n = len(signature.state_names)
    known = PAPER.get((signature.system, method.name), {})
    if layers is None and latent_dim is None and _fits(known, n):
        return {**known, **settings}
    chain = _chain(n, latent_dim, layers)
    sizes = {
        "latent_dim": chain[0],
        "layers": chain,
        "encoder": chain[::-1],
        "decoder": chain,
        "embedding": (len(signature.context_names), 4, 4),
    }
    return {**{name: size for name, size in sizes.items() if name in accepted}, **settings}


def _check_embedding(embedding: Sequence[int], p: int) -> None:
    if checks.sizes("embedding", embedding)[0] != p:
        raise InputError(
            "embedding",
            expected=f"sizes that start with the {p} context parameters",
            got=str(tuple(embedding)),
            fix=f"give ({p}, ..., size of the signal)",
        )


def _fits(known: dict[str, object], n: int) -> bool:
    top = known.get("layers", known.get("decoder", (n,)))[-1]
    return bool(known) and top == n


def _chain(n: int, latent_dim: int | None, layers: Sequence[int] | None) -> tuple[int, ...]:
    if layers is None and latent_dim is None:
        raise InputError(
            "latent_dim",
            expected="the number of latent coordinates",
            got="none",
            fix="add latent_dim=... (or layers=...)",
        )
    if layers is None:
        m = checks.at_least("latent_dim", latent_dim, 1)
        chain = (m, min(n, max(2 * m, (m + n) // 2)), n)
    else:
        chain = checks.sizes("layers", layers)
    if chain[-1] != n or list(chain) != sorted(chain):
        raise InputError(
            "latent_dim" if layers is None else "layers",
            expected=f"sizes that do not decrease from the latent side to n = {n}",
            got=str(chain),
            fix=f"end with {n} and start with the latent dimension",
        )
    return chain
