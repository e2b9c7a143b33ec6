"""What is timed."""

import abc
from typing import ClassVar


class Contestant(abc.ABC):
    """A way to train the models of a `Problem`.

    Attributes:
        name: what the report calls it.
        steps: optimizer steps that one `run` makes for every seed.
    """

    name: ClassVar[str]
    steps: int

    @abc.abstractmethod
    def run(self) -> None:
        """Train every seed for `steps` more steps, the choice of the data included."""
