"""The boundary of romkit: what the user gives is converted and checked once, by the annotations of what takes it.

    @checked
    def simulate(system: System, *, duration: Positive | None = None, engine: Engine = "auto") -> Dataset: ...

A class in an annotation stands for its instances, float for real numbers, Tensor for what `romkit.arrays.tensor` takes;
the names below say more. Each argument is seen by itself; what arguments have to fulfil together the function checks.
Methods that run inside of loops, and those that a subclass writes for romkit to call, are hooks: they are checked when
a user calls them, and cost nothing where romkit does.
"""

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from torch import Tensor

from romkit import arrays, checks
from romkit.checks import Converter
from romkit.converters import UNIONS, anything, converter

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
