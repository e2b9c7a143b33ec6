"""Methods that compute a value once."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def remembered(method: Method) -> Method:
    """Return a method whose object keeps its values, by the arguments, and computes each once.

    Example:
        >>> class Squares:
        ...     @remembered
        ...     def square(self, k):
        ...         print("computed")
        ...         return k * k
        >>> squares = Squares()
        >>> squares.square(2) + squares.square(2)
        computed
        8
    """
    name = f"_values_of_{method.__name__}"

    @functools.wraps(method)
    def call(self: object, *arguments: object) -> Any:
        values = vars(self).setdefault(name, {})
        if arguments not in values:
            values[arguments] = method(self, *arguments)
        return values[arguments]

    return cast("Method", call)
