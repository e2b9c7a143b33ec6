"""Checks on numbers, names, paths and shapes. Each gives the value back, or raises `InputError` with the reason.

`romkit.core.boundary` calls them for the arguments of public functions.
"""

import difflib
import itertools
import math
import operator
import os
from collections.abc import Callable, Collection, Iterable, Sequence

from romkit.core.errors import InputError

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


def _real(expected: str, fix: str, allowed: Callable[[float], bool]) -> Converter:
    """What takes a real number, as a float, of which something holds; nothing does of NaN."""

    def convert(argument: str, value: object) -> float:
        found = _number(value)
        if allowed(found):
            return found
        raise InputError(argument, expected=expected, got=shown(value), fix=fix.format(argument))

    return convert


number = _real("a number", "give {}=1.5, say", lambda x: not math.isnan(x))
"""It may be infinite."""

finite = _real("a finite number", "give {}=1.5, say", math.isfinite)
positive = _real("a positive number", "give {} > 0", lambda x: 0 < x < math.inf)
not_negative = _real("a number that is not negative", "give {} >= 0", lambda x: 0 <= x < math.inf)
share = _real("a share between 0 and 1", "give {}=0.25, say", lambda x: 0 < x < 1)
"""The ends are none."""

limit = _real("a positive number", "give {} > 0", lambda x: x > 0)
"""Infinity stands for none."""


def between(low: float, high: float) -> Converter:
    """What takes a number from `low` to `high`."""
    return _real(f"a number from {low:g} to {high:g}", "choose one in this range", lambda x: low <= x <= high)


def _whole(expected: str, fix: str, allowed: Callable[[int], bool]) -> Converter:
    """What takes a whole number of Python, NumPy or torch, as an int, of which something holds."""

    def convert(argument: str, value: object) -> int:
        found = _integer(value)
        if found is not None and allowed(found):
            return found
        raise InputError(argument, expected=expected, got=shown(value), fix=fix.format(argument))

    return convert


integer = _whole("an integer", "give {}=1, say", lambda n: True)
seed = _whole("an integer from 0 to 2^63 - 1", "give 0, 1, 2, say", lambda n: 0 <= n < 2**63)
"""What random generators take."""

one_or_two = _whole("1 or 2", "take 2 for a mechanical system, else 1", lambda n: n in (1, 2))
"""The order of an equation."""


def from_(minimum: int) -> Converter:
    """What takes an integer that is not below `minimum`."""
    return _whole(f"an integer >= {minimum}", f"give {{}}={minimum} or more", lambda n: n >= minimum)


def at_least(argument: str, value: object, minimum: int) -> int:
    """`value` as an int, if it is an integer that is not below `minimum`."""
    return from_(minimum)(argument, value)


def index(argument: str, value: int, size: int) -> int:
    """`value`, if it is an index into this many entries."""
    if -size <= value < size:
        return value
    fix = "count from 0, or from the end with -1, -2, ..."
    raise InputError(argument, expected=f"an index into {size}", got=value, fix=fix)


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


def layered(argument: str, value: object) -> tuple[tuple[int, ...], ...]:
    """`value` as a tuple of tuples of positive integers, of which one of one may be the integer alone."""
    several = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    found = tuple(_integers(each if isinstance(each, Sequence) else (each,)) for each in several)
    if found and all(found):
        return found
    fix = f"give {argument}=(32, 32), or ((32, 32), (16, 16)), say"
    raise InputError(argument, expected="positive integers, or tuples of them", got=shown(value), fix=fix)


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
