"""Validation of arguments where a user calls: annotations say what an argument is, pydantic binds
and checks it.

`validated` stands before verbs and public constructors. Inside of romkit nothing is checked again:
`unchecked` gives the function behind the door.
"""

import contextlib
import functools
import inspect
import operator
import os
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import torch
from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    Strict,
    ValidationError,
)
from pydantic import validate_call as pydantic_call
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.errors import InputError
from romkit.core.refusal import refusal, refused
from romkit.core.types import Operation, Shape

T = TypeVar("T")

CPU = torch.device("cpu")


def validated(thing: T) -> T:
    """Validate the arguments of a function, or of the constructor of a class, by the annotations.

    Code inside of romkit trusts its arguments and calls `unchecked(thing)`.

    Raises:
        InputError: at a call with an argument that is unknown, missing or not what its annotation
            says.
    """
    if isinstance(thing, type):
        constructor = _constructor(thing)
        setattr(thing, constructor, validated(getattr(thing, constructor)))
        return thing

    function: Any = thing

    # built at the first call: annotations may name classes that are defined further down
    @functools.cache
    def checked() -> Operation:
        @functools.wraps(function)
        def call(*args: object, **named: object) -> object:
            return function(*args, **named)

        hints = get_type_hints(function, include_extras=True)
        hints.pop("return", None)
        call.__annotations__ = {name: _translate(hint) for name, hint in hints.items()}
        return pydantic_call(config=ConfigDict(arbitrary_types_allowed=True))(call)

    @functools.wraps(function)
    def call_guarded(*args: object, **named: object) -> object:
        try:
            with _assume_cpu():
                return checked()(*args, **named)
        except ValidationError as error:
            fault = refusal(function, error)
        raise fault

    guarded: Any = call_guarded
    guarded.validated = True
    signature = inspect.signature(function)
    # the signature that `help` and editors show: of the annotations the types, without checks
    parameters = [
        parameter.replace(annotation=_plain_type(parameter.annotation))
        for parameter in signature.parameters.values()
    ]
    returned = _plain_type(signature.return_annotation)
    guarded.__signature__ = signature.replace(parameters=parameters, return_annotation=returned)
    return cast("T", guarded)


