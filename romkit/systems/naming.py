"""The name of a system in files."""

from collections.abc import Iterator


def recorded_name(kind: type, name: str, root: type) -> str:
    """Return the name of a system in files; its class is added if romkit has another system of that
    name.

    Args:
        kind: class of the system.
        name: that it gives itself.
        root: class of all systems.
    """
    namesakes = {
        system.__qualname__
        for system in _class_tree(root)
        if system.__module__.startswith("romkit.") and getattr(system, "name", "") == name
    }
    if namesakes - {kind.__qualname__}:
        return f"{name} ({kind.__qualname__})"
    return name


def _class_tree(kind: type[object]) -> Iterator[type[object]]:
    yield kind
    subclasses: list[type[object]] = kind.__subclasses__()
    for subclass in subclasses:
        yield from _class_tree(subclass)
