"""Checks on numbers, names, paths and shapes. Each gives the value back, or raises `InputError` with the reason.

`romkit.boundary` calls them for the arguments of public functions; what they have to fulfil together, functions check.
"""

import difflib
import itertools
import math
import operator
import os
from collections.abc import Callable, Collection, Iterable, Sequence

from romkit.errors import InputError

MOST_TIMES = 10**8
"""Output times of a run, beyond which it is a slip of the hand and no memory would hold it."""

MOST_SEEDS = 10_000
"""In one stack, likewise."""

LONGEST_PATH = 4096
"""Characters, as on Linux."""

Converter = Callable[[str, object], object]
"""(name of the argument, what came) -> the value as the function gets it."""


def one_of(argument: str, value: object, names: Collection[str]) -> str:
    """`value`, if it is one of `names`; the error suggests the nearest name."""
    if isinstance(value, str) and value in names:
        return value
    near = difflib.get_close_matches(value, names, n=1) if isinstance(value, str) else []
    expected = f"one of {', '.join(sorted(names))}" if names else "none, since there is nothing to choose from"
    fix = f"did you mean {near[0]!r}?" if near else "choose one of them" if names else "leave it out"
    raise InputError(argument, expected=expected, got=shown(value), fix=fix)


def named(names: Collection[str]) -> Converter:
    """What takes one of these names."""
    return lambda argument, value: one_of(argument, value, names)


def text(argument: str, value: object) -> str:
    """`value`, if it is text."""
    if isinstance(value, str):
        return value
    raise InputError(argument, expected="text", got=shown(value), fix=f'give text, {argument}="..."')


def flag(argument: str, value: object) -> bool:
    """`value`, if it is True or False."""
    if value is True or value is False:
        return value
    raise InputError(argument, expected="True or False", got=shown(value), fix=f"give {argument}=True, say")


def number(argument: str, value: object) -> float:
    """`value` as a float, if it is a real number; it may be infinite."""
    found = _number(value)
    if not math.isnan(found):
        return found
    raise InputError(argument, expected="a number", got=shown(value), fix=f"give {argument}=1.5, say")


def finite(argument: str, value: object) -> float:
    """`value` as a float, if it is a finite real number."""
    found = _number(value)
    if math.isfinite(found):
        return found
    raise InputError(argument, expected="a finite number", got=shown(value), fix=f"give {argument}=1.5, say")


def positive(argument: str, value: object) -> float:
    """`value` as a float, if it is a finite positive number."""
    found = _number(value)
    if math.isfinite(found) and found > 0:
        return found
    raise InputError(argument, expected="a positive number", got=shown(value), fix=f"give {argument} > 0")


def limit(argument: str, value: object) -> float:
    """`value` as a float, if it is positive; infinity stands for none."""
    return math.inf if _number(value) == math.inf else positive(argument, value)


def not_negative(argument: str, value: object) -> float:
    """`value` as a float, if it is a finite number that is not negative."""
    found = _number(value)
    if math.isfinite(found) and found >= 0:
        return found
    expected, fix = "a number that is not negative", f"give {argument} >= 0"
    raise InputError(argument, expected=expected, got=shown(value), fix=fix)


def between(low: float, high: float) -> Converter:
    """What takes a number from `low` to `high`."""

    def convert(argument: str, value: object) -> float:
        found = _number(value)
        if low <= found <= high:
            return found
        expected, fix = f"a number from {low:g} to {high:g}", "choose one in this range"
        raise InputError(argument, expected=expected, got=shown(value), fix=fix)

    return convert


def integer(argument: str, value: object) -> int:
    """`value` as an int, if it is a whole number of Python, NumPy or torch."""
    found = _integer(value)
    if found is not None:
        return found
    raise InputError(argument, expected="an integer", got=shown(value), fix=f"give {argument}=1, say")


def at_least(argument: str, value: object, minimum: int) -> int:
    """`value` as an int, if it is an integer that is not below `minimum`."""
    found = _integer(value)
    if found is not None and found >= minimum:
        return found
    expected, fix = f"an integer >= {minimum}", f"give {argument}={minimum} or more"
    raise InputError(argument, expected=expected, got=shown(value), fix=fix)


def index(argument: str, value: int, size: int) -> int:
    """`value`, if it is an index into this many entries."""
    if -size <= value < size:
        return value
    fix = "count from 0, or from the end with -1, -2, ..."
    raise InputError(argument, expected=f"an index into {size}", got=value, fix=fix)


def one_or_two(argument: str, value: object) -> int:
    """`value`, if it is the order of an equation: 1, or 2 of a mechanical system."""
    found = _integer(value)
    if found in (1, 2):
        return found
    fix = "take 2 for a mechanical system, else 1"
    raise InputError(argument, expected="1 or 2", got=shown(value), fix=fix)


