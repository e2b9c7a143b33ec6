"""What a law returns, so that a failure can be looked at."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from torch import Tensor

TOLERANCE = 1e-10
"""Largest relative error allowed in float64 where two ways to compute the same are compared."""


class Verdict(NamedTuple):
    """Whether a law holds, and by how much it was missed."""

    ok: bool
    reason: str


Law = Callable[[], Iterable[Verdict]]


def close(law: str, a: Tensor, b: Tensor, tolerance: float = TOLERANCE) -> Verdict:
    """Whether a equals b, relative to the largest entry of b (or to 1, if that is larger); NaN equals nothing."""
    if a.shape != b.shape:
        return Verdict(False, f"{law}: shapes {tuple(a.shape)} and {tuple(b.shape)} differ")
    if a.numel() == 0:
        return Verdict(True, law)
    error = ((a - b).abs().max() / b.abs().max().clamp(min=1.0)).item()
    return Verdict(error <= tolerance, f"{law}: relative error {error:.1e}, tolerance {tolerance:.0e}")


def fact(law: str, expected: object, got: object) -> Verdict:
    """Whether two things are equal."""
    return Verdict(expected == got, f"{law}: expected {expected}, got {got}")


def refused(law: str, error: type[Exception], call: Callable[[], object]) -> Verdict:
    """Whether a call raises the error."""
    try:
        call()
    except error:
        return Verdict(True, law)
    return Verdict(False, f"{law}: expected {error.__name__}, got a result")


def demand(what: str, verdicts: Iterable[Verdict]) -> None:
    """Raise AssertionError with the first law that does not hold."""
    for ok, reason in verdicts:
        if not ok:
            raise AssertionError(f"{what}: {reason}")
