"""What checks a value against an annotation: a class stands for its instances, float for real numbers, and so on."""

import collections.abc
import inspect
import os
import pathlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

import numpy as np
from torch import Tensor

from romkit import arrays, checks
from romkit.checks import Converter
from romkit.errors import InputError

UNIONS = (Union, types.UnionType)


def converter(annotation: object) -> Converter:
    """What checks a value against an annotation."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return annotation.__metadata__[-1]
    if annotation in PLAIN:
        return PLAIN[annotation]
    if origin in UNIONS:
        return _either(parts)
    if origin in MANY:
        return MANY[origin](parts)
    return instance_of(annotation) if isinstance(annotation, type) else anything


def instance_of(kind: type) -> Converter:
    """What takes instances of a class, or what has the methods of a protocol."""
    protocol = getattr(kind, "_is_protocol", False)
    name = _name(kind)
    article = "an" if name[0].lower() in "aeioux" else "a"

    def convert(argument: str, value: object) -> object:
        a_class = isinstance(value, type)
        if isinstance(value, kind) and not (a_class and protocol):
            return value
        called = not protocol and a_class and issubclass(value, kind) and not inspect.isabstract(value)
        fix = f"give an instance, {value.__name__}(...)" if called else _made(kind)
        raise InputError(argument, expected=f"{article} {name}", got=checks.shown(value), fix=fix)

    return convert if not protocol or kind._is_runtime_protocol else anything


def _name(kind: type) -> str:
    return kind.__name__ if kind.__module__.startswith("romkit.") else f"{_home(kind)}.{kind.__name__}"


def _home(kind: type) -> str:
    """The shortest module in which a class has its name."""
    parts = kind.__module__.split(".")
    homes = (".".join(parts[:k]) for k in range(1, len(parts) + 1))
    own = (home for home in homes if getattr(sys.modules.get(home), kind.__name__, None) is kind)
    return next(own, kind.__module__)


def _made(kind: type) -> str:
    """How one comes by an instance."""
    if _name(kind) in MADE:
        return MADE[_name(kind)]
    home = _home(kind)
    room = vars(sys.modules[home])
    kinds = [x for x in map(room.get, room.get("__all__", ())) if isinstance(x, type) and issubclass(x, kind)]
    names = [x.__name__ for x in kinds if not inspect.isabstract(x)] or [kind.__name__]
    return f"give one, {home}.{names[0]}(...) say" if len(names) == 1 else f"give one of {home}: {', '.join(names[:6])}"


def _either(kinds: Sequence[object]) -> Converter:
    converters = [converter(kind) for kind in kinds if kind is not types.NoneType]

    def convert(argument: str, value: object) -> object:
        if value is None and types.NoneType in kinds:
            return None
        refused = []
        for each in converters:
            try:
                return each(argument, value)
            except InputError as error:
                refused.append(error)
        expected = " or ".join(dict.fromkeys(error.expected for error in refused))
        raise InputError(argument, expected=expected, got=refused[0].got, fix=refused[0].fix)

    return convert


def _several(parts: Sequence[object]) -> Converter:
    each = converter(parts[0]) if parts else anything

    def convert(argument: str, value: object) -> object:
        if isinstance(value, collections.abc.Iterable) and not isinstance(value, str | bytes | Mapping):
            return tuple(each(f"{argument}[{k}]", entry) for k, entry in enumerate(value))
        fix = f"give a list, {argument}=[...]"
        raise InputError(argument, expected="a list", got=checks.shown(value), fix=fix)

    return convert


def _mapping(parts: Sequence[object]) -> Converter:
    each = converter(parts[1]) if parts else anything

    def convert(argument: str, value: object) -> object:
        if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
            return {name: each(f"{argument}[{name!r}]", entry) for name, entry in value.items()}
        raise InputError(argument, expected="a dict with names as keys", got=checks.shown(value), fix="give {...}")

    return convert


def _function(parts: Sequence[object]) -> Converter:
    def convert(argument: str, value: object) -> object:
        if callable(value) and not isinstance(value, type):
            return value
        raise InputError(argument, expected="a function", got=checks.shown(value), fix="give a function, or a lambda")

    return convert


def _subclass(parts: Sequence[object]) -> Converter:
    def convert(argument: str, value: object) -> object:
        if isinstance(value, type) and issubclass(value, parts[0]):
            return value
        expected, fix = f"a class of {parts[0].__name__}", "give the class itself, not an instance"
        raise InputError(argument, expected=expected, got=checks.shown(value), fix=fix)

    return convert


def anything(argument: str, value: object) -> object:
    """The value as it is: of `object` and `Any`."""
    return value


MADE = {
    "Basis": "romkit.basis(data, rank=...) makes one",
    "Contexts": "romkit.data.Contexts.of_dataset(data) makes one",
    "xarray.Dataset": "romkit.data.open_dataset reads one, romkit.data.from_arrays makes one",
    "Evaluated": "it is what a term of the loss gets",
    "matplotlib.figure.Figure": "give what a function of romkit.plotting returned",
    "matplotlib.animation.FuncAnimation": "give what romkit.plotting.animate returned",
    "torch.Generator": "give torch.Generator().manual_seed(0), say",
    "numpy.random.Generator": "give numpy.random.default_rng(0), say",
    "LearnedField": "the fit of a law makes one: romkit.integrators.SINDy().fit(projection, data)",
    "Normalization": "romkit.projections.Normalization.from_dataset(data) makes one",
    "OperatorPath": "give romkit.problem.ConstantPath(projection(...)), or a romkit.projections.MovingPath",
    "Problem": "system.problem(path, context) makes one",
    "Projection": "romkit.fit makes one, romkit.load reads one",
    "ProjectionFamily": "romkit.fit makes one, romkit.load reads one",
    "ProjectionOperator": "a projection at a context is one: projection(F=3.15)",
}
"""How one comes by an instance of a class, by its name."""

PLAIN: dict[object, Converter] = {
    Any: anything,
    object: anything,
    float: checks.number,
    int: checks.integer,
    bool: checks.flag,
    str: checks.text,
    Tensor: arrays.tensor,
    np.ndarray: arrays.array,
    str | os.PathLike: checks.path,
    pathlib.Path: checks.path,
}
"""Annotations that stand for more, or less, than instances of a class."""

MANY: dict[object, Callable[[Sequence[object]], Converter]] = {
    **dict.fromkeys((collections.abc.Sequence, collections.abc.Iterable, tuple, list), _several),
    **dict.fromkeys((collections.abc.Mapping, dict), _mapping),
    collections.abc.Callable: _function,
    type: _subclass,
}
"""Annotations with parts."""
