"""The page of results: tables and figures of all result files in a folder."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.files import atomic
from studies.markdown import table
from studies.rollout_drift.figures import drift_curves, share_diverged, valid_by_forcing
from studies.rollout_drift.results import Results, load
from studies.style import save_png

SWITCH, MARGIN = 3.165, 0.004
"""F at which the wave number changes, and the distance from it that counts as away."""

FIGURES: dict[str, Callable] = {
    "drift_curves": drift_curves,
    "valid_by_forcing": valid_by_forcing,
    "share_diverged": share_diverged,
}
NOTHING = "-"


def write(results: Path, folder: Path) -> Path:
    """Write REPORT.md and its figures into `folder`, from the result files in `results`."""
    found = load(results)
    for name, draw in FIGURES.items():
        save_png(draw(found), folder / f"{name}.png")
    page = folder / "REPORT.md"
    with atomic(page) as temporary:
        temporary.write_text("\n".join(_page(found)))
    return page


def _page(found: Results) -> Iterator[str]:
    config = json.loads(found.any.attrs["config"])
    yield (
        f"# Drift of rollouts\n\nWritten by report.py from {len(found.runs)} result files. Lorenz96, "
        f"{found.any.sizes['context']} test forcings, to {config['duration']:g} time units; a valid time of "
        f"{config['duration']:g} means that the error stayed below the threshold to the end. {found.provenance}\n"
    )
    yield "## Valid prediction time\n"
    yield "Median over seeds and forcings, in time units, and in brackets how many of the rollouts diverged.\n"
    yield _by_dynamics(found, _valid)
    yield "Away from the change of wave number, share of rollouts that are valid for more than 100 / 500 time units:\n"
    yield _by_dynamics(found, _shares)
    yield "![Error over time](drift_curves.png)\n"
    yield "![Valid time by forcing](valid_by_forcing.png)\n"
    yield "![Share diverged](share_diverged.png)\n"
    yield "## Re-encoding\n"
    yield (
        "The same where the trajectory is decoded and encoded again every time unit. Galerkin and LSPG start at the "
        "nearest point of the manifold, so for them it changes nothing.\n"
    )
    yield _by_dynamics(found, _valid, mode="re-encoded")
    yield "## How they leave the truth\n"
    yield (
        "Medians over the rollouts of each model: size of the phase drift in rad per time unit and of the relative "
        "amplitude drift per time unit, share of times with the right wave number, Hellinger distance of the spectra, "
        "valid time at the threshold 0.05, and how far one more projection would move the trajectory, in NRMSE.\n"
    )
    head = ["model", "dynamics", "phase", "amplitude", "wave number", "Hellinger", "valid (0.05)", "off manifold"]
    yield table(head, [[*key, *_ways(run.sel(mode="latent"))] for key, run in found.runs.items()])
    yield "## Training\n"
    head = ["model", "position RMSE", "velocity RMSE", "seeds that diverged", "CPU minutes"]
    yield table(head, [[model, *_training(found.first(model))] for model in found.models])


def _by_dynamics(found: Results, cell: Callable[[xr.Dataset], str], mode: str = "latent") -> str:
    """A table of models by latent dynamics."""
    names = [
        name for name in found.dynamics if any(mode in run.mode for (_, n), run in found.runs.items() if n == name)
    ]
    rows = []
    for model in found.models:
        runs = [found.runs.get((model, name)) for name in names]
        rows.append([model, *(NOTHING if run is None else cell(run.sel(mode=mode)) for run in runs)])
    return table(["model", *names], rows)


def _valid(run: xr.Dataset) -> str:
    lost = int(run.diverged.sum())
    return f"{float(run.valid_time.median()):.3g}" + (f" ({lost} of {run.diverged.size})" if lost else "")


def _shares(run: xr.Dataset) -> str:
    away = run.valid_time.isel(context=np.abs(run.F.values - SWITCH) >= MARGIN)
    return f"{float((away > 100).mean()):.0%} / {float((away > 500).mean()):.0%}"


def _ways(run: xr.Dataset) -> Iterator[str]:
    for name in ("phase_drift", "amplitude_drift", "wave_number_agreement", "hellinger_distance", "valid_time_strict"):
        yield _median(np.abs(run[name].values))
    yield _median(run.manifold_distance.values)


def _median(values: np.ndarray) -> str:
    """NaN is the score of a rollout that diverged at once."""
    known = values[~np.isnan(values)]
    return f"{np.median(known):.2g}" if known.size else NOTHING


def _training(run: xr.Dataset) -> Iterator[str]:
    for name in ("position_rmse", "velocity_rmse"):
        yield f"{float(run[name].mean()):.3f} ± {float(run[name].std()):.3f}"
    yield f"{int(run.training_diverged.sum())} of {run.sizes['seed']}"
    yield f"{run.attrs['training_cpu_seconds'] / 60:.1f}"
