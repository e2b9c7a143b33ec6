"""Kinds that `learn` may choose from: of laws, and runs that are interpolated."""

import enum
from collections.abc import Sequence
from typing import NamedTuple

from romkit.laws import Estimator

INTERPOLATION = "interpolation"
"""Name among those of laws."""


class Use(enum.Enum):
    """When forecasts are runs that are interpolated."""

    NEVER = "never"
    WHERE_BETTER = "where they are better"
    ALWAYS = "always"


class Allowed(NamedTuple):
    """Kinds to choose from.

    Attributes:
        laws: names or settings; None for those of the default.
        interpolation: when forecasts are runs that are interpolated.
    """

    laws: Sequence[str | Estimator] | None
    interpolation: Use

    @classmethod
    def of(cls, kinds: Sequence[str | Estimator] | None) -> "Allowed":
        """Kinds that a user gave, None for the default."""
        if kinds is None:
            return cls(None, Use.WHERE_BETTER)
        laws = [kind for kind in kinds if kind != INTERPOLATION]
        if len(laws) == len(kinds):
            return cls(laws, Use.NEVER)
        if laws:
            return cls(laws, Use.WHERE_BETTER)
        # errors and the choice of the coordinates are those of runs that a law was compared by
        return cls(None, Use.ALWAYS)
