"""Statements that hold or raise AssertionError, with the rule that is broken."""

import contextlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from torch import Tensor

from romkit.core.errors import one_line

TOLERANCE = 1e-10
"""Largest relative error allowed in float64 where two ways to compute the same are compared."""


def holds(ok: bool, rule: str) -> None:
    """Raise AssertionError unless the rule holds."""
    if not ok:
        raise AssertionError(rule)


def close(rule: str, a: Tensor, b: Tensor, tolerance: float = TOLERANCE) -> None:
    """Raise AssertionError unless a = b, relative to the largest entry of b (at least 1); NaN
    equals nothing.
    """
    holds(a.shape == b.shape, f"{rule}: shapes {tuple(a.shape)} and {tuple(b.shape)} differ")
    if a.numel() > 0:
        error = ((a - b).abs().max() / b.abs().max().clamp(min=1.0)).item()
        holds(error <= tolerance, f"{rule}: relative error {error:.1e}, tolerance {tolerance:.0e}")


def fact(rule: str, expected: object, got: object) -> None:
    """Raise AssertionError unless two facts are equal."""
    holds(expected == got, f"{rule}: expected {expected}, got {got}")


def refused(rule: str, error: type[Exception], call: Callable[[], object]) -> None:
    """Raise AssertionError unless a call raises the error."""
    with contextlib.suppress(error):
        call()
        raise AssertionError(f"{rule}: expected {error.__name__}, got a result")


@contextlib.contextmanager
def list_rules(what: str) -> Iterator[None]:
    """Put the name of the object in front of the first rule that it breaks, or of the error that it
    raises.
    """
    try:
        yield
    except AssertionError as broken:
        raise AssertionError(f"{what}: {broken}") from None
    except (RuntimeError, IndexError, TypeError, AttributeError) as error:
        text = f"{type(error).__name__}: {one_line(str(error))}"
        raise AssertionError(f"{what}: {_find_rule(error)}: {text}") from error


def _find_rule(error: BaseException) -> str:
    """Return name of the rule in which an error came up."""
    here = Path(__file__).parent
    frames = traceback.extract_tb(error.__traceback__)[1:]
    functions = [frame.name for frame in frames if Path(frame.filename).parent == here]
    # the first is the contract itself
    contract, *rules = functions
    if not rules:
        return contract
    return rules[0]
