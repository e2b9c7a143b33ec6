"""Types that fields, metrics and projections of your own share."""

from romkit.core.types import (
    ContextFunction,
    Dual,
    Field,
    Jet,
    Metric,
    SecondOrderField,
)

__all__ = [
    "ContextFunction",
    "Dual",
    "Field",
    "Jet",
    "Metric",
    "SecondOrderField",
]
