"""What checks a value against an annotation: a class stands for its instances, float for real numbers, and so on."""

import collections.abc
import functools
import inspect
import os
import pathlib
import sys
import threading
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core import tensors as arrays
from romkit.core.checks import Converter
from romkit.core.errors import InputError

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
    Tensor: tensors.tensor,
    np.ndarray: tensors.array,
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


T = TypeVar("T")

Positive = Annotated[float, checks.positive]
NotNegative = Annotated[float, checks.not_negative]
Limit = Annotated[float, checks.limit]
Share = Annotated[float, checks.between(0, 1)]
Part = Annotated[float, checks.share]
Finite = Annotated[float, checks.finite]
Count = Annotated[int, checks.from_(1)]
Natural = Annotated[int, checks.from_(0)]
Order = Annotated[int, checks.one_or_two]
Seed = Annotated[int, checks.seed]
Seeds = Annotated[Iterable[int], checks.seeds]
Sizes = Annotated[Sequence[int], checks.sizes]
Widths = Annotated[Sequence[int], checks.widths]
Layered = Annotated[Sequence[int | Sequence[int]], checks.layered]
FilePath = Annotated[str | os.PathLike, checks.path]
Numbers = Annotated[Tensor, arrays.finite]
Times = Annotated[Tensor, arrays.times]
Mask = Annotated[Tensor, arrays.mask]
Codes = Annotated[Tensor, arrays.codes]
Time = Annotated[Tensor, arrays.scalar]


class _Calls(threading.local):
    """Whether romkit is calling: what comes then has passed the boundary."""

    own = False


CALLS = _Calls()


def checked(thing: T) -> T:
    """A function, or a class and its constructor, whose arguments are converted and checked by their annotations."""
    if isinstance(thing, type):
        return _constructed(thing, checked)
    convert = _converting(thing)

    @functools.wraps(thing)
    def guarded(*args: object, **named: object) -> object:
        if arrays.compiling():
            return thing(*args, **named)
        args, named = convert(args, named)
        before, CALLS.own = CALLS.own, True
        try:
            return thing(*args, **named)
        finally:
            CALLS.own = before

    guarded.checked = True
    return guarded


def hook(method: T, contract: Callable | None = None) -> T:
    """What is called in loops, and may be a method to override in `Hooks`: checked where a user calls it.

    What it calls in turn is romkit's own call, so a field that is a hook costs the loops of others next to nothing.

    Args:
        method: what is called, or a class with such a constructor.
        contract: the method that it overrides, whose annotations count; its own by default.
    """
    if isinstance(method, type):
        return _constructed(method, hook)
    if arrays.compiling():  # what a compiled step makes, it calls
        return method
    convert = _converting(method, contract)

    @functools.wraps(method)
    def guarded(*args: object, **named: object) -> object:
        if CALLS.own or arrays.compiling():
            return method(*args, **named)
        args, named = convert(args, named)
        CALLS.own = True
        try:
            return method(*args, **named)
        finally:
            CALLS.own = False

    guarded.hook = inspect.unwrap(contract or method)
    return guarded


def _constructed(cls: type, guard: Callable[[Callable], Callable]) -> type:
    constructor = "__new__" if issubclass(cls, tuple) else "__init__"
    setattr(cls, constructor, guard(getattr(cls, constructor)))
    return cls


def behind(method: T) -> T:
    """A bound hook without its checks: for functions that close over it and are called in every step of a solver."""
    inner = getattr(method, "__wrapped__", None)
    return method if inner is None else inner.__get__(method.__self__)


class Hooks:
    """A class whose hooks may be overridden: what overrides one takes what it takes, without a word of its own."""

    def __init_subclass__(cls, **named: object):
        super().__init_subclass__(**named)
        for name, member in list(vars(cls).items()):
            overridden = (getattr(vars(base).get(name), "hook", None) for base in cls.__mro__[1:])
            contract = next(filter(None, overridden), None)
            if contract and inspect.isfunction(member) and not hasattr(member, "hook"):
                setattr(cls, name, hook(member, contract))


def _converting(function: Callable, contract: Callable | None = None) -> Callable[[tuple, dict], tuple[Sequence, dict]]:
    """What converts and checks the arguments of a call, by the annotations of the function, or of what it overrides."""
    read = functools.cache(lambda: _arguments(function, contract))

    def convert(args: tuple, named: dict[str, object]) -> tuple[Sequence, dict[str, object]]:
        positional, by_name, shaped = read()
        if not by_name:
            return args, named
        given = [convert(name, value) for (name, convert), value in zip(positional, args, strict=False)]
        named = {name: by_name[name](name, value) if name in by_name else value for name, value in named.items()}
        if shaped:
            names = [name for name, _ in positional]
            tensors = dict(zip(names, given, strict=False)) | named
            there = {k: (tensors[k], axes) for k, axes in shaped.items() if isinstance(tensors.get(k), Tensor)}
            tensors |= arrays.fitting(args[0], there)
            given, named = [tensors[name] for name in names[: len(given)]], {name: tensors[name] for name in named}
        return (*given, *args[len(given) :]), named

    return convert


def _arguments(
    function: Callable, contract: Callable | None
) -> tuple[list[tuple[str, Converter]], dict[str, Converter], dict[str, arrays.Axes]]:
    """Converters of positional arguments in order, of all that have one by name, and the axes that some have."""
    hints, parameters = _annotations(function), inspect.signature(function).parameters.values()
    if contract is not None:  # whose arguments may have other names
        theirs = _annotations(contract)
        hints |= {
            p.name: theirs[name]
            for p, name in zip(parameters, inspect.signature(contract).parameters, strict=False)
            if name in theirs
        }
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    each = {p.name: converter(hints.get(p.name, Any)) for p in plain}
    positional = [(p.name, each[p.name]) for p in plain if p.kind is not p.KEYWORD_ONLY]
    by_name = {name: convert for name, convert in each.items() if convert is not anything}
    shaped = {p.name: axes for p in plain for axes in _axes(hints.get(p.name))}
    return positional, by_name, shaped


def _annotations(function: Callable) -> dict[str, object]:
    return get_type_hints(function, include_extras=True)


def _axes(annotation: object) -> list[arrays.Axes]:
    """Those that stand in an annotation."""
    if get_origin(annotation) is Annotated:
        return [each for each in annotation.__metadata__ if isinstance(each, arrays.Axes)]
    return [axes for part in get_args(annotation) for axes in _axes(part)] if get_origin(annotation) in UNIONS else []
