"""Pages of the reference: one for each public room, and one for each name that the room lists in `__all__`."""

import importlib
import inspect
import re
import typing
from collections.abc import Callable
from pathlib import Path
from types import GenericAlias, ModuleType

from torch import nn

from romkit.integrators.base import Default

if typing.TYPE_CHECKING:  # tests ask for the names, and need no Sphinx
    from sphinx.application import Sphinx

ROOMS = (
    "romkit",
    "romkit.data",
    "romkit.readers",
    "romkit.systems",
    "romkit.bases",
    "romkit.projections",
    "romkit.training",
    "romkit.integrators",
    "romkit.laws",
    "romkit.solvers",
    "romkit.ensemble",
    "romkit.certificates",
    "romkit.metrics",
    "romkit.plotting",
    "romkit.explorer",
    "romkit.presets",
    "romkit.testing",
    "romkit.problem",
    "romkit.types",
    "romkit.errors",
)
"""Public rooms, in the order in which a user meets them."""

TASKS = {
    "Learn from runs": ("learn", "Learned", "hidden_context", "hidden_manifold", "RunsRegressor"),
    "Read and keep": ("open", "load", "save", "data.describe", "data.from_arrays", "data.split"),
    "Fit a projection": ("fit", "basis", "ProjectionTransformer"),
    "Fit latent dynamics": ("law", "bootstrap", "Ensemble", "timed", "reduced_mesh"),
    "Run and score": ("rollout", "simulate", "follow", "forecast", "score", "compare"),
    "Judge without a truth": ("error_estimate", "certify"),
    "Choose contexts": ("sample", "Sample"),
    "Infer and track contexts": ("infer", "calibrate", "sensors", "assimilate", "Tracker"),
    "Follow equilibria and orbits": ("continuation", "verify"),
    "Draw": (
        "plotting.plot_forecast",
        "plotting.plot_rollout",
        "plotting.plot_space_time",
        "plotting.plot_frames",
        "plotting.plot_branches",
        "plotting.save_figure",
    ),
    "Hand over": ("export", "readers.write_vtk", "laws.Equation"),
}
"""Names of `romkit` by what they are for, each of which the front page says in a sentence."""

SECTIONS = ("Args:", "Attributes:", "Returns:", "Raises:", "Yields:", "Example:")
"""Sections of a docstring in which indented text is no formula."""

TAG_LIST = " id='sg-tag-list'"
"""Attribute of the empty list that sphinx-gallery writes into each section of a page."""

FOREIGN = {
    name
    for base in (nn.Module, tuple, int, OSError)
    for name in [*dir(base), *inspect.get_annotations(base)]
}
"""Names that classes of romkit inherit from torch and Python, which have pages of their own."""


def write(app: "Sphinx", config: object) -> None:
    """Fill the folder `reference` of the source."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    shown: set[int] = set()
    for room in ROOMS:
        (folder / f"{room}.rst").write_text(_page(importlib.import_module(room), shown))
    toctree = "\n".join(f"   {room}" for room in ROOMS)
    (folder / "index.rst").write_text(
        f"{_title('Reference')}\n{_tasks()}\n{_title('Rooms')}\n"
        f".. toctree::\n   :maxdepth: 1\n\n{toctree}\n"
    )


def _tasks() -> str:
    """Tables of names by task, with the first sentence of each."""
    tables = []
    for task, names in TASKS.items():
        entries = "\n".join(f"   romkit.{name}" for name in names)
        tables.append(
            f"{task}\n{'-' * len(task)}\n\n.. autosummary::\n   :nosignatures:\n\n{entries}\n"
        )
    return "\n".join(tables)


def _page(module: ModuleType, shown: set[int]) -> str:
    """Page of a room, without names that an earlier page has shown."""
    values = {name: getattr(module, name) for name in public(module)}
    values = {
        name: value
        for name, value in values.items()
        if not _has_page(value) or id(value) not in shown
    }
    shown.update(map(id, values.values()))
    for value in values.values():
        unchecked(value)
    entries = "\n".join(f"   {name}" for name, value in values.items() if _has_page(value))
    constants = "\n".join(
        f"``{name}``\n   {_listed(value)}\n"
        for name, value in values.items()
        if not _has_page(value) and not inspect.ismodule(value)
    )
    return f"""{_title(module.__name__)}
.. automodule:: {module.__name__}
   :no-members:

.. currentmodule:: {module.__name__}

.. autosummary::
   :toctree: generated
   :nosignatures:

{entries}