def from_(minimum: int) -> Converter:
    """What takes an integer that is not below `minimum`."""
    return lambda argument, value: at_least(argument, value, minimum)


def seed(argument: str, value: object) -> int:
    """`value` as an int, if random generators take it."""
    found = _integer(value)
    if found is not None and 0 <= found < 2**63:
        return found
    raise InputError(argument, expected="an integer from 0 to 2^63 - 1", got=shown(value), fix="give 0, 1, 2, say")


def seeds(argument: str, value: object) -> tuple[int, ...]:
    """`value` as a tuple, if it is a sequence of seeds."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | dict):
        found = tuple(seed(argument, each) for each in itertools.islice(value, MOST_SEEDS + 1))
        if 0 < len(found) <= MOST_SEEDS:
            return found
    fix = f"give {argument}=range(3), say"
    raise InputError(argument, expected=f"one or more integers, up to {MOST_SEEDS}", got=shown(value), fix=fix)


def sizes(argument: str, value: object) -> tuple[int, ...]:
    """`value` as a tuple, if it is a sequence of at least two positive integers."""
    found = _integers(value)
    if len(found) >= 2:
        return found
    fix = f"give {argument}=(2, 8, 36), say"
    raise InputError(argument, expected="two or more positive integers", got=shown(value), fix=fix)


def widths(argument: str, value: object) -> tuple[int, ...]:
    """`value` as a tuple, if it is a sequence of positive integers."""
    found = _integers(value)
    if found:
        return found
    fix = f"give {argument}=(32, 32), say"
    raise InputError(argument, expected="one or more positive integers", got=shown(value), fix=fix)


def path(argument: str, value: object) -> str | os.PathLike:
    """`value`, if a file or folder can have this name."""
    if isinstance(value, str | os.PathLike):
        name = os.fspath(value)
        if isinstance(name, str) and 0 < len(name) <= LONGEST_PATH and min(name) >= " ":
            return value
    raise InputError(argument, expected="a path", got=shown(value), fix='give text or a pathlib.Path, "my.nc" say')


def ending(argument: str, value: os.PathLike, endings: Collection[str]) -> str:
    """What the name of the file ends in after a dot, in small letters, if it is one of these."""
    given = os.path.splitext(value)[1].removeprefix(".").lower()
    if given in endings:
        return given
    near = difflib.get_close_matches(given, endings, n=1)
    expected = f"a name that ends in .{', .'.join(sorted(endings))}"
    fix = f"did you mean .{near[0]}?" if near else "add one of these"
    raise InputError(argument, expected=expected, got=f".{given}" if given else "none", fix=fix)


def steps(duration: float, dt: float) -> int:
    """How many intervals of length `dt` a run of this duration has, at least one."""
    if 0.5 <= duration / dt <= MOST_TIMES:
        return max(1, round(duration / dt))
    got = f"{duration:g} in steps of {dt:g}"
    if duration < dt:
        fix = "make it longer, or lower dt"
        raise InputError("duration", expected="one interval of the output at least", got=got, fix=fix)
    fix = "shorten it, or raise dt"
    raise InputError("duration", expected=f"at most {MOST_TIMES:g} output times", got=got, fix=fix)


def share(argument: str, value: object) -> float:
    """`value` as a float, if it lies between 0 and 1, ends excluded."""
    found = _number(value)
    if 0 < found < 1:
        return found
    raise InputError(argument, expected="a share between 0 and 1", got=shown(value), fix=f"give {argument}=0.25, say")


def last_axis(argument: str, shape: tuple[int, ...], size: int, meaning: str) -> None:
    """The last axis of an array of this shape must have `size` entries."""
    if len(shape) == 0 or shape[-1] != size:
        fix = f"give its last axis {size} entr{'y' if size == 1 else 'ies'}"
        raise InputError(argument, expected=f"shape (..., {size}), {meaning}", got=f"shape {tuple(shape)}", fix=fix)


def shown(value: object) -> str:
    """What came, in a few words on one line."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)} and {value.dtype}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str | int | float | complex | list | tuple | dict | None):
        return f"{value!r:.60}"
    return type(value).__name__


def _number(value: object) -> float:
    """As a float; NaN for what is no real number."""
    kind = getattr(value, "dtype", float)
    if isinstance(value, bool | str | bytes) or "bool" in str(kind) or "complex" in str(kind):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return math.nan


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or "bool" in str(getattr(value, "dtype", "")):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _integers(value: object) -> tuple[int, ...]:
    """Positive ones as a tuple, empty for anything else."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        found = tuple(_integer(entry) for entry in value)
        if all(size is not None and size >= 1 for size in found):
            return found
    return ()
