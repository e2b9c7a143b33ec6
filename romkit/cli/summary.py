"""A rollout in a few lines of text: error at some times, how long it is valid, how it ended, what it cost."""

import numpy as np
import xarray as xr

from romkit.cli.describe import table
from romkit.plotting import selection

_SHARES = (0.0, 0.01, 0.1, 0.5, 1.0)
"""Times of the table, as shares of the run."""


def summarise(run: xr.Dataset) -> str:
    """The text that `romkit rollout` prints. Of several seeds, medians."""
    members = selection.members(run)
    time = members["time"].values
    chosen = np.unique([round(share * (len(time) - 1)) for share in _SHARES])
    clock = selection.unit(members["time"], " {}")
    rows = [
        [
            f"NRMSE at time{selection.unit(members['time'], ' ({})')}",
            *(f"{time[k]:.3g}" for k in chosen),
            "valid for",
            "status",
        ]
    ]
    for trajectory in range(members.sizes["trajectory"]):
        member = members.isel(trajectory=trajectory)
        label = selection.context(members, trajectory, varying=True)
        if label:
            rows.append([label.replace("\n", " ")])
        rows.append(["reduced model", *_errors(member["nrmse"], chosen), _valid(member, clock), _status(member)])
        rows.append(["projection alone", *_errors(member["nrmse_projected"], chosen)])
    lines = [selection.headline(members), "", table(rows), ""]
    return "\n".join([*lines, table(_facts(members).items())])


def _errors(nrmse: xr.DataArray, chosen: np.ndarray) -> list[str]:
    values = nrmse.values[:, chosen]
    median = np.median(np.where(np.isnan(values), np.inf, values), axis=0)
    return [f"{value:.2g}" if np.isfinite(value) else "-" for value in median]


def _valid(member: xr.Dataset, clock: str) -> str:
    length = float(member["time"][-1] - member["time"][0])
    valid = float(np.median(member["valid_time"].values))
    return f"{'>= ' if valid >= length else ''}{valid:.3g}{clock}"


def _status(member: xr.Dataset) -> str:
    diverged, seeds = int((member["status"].values != 0).sum()), member.sizes["seed"]
    if seeds == 1:
        return "diverged" if diverged else "completed"
    return f"{diverged} of {seeds} seeds diverged"


def _facts(members: xr.Dataset) -> dict[str, str]:
    attrs = members.attrs
    # Data that are the truth were not simulated here.
    run = [model for model in ("full", "reduced") if f"seconds_computing_{model}_model" in attrs]
    return {
        "idempotency error": f"{attrs['idempotency_error']:.1e}, the largest norm of P(P(x)) - P(x) along the run",
        **{f"cost, {model} model": _cost(members, model) for model in run},
        "device": str(attrs["device"]),
    }


def _cost(members: xr.Dataset, model: str) -> str:
    engine, compiling, computing = (
        members.attrs[f"{key}_{model}_model"] for key in ("engine", "seconds_compiling", "seconds_computing")
    )
    span = float(members["time"][-1] - members["time"][0])
    per = f" per {selection.unit(members['time'], '{}') or 'time unit'}" if span else ""  # of a single sample, in all
    before = f", after {compiling:.2g} s of compiling" if engine == "compiled" else ""
    count = members.sizes["trajectory"] * (members.sizes["seed"] if model == "reduced" else 1)
    together = f", {count} trajectories at once" if count > 1 else ""
    return f"{1e3 * computing / (span or 1):.3g} ms{per}{together}; engine: {engine}{before}"
