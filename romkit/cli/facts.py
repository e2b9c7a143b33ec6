"""Facts about systems, data, models and results, and their three forms: text, JSON and Markdown.

Facts are a mapping of names to numbers, words and lists of them; of mappings, and of tables, which
are lists of mappings, or mappings of mappings.
"""

import contextlib
import dataclasses
import inspect
import itertools
import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import romkit
from romkit.core import display
from romkit.core.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

Facts = dict[str, Any]


class Quantity(NamedTuple):
    """Numbers with their unit."""

    value: Any
    units: str


def quantity(values: "xr.DataArray") -> Quantity:
    """Return numbers of a variable with their unit."""
    return Quantity(values.values, str(values.attrs.get("units", "1")))


# -- forms -----------------------------------------------------------------------------------------


def format_json(facts: Mapping[str, object]) -> str:
    """JSON of facts; numbers that are not finite become null, which JSON has for them."""
    return json.dumps(_plain(facts), indent=1, ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    """Return a fact in the types of JSON."""
    if isinstance(value, Quantity):
        return _plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        return _plain(value.tolist())
    if isinstance(value, list | tuple | set):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def format_text(facts: Mapping[str, object]) -> str:
    """Return facts as text: short ones in two columns, others below as sections."""
    sections = []
    for title, rows in _sections(facts):
        if isinstance(rows, str):
            sections.append(f"{title}\n{textwrap.indent(rows, '  ')}" if title else rows)
        elif title:
            sections.append(f"{title}\n{table(rows)}")
        else:
            sections.append(table(rows, indent=""))
    return "\n\n".join(sections)


def format_markdown(facts: Mapping[str, object]) -> str:
    """Return facts as Markdown: tables, in which every character that could be markup is escaped."""
    sections = []
    for title, rows in _sections(facts):
        if title:
            sections.append(f"## {display.escape_markdown(title)}")
        if isinstance(rows, str):
            sections.append(textwrap.indent(rows, "    "))
            continue
        columns = max(map(len, rows))
        lines = ["| " * columns + "|", "|---" * columns + "|"]
        for row in rows:
            cells = [display.escape_markdown(cell) for cell in row]
            lines.append(f"| {' | '.join(cells)} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


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


def _sections(facts: Mapping[str, object]) -> list[tuple[str, str | list[list[str]]]]:
    """Return the title and rows of cells, or lines, of each section; short facts are one without a
    title.
    """
    short: list[list[str]] = []
    sections: list[tuple[str, str | list[list[str]]]] = [("", short)]
    for name, fact in facts.items():
        title = name.replace("_", " ")
        rows = _rows(fact)
        if rows:
            sections.append((title, rows))
        elif isinstance(fact, str) and "\n" in fact:
            sections.append((title, fact))
        elif not isinstance(fact, Mapping | list) or len(fact) > 0:
            short.append([title, word(fact)])
    return [section for section in sections if section[1]]


def _rows(fact: object) -> list[list[str]]:
    """Return rows of cells of a mapping or a table, its head first; none of another fact."""
    records = _records(fact)
    entries = [record for record in records.values() if isinstance(record, Mapping)]
    if len(entries) < len(records) or not records:
        return [[name, word(value)] for name, value in records.items()]
    heads: list[str] = list(dict.fromkeys(itertools.chain(*entries)))
    rows = [["", *(head.replace("_", " ") for head in heads)]]
    for name, record in zip(records, entries, strict=True):
        rows.append([name, *(word(record.get(head, "")) for head in heads)])
    return rows


def _records(fact: object) -> dict[str, object]:
    """Return entries of a mapping by name, records of a list by number; none of another fact."""
    if isinstance(fact, Mapping):
        return dict(fact)
    if isinstance(fact, list) and fact and isinstance(fact[0], Mapping):
        return {str(number): record for number, record in enumerate(fact)}
    return {}


def word(value: object, *, listed: int = 4) -> str:
    """Return a fact on one line.

    `listed`: numbers that are listed; of more, the range is shown.
    """
    if isinstance(value, Quantity):
        return f"{word(value.value)}{display.append_unit(value.units)}"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else f"{value:.6g}"
    if isinstance(value, np.ndarray):
        numbers = np.unique(value)
        if len(numbers) > listed:
            return f"{word(numbers[0])} ... {word(numbers[-1])} ({len(numbers)} values)"
        return ", ".join(map(word, numbers))
    if isinstance(value, list | tuple):
        return display.listed(map(word, value))
    return display.text(value)


# -- what there is -----------------------------------------------------------------------------------


def everything() -> Facts:
    """Return systems with their context, and methods, dynamics, laws, presets, pretrained models
    and packages with a line about each.
    """
    from romkit.core.runtime import versions

    kinds: dict[str, Mapping[str, object]] = {
        "methods": romkit.projections.METHODS,
        "dynamics": romkit.integrators.DYNAMICS,
        "laws": romkit.laws.LAWS,
        "presets": romkit.presets.PRESETS,
    }
    systems: Facts = {}
    for kind in romkit.systems.SYSTEMS.values():
        system = kind()
        ranges = []
        for parameter in system.context:
            unit = display.append_unit(parameter.units)
            ranges.append(f"{parameter.name} in [{parameter.low:g}, {parameter.high:g}]{unit}")
        systems[system.name] = {"components": system.state_size, "context": ", ".join(ranges)}
    facts: Facts = {"systems": systems}
    for title, named in kinds.items():
        facts[title] = {name: display.first_line(kind) for name, kind in named.items()}
    # facts of models stand in the files, which take a second each to read
    models = dict.fromkeys(romkit.projections.pretrained(), "")
    return facts | {"pretrained_models": models, "versions": versions()}


def system_facts(system: "romkit.systems.System") -> Facts:
    """Return equation (its docstring), sizes, context and times of a system."""
    context = {}
    for parameter in system.context:
        span = {"low": parameter.low, "high": parameter.high, "units": parameter.units}
        context[parameter.name] = span
    return {
        "equation": inspect.getdoc(type(system)),
        "name": system.name,
        "components": list(system.state_names),
        "dt": Quantity(system.dt, system.time_units),
        "duration": Quantity(system.duration, system.time_units),
        "transient": Quantity(system.transient, system.time_units),
        "horizon": Quantity(system.horizon, system.time_units),
        "context": context,
    }


def method_facts(kind: "type[romkit.projections.Projection]") -> Facts:
    """Return docstring of a method, its sizes with their defaults, and the settings of its training
    in each preset.
    """
    # the first two are the frame and the generator
    sizes = {}
    for parameter in list(inspect.signature(kind).parameters.values())[2:]:
        required = parameter.default is parameter.empty
        sizes[parameter.name] = "required" if required else repr(parameter.default)
    training: dict[str, Facts] = {}
    for name, preset in romkit.presets.PRESETS.items():
        # a preset may be for some of the built-in systems only
        with contextlib.suppress(InputError):
            recipe: Facts = preset("", kind.name).to_json()
            for stage in ("snapshots", "rollouts", "phase"):
                for key, value in (recipe.get(stage) or {}).items():
                    label = key if stage == "snapshots" else f"{stage}.{key}"
                    training.setdefault(label, {})[name] = display.text(value)
    return {
        "method": inspect.getdoc(kind),
        "sizes, and latent_dim or layers": sizes,
        "training (--set NAME=VALUE) in each preset": training,
    }


def law_facts(kind: type) -> Facts:
    """Return docstring of a law or of other dynamics, and its settings with their defaults."""
    how = "--set NAME=VALUE" if kind in romkit.laws.LAWS.values() else "given in Python"
    settings = {field.name: repr(field.default) for field in dataclasses.fields(kind)}
    return {"law": inspect.getdoc(kind), f"settings ({how})": settings}


def data_facts(data: "xr.Dataset") -> Facts:
    """Return summary of a dataset as romkit reads it, its sizes, variables, context and attributes."""
    facts: Facts = {"sizes": dict(data.sizes)}
    # results of romkit have no state in its schema: a rollout has `truth` and `rom`
    if "versions" not in data.attrs:
        facts["summary"] = "romkit check FILE says what romkit takes it for"
    with contextlib.suppress(InputError):
        facts["summary"] = romkit.data.summary(data)
    variables = {}
    for name, variable in data.data_vars.items():
        attrs = {key: str(variable.attrs.get(key, "")) for key in ("units", "long_name")}
        variables[str(name)] = {"dims": list(map(str, variable.dims)), **attrs}
    context = {name: quantity(coord) for name, coord in display.parameters(data).items()}
    attributes = {str(key): value for key, value in data.attrs.items() if str(value)}
    return facts | {"variables": variables, "context": context, "attributes": attributes}


def model_facts(model: object) -> Facts:
    """Return facts of a projection, a law, a basis or a hidden context; the training of each seed,
    or the equations with their residuals.
    """
    if not isinstance(model, display.Display):
        return {"hidden_context": str(model)}
    facts: Facts = dict(model.facts())
    if isinstance(model, romkit.projections.Projection):
        trainings = model.trainings()
        if len(trainings) > 1:
            facts |= {f"seed {training.pop('seed')}": training for training in trainings}
    elif isinstance(model, romkit.integrators.LearnedField):
        # a network has no formulas, and an equation may have none in these coordinates
        with contextlib.suppress(AttributeError, InputError):
            facts["in_physical_latents"] = "\n".join(model.formulas())
    return facts


# -- results ---------------------------------------------------------------------------------------


def run_facts(run: "xr.Dataset") -> Facts:
    """Return errors of each trajectory of a rollout, medians over seeds, and what both models cost."""
    from romkit.plotting import rollout, style  # matplotlib, which other facts do not need

    run = style.members(run)
    unit = run["time"].attrs.get("units", "1")
    rows = []
    for k in range(run.sizes["trajectory"]):
        trajectory = run.isel(trajectory=k)
        errors = trajectory["nrmse"]
        row: Facts = {}
        for name, coord in display.parameters(trajectory).items():
            row[name] = quantity(coord)
        row["valid_for"] = Quantity(trajectory["valid_time"].median().item(), unit)
        row["nrmse"] = errors.median().item()
        row["nrmse_at_end"] = errors.isel(time=-1).median().item()
        row["nrmse_projected"] = trajectory["nrmse_projected"].median().item()
        row["diverged"] = int((trajectory["status"] != 0).sum())
        rows.append(row)
    facts: Facts = {"run": rollout.headline(run), "trajectories": rows}
    for model in ("full", "reduced"):
        # a dataset that stands for the full model has no costs here
        keys = ("engine", "seconds_compiling", "seconds_computing")
        cost = {key: run.attrs.get(f"{key}_{model}_model") for key in keys}
        if cost["seconds_computing"] is not None:
            facts.setdefault("cost", {})[f"{model} model"] = cost
    facts["device"] = str(run.attrs["device"])
    facts["idempotency_error"] = run.attrs["idempotency_error"]
    return facts


def branch_facts(branch: "xr.Dataset", verified: "xr.Dataset | None") -> Facts:
    """Return ends of a branch, its special points, and how far the full model is from them."""
    name, kind = branch.attrs["parameter"], branch.attrs["kind"]
    columns = {name: branch["special_parameter"]}
    facts: Facts = {
        "kind": kind,
        "parameter": name,
        "points": branch.sizes["point"],
        "ends": branch[name].values[[0, -1]],
        "stable": branch["stable"].values.mean(),
    }
    if verified is not None:
        columns[f"{name}, full model"] = verified["special_parameter"]
        facts["distance_of_full_model"] = float(verified["distance"].max())
    if kind == "orbits":
        columns["period"] = branch["special_period"]
        if verified is not None:
            periods = branch["period"].values[verified["point"].values]
            relative = periods / verified["period"].values - 1
            facts["distance_of_periods"] = float(abs(relative).max())
    else:
        columns["frequency"] = branch["frequency"]
    points = []
    for k, special in enumerate(branch["special_kind"].values):
        numbers = {column: float(values[k]) for column, values in columns.items()}
        points.append({"kind": str(special), **numbers})
    return facts | {"special_points": points}


def comparison_facts(scores: "xr.Dataset") -> Facts:
    """Return median errors of each combination over trajectories and time, lost trajectories,
    parameters of the projection, and seconds.
    """
    rows = []
    for projection in scores["projection"].values:
        for law in scores["law"].values:
            cell = scores.sel(projection=projection, law=law)
            row: Facts = {"projection": str(projection), "law": str(law)}
            for name in ("nrmse", "nrmse_projected", "valid_time"):
                row[name] = cell[name].median().item()
            row["lost"] = cell["diverged"].item()
            row["parameters"] = cell["parameters"].item()
            row["seconds"] = cell["seconds_projection"].item() + cell["seconds_law"].item()
            rows.append(row)
    return {"combinations": rows}


def inference_facts(estimates: "xr.Dataset") -> Facts:
    """Return estimate and interval of each parameter for each trajectory, and whether they explain
    the observations.
    """
    rows = []
    for k in range(estimates.sizes["trajectory"]):
        trajectory = estimates.isel(trajectory=k)
        row: Facts = {}
        for position, name in enumerate(trajectory["parameter"].values):
            for end in ("estimate", "lower", "upper"):
                row[f"{name}_{end}"] = trajectory[end].values[position]
        row["explained"] = bool(trajectory["explained"].values.all())
        rows.append(row)
    return {"level": float(estimates.attrs["level"]), "trajectories": rows}
