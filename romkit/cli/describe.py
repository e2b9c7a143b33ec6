"""Systems, methods, datasets and models as plain text: what `romkit info` and other commands print."""

import contextlib
import dataclasses
import inspect
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import romkit
from romkit.cli import values
from romkit.core import display
from romkit.core.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

LISTED = 4
"""Values of a parameter that are listed; of more, the range is shown."""


def table(rows: Iterable[Sequence[str]], *, indent: str = "  ") -> str:
    """Return rows of text in aligned columns."""
    rows = [list(row) for row in rows]
    columns = itertools.zip_longest(*rows, fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in rows:
        cells = map(str.ljust, row, widths)
        lines.append(indent + "  ".join(cells).rstrip())
    return "\n".join(lines)


def everything() -> str:
    """Return systems with their context, methods, dynamics, laws, presets, pretrained models and
    versions.
    """
    sections = []
    for title, named in values.catalogue().items():
        rows: list[tuple[str, ...]] = list(named.items())
        if title == "systems":
            # size and context are columns of their own
            rows = [(name, *line.split("  ")) for name, line in named.items()]
        lines = table(rows) if rows else "  none"
        sections.append(f"{title}\n{lines}")
    return "\n\n".join(sections)


def system(system: "romkit.systems.System") -> str:
    """Equation of a system (its docstring), and its facts."""
    return f"{inspect.getdoc(type(system))}\n\n{display.as_text(system.facts())}"


def method(kind: "type[romkit.projections.Projection]") -> str:
    """Docstring of a method, its sizes with their defaults, and the settings of its training in
    each preset.
    """
    recipes = _recipes(kind)
    rows = [("setting", *recipes)]
    for stage in ("snapshots", "rollouts", "phase"):
        settings = [recipe.get(stage) or {} for recipe in recipes.values()]
        for key in dict.fromkeys(itertools.chain(*settings)):
            label = key if stage == "snapshots" else f"{stage}.{key}"
            cells = [display.text(setting.get(key, "-")) for setting in settings]
            rows.append((label, *cells))
    sections = [
        str(inspect.getdoc(kind)),
        f"sizes, and latent_dim or layers\n{table(_sizes(kind))}",
        f"training (--set NAME=VALUE) in each preset\n{table(rows)}",
    ]
    return "\n\n".join(sections)


def _sizes(kind: "type[romkit.projections.Projection]") -> list[tuple[str, str]]:
    """Return sizes of a method with their defaults."""
    # the first two are the frame and the generator
    parameters = list(inspect.signature(kind).parameters.values())[2:]
    rows = []
    for parameter in parameters:
        required = parameter.default is parameter.empty
        rows.append((parameter.name, "required" if required else repr(parameter.default)))
    return rows


def _recipes(kind: "type[romkit.projections.Projection]") -> dict[str, dict[str, Any]]:
    """Return settings of the training in each preset that the method has."""
    recipes = {}
    for name, preset in romkit.presets.PRESETS.items():
        # a preset may be for some of the built-in systems only
        with contextlib.suppress(InputError):
            recipes[name] = preset("", kind.name).to_json()
    return recipes


def settings(kind: type) -> str:
    """Docstring of a law or of other dynamics, and its settings with their defaults."""
    rows = [(field.name, repr(field.default)) for field in dataclasses.fields(kind)]
    text = f"{inspect.getdoc(kind)}"
    if not rows:
        return text
    is_law = kind in romkit.laws.LAWS.values()
    how = " (--set NAME=VALUE)" if is_law else ", given in Python"
    return f"{text}\n\nsettings{how}\n{table(rows)}"


def dataset(data: "xr.Dataset") -> str:
    """Return summary of a dataset as romkit reads it, its variables and its provenance; of other
    files their dimensions.
    """
    sections = [_head(data)]
    variables = []
    for name, variable in data.data_vars.items():
        dims = f"({', '.join(map(str, variable.dims))})"
        attrs = variable.attrs
        variables.append(
            (str(name), dims, str(attrs.get("units", "")), str(attrs.get("long_name", "")))
        )
    context = [(name, _range(coord)) for name, coord in display.parameters(data).items()]
    attributes = []
    for key, value in data.attrs.items():
        if str(value) != "":
            attributes.append((str(key), display.text(value)))
    for title, rows in (
        ("variables", variables),
        ("context", context),
        ("attributes", attributes),
    ):
        if rows:
            sections.append(f"{title}\n{table(rows)}")
    return "\n\n".join(sections)


def _head(data: "xr.Dataset") -> str:
    """Return summary as of `romkit check`, or the dimensions of a file that needs it first."""
    with contextlib.suppress(InputError):
        return romkit.data.summary(data)
    sizes = ", ".join(f"{size} {dim}" for dim, size in data.sizes.items())
    # results of romkit have no state in its schema either: a rollout has `truth` and `rom`
    if "versions" in data.attrs:
        return f"dataset: {sizes}"
    return f"dataset: {sizes}\nromkit check FILE says what romkit takes it for"


def _range(coord: "xr.DataArray") -> str:
    unit = display.with_unit(coord.attrs.get("units", "1"))
    numbers = np.unique(coord.values)
    if len(numbers) <= LISTED:
        return ", ".join(f"{number:.6g}" for number in numbers) + unit
    return f"{numbers[0]:.6g} ... {numbers[-1]:.6g}{unit} ({len(numbers)} values)"


def model(
    model: "romkit.projections.Projection | romkit.integrators.LearnedField | romkit.bases.Basis",
) -> str:
    """Return facts of a projection, a law or a basis; the training of each seed, or the equations
    with their residuals.
    """
    facts = model.facts()
    details = facts.pop("details", "")
    sections = [table(facts.items(), indent=""), details]
    if isinstance(model, romkit.projections.Projection):
        trainings = model.trainings()
        if len(trainings) > 1:
            for seed in trainings:
                sections.append(f"seed {seed.pop('seed')}\n{table(seed.items())}")
    elif isinstance(model, romkit.integrators.LearnedField):
        # a network has no formulas, and an equation may have none in these coordinates
        with contextlib.suppress(AttributeError, InputError):
            sections.append("\n  ".join(["in physical latents", *model.formulas()]))
    return "\n\n".join(section for section in sections if section)
