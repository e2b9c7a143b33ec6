"""Results of commands as plain values, which `--json` prints; `describe` has the same as text."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import romkit
from romkit.core import display

if TYPE_CHECKING:
    import xarray as xr


def catalogue() -> dict[str, dict[str, str]]:
    """Return names of systems with their context, and of methods, dynamics, laws, presets,
    pretrained models and packages with a line about each.
    """
    from romkit.core.runtime import versions

    kinds: dict[str, Mapping[str, object]] = {
        "methods": romkit.projections.METHODS,
        "dynamics": romkit.integrators.DYNAMICS,
        "laws": romkit.laws.LAWS,
        "presets": romkit.presets.PRESETS,
    }
    systems: dict[str, str] = {}
    for kind in romkit.systems.SYSTEMS.values():
        system = kind()
        size = f"{system.state_size} components"
        systems[system.name] = f"{size}  {context_of(system)}"
    sections = {"systems": systems}
    for title, named in kinds.items():
        lines = {name: display.first_line(documented) for name, documented in named.items()}
        sections[title] = lines
    # their facts stand in the files, which take a second each to read
    sections["pretrained models"] = dict.fromkeys(romkit.projections.pretrained(), "")
    sections["versions"] = versions()
    return sections


def context_of(system: "romkit.systems.System") -> str:
    """Return parameters of a system with their ranges, on one line."""
    ranges = []
    for parameter in system.context:
        unit = display.with_unit(parameter.units)
        ranges.append(f"{parameter.name} in [{parameter.low:g}, {parameter.high:g}]{unit}")
    return ", ".join(ranges)


def system(system: "romkit.systems.System") -> dict[str, object]:
    """Return sizes, context and times of a system."""
    context = {}
    for parameter in system.context:
        span = {"low": parameter.low, "high": parameter.high, "units": parameter.units}
        context[parameter.name] = span
    return {
        "name": system.name,
        "components": list(system.state_names),
        "context": context,
        "time_units": system.time_units,
        "dt": system.dt,
        "duration": system.duration,
        "transient": system.transient,
        "horizon": system.horizon,
    }


def dataset(data: "xr.Dataset") -> dict[str, object]:
    """Return sizes, variables, context and attributes of a dataset."""
    variables = {}
    for name, variable in data.data_vars.items():
        units = str(variable.attrs.get("units", ""))
        variables[str(name)] = {"dims": list(map(str, variable.dims)), "units": units}
    context = {name: coord.values for name, coord in display.parameters(data).items()}
    return {
        "sizes": dict(data.sizes),
        "variables": variables,
        "context": context,
        "attributes": dict(data.attrs),
    }


def states(run: "xr.Dataset", *, printed: int = 100_000) -> dict[str, object]:
    """Return times, states and intervals of a forecast, of variables that are not large.

    `printed`: numbers of a variable up to which JSON has its values; of more, the file has
    them.
    """
    shown: dict[str, object] = {"time": run["time"].values}
    for name, variable in run.data_vars.items():
        if "time" in variable.dims and variable.size <= printed:
            shown[str(name)] = variable.values
    return shown


def model(
    model: "romkit.projections.Projection | romkit.integrators.LearnedField | romkit.bases.Basis",
) -> dict[str, object]:
    """Return facts of a projection, a law or a basis, by name."""
    return dict(model.facts())


def run(run: "xr.Dataset") -> list[dict[str, object]]:
    """Return errors of each trajectory of a rollout: medians over seeds."""
    from romkit.plotting import style  # matplotlib, which other values do not need

    run = style.members(run)
    parameters = display.parameters(run)
    rows = []
    for k in range(run.sizes["trajectory"]):
        trajectory = run.isel(trajectory=k)
        context = {}
        for name, coord in parameters.items():
            context[name] = coord.isel(trajectory=k).values
        rows.append(
            {
                "context": context,
                "valid_time": trajectory["valid_time"].median().item(),
                "nrmse": trajectory["nrmse"].median().item(),
                "nrmse_at_end": trajectory["nrmse"].isel(time=-1).median().item(),
                "nrmse_projected": trajectory["nrmse_projected"].median().item(),
                "diverged": int((trajectory["status"] != 0).sum()),
            }
        )
    return rows


def branch(branch: "xr.Dataset") -> dict[str, object]:
    """Return ends of a branch, and its special points."""
    name = branch.attrs["parameter"]
    special = []
    for k, kind in enumerate(branch["special_kind"].values):
        special.append({"kind": str(kind), name: branch["special_parameter"].values[k]})
    return {
        "kind": branch.attrs["kind"],
        "parameter": name,
        "ends": branch[name].values[[0, -1]],
        "stable": branch["stable"].values.mean(),
        "special_points": special,
    }


def comparison(table: "xr.Dataset") -> list[dict[str, object]]:
    """Median errors of each combination over trajectories and time, lost trajectories, parameters of
    the projection, and seconds.
    """
    rows: list[dict[str, object]] = []
    for projection in table["projection"].values:
        for law in table["law"].values:
            cell = table.sel(projection=projection, law=law)
            row: dict[str, object] = {"projection": str(projection), "law": str(law)}
            for name in ("nrmse", "nrmse_projected", "valid_time"):
                row[name] = cell[name].median().item()
            row["lost"] = cell["diverged"].item()
            row["parameters"] = cell["parameters"].item()
            row["seconds"] = cell["seconds_projection"].item() + cell["seconds_law"].item()
            rows.append(row)
    return rows


def inference(estimates: "xr.Dataset") -> list[dict[str, Any]]:
    """Estimate and interval of each parameter, for each trajectory."""
    names = [str(name) for name in estimates["parameter"].values]
    rows = []
    for k in range(estimates.sizes["trajectory"]):
        trajectory = estimates.isel(trajectory=k)
        parameters = {}
        for position, name in enumerate(names):
            ends = ("estimate", "lower", "upper")
            parameters[name] = {end: trajectory[end].values[position] for end in ends}
        explained = bool(np.all(trajectory["explained"].values))
        rows.append({"parameters": parameters, "explained": explained})
    return rows
