"""Hidden contexts: parameters that differ between runs and that nobody recorded."""

from romkit.hidden.context import (
    HiddenContext,
    PlacedRun,
    hidden_context,
    wants_hidden,
    with_hidden_context,
)
from romkit.hidden.drift import DriftingContext, drifting_context

__all__ = [
    "DriftingContext",
    "HiddenContext",
    "PlacedRun",
    "drifting_context",
    "hidden_context",
    "wants_hidden",
    "with_hidden_context",
]
