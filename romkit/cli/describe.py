"""Systems, methods, datasets, models and runs as plain text: what `romkit info` and the other
commands print.
"""

import contextlib
import dataclasses
import inspect
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import romkit
from romkit.core import display
from romkit.core.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

SHARES = (0.0, 0.01, 0.1, 0.5, 1.0)
"""Times at which the summary of a run shows errors, as shares of its duration."""


def table(rows: Iterable[Sequence[str]], *, indent: str = "  ") -> str:
    """Rows of text in aligned columns."""
    rows = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in itertools.zip_longest(*rows, fillvalue="")]
    lines = ["  ".join(map(str.ljust, row, widths)) for row in rows]
    return "\n".join(indent + line.rstrip() for line in lines)


def everything() -> str:
    """Systems with their context, methods, dynamics, laws, presets, pretrained models and versions."""
    from romkit.core.runtime import versions

    named = {
        "methods": romkit.projections.METHODS,
        "dynamics": romkit.integrators.DYNAMICS,
        "laws": romkit.integrators.LAWS,
        "presets": romkit.presets.PRESETS,
    }
    kinds = [kind() for kind in romkit.systems.SYSTEMS.values()]
    sections = {
        "systems": [(each.name, f"{each.state_size} components", _context(each)) for each in kinds],
        **{
            title: [(name, display.first_line(each)) for name, each in kind.items()]
            for title, kind in named.items()
        },
        "pretrained models": [(name,) for name in romkit.projections.pretrained()],
        "versions": list(versions().items()),
    }
    return "\n\n".join(
        f"{title}\n{table(rows) if rows else '  none'}" for title, rows in sections.items()
    )


def system(system: "romkit.systems.System") -> str:
    """Equation of a system (its docstring), state, context with ranges, and times."""
    unit = "time units" if system.time_units == "1" else system.time_units
    facts = {
        "state": f"{system.state_size} components, {system.state_names[0]} ... {system.state_names[-1]}",
        "context": _context(system),
        "dataset": f"{system.duration:g} {unit} per trajectory, every {system.dt:g}; transient {system.transient:g}",
        "rollout": f"{system.horizon:g} {unit} by default",
    }
    return f"{inspect.getdoc(type(system))}\n\n{table(facts.items())}"


def _context(system: "romkit.systems.System") -> str:
    return ", ".join(
        f"{p.name} in [{p.low:g}, {p.high:g}]{display.with_unit(p.units)}" for p in system.context
    )


def method(kind: "type[romkit.projections.Projection]") -> str:
    """Docstring of a method, its sizes with their defaults, and the settings of its training in
    each preset.
    """
    sizes = [
        (p.name, "required" if p.default is p.empty else repr(p.default))
        for p in list(inspect.signature(kind).parameters.values())[
            2:
        ]  # behind the frame and the generator
    ]
    recipes = {}
    for name, preset in romkit.presets.PRESETS.items():
        try:
            recipes[name] = preset("", kind.name).to_json()
        except InputError:  # a preset for some of the built-in systems only
            continue
    rows = [("setting", *recipes)]
    for part in ("snapshots", "rollouts", "phase"):
        values = [recipe.get(part) or {} for recipe in recipes.values()]
        for key in dict.fromkeys(itertools.chain(*values)):
            label = key if part == "snapshots" else f"{part}.{key}"
            rows.append((label, *(display.text(each.get(key, "-")) for each in values)))
    sections = [str(inspect.getdoc(kind)), f"sizes, and latent_dim or layers\n{table(sizes)}"]
    return "\n\n".join([*sections, f"training (--set NAME=VALUE) in each preset\n{table(rows)}"])


def settings(kind: type) -> str:
    """Docstring of a law or of other dynamics, and its settings with their defaults."""
    rows = [(field.name, repr(field.default)) for field in dataclasses.fields(kind)]
    how = " (--set NAME=VALUE)" if kind in romkit.integrators.LAWS.values() else ", given in Python"
    return f"{inspect.getdoc(kind)}" + (f"\n\nsettings{how}\n{table(rows)}" if rows else "")