def _plain_type(hint: object) -> object:
    """Return an annotation without the checks in it, names of classes defined further down as they
    are.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _plain_type(arguments[0])
    if origin in (None, Literal) or not arguments:
        return hint
    if isinstance(hint, list):
        return [_plain_type(entry) for entry in hint]
    plain = tuple(map(_plain_type, arguments))
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, plain)
    return origin[plain]


def _assume_cpu() -> AbstractContextManager[Any]:
    """Place of tensors that name no device: the CPU, also where the user has set another
    one for programs of their own. Arguments called `device` choose it.
    """
    if tensors.compiling() or torch.get_default_device() == CPU:
        return contextlib.nullcontext()
    return CPU


def unchecked(thing: T) -> T:
    """Return the function behind the door of a validated one, or a maker of instances of a
    validated class.

    For calls inside of romkit, whose arguments are checked already and have the types of the
    annotations: tensors and no arrays, tuples and no lists. What is not validated is returned as it
    is.
    """
    checked: Any = thing
    is_validated = getattr(thing, "validated", False)
    if inspect.ismethod(thing) and is_validated:
        return cast("T", types.MethodType(checked.__wrapped__, thing.__self__))
    if not isinstance(thing, type):
        return cast("T", checked.__wrapped__) if is_validated else thing

    if not hasattr(getattr(thing, _constructor(thing)), "__wrapped__"):
        return thing

    def make(*args: object, **named: object) -> object:
        if _constructor(thing) == "__new__":
            return checked.__new__.__wrapped__(thing, *args, **named)
        made = checked.__new__(thing)
        checked.__init__.__wrapped__(made, *args, **named)
        return made

    return cast("T", make)


def _constructor(cls: type) -> str:
    return "__new__" if issubclass(cls, tuple) else "__init__"


def _translate(hint: Any) -> object:
    """Return the annotation for pydantic: strict numbers, lists as tuples, and objects as they are,
    without a copy.
    """
    if isinstance(hint, Hashable) and hint in PLAIN:
        return PLAIN[hint]
    if get_origin(hint) in GENERIC:
        return GENERIC[get_origin(hint)](hint)
    if hint is types.NoneType or hint is None:
        return hint
    if isinstance(hint, type):
        return Annotated[Any, PlainValidator(functools.partial(_instance, hint))]
    return Any


ROMKITS_CHECKS = (types.FunctionType, types.MethodType, functools.partial)
"""Types of checks in an `Annotated` that are called with the name of the argument and the value."""


def _annotated_type(hint: object) -> object:
    """Return an annotation with a check of romkit's, or with limits of pydantic's."""
    base, *checks_of_it = get_args(hint)
    check = checks_of_it[-1]
    if isinstance(check, ROMKITS_CHECKS):
        return Annotated[Any, PlainValidator(functools.partial(check, ""))]
    inner = base if base in (float, int) else _translate(base)
    return Annotated[inner, *checks_of_it]


def _union_type(hint: object) -> object:
    return Union[tuple(map(_translate, get_args(hint)))]  # noqa: UP007, made at run time


def _literal_type(hint: object) -> object:
    return Annotated[Any, PlainValidator(functools.partial(_check_option, get_args(hint)))]


def _list_type(hint: object) -> object:
    entry: Any = _translate(get_args(hint)[0])
    return Annotated[tuple[entry, ...], BeforeValidator(_listed)]


def _dict_type(hint: object) -> object:
    value: Any = _translate(get_args(hint)[1])
    return Annotated[dict[str, value], BeforeValidator(_named)]


def _function_type(hint: object) -> object:
    arguments = get_args(hint)[0]
    count = len(arguments) if isinstance(arguments, list) else None
    return Annotated[Any, PlainValidator(functools.partial(_function, count))]


GENERIC: dict[object, Callable[[object], object]] = {
    Annotated: _annotated_type,
    Union: _union_type,
    types.UnionType: _union_type,
    Literal: _literal_type,
    Sequence: _list_type,
    Iterable: _list_type,
    list: _list_type,
    tuple: _list_type,
    Mapping: _dict_type,
    dict: _dict_type,
    type: lambda hint: hint,
    Callable: _function_type,
}
"""Translation of annotations with parameters, by their origin."""


def _check_option(options: tuple[object, ...], value: object) -> object:
    """Return the value, if it is one of a `Literal`."""
    for option in options:
        both_text = isinstance(value, str) and isinstance(option, str)
        same_type = type(value) is type(option)
        if (both_text or same_type) and value == option:
            return option
    names = [str(option) for option in options]
    fix = checks.nearest(value, names) or "choose one of them"
    raise refused(" or ".join(map(repr, options)), value, fix)


def _listed(value: object) -> object:
    """Return the entries of an iterable as a tuple; text and mappings are refused."""
    is_text = isinstance(value, str | bytes | Mapping)
    # arrays of no axis have `__iter__`, too
    if isinstance(value, Iterable) and not is_text and getattr(value, "ndim", 1) > 0:
        return tuple(value)
    raise refused("a list", value, "give a list, [...]")


def _named(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise refused("a dict with names as keys", value, "give {...}")


def _function(count: int | None, value: object) -> object:
    """Return the value, if it can be called with this number of arguments; with any for None."""
    if not callable(value) or isinstance(value, type):
        raise refused("a function", value, "give a function, or a lambda")
    if count is None or _takes(value, count):
        return value
    arguments = "one argument" if count == 1 else f"{count} arguments"
    name = getattr(value, "__name__", type(value).__name__)
    raise InputError(
        "",
        expected=f"a function of {arguments}",
        got=f"{name}{inspect.signature(value)}",
        fix="wrap it in a lambda that takes them",
    )


def _takes(function: Operation, count: int) -> bool:
    """Tell whether a function can be called with this number of arguments."""
    # modules of torch take any arguments, and pass them on
    function = getattr(function, "forward", function)
    try:
        signature = inspect.signature(function)
    except ValueError:
        # many functions written in C have none
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _instance(kind: type, value: object) -> object:
    """Return the value, if it is an instance of the class, or has the methods of the runtime
    protocol.
    """
    # a class has the methods of a protocol, too
    is_class = isinstance(value, type)
    if isinstance(value, kind) and not is_class:
        return value
    package = kind.__module__.partition(".")[0]
    name = kind.__name__
    if package != "romkit":
        name = f"{package}.{name}"
    article = "an" if name[0] in "aeiouAEIOUx" else "a"
    if isinstance(value, type) and kind in value.__mro__:
        fix = f"give an instance, {value.__name__}(...)"
    else:
        fix = HOW_TO_MAKE.get(kind.__name__, f"give {name}(...)")
    raise refused(f"{article} {name}", value, fix)


HOW_TO_MAKE = {
    "Basis": "romkit.basis(data, rank=...) makes one",
    "Contexts": "romkit.data.Contexts.read(data) makes one",
    "Dataset": "romkit.data.describe(table, context=[...]) makes one of a table, romkit.open reads files, "
    "romkit.data.from_arrays takes arrays",
    "Estimator": "give settings, romkit.laws.NeuralODE() or SINDy() say, and no law that is fitted",
    "Evaluated": "it is what a term of the loss gets",
    "Figure": "give what a function of romkit.plotting returned",
    "Frame": "romkit.projections.Frame.from_dataset(data) makes one",
    "FuncAnimation": "give what romkit.plotting.animate returned",
    "Generator": "give torch.Generator().manual_seed(0) or numpy.random.default_rng(0)",
    "LearnedField": "the fit of a law makes one: romkit.laws.SINDy().fit(projection, data)",
    "Operator": "a projection at a context is one: projection(F=3.15)",
    "Path": "give romkit.projections.Path.constant(projection(...)), or Path(projection, context, times)",
    "Problem": "system.problem(path, context) makes one",
    "Projection": "romkit.fit makes one, romkit.load reads one",
    "ProjectionFamily": "romkit.fit makes one, romkit.load reads one",
    "Solver": "give romkit.solvers.RK4(dt), say",
    "System": "give an instance, romkit.systems.Lorenz96() say",
}
"""Fix for an argument that is not an instance of the class."""


def _scalar(value: object) -> object:
    """Return a number of NumPy or torch as one of Python; anything else, and booleans, as they are."""
    if getattr(value, "ndim", 1) != 0 or not hasattr(value, "item"):
        return value
    # a tensor without values has no number
    if getattr(value, "is_meta", False):
        return value
    return value.item()


def _no_nan(value: float) -> float:
    if value == value:
        return value
    raise refused("a number", value, "give {}=1.5, say")


def _path(value: object) -> object:
    if isinstance(value, str | os.PathLike) and os.fspath(value) and "\0" not in str(value):
        return value
    raise refused("a path", value, 'give text or a pathlib.Path, "my.nc" say')


Number = Annotated[float, Strict(), BeforeValidator(_scalar), AfterValidator(_no_nan)]
Integer = Annotated[int, Strict(), BeforeValidator(_scalar)]
FilePath = Annotated[str | os.PathLike[str], PlainValidator(_path)]

PLAIN: dict[object, object] = {
    Any: Any,
    object: Any,
    float: Number,
    int: Integer,
    bool: Annotated[bool, Strict()],
    str: Annotated[str, Strict()],
    Tensor: Annotated[Any, PlainValidator(functools.partial(tensors.tensor, ""))],
    np.ndarray: Annotated[Any, PlainValidator(functools.partial(tensors.array, ""))],
}
"""Annotations that stand for more, or less, than instances of a class."""

Finite = Annotated[Number, AllowInfNan(False)]
Positive = Annotated[Finite, Gt(0.0)]
NotNegative = Annotated[Finite, Ge(0.0)]
Limit = Annotated[Number, Gt(0.0)]
"""A positive number; infinity means that there is no limit."""
Seconds = Annotated[Finite, Gt(0.0), Le(7 * 86400.0)]
"""Time of the processor, a week at most: more is a slip of the unit."""
Share = Annotated[Finite, Ge(0.0), Le(1.0)]
Part = Annotated[Finite, Gt(0.0), Lt(1.0)]
Count = Annotated[Integer, Ge(1), Lt(2**63)]
Natural = Annotated[Integer, Ge(0), Lt(2**63)]
Order = Annotated[Integer, Ge(1), Le(2)]
Seed = Annotated[Integer, Ge(0), Lt(2**63)]
Seeds = Annotated[Sequence[Seed], MinLen(1)]
Sizes = Annotated[Sequence[Count], MinLen(2)]
Widths = Annotated[Sequence[Count], MinLen(1)]


def _group(layers: tuple[int | Shape, ...]) -> tuple[Shape, ...]:
    """Widths that stand alone as groups of one."""
    groups = []
    for layer in layers:
        if isinstance(layer, int):
            layer = (layer,)
        groups.append(layer)
    return tuple(groups)


Layered = Annotated[Sequence[Count | Widths], MinLen(1), AfterValidator(_group)]
"""Widths of layers, or tuples of them: (32, 32) and ((32, 32), (16, 16))."""
Numbers = Annotated[Tensor, tensors.finite]
Times = Annotated[Tensor, tensors.times]
Mask = Annotated[Tensor, tensors.mask]