{constants}
"""


def _has_page(value: object) -> bool:
    """Tell whether the value is a class or function; a type such as `tuple[Tensor, ...]` can be
    called, and has no source.
    """
    return callable(value) and not isinstance(value, GenericAlias)


def _listed(constant: object) -> str:
    """Entries of a table, or the value of a number."""
    if isinstance(constant, dict | tuple | list):
        return ", ".join(f"``{entry}``" for entry in constant)
    return f"``{constant!r}``"


def public(module: ModuleType) -> list[str]:
    """Return names that a room lists, or that a single file defines."""
    listed = getattr(module, "__all__", None)
    return sorted(listed if listed is not None else _own(module), key=str.lower)


def _own(module: ModuleType) -> list[str]:
    """Return names that a single file defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def unchecked(value: object) -> None:
    """Replace annotations of a function or class by plain types, for display; validation stays as it is."""
    if not inspect.isclass(value):
        _unchecked(value)
        return
    for owner in value.__mro__:
        if owner.__module__.startswith("romkit"):
            plain, own = _plain(owner), vars(owner).get("__annotations__", {})
            owner.__annotations__ = {
                name: plain.get(name, annotation) for name, annotation in own.items()
            }
            for member in vars(owner).values():
                _unchecked(getattr(member, "__func__", member))
    made, shown = _plain(value.__init__), _plain(value)
    own = {
        name: made[name] for name in shown if name in made
    }  # what a class is made from, not what it keeps of it
    value.__annotations__ = vars(value).get("__annotations__", {}) | own


def _unchecked(function: object) -> None:
    """Replace the annotations of a function by plain types: validators have no text that a reader could use."""
    if inspect.isfunction(function):
        plain, signature = _plain(function), inspect.signature(function)
        each = [
            p.replace(annotation=plain.get(p.name, p.annotation))
            for p in signature.parameters.values()
        ]
        returned = plain.get("return", signature.return_annotation)
        function.__annotations__ = function.__annotations__ | plain
        function.__signature__ = signature.replace(parameters=each, return_annotation=returned)


def _plain(thing: Callable) -> dict[str, object]:
    """Annotations as plain types; none if an annotation has a name that exists for type checkers alone."""
    try:
        return typing.get_type_hints(thing)
    except NameError:
        return {}


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def readable(
    app: "Sphinx", what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Turn a plain-text docstring into reStructuredText: indented text is a formula; |, * and `m.` are escaped."""
    text, section, formula = [], "", False
    for line in _apart(lines):
        if line in SECTIONS:
            section = line
        elif line and line[0] != " ":
            section = ""
        if line.startswith("    ") and not section:
            text += [] if formula else ["", "::", ""]
            formula = True
        elif line:
            text += [""] if formula else []
            formula = False
        literal = formula or section == "Example:"
        text.append(line if literal else re.sub(r"(?<!\\)([|*]|(?:^|(?<=: ))\w\.$)", r"\\\1", line))
    room = ".".join((getattr(value, "__module__", None) or "").split(".")[:2])
    if (
        what == "function" and room in ROOMS and not name.startswith(room)
    ):  # source pages link to it by its room
        text[1:1] = ["", ".. raw:: html", "", f'   <span id="{room}.{value.__name__}"></span>', ""]
    lines[:] = text


def _apart(lines: list[str]) -> list[str]:
    """Repeat a description that several attributes share for each of them; napoleon does so for arguments alone."""
    text, shared = "\n".join(lines), r"^    (\w+), (\w+(?:, \w+)*)(: .*(?:\n {5,}.*)*)"
    while (apart := re.sub(shared, r"    \1\3\n    \2\3", text, flags=re.MULTILINE)) != text:
        text = apart
    return text.split("\n")


def inherited(
    app: "Sphinx", what: str, name: str, value: object, skip: bool, options: object
) -> bool | None:
    """Skip members that a class inherits from torch or Python; leave the decision on all others to autodoc."""
    if isinstance(value, Default):  # of instances alone: no attribute of the class
        return True
    own = (getattr(value, "__module__", None) or "").startswith("romkit")
    return True if name in FOREIGN and not name.startswith("_") and not own else None


def one_tag_list(app: "Sphinx", page: str, source: list[str]) -> None:
    """Keep the id of a gallery's first list of tags alone: each subsection repeats it."""
    if page.startswith("auto_"):
        intro, identity, sections = source[0].partition(TAG_LIST)
        source[0] = intro + identity + sections.replace(TAG_LIST, "")


def setup(app: "Sphinx") -> dict[str, bool]:
    app.connect("source-read", one_tag_list)
    app.connect("config-inited", write)  # autosummary looks for pages right after
    app.connect("autodoc-skip-member", inherited)
    app.connect("autodoc-process-docstring", readable, priority=400)  # before napoleon
    return {"parallel_read_safe": True}
