"""Settings of each method for the systems of the paper."""

from romkit.verbs.presets import (
    PRESETS,
    dynamics,
    paper,
    quick,
    sized,
)

__all__ = [
    "PRESETS",
    "dynamics",
    "paper",
    "quick",
    "sized",
]
