"""Checks that annotations cannot say: names among alternatives, axes, numbers of steps. Each raises
`InputError`.
"""

import difflib
import functools
import importlib
import os
from collections.abc import Callable, Collection, Iterable
from numbers import Integral
from types import ModuleType

from romkit.core.errors import DataWarning, InputError, warn


def one_of(argument: str, value: object, names: Collection[str]) -> str:
    """`value`, if it is one of `names`; the error suggests the nearest name."""
    if isinstance(value, str) and value in names:
        return value
    if not names:
        raise InputError(
            argument,
            expected="none, since there is nothing to choose from",
            got=shown(value),
            fix="leave it out",
        )
    raise InputError(
        argument,
        expected=f"one of {', '.join(sorted(names))}",
        got=shown(value),
        fix=nearest(value, names) or "choose one of them",
    )


def absent(beside: str, fix: str, **given: object) -> None:
    """Raise where a value was given that has no meaning beside others."""
    for name, value in given.items():
        if value is not None:
            raise InputError(name, expected=f"nothing {beside}", got=shown(value), fix=fix)


def choice(names: Collection[str]) -> Callable[[str, object], str]:
    """Annotation of text that is one of the names: `Annotated[str, checks.choice(NAMES)]`."""
    return functools.partial(one_of, names=names)


def nearest(value: object, names: Iterable[str]) -> str:
    """Question after the nearest name; empty where none is near."""
    if not isinstance(value, str):
        return ""
    near = difflib.get_close_matches(value, list(names), n=1)
    if not near:
        return ""
    return f"did you mean {near[0]!r}?"


def check_minimum(argument: str, value: object, minimum: int) -> int:
    """Return `value`, if it is an integer that is not below `minimum`."""
    # whole numbers of NumPy are registered as integers; truth values, which are, are none
    if not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= minimum:
        return int(value)
    raise InputError(
        argument,
        expected=f"an integer >= {minimum}",
        got=shown(value),
        fix=f"give {argument}={minimum} or more",
    )


def index(argument: str, value: int, size: int) -> int:
    """`value`, if it is an index into this many entries."""
    if -size <= value < size:
        return value
    raise InputError(
        argument,
        expected=f"an index into {size}",
        got=value,
        fix="count from 0, or from the end with -1, -2, ...",
    )


def ending(argument: str, value: os.PathLike[str], endings: Collection[str]) -> str:
    """Return ending of a file name in small letters, without its dot, if it is one of `endings`."""
    _, suffix = os.path.splitext(value)
    name = suffix.lower().removeprefix(".")
    if name in endings:
        return name
    names = ", .".join(sorted(endings))
    raise InputError(
        argument,
        expected=f"a name that ends in .{names}",
        got=suffix or "none",
        fix=nearest(name, endings) or "add one of these",
    )


MOST_STEPS = 2**53
"""Largest number of steps; float64 counts no further."""


def steps(duration: float, dt: float, *, apart: float = 0.1) -> int:
    """Return number of intervals of length `dt` in a run of this duration, at least one; warn where
    they do not end at it.

    `apart`: part of an interval from which on a run of whole intervals has another duration.
    """
    if dt / 2 <= duration <= dt * MOST_STEPS:
        number = max(1, round(duration / dt))
        if abs(duration / dt - number) > apart:
            text = f"duration: expected a whole number of intervals of {dt:g}, got {duration:g}"
            warn(f"{text}; the run is {number * dt:g} long", DataWarning)
        return number
    raise InputError(
        "duration",
        expected="1 to 2**53 steps of dt",
        got=f"{duration:g} in steps of {dt:g}",
        fix="change the duration, or dt",
    )


def last_axis(argument: str, shape: tuple[int, ...], size: int, meaning: str) -> None:
    """Raise unless the last axis of an array of this shape has `size` entries."""
    if shape and shape[-1] == size:
        return
    entries = "1 entry" if size == 1 else f"{size} entries"
    raise InputError(
        argument,
        expected=f"shape (..., {size}), {meaning}",
        got=f"shape {tuple(shape)}",
        fix=f"give its last axis {entries}",
    )


def extra(argument: str, module: str, group: str) -> ModuleType:
    """Return the module of an optional dependency, which `pip install -e ".[group]"` installs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            argument,
            expected=f"{module} to be installed",
            got="none",
            fix=f'pip install -e ".[{group}]" in a copy of the repository',
        ) from error


def shown(value: object) -> str:
    """Short description of a value, on one line."""
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)} and {value.dtype}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str | int | float | complex | list | tuple | dict | None):
        return f"{value!r:.60}"
    return type(value).__name__
