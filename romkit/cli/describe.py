"""Systems, datasets, models and the whole of romkit in plain text."""

import dataclasses
import inspect
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr

from romkit.bases import Basis
from romkit.core import runtime
from romkit.core.display import first_line, text, with_unit
from romkit.core.errors import InputError
from romkit.data import DIMS
from romkit.data.context import ROLE
from romkit.integrators import DYNAMICS, LAWS, LearnedField
from romkit.projections import METHODS, Projection, pretrained
from romkit.projections.catalog import arguments
from romkit.systems import SYSTEMS, System
from romkit.training import Recipe
from romkit.verbs.presets import PRESETS


def table(rows: Iterable[Sequence[str]], *, indent: str = "  ") -> str:
    """Rows of text in aligned columns."""
    rows = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in itertools.zip_longest(*rows, fillvalue="")]
    lines = ["  ".join(map(str.ljust, row, widths)) for row in rows]
    return "\n".join(indent + line.rstrip() for line in lines)


def describe_everything() -> str:
    """Systems with their context, methods, presets, dynamics, pretrained models and versions."""
    tables = {"methods": METHODS, "dynamics": DYNAMICS, "laws": LAWS, "presets": PRESETS}
    sections = {
        "systems": [(s.name, f"{s.state_size} components", _context(s)) for s in (kind() for kind in SYSTEMS.values())],
        **{title: [(name, first_line(each)) for name, each in listed.items()] for title, listed in tables.items()},
        "pretrained models": [(name,) for name in pretrained()],
        "versions": list(runtime.versions().items()),
    }
    return "\n\n".join(f"{title}\n{table(rows) if rows else '  none'}" for title, rows in sections.items())


def describe_system(system: System) -> str:
    """Its equation (the docstring), state, context with ranges, and times."""
    unit = "time units" if system.time_units == "1" else system.time_units
    facts = {
        "state": f"{system.state_size} components, {system.state_names[0]} ... {system.state_names[-1]}",
        "context": _context(system),
        "dataset": f"{system.duration:g} {unit} per trajectory, every {system.dt:g}; transient {system.transient:g}",
        "rollout": f"{system.horizon:g} {unit} by default",
    }
    return f"{inspect.getdoc(type(system))}\n\n{table(facts.items())}"


def describe_method(kind: type[Projection]) -> str:
    """Its docstring, its sizes with their defaults, and the settings of its training in each preset."""
    signature = inspect.signature(kind).parameters
    own = [(name, _default(signature[name])) for name in arguments(kind)]
    names = {name: recipe.to_json() for name in PRESETS if (recipe := _recipe(name, kind)) is not None}
    settings = [("setting", *names)]
    for part in ("snapshots", "rollouts", "phase"):
        keys = dict.fromkeys(key for recipe in names.values() for key in (recipe.get(part) or {}))
        for key in keys:
            shown = [text((recipe.get(part) or {}).get(key, "-")) for recipe in names.values()]
            settings.append((key if part == "snapshots" else f"{part}.{key}", *shown))
    sections = [str(inspect.getdoc(kind)), f"sizes, and latent_dim or layers\n{table(own)}"]
    return "\n\n".join([*sections, f"training (--set NAME=VALUE) in each preset\n{table(settings)}"])


def _recipe(preset: str, kind: type[Projection]) -> Recipe | None:
    """That of data of the user's own; some presets know particular systems alone."""
    try:
        return PRESETS[preset]("", kind.name)
    except InputError:
        return None


def describe_settings(kind: type) -> str:
    """The docstring of a law or of other dynamics, and its settings with their defaults."""
    rows = [(field.name, repr(field.default)) for field in dataclasses.fields(kind)]
    return f"{inspect.getdoc(kind)}" + (f"\n\nsettings (--set NAME=VALUE)\n{table(rows)}" if rows else "")


def _default(parameter: inspect.Parameter) -> str:
    return "required" if parameter.default is inspect.Parameter.empty else repr(parameter.default)


def describe_dataset(data: xr.Dataset) -> str:
    """Its dimensions, variables, context and provenance."""
    sizes = ", ".join(f"{size} {dim}" for dim, size in data.sizes.items())
    variables = [
        (str(name), f"({', '.join(map(str, v.dims))})", _with_unit("", v), v.attrs.get("long_name", ""))
        for name, v in data.data_vars.items()
    ]
    sections = [f"dataset: {sizes}", f"variables\n{table(variables)}"]
    context = [(str(name), _range(coord)) for name, coord in data.coords.items() if _is_context(str(name), coord)]
    if context:
        sections.append(f"context\n{table(context)}")
    attrs = [(str(key), text(value)) for key, value in data.attrs.items() if value != ""]
    if attrs:
        sections.append(f"attributes\n{table(attrs)}")
    return "\n\n".join(sections)


def describe_saved(model: Projection | LearnedField | Basis) -> str:
    """What `romkit.load` gave."""
    if isinstance(model, Basis):
        return table(model.facts().items(), indent="")
    return describe_model(model) if isinstance(model, Projection) else describe_law(model)


def describe_model(projection: Projection) -> str:
    """Method, sizes, what it was made for, and how it was trained."""
    facts, trainings = projection.facts(), projection.trainings()
    shared = {name: value for name, value in facts.items() if name not in (trainings[0] if trainings else ())}
    lines = [table(shared.items(), indent="")]
    for training in trainings:
        lines.append(f"seed {training.pop('seed')}\n{table(training.items())}")
    return "\n\n".join(lines)


def describe_law(law: LearnedField) -> str:
    """What it is, what it was fitted to, and its equations with residuals or its network with errors."""
    facts = law.facts()
    lines = facts.pop("details").splitlines()
    return "\n".join([table(facts.items(), indent=""), "", *lines, *_physical(law)])


def _physical(law: LearnedField) -> list[str]:
    """An equation in physical latents, where it can be written so."""
    try:
        return ["", "in physical latents", *(f"  {line}" for line in law.formulas())]
    except (AttributeError, InputError):
        return []


def _context(system: System) -> str:
    return ", ".join(f"{p.name} in [{p.low:g}, {p.high:g}]{with_unit(p.units)}" for p in system.context)


def _is_context(name: str, coord: xr.DataArray) -> bool:
    """Also of a run, which has no trajectories where it is a single one, and one that varies in time."""
    along = {*coord.dims} <= {*DIMS[:2]} and name not in DIMS
    return along and coord.dtype.kind in "iuf" and coord.attrs.get(ROLE) != "label"


def _range(coord: xr.DataArray) -> str:
    values = np.unique(coord.values)
    shown = ", ".join(f"{v:.6g}" for v in values) if len(values) <= 4 else f"{values[0]:.6g} ... {values[-1]:.6g}"
    return f"{_with_unit(shown, coord)} ({len(values)} values)" if len(values) > 4 else _with_unit(shown, coord)


def _with_unit(text: str, variable: xr.DataArray) -> str:
    return (text + with_unit(variable.attrs.get("units", "1"))).strip()
