"""Steps whose warnings the report says in its own words."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

from romkit.core.errors import DivergenceWarning, ExtrapolationWarning, FitWarning

T = TypeVar("T")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Yield steps without the warnings of fits, of distances, and of forecasts that are lost."""
    with warnings.catch_warnings():
        for kind in (FitWarning, ExtrapolationWarning, DivergenceWarning):
            warnings.simplefilter("ignore", kind)
        yield


def quietly(call: Callable[..., T], *arguments: object, **named: object) -> T:
    """Return result of such a step."""
    with quiet():
        return call(*arguments, **named)
