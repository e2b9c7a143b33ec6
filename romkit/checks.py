"""Checks on arguments, shared by every public function. Each raises `InputError` with the reason."""

import difflib
import math
from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from romkit.errors import InputError


def one_of(argument: str, value: str, names: Collection[str]) -> str:
    """`value`, if it is one of `names`; the error suggests the nearest name."""
    if value in names:
        return value
    near = difflib.get_close_matches(str(value), names, n=1)
    fix = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(sorted(names))}"
    raise InputError(argument, expected=f"one of {', '.join(sorted(names))}", got=repr(value), fix=fix)


def positive(argument: str, value: float, *, unit: str = "") -> float:
    """`value` as a float, if it is a finite positive number."""
    number = _number(value)
    if math.isfinite(number) and number > 0:
        return number
    unit = f" (in {unit})" if unit not in ("", "1") else ""
    raise InputError(argument, expected=f"a positive number{unit}", got=repr(value), fix=f"give {argument} > 0")


def sizes(argument: str, value: object) -> tuple[int, ...]:
    """`value` as a tuple, if it is a sequence of at least two positive integers."""
    if isinstance(value, Sequence) and len(value) >= 2 and all(type(size) is int and size >= 1 for size in value):
        return tuple(value)
    raise InputError(
        argument, expected="two or more positive integers", got=repr(value), fix=f"give {argument}=(2, 8, 36), say"
    )


def not_negative(argument: str, value: float) -> float:
    """`value` as a float, if it is a finite number that is not negative."""
    number = _number(value)
    if math.isfinite(number) and number >= 0:
        return number
    raise InputError(argument, expected="a number that is not negative", got=repr(value), fix=f"give {argument} >= 0")


def share(argument: str, value: float) -> float:
    """`value` as a float, if it lies between 0 and 1, ends excluded."""
    number = _number(value)
    if 0 < number < 1:
        return number
    raise InputError(argument, expected="a share between 0 and 1", got=repr(value), fix=f"give {argument}=0.25, say")


def last_axis(argument: str, shape: tuple[int, ...], size: int, meaning: str) -> None:
    """The last axis of an array of this shape must have `size` entries."""
    if len(shape) == 0 or shape[-1] != size:
        raise InputError(
            argument,
            expected=f"shape (..., {size}), {meaning}",
            got=f"shape {tuple(shape)}",
            fix=f"put the {size} components on the last axis",
        )


def at_least(argument: str, value: int, minimum: int) -> int:
    """`value`, if it is an integer that is not below `minimum`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= minimum:
        return value
    raise InputError(
        argument, expected=f"an integer >= {minimum}", got=repr(value), fix=f"give {argument}={minimum} or more"
    )


def parts(argument: str, value: object, order: int, size: int) -> None:
    """A state is a tuple of `order` tensors (..., size): (x,), or (q, q̇) of a mechanical system."""
    meaning = "(x,)" if order == 1 else "(q, q̇)"
    if not isinstance(value, tuple) or len(value) != order:
        fix = f"give a tuple of {order}"
        raise InputError(argument, expected=f"{meaning}, tensors (..., {size})", got=type(value).__name__, fix=fix)
    for name, part in zip(("initial_state", "initial_velocity"), value, strict=False):
        last_axis(name, part.shape, size, "the components of the state")


def states(argument: str, value: object, size: int, number: int) -> Tensor:
    """One state (size,) or one per trajectory (number, size), as finite float64 numbers (number, size)."""
    try:
        array = torch.as_tensor(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(argument, expected="numbers", got=repr(value)[:80], fix="give an array") from error
    last_axis(argument, array.shape, size, "the components of the state")
    if not bool(array.isfinite().all()):
        raise InputError(argument, expected="finite numbers", got="NaN or infinity", fix="check the state")
    if array.ndim > 2 or (array.ndim == 2 and len(array) not in (1, number)):
        expected, got = f"one state or {number}", f"shape {tuple(array.shape)}"
        raise InputError(argument, expected=expected, got=got, fix="match the contexts")
    return array.expand(number, -1).clone()


def _number(value: object) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