def dataset(data: "xr.Dataset") -> str:
    """Dimensions, variables, context and provenance of a dataset."""
    variables = [
        (
            str(name),
            f"({', '.join(map(str, v.dims))})",
            str(v.attrs.get("units", "")),
            v.attrs.get("long_name", ""),
        )
        for name, v in data.data_vars.items()
    ]
    sections = {
        f"dataset: {', '.join(f'{size} {dim}' for dim, size in data.sizes.items())}": [],
        "variables": variables,
        "context": [(name, _range(coord)) for name, coord in display.parameters(data).items()],
        "attributes": [
            (str(key), display.text(value)) for key, value in data.attrs.items() if value != ""
        ],
    }
    shown = {title: rows for title, rows in sections.items() if rows or ":" in title}
    return "\n\n".join(f"{title}\n{table(rows)}".rstrip() for title, rows in shown.items())


def _range(coord: "xr.DataArray") -> str:
    values, unit = np.unique(coord.values), display.with_unit(coord.attrs.get("units", "1"))
    if len(values) <= 4:
        return ", ".join(f"{v:.6g}" for v in values) + unit
    return f"{values[0]:.6g} ... {values[-1]:.6g}{unit} ({len(values)} values)"


def model(
    model: "romkit.projections.Projection | romkit.integrators.LearnedField | romkit.bases.Basis",
) -> str:
    """Facts of a projection, a law or a basis; the training of each seed, or the equations with
    their residuals.
    """
    facts = model.facts()
    lines = [facts.pop("details", "")]
    if isinstance(model, romkit.projections.Projection):
        seeds = model.trainings()
        lines += [
            f"seed {seed.pop('seed')}\n{table(seed.items())}" for seed in seeds if len(seeds) > 1
        ]
    elif isinstance(model, romkit.integrators.LearnedField):
        with contextlib.suppress(
            AttributeError, InputError
        ):  # a network, or an equation that cannot be written so
            lines.append("\n  ".join(["in physical latents", *model.formulas()]))
    return "\n\n".join(filter(None, [table(facts.items(), indent=""), *lines]))


def branch(branch: "xr.Dataset", verified: "xr.Dataset | None") -> str:
    """Ends of a branch, its special points, and what the full model has there."""
    name, kind = branch.attrs["parameter"], branch.attrs["kind"]
    ends, stable = branch[name].values[[0, -1]], branch["stable"].values
    head = f"{kind}, {len(stable)} points from {name} = {ends[0]:.6g} to {ends[1]:.6g}, {stable.mean():.0%} of them stable"
    of_full = [] if verified is None else [f"{name}, full model"]
    rows = [["special point", "", name, *of_full, "period" if kind == "orbits" else "frequency"]]
    for k, special in enumerate(branch["special_kind"].values):
        values = [
            branch["special_parameter"],
            *([verified["special_parameter"]] if of_full else []),
        ]
        values.append(branch["special_period" if kind == "orbits" else "frequency"])
        rows.append(
            [
                str(k),
                str(special),
                *("" if np.isnan(x := float(v[k])) else f"{x:.8g}" for v in values),
            ]
        )
    lines = [head] + ([f"\n{table(rows)}"] if len(rows) > 1 else [])
    if verified is not None:
        apart = [f"{float(verified['distance'].max()):.2g} between states"]
        if kind == "orbits":
            periods = (
                branch["period"].values[verified["point"].values] / verified["period"].values - 1
            )
            apart.append(f"{abs(periods).max():.2g} of the period")
        lines.append(
            f"\nfull model at {verified.sizes['point']} points: at most {' and '.join(apart)}"
        )
    return "\n".join(lines)


