"""Problems that latent dynamics solve: `from romkit.problem import FirstOrder`."""

from romkit.systems.problem import (
    PROBLEMS,
    Decoded,
    FirstOrder,
    Linearised,
    Parts,
    Problem,
    SecondOrder,
    euclidean,
    unknown_field,
)

__all__ = [
    "PROBLEMS",
    "Decoded",
    "FirstOrder",
    "Linearised",
    "Parts",
    "Problem",
    "SecondOrder",
    "euclidean",
    "unknown_field",
]
