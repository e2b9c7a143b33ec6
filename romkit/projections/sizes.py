"""Sizes of networks, which have to fit the state and the context."""

from collections.abc import Sequence

from romkit.errors import InputError
from romkit.projections.normalization import Normalization


def check_chain(argument: str, sizes: Sequence[int], n: int) -> None:
    """Raise unless sizes go from the latent side to the n coordinates of the state, and never down."""
    if sizes[-1] != n or list(sizes) != sorted(sizes):
        expected = f"sizes that do not decrease from the latent side to n = {n}"
        fix = f"end with {n} and start with the latent dimension"
        raise InputError(argument, expected=expected, got=str(tuple(sizes)), fix=fix)


def check_embedding(sizes: Sequence[int], normalization: Normalization) -> None:
    """Raise unless the sizes of an embedding start with the number of context parameters."""
    p = len(normalization.signature.context_names)
    if sizes[0] != p:
        expected, fix = f"sizes that start with the {p} context parameters", f"give ({p}, ..., size of the signal)"
        raise InputError("embedding", expected=expected, got=str(tuple(sizes)), fix=fix)