def run(run: "xr.Dataset") -> str:
    """Summary of a rollout: errors at some times, valid time, how it ended, and costs. Of several
    seeds, medians.
    """
    from romkit.plotting import rollout, style  # matplotlib, which other texts do not need

    run = style.members(run)
    time, unit = run["time"].values, run["time"].attrs.get("units", "1")
    chosen = np.unique([round(share * (len(time) - 1)) for share in SHARES])
    heads = [
        f"NRMSE at time{display.with_unit(unit, ' ({})')}",
        *(f"{time[k]:.3g}" for k in chosen),
    ]
    rows = [[*heads, "valid for", "status"]]
    for k in range(run.sizes["trajectory"]):
        one = run.isel(trajectory=k)
        if label := style.context(run, k, varying=True):
            rows.append([label.replace("\n", " ")])
        valid, diverged, seeds = (
            float(one["valid_time"].median()),
            int((one["status"] != 0).sum()),
            one.sizes["seed"],
        )
        lasts = (
            f"{'>= ' if valid >= time[-1] - time[0] else ''}{valid:.3g}{display.with_unit(unit)}"
        )
        ended = (
            ("completed", "diverged")[diverged]
            if seeds == 1
            else f"{diverged} of {seeds} seeds diverged"
        )
        rows.append(["reduced model", *_errors(one["nrmse"], chosen), lasts, ended])
        rows.append(["projection alone", *_errors(one["nrmse_projected"], chosen)])
    error = (
        f"{run.attrs['idempotency_error']:.1e}, the largest norm of P(P(x)) - P(x) along the run"
    )
    # A dataset that stands for the full model has no costs here.
    models = [
        name for name in ("full", "reduced") if f"seconds_computing_{name}_model" in run.attrs
    ]
    costs = {f"cost, {name} model": _cost(run, name, unit) for name in models}
    facts = {"idempotency error": error, **costs, "device": str(run.attrs["device"])}
    return f"{rollout.headline(run)}\n\n{table(rows)}\n\n{table(facts.items())}"


def _errors(nrmse: "xr.DataArray", chosen: np.ndarray) -> list[str]:
    values = nrmse.transpose("seed", "time").values[:, chosen]
    median = np.median(np.where(np.isnan(values), np.inf, values), axis=0)
    return [f"{value:.2g}" if np.isfinite(value) else "-" for value in median]


def _cost(run: "xr.Dataset", model: str, unit: str) -> str:
    keys = ("engine", "seconds_compiling", "seconds_computing")
    engine, compiling, computing = (run.attrs[f"{key}_{model}_model"] for key in keys)
    span = float(run["time"][-1] - run["time"][0])
    per = (
        f" per {display.with_unit(unit).strip() or 'time unit'}" if span else ""
    )  # a single sample has no duration
    before = f", after {compiling:.2g} s of compiling" if engine == "compiled" else ""
    count = run.sizes["trajectory"] * (run.sizes["seed"] if model == "reduced" else 1)
    together = f", {count} trajectories at once" if count > 1 else ""
    return f"{1e3 * computing / (span or 1):.3g} ms{per}{together}; engine: {engine}{before}"


def comparison(found: "xr.Dataset") -> str:
    """Median errors over trajectories and time of each combination, lost trajectories, and seconds."""
    rows = [["projection", "law", "NRMSE", "projection alone", "valid for", "lost", "seconds"]]
    for projection, law in itertools.product(found["projection"].values, found["law"].values):
        one = found.sel(projection=projection, law=law)
        numbers = [one[name].median().item() for name in ("nrmse", "nrmse_projected", "valid_time")]
        numbers += [
            one["diverged"].item(),
            one["seconds_projection"].item() + one["seconds_law"].item(),
        ]
        rows.append([str(projection), str(law), *(f"{x:.3g}" for x in numbers)])
    return table(rows, indent="")


def inference(found: "xr.Dataset") -> str:
    """Estimate and interval of each parameter for each trajectory, and whether they explain the
    observations.
    """
    names = list(found["parameter"].values)
    rows = [
        [
            "trajectory",
            *(f"{name} ({100 * found.attrs['level']:g} %)" for name in names),
            "explained",
        ]
    ]
    for k in range(found.sizes["trajectory"]):
        one = found.isel(trajectory=k)
        numbers = zip(*(one[key].values for key in ("estimate", "lower", "upper")), strict=True)
        intervals = [
            f"{estimate:.5g} [{lower:.5g}, {upper:.5g}]" for estimate, lower, upper in numbers
        ]
        rows.append([str(k), *intervals, "yes" if bool(one["explained"]) else "no"])
    return table(rows, indent="")
