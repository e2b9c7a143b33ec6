"""The public surface: what `romkit` and its rooms list in `__all__`, what authors of classes use, and their methods."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Annotated, NamedTuple, get_origin, get_type_hints

import romkit

MORE = ("romkit.plotting", "romkit.testing")
"""Rooms beside those of `romkit.__all__`; what is left is for romkit itself (docs/design.md)."""

AUTHORS = ("romkit.systems.problem", "romkit.core.types")
"""For those who write classes of their own: every name that does not begin with an underscore."""

OPERATORS = ("__call__", "__getitem__", "__add__", "__mul__")


class Target(NamedTuple):
    """A public callable: its name, what is called, and for a method the class whose instance it is called on."""

    name: str
    function: Callable
    owner: type | None = None

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        found = inspect.signature(self.function).parameters
        return {k: p for k, p in found.items() if k not in ("self", "cls", "_cls")}

    @property
    def hints(self) -> dict[str, object]:
        """Annotations by the name of the parameter."""
        function = self.function
        if isinstance(function, type):
            function = function.__new__ if issubclass(function, tuple) else function.__init__
        try:
            return get_type_hints(inspect.unwrap(function), include_extras=True)
        except NameError:  # a name for type checkers alone
            return {}


def rooms() -> list[object]:
    """Modules with an `__all__` for users."""
    names = [f"romkit.{name}" for name in romkit.__all__] + [*MORE]
    found = [importlib.import_module(info.name) for info in pkgutil.iter_modules(romkit.__path__, "romkit.")]
    return [romkit, *(m for m in found if m.__name__ in names and hasattr(m, "__all__"))] + [
        importlib.import_module(name) for name in (*MORE, *AUTHORS)
    ]


def names(room: object) -> list[str]:
    """What is public in a module."""
    own = [name for name, thing in vars(room).items() if getattr(thing, "__module__", "") == room.__name__]
    return getattr(room, "__all__", [name for name in own if not name.startswith("_")])


def targets() -> list[Target]:
    """All of them, each once."""
    found: dict[int, Target] = {}
    for room in rooms():
        for name in names(room):
            thing = getattr(room, name)
            if inspect.isfunction(thing) or isinstance(thing, type):
                for target in _targets(f"{room.__name__.removeprefix('romkit').lstrip('.')}.{name}".lstrip("."), thing):
                    found.setdefault(id(inspect.unwrap(target.function)), target)
    return sorted(found.values(), key=lambda target: target.name)


def _targets(name: str, thing: Callable) -> Iterator[Target]:
    if not isinstance(thing, type):
        yield Target(name, thing)
        return
    if getattr(thing, "_is_protocol", False):
        return
    if not inspect.isabstract(thing) and not issubclass(thing, int):  # an enumeration makes no new values
        yield Target(name, thing)
    for key, member in vars(thing).items():
        function = getattr(member, "__func__", member)
        public = not key.startswith("_") or key in OPERATORS
        if public and inspect.isfunction(function) and not getattr(function, "__isabstractmethod__", False):
            bound = isinstance(member, classmethod | staticmethod)
            yield Target(f"{name}.{key}", getattr(thing, key) if bound else function, None if bound else thing)


def kind(annotation: object) -> object:
    """What stands behind `Annotated`."""
    return annotation.__origin__ if get_origin(annotation) is Annotated else annotation
