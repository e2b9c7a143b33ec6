"""Refusals of arguments in romkit's words, from what pydantic reports."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from romkit.core import checks
from romkit.core.errors import InputError


def refused(expected: str, got: object, fix: str) -> InputError:
    """Return an error whose argument `validated` fills in."""
    return InputError("", expected=expected, got=checks.shown(got), fix=fix)


def refusal(function: Callable[..., Any], error: ValidationError) -> InputError:
    """Return the fault of a call in one line; the branches of a union are told together."""
    faults = error.errors(include_url=False)
    names = list(inspect.signature(function).parameters)
    position, *inner = faults[0]["loc"]
    argument = _argument_name(position, names)
    kind = faults[0]["type"]
    if kind.startswith("multiple_argument_values"):
        return InputError(
            argument,
            expected="it once",
            got=f"{argument} twice, by its place and by its name",
            fix="leave one of them out",
        )
    if kind == "unexpected_positional_argument":
        return _unplaced_argument(function, argument)
    if kind.startswith("unexpected"):
        return _unknown_argument(function, argument, names)
    if kind.startswith("missing"):
        return InputError(argument, expected="a value", got="none", fix=f"give {argument}=...")
    reasons = [_worded(fault) for fault in faults if fault["loc"][0] == position]
    # a list has the number of the entry, a union the name of a branch
    entry = "".join(f"[{key}]" for key in inner if isinstance(key, int))
    expected = dict.fromkeys(reason.expected for reason in reasons)
    return InputError(
        f"{argument}{entry}{reasons[0].argument}",
        expected=" or ".join(expected),
        got=reasons[0].got,
        fix=reasons[0].fix.replace("{}", argument),
    )


def _argument_name(position: object, names: Sequence[str]) -> str:
    """Return name of an argument that was given by its place or by its name."""
    if isinstance(position, int) and position < len(names):
        return names[position]
    return str(position)


def _unplaced_argument(function: Callable[..., Any], argument: str) -> InputError:
    """Return an argument in a place that the function does not have, or has for a name alone."""
    parameters = inspect.signature(function).parameters
    placed = [
        name
        for name, parameter in parameters.items()
        if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD and name not in ("self", "cls")
    ]
    return InputError(
        argument if argument in parameters else "arguments",
        expected=f"{', '.join(placed) or 'none'} by their places",
        got="further ones",
        fix="leave them out, or give them by their names",
    )


def _unknown_argument(function: Callable[..., Any], argument: str, names: list[str]) -> InputError:
    names = [name for name in names if name not in ("self", "cls")]
    takes = ", ".join(names) or "none"
    return InputError(
        argument,
        expected=f"an argument of {function.__qualname__.removesuffix('.__init__')}",
        got="an unknown one",
        fix=checks.nearest(argument, names) or f"it takes {takes}",
    )


def _worded(fault: Mapping[str, Any]) -> InputError:
    """Return a fault in romkit's words: those of the check that refused the value, or of `FAULTS`."""
    context = fault.get("ctx", {})
    if isinstance(context.get("error"), InputError):
        return context["error"]
    limit = _limit(context)
    kind_of_fault = fault["type"]
    words = FAULTS.get(kind_of_fault)
    if words is None:
        words = (fault["msg"].removeprefix("Input should be "), "see the documentation")
    words = FAULTS.get(f"{kind_of_fault} {limit}", words)
    kind = "a number"
    if isinstance(limit, int):
        kind = "an integer"
    # "{}" stays: the name of the argument is not known here
    places = {"{kind}": kind, "{limit}": str(limit).removesuffix(".0")}
    expected, fix = words
    for place, filling in places.items():
        expected = expected.replace(place, filling)
        fix = fix.replace(place, filling)
    return refused(expected, fault["input"], fix)


def _limit(context: Mapping[str, object]) -> float | str:
    """Return the number that a fault is about; empty where there is none."""
    for value in context.values():
        if isinstance(value, int | float):
            return value
    return ""


FAULTS = {
    "bool_type": ("True or False", "give {}=True, say"),
    "finite_number": ("a finite number", "give {}=1.5, say"),
    "float_type": ("a number", "give {}=1.5, say"),
    "greater_than 0.0": ("a positive number", "give {} > 0"),
    "greater_than": ("{kind} above {limit}", "give {} > {limit}"),
    "greater_than_equal 0.0": ("a number that is not negative", "give {} >= 0"),
    "greater_than_equal": ("{kind} >= {limit}", "give {}={limit} or more"),
    "int_type": ("an integer", "give {}=1, say"),
    "is_subclass_of": ("a class", "give the class itself, not an instance"),
    "less_than": ("{kind} below {limit}", "give {} < {limit}"),
    "less_than_equal": ("{kind} <= {limit}", "give {}={limit} or less"),
    "multiple_of": ("a multiple of {limit}", "round {} to one"),
    "string_type": ("text", 'give text, {}="..."'),
    "too_short": ("{limit} or more of them", "give a longer list"),
}
"""Expected value and fix for each type of fault that pydantic reports, at a limit or at any."""
