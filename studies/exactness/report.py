"""REPORT.md: the tables of all presets that have results."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.files import atomic
from studies.exactness import PRESETS
from studies.markdown import table
from studies.rollout_drift.config import SWITCH
from studies.runner.archive import read

TITLES = {"lorenz96": "Lorenz96", "pendulum": "Pendulum"}
BELOW = 0.012
"""So far below the change of wave number, in F, waves still decay in the data: these are on no surface."""
HEAD = (
    "method",
    "parameters",
    "position RMSE",
    "velocity RMSE",
    "latent velocity RMSE",
    "idempotency",
    "diverged",
    "CPU min",
)
AWAY = ("method", "mean over forcings", "away from the change of wave number")


def write(folder: Path) -> Path:
    """Write REPORT.md into `folder` from the results of its presets and their archives."""
    page = folder / "REPORT.md"
    with atomic(page) as temporary:
        temporary.write_text("\n".join(_page(folder)))
    return page


def _page(folder: Path) -> Iterator[str]:
    yield "# Results\n\nWritten by report.py. Mean ± standard deviation over seeds; physical units.\n"
    for preset in PRESETS:
        found = read(folder / preset) if (folder / preset).exists() or (folder / f"{preset}.nc").exists() else []
        for system, title in TITLES.items():
            runs = sorted((run for run in found if run.attrs["system"] == system), key=_velocity)
            if not runs:
                continue
            yield f"\n## {title}, size {preset}\n\nRoot mean squares over all test contexts.\n"
            yield table(HEAD, [_row(run) for run in runs])
            if system == "lorenz96":
                yield "\nVelocity RMSE of each forcing, averaged over forcings:\n"
                yield table(AWAY, [_away(run) for run in runs])
            yield f"\n{_provenance(runs)}\n"


def _velocity(run: xr.Dataset) -> float:
    return float(_over_contexts(run.velocity_rmse).mean())


def _over_contexts(errors: xr.DataArray) -> np.ndarray:
    return np.sqrt((errors**2).mean("context")).values


def _row(run: xr.Dataset) -> list[str]:
    latent = _spread(_over_contexts(run.latent_velocity_rmse)) if "latent_velocity_rmse" in run else "-"
    return [
        run.attrs["method"],
        str(run.attrs["parameters"]),
        _spread(_over_contexts(run.position_rmse)),
        _spread(_over_contexts(run.velocity_rmse)),
        latent,
        f"{float(run.idempotency_error.max()):.1e}",
        f"{int(run.training_diverged.sum())} of {run.sizes['seed']}",
        f"{run.attrs['training_cpu_seconds'] / 60:.1f}",
    ]


def _away(run: xr.Dataset) -> list[str]:
    away = run.velocity_rmse.where((run.F < SWITCH - BELOW) | (run.F > SWITCH), drop=True)
    return [run.attrs["method"], *(_spread(errors.mean("context").values) for errors in (run.velocity_rmse, away))]


def _spread(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ± {values.std():.4f}"


def _provenance(runs: list[xr.Dataset]) -> str:
    devices = ", ".join(sorted({str(run.attrs["device"]) for run in runs}))
    seeds = runs[0].seed.values
    epochs = ", ".join(sorted({str(run.attrs["epochs"]) for run in runs}))
    return f"Seeds {seeds[0]} to {seeds[-1]}, {epochs} epochs; {devices}."
