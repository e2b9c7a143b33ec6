"""Branches, runs, comparisons and estimates as plain text: what commands that make them print."""

from typing import TYPE_CHECKING

import numpy as np

from romkit.cli import values
from romkit.cli.describe import table
from romkit.core import display

if TYPE_CHECKING:
    import xarray as xr

    from romkit.core.types import Array

SHARES = (0.0, 0.01, 0.1, 0.5, 1.0)
"""Times at which the summary of a run shows errors, as shares of its duration."""


def branch(branch: "xr.Dataset", verified: "xr.Dataset | None") -> str:
    """Return ends of a branch, its special points, and what the full model has there."""
    name, kind = branch.attrs["parameter"], branch.attrs["kind"]
    ends = branch[name].values[[0, -1]]
    stable = branch["stable"].values
    lines = [
        f"{kind}, {len(stable)} points from {name} = {ends[0]:.6g} to {ends[1]:.6g}, "
        f"{stable.mean():.0%} of them stable"
    ]
    points = _special_points(branch, verified)
    if len(points) > 1:
        lines.append(f"\n{table(points)}")
    if verified is not None:
        distances = " and ".join(_distances(branch, verified))
        number = verified.sizes["point"]
        lines.append(f"\nfull model at {number} points: at most {distances}")
    return "\n".join(lines)


def _special_points(branch: "xr.Dataset", verified: "xr.Dataset | None") -> list[list[str]]:
    """Head and a row for each special point: number, kind, parameter, and period or frequency."""
    name = branch.attrs["parameter"]
    heads, columns = [name], [branch["special_parameter"]]
    if verified is not None:
        heads.append(f"{name}, full model")
        columns.append(verified["special_parameter"])
    if branch.attrs["kind"] == "orbits":
        heads.append("period")
        columns.append(branch["special_period"])
    else:
        heads.append("frequency")
        columns.append(branch["frequency"])
    rows = [["special point", "", *heads]]
    for k, special in enumerate(branch["special_kind"].values):
        cells = [_number_or_nothing(float(column[k])) for column in columns]
        rows.append([str(k), str(special), *cells])
    return rows


def _number_or_nothing(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.8g}"


def _distances(branch: "xr.Dataset", verified: "xr.Dataset") -> list[str]:
    """Return largest distances between the full model and a branch, in words."""
    distances = [f"{float(verified['distance'].max()):.2g} between states"]
    if branch.attrs["kind"] == "orbits":
        period = branch["period"].values[verified["point"].values]
        relative = period / verified["period"].values - 1
        distances.append(f"{abs(relative).max():.2g} of the period")
    return distances


def run(run: "xr.Dataset") -> str:
    """Return summary of a rollout: errors at some times, valid time, how it ended, and costs. Of
    several seeds, medians.
    """
    from romkit.plotting import rollout, style  # matplotlib, which other texts do not need

    run = style.members(run)
    time = run["time"].values
    unit = run["time"].attrs.get("units", "1")
    # of a short run, several shares are one sample
    samples = np.unique([round(share * (len(time) - 1)) for share in SHARES])
    times = [f"{time[k]:.3g}" for k in samples]
    rows = [[f"NRMSE at time{display.with_unit(unit, ' ({})')}", *times, "valid for", "status"]]
    for k in range(run.sizes["trajectory"]):
        label = style.context(run, k, varying=True)
        if label:
            rows.append([label.replace("\n", " ")])
        trajectory = run.isel(trajectory=k)
        errors = _errors(trajectory["nrmse"], samples)
        rows.append(["reduced model", *errors, _valid_time(trajectory, unit), _end(trajectory)])
        rows.append(["projection alone", *_errors(trajectory["nrmse_projected"], samples)])
    largest = f"{run.attrs['idempotency_error']:.1e}, the largest norm of P(P(x)) - P(x)"
    facts = {"idempotency error": f"{largest} along the run"}
    for model in ("full", "reduced"):
        # a dataset that stands for the full model has no costs here
        if f"seconds_computing_{model}_model" in run.attrs:
            facts[f"cost, {model} model"] = _cost(run, model, unit)
    facts["device"] = str(run.attrs["device"])
    return f"{rollout.headline(run)}\n\n{table(rows)}\n\n{table(facts.items())}"


