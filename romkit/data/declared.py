"""Roles that a user declares, by names."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from romkit.core.types import Names
from romkit.data.spelling import full_name


@dataclass(frozen=True)
class Declared:
    """Roles that the user has named; None is found.

    Attributes:
        context, state, control, velocity, acceleration: names of variables.
        trajectory, time: a dimension or coordinate.
    """

    context: Names | None = None
    state: Names | None = None
    control: Names = ()
    velocity: Names | None = None
    acceleration: Names | None = None
    trajectory: str | None = None
    time: str | None = None

    def in_full(self, names: Iterable[object]) -> "Declared":
        """Roles of these names, of which the user may have left units out."""
        known = list(dict.fromkeys(map(str, names)))
        full: dict[str, object] = {}
        for role, value in asdict(self).items():
            if isinstance(value, str):
                full[role] = full_name(value, known)
            elif value is not None:
                full[role] = tuple(full_name(name, known) for name in value)
        return replace(self, **full)
