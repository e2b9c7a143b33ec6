"""How a law says that it does not hold."""

import contextlib
from collections.abc import Callable, Iterator

from torch import Tensor

TOLERANCE = 1e-10
"""Largest relative error allowed in float64 where two ways to compute the same are compared."""


def holds(ok: bool, law: str) -> None:
    """Raise AssertionError unless the law holds."""
    if not ok:
        raise AssertionError(law)


def close(law: str, a: Tensor, b: Tensor, tolerance: float = TOLERANCE) -> None:
    """a must equal b, relative to the largest entry of b (or to 1, if that is larger); NaN equals nothing."""
    holds(a.shape == b.shape, f"{law}: shapes {tuple(a.shape)} and {tuple(b.shape)} differ")
    if a.numel() > 0:
        error = ((a - b).abs().max() / b.abs().max().clamp(min=1.0)).item()
        holds(error <= tolerance, f"{law}: relative error {error:.1e}, tolerance {tolerance:.0e}")


def fact(law: str, expected: object, got: object) -> None:
    """Two things must be equal."""
    holds(expected == got, f"{law}: expected {expected}, got {got}")


def refused(law: str, error: type[Exception], call: Callable[[], object]) -> None:
    """A call must raise the error."""
    with contextlib.suppress(error):
        call()
        raise AssertionError(f"{law}: expected {error.__name__}, got a result")


@contextlib.contextmanager
def laws_of(what: str) -> Iterator[None]:
    """Puts in front of the first law that does not hold what breaks it."""
    try:
        yield
    except AssertionError as broken:
        raise AssertionError(f"{what}: {broken}") from None