def _errors(nrmse: "xr.DataArray", samples: "Array") -> list[str]:
    """Medians over seeds at some samples; a dash where the median seed diverged."""
    errors = nrmse.transpose("seed", "time").values[:, samples]
    median = np.median(np.where(np.isnan(errors), np.inf, errors), axis=0)
    return [f"{error:.2g}" if np.isfinite(error) else "-" for error in median]


def _valid_time(trajectory: "xr.Dataset", unit: str) -> str:
    valid = float(trajectory["valid_time"].median())
    time = trajectory["time"].values
    at_least = ">= " if valid >= time[-1] - time[0] else ""
    return f"{at_least}{valid:.3g}{display.with_unit(unit)}"


def _end(trajectory: "xr.Dataset") -> str:
    """End of a trajectory, of all seeds."""
    diverged = int((trajectory["status"] != 0).sum())
    seeds = trajectory.sizes["seed"]
    if seeds > 1:
        return f"{diverged} of {seeds} seeds diverged"
    return "diverged" if diverged else "completed"


def _cost(run: "xr.Dataset", model: str, unit: str) -> str:
    """Time of computing per unit of time, and how it was computed."""
    keys = ("engine", "seconds_compiling", "seconds_computing")
    engine, compiling, computing = (run.attrs[f"{key}_{model}_model"] for key in keys)
    span = float(run["time"][-1] - run["time"][0])
    count = run.sizes["trajectory"]
    if model == "reduced":
        count *= run.sizes["seed"]
    # a single sample has no duration
    cost = f"{1e3 * computing / (span or 1):.3g} ms"
    if span:
        cost += f" per {display.with_unit(unit).strip() or 'time unit'}"
    if count > 1:
        cost += f", {count} trajectories at once"
    cost += f"; engine: {engine}"
    if engine == "compiled":
        cost += f", after {compiling:.2g} s of compiling"
    return cost


COMPARISON = {
    "nrmse": ("NRMSE", ".3g"),
    "nrmse_projected": ("projection alone", ".3g"),
    "valid_time": ("valid for", ".3g"),
    "lost": ("lost", ".3g"),
    "parameters": ("parameters", ".0f"),
    "seconds": ("seconds", ".3g"),
}
"""Head and format of the columns of a comparison, by the names of its values."""


def comparison(comparison: "xr.Dataset") -> str:
    """Median errors over trajectories and time of each combination, lost trajectories, parameters of
    the projection, and seconds.
    """
    heads = [head for head, _ in COMPARISON.values()]
    rows = [["projection", "law", *heads]]
    for row in values.comparison(comparison):
        numbers = [format(row[name], form) for name, (_, form) in COMPARISON.items()]
        rows.append([str(row["projection"]), str(row["law"]), *numbers])
    return table(rows, indent="")


def inference(estimates: "xr.Dataset") -> str:
    """Estimate and interval of each parameter for each trajectory, and whether they explain the
    observations.
    """
    level = f"({100 * estimates.attrs['level']:g} %)"
    heads = [f"{name} {level}" for name in estimates["parameter"].values]
    rows = [["trajectory", *heads, "explained"]]
    for k, trajectory in enumerate(values.inference(estimates)):
        intervals = []
        for parameter in trajectory["parameters"].values():
            interval = f"[{parameter['lower']:.5g}, {parameter['upper']:.5g}]"
            intervals.append(f"{parameter['estimate']:.5g} {interval}")
        rows.append([str(k), *intervals, "yes" if trajectory["explained"] else "no"])
    return table(rows, indent="")
