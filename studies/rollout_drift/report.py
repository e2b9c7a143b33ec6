"""The page of results: tables and figures of all result files in a folder."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.data import open_dataset
from romkit.files import atomic
from studies.markdown import table
from studies.rollout_drift.figures import drift_curves, share_diverged, valid_by_forcing
from studies.style import save_png

SWITCH, MARGIN = 3.165, 0.004
"""F at which the wave number changes, and the distance from it that counts as away."""


def write(results: Path, folder: Path) -> Path:
    """Write REPORT.md and its figures into `folder`, from the result files in `results`."""
    runs = sorted((open_dataset(file) for file in results.glob("*.nc")), key=_order)
    for name, draw in FIGURES.items():
        save_png(draw(runs), folder / f"{name}.png")
    page = folder / "REPORT.md"
    with atomic(page) as temporary:
        temporary.write_text("\n".join(_page(runs, results)))
    return page


FIGURES: dict[str, Callable] = {
    "drift_curves": drift_curves,
    "valid_by_forcing": valid_by_forcing,
    "share_diverged": share_diverged,
}


def label(run: xr.Dataset) -> str:
    """Method and training."""
    config = json.loads(run.attrs["config"])
    return f"{config['method']}/{config['training']}"


def _order(run: xr.Dataset) -> tuple[float, str]:
    """The longest valid times first."""
    return -float(run.valid_time.median(("seed", "context")).max()), label(run)


def _page(runs: Sequence[xr.Dataset], results: Path) -> Iterator[str]:
    config, first = json.loads(runs[0].attrs["config"]), runs[0]
    yield (
        f"# Drift of rollouts\n\nMade from {len(runs)} result files by report.py. Lorenz96, {first.sizes['context']} "
        f"test forcings, to {config['duration']:g} time units; a valid time of {config['duration']:g} means that the "
        f"error stayed below the threshold to the end. {_provenance(runs)}\n"
    )
    yield "## Valid prediction time\n"
    yield "Median over seeds and forcings, in time units, and in brackets how many of the rollouts diverged.\n"
    yield table(["model", *_names(runs, restarting=False)], [_valid_row(run, runs, restarting=False) for run in runs])
    yield "Away from the change of wave number, share of rollouts that are valid for more than 100 / 500 time units:\n"
    yield table(["model", *_names(runs, restarting=False)], [_share_row(run, runs) for run in runs])
    yield "![Error over time](drift_curves.png)\n"
    yield "![Valid time by forcing](valid_by_forcing.png)\n"
    yield "![Share diverged](share_diverged.png)\n"
    yield "## Re-encoding\n"
    yield (
        f"The same where the trajectory is decoded and encoded again every {config['restart']} steps. Galerkin and "
        "LSPG start at the nearest point of the manifold, so for them it changes nothing.\n"
    )
    yield table(["model", *_names(runs, restarting=True)], [_valid_row(run, runs, restarting=True) for run in runs])
    yield "## How they leave the truth\n"
    yield (
        "Medians over the rollouts of each model: size of the phase drift in rad per time unit and of the relative "
        "amplitude drift per time unit, share of times with the right wave number, Hellinger distance of the spectra, "
        "NRMSE at valid times of 0.05, and how far one more projection would move the trajectory.\n"
    )
    head = ["model", "dynamics", "phase", "amplitude", "wave number", "Hellinger", "valid (0.05)", "off manifold"]
    yield table(head, [row for run in runs for row in _ways(run)])
    yield "## Training\n"
    head = ["model", "position RMSE", "velocity RMSE", "seeds that diverged", "CPU minutes of training and rollouts"]
    yield table(head, [_training_row(run, results) for run in runs])


def _names(runs: Sequence[xr.Dataset], *, restarting: bool) -> list[str]:
    """Dynamics in the order of the files, with restarts or without."""
    names = dict.fromkeys(str(name) for run in runs for name in run.dynamics.values)
    return [name for name in names if name.endswith(" restarting") == restarting]


def _valid_row(run: xr.Dataset, runs: Sequence[xr.Dataset], *, restarting: bool) -> list[str]:
    return [label(run), *(_valid_cell(run.sel(dynamics=name)) for name in _names(runs, restarting=restarting))]


def _valid_cell(part: xr.Dataset) -> str:
    lost = int(part.diverged.sum())
    return f"{float(part.valid_time.median()):.3g}" + (f" ({lost} of {part.diverged.size})" if lost else "")


def _share_row(run: xr.Dataset, runs: Sequence[xr.Dataset]) -> list[str]:
    away = run.valid_time.isel(context=np.abs(run.F.values - SWITCH) >= MARGIN)
    parts = [away.sel(dynamics=name) for name in _names(runs, restarting=False)]
    return [label(run), *(f"{float((p > 100).mean()):.0%} / {float((p > 500).mean()):.0%}" for p in parts)]


def _ways(run: xr.Dataset) -> Iterator[list[str]]:
    for name in _names([run], restarting=False):
        part = run.sel(dynamics=name)
        names = ("phase_drift", "amplitude_drift", "wave_number_agreement", "hellinger_distance", "valid_time_strict")
        values = [float(np.nanmedian(np.abs(part[k]))) if part[k].notnull().any() else np.nan for k in names]
        yield [label(run), name, *(f"{v:.2g}" for v in values), _off_manifold(part)]


def _off_manifold(part: xr.Dataset) -> str:
    values = part.manifold_distance.values
    return f"{np.nanmedian(values):.1g}" if np.isfinite(values).any() else "all diverged"


def _training_row(run: xr.Dataset, results: Path) -> list[str]:
    record = json.loads((results / f"{run.attrs['task']}.json").read_text())
    errors = [f"{float(run[k].mean()):.3f} ± {float(run[k].std()):.3f}" for k in ("position_rmse", "velocity_rmse")]
    lost = f"{int(run.training_diverged.sum())} of {run.sizes['seed']}"
    return [label(run), *errors, lost, f"{record['cpu_seconds'] / 60:.1f}"]


def _provenance(runs: Sequence[xr.Dataset]) -> str:
    devices = sorted({run.attrs["device"] for run in runs})
    versions = json.loads(runs[0].attrs["versions"])
    names = ", ".join(f"{name} {versions[name]}" for name in ("romkit", "torch", "torchdiffeq"))
    return f"{', '.join(devices)}; {names}."
