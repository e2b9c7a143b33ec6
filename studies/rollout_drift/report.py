"""The page of results: tables and figures of all results of a preset."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from romkit.core.files import atomic
from studies.markdown import table
from studies.rollout_drift.config import SWITCH
from studies.rollout_drift.figures import UNITS, drift_curves, share_diverged, share_valid, valid_by_forcing
from studies.rollout_drift.results import Results, load
from studies.style import TITLES, save_png

MARGIN = 0.004
"""Distance from the change of wave number that counts as away from it, in F."""

NOTHING = "-"
WAYS = {
    "phase_drift": "phase",
    "amplitude_drift": "amplitude",
    "wave_number_agreement": "wave number",
    "lyapunov_sum": "Lyapunov",
    "peak_energy_drift": "energy",
    "hellinger_distance": "Hellinger",
    "valid_time_strict": "valid (0.05)",
    "manifold_distance": "off manifold",
}
"""Scores and their columns; a system has those that its results have."""
PHASE = """Rate at which the reduced wave runs ahead of the true one by Galerkin, in 0.001 rad per time unit: mean over
seeds ± their standard deviation. Where the mean is larger, the error is one that all seeds make."""


def write(results: Path, folder: Path) -> Path:
    """Write REPORT.md and its figures into `folder`, from the results in the folder `results` and its archive."""
    found = load(results)
    for system, runs in found.items():
        for name, draw in FIGURES[system].items():
            save_png(draw(runs), folder / f"{name}-{system}.png")
    page = folder / "REPORT.md"
    with atomic(page) as temporary:
        temporary.write_text("\n".join(_page(found)))
    return page


FIGURES: dict[str, dict[str, Callable[[Results], Figure]]] = {
    "lorenz96": {
        "drift_curves": drift_curves,
        "share_valid": share_valid,
        "valid_by_forcing": valid_by_forcing,
        "share_diverged": share_diverged,
    },
    "pendulum": {"drift_curves": drift_curves, "share_valid": share_valid, "share_diverged": share_diverged},
}
"""What is drawn of each system."""


def _page(found: dict[str, Results]) -> Iterator[str]:
    count = sum(len(runs.runs) for runs in found.values())
    yield (
        f"# Drift of rollouts\n\nWritten by report.py from {count} result files. A valid time that is the length of "
        "the rollout means that the error stayed below the threshold to the end. A dash is what was not measured.\n"
    )
    for system, runs in found.items():
        yield from _section(system, runs)


def _section(system: str, found: Results) -> Iterator[str]:
    yield f"## {TITLES[system]}\n"
    followed = f"{found.any.sizes['context']} test contexts, to {found.duration:g} {UNITS[system]}"
    yield f"{followed}. {found.provenance}\n"
    yield "### Valid prediction time\n"
    yield f"Median over seeds and contexts, in {UNITS[system]}, and in brackets how many of the rollouts diverged.\n"
    yield _by_dynamics(found, _valid)
    where = "Away from the change of wave number, share" if "F" in found.any.coords else "Share"
    bounds = found.duration / 10, found.duration / 2, found.duration
    yield f"{where} of rollouts valid for {' / '.join(f'{bound:g}' for bound in bounds)} {UNITS[system]}:\n"
    yield _by_dynamics(found, lambda run: _shares(run, bounds))
    yield "\n".join(f"![{name}]({name}-{system}.png)\n" for name in FIGURES[system])
    yield "### Re-encoding\n"
    yield (
        f"The same where the trajectory is decoded and encoded again every {found.restart} steps. Galerkin and LSPG "
        "start at the nearest point of the manifold, so for them it changes nothing.\n"
    )
    yield _by_dynamics(found, _valid, mode="re-encoded")
    yield "### How they leave the truth\n"
    yield (
        "Medians over the rollouts of each model. Phase: size of the drift in rad per time unit. Amplitude: relative "
        "drift per time unit. Wave number: share of times with the right one. Lyapunov: sum of the exponents of the "
        "latent field per time unit, negative where its orbit attracts. Energy: largest relative error. Hellinger: "
        "distance of the spectra. Valid (0.05): time until NRMSE exceeds 0.05. Off manifold: how far one more "
        "projection would move the trajectory, in NRMSE.\n"
    )
    ways = [name for name in WAYS if any(name in run for run in found.runs.values())]
    rows = [[*key, *(_way(run.sel(mode="latent"), name) for name in ways)] for key, run in found.runs.items()]
    yield table(["model", "dynamics", *(WAYS[name] for name in ways)], rows)
    if "F" in found.any.coords:
        yield f"### Phase by forcing\n\n{PHASE}\n"
        yield _phase_by_forcing(found)
    yield "### Training\n"
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
    lost, median = int(run.diverged.sum()), float(run.valid_time.median())
    return f"{float(f'{median:.3g}'):g}" + (f" ({lost} of {run.diverged.size})" if lost else "")


def _shares(run: xr.Dataset, bounds: tuple[float, ...]) -> str:
    times = run.valid_time
    if "F" in run.coords:
        times = times.isel(context=np.abs(run.F.values - SWITCH) >= MARGIN)
    return " / ".join(f"{float((times >= bound).mean()):.0%}" for bound in bounds)


def _way(run: xr.Dataset, name: str) -> str:
    """The median of a score over the rollouts for which it is known; a rollout that diverged at once has NaN."""
    values = run[name].values if name in run else np.array([])
    known = values[~np.isnan(values)]
    if not known.size:
        return NOTHING
    if name != "lyapunov_sum":
        return f"{np.median(np.abs(known)):.2g}"
    unstable = int((known > 0).sum())
    return f"{np.median(known):.2g}" + (f" ({unstable} of {known.size} positive)" if unstable else "")


def _phase_by_forcing(found: Results) -> str:
    forcings = [f"F = {value:.4f}" for value in found.any.F.values]
    rows = []
    for (model, dynamics), run in found.runs.items():
        if dynamics == "galerkin" and run.sizes["seed"] > 1:
            drift = 1e3 * run.phase_drift.sel(mode="latent")
            ends = zip(drift.mean("seed").values, drift.std("seed").values, strict=True)
            rows.append([model, *(f"{mean:.1f} ± {std:.1f}" for mean, std in ends)])
    return table(["model", *forcings], rows)


def _training(run: xr.Dataset) -> Iterator[str]:
    for name in ("position_rmse", "velocity_rmse"):
        yield f"{float(run[name].mean()):.3f} ± {float(run[name].std()):.3f}"
    yield f"{int(run.training_diverged.sum())} of {run.sizes['seed']}"
    yield f"{run.attrs['training_cpu_seconds'] / 60:.1f}"
