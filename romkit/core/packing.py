"""Objects as a header and tensors for `core.files`: one packer for every dataclass that is saved.

The header mirrors the object. A dataclass is a dictionary with the name of its class and its
fields, a tensor the name under which it stands among the tensors, a tuple a list, and everything
else is a plain value. No class is made that the reader does not list, and nothing is unpickled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from romkit.core.errors import InputError
from romkit.core.files import Header
from romkit.core.types import Entries, Tensors

CLASS, TENSOR, NUMBERS = "class", "tensor", "numbers"
"""Keys of a dictionary that stands for an object, a tensor, and numbers that may be infinite."""

Classes = Mapping[str, type]
"""Classes that a file may hold, by the name that it has for them."""

Rule = tuple[Callable[[object], bool], str]
"""A rule that an object of a file has to keep, and what is wrong where it does not."""


def packed(value: object, classes: Classes, path: str = "") -> tuple[object, Tensors]:
    """Header and tensors of an object.

    A class may name `FACTS`: tensors that describe it and may be infinite, which no field is
    computed from. They are numbers in the header.

    Args:
        value: a dataclass of one of the classes, with such fields, or a part of one.
        classes: what may be stored.
        path: name of the value within the object, of which names of tensors are made.

    Raises:
        InputError: a dataclass, or another object with a name of its own, that is not listed.
    """
    if torch.is_tensor(value):
        return {TENSOR: path}, {path: value}
    if isinstance(value, list | tuple):
        return _packed_sequence(value, classes, path)
    if value is None or isinstance(value, bool | int | float | str | dict):
        return value, {}
    name = type(value).__name__
    if classes.get(name) is not type(value) or not is_dataclass(value):
        raise InputError(
            path or "model",
            expected=f"one of {', '.join(classes)}",
            got=f"{value!r:.80}",
            fix="write its parameters to a file of your own",
        )
    header: Header = {CLASS: name}
    tensors: Tensors = {}
    facts = getattr(value, "FACTS", ())
    for field in fields(value):
        entry = getattr(value, field.name)
        if field.name in facts:
            # a file refuses tensors that are not finite, and a condition number may be infinite
            header[field.name] = {NUMBERS: entry.tolist(), "dtype": str(entry.dtype)}
            continue
        place = f"{path}.{field.name}".removeprefix(".")
        header[field.name], tensors_of_entry = packed(entry, classes, place)
        tensors |= tensors_of_entry
    return header, tensors


def _packed_sequence(
    values: Sequence[Any], classes: Classes, path: str
) -> tuple[list[Any], Tensors]:
    headers: list[Any] = []
    tensors: Tensors = {}
    for k, value in enumerate(values):
        header, tensors_of_value = packed(value, classes, f"{path}.{k}")
        headers.append(header)
        tensors |= tensors_of_value
    return headers, tensors


DTYPES = {str(dtype): dtype for dtype in (torch.bool, torch.float32, torch.float64, torch.int64)}


def unpacked(
    header: object,
    tensors: Tensors,
    classes: Classes,
    rules: Mapping[type, Sequence[Rule]] | None = None,
) -> object:
    """Return the object of a header and tensors, each part of which keeps the rules of its class.

    Args:
        header: as `packed` made it, read back from a file.
        tensors: likewise.
        classes: what may be made.
        rules: of each class, checked before the object is a part of another.

    Raises:
        ValueError, TypeError, LookupError: parts that do not fit each other. A reader says of which
            file.
    """
    if isinstance(header, list):
        return tuple(unpacked(entry, tensors, classes, rules) for entry in header)
    if not isinstance(header, dict):
        return header
    if TENSOR in header:
        return tensors[header[TENSOR]]
    if NUMBERS in header:
        return torch.tensor(header[NUMBERS], dtype=DTYPES[header["dtype"]])
    values = {key: unpacked(entry, tensors, classes, rules) for key, entry in header.items()}
    if CLASS not in values:
        return values
    return _made(values, classes, rules or {})


def _made(values: Entries, classes: Classes, rules: Mapping[type, Sequence[Rule]]) -> object:
    """Instance of the class that is named among the values of its fields."""
    name = values.pop(CLASS)
    if not isinstance(name, str) or name not in classes:
        raise LookupError(f"unknown class {name!r:.40}, expected one of {', '.join(classes)}")
    kind = classes[name]
    value = kind(**values)
    for holds, message in rules.get(kind, ()):
        if not holds(value):
            raise ValueError(f"{name}: {message}")
    return value
