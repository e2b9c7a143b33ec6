"""REPORT.md: the tables of all presets that have results."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import xarray as xr

from studies.report import TITLES, table, write_text
from studies.rollout_drift.report import MARGIN
from studies.rollout_drift.tasks import SWITCH
from studies.runner import Study, read

Runs = list[xr.Dataset]
RACES = {preset: f"size {preset}" for preset in ("smoke", "equal", "half", "double")}
RACES |= {"paper": "FiLM+AE's sizes of the paper", "bent": "encoders that are networks"}
RACES |= {"long": "size equal, 400 epochs", "adam": "size equal, by Adam", "time": "size equal, as long as the flow's"}
EQUAL = ("equal", "long", "time")
"""Races at size equal, by the length of training."""
BELOW = 0.012
"""Distance below the change of wave number, in F, within which other waves are strong in the data."""
DURATION = 30.0
"""Length of the pendulum's rollouts, in s."""
ERRORS = ("position_rmse", "velocity_rmse")
MAPS = {"encoder": "ρ", "decoder": "φ", "projection": "P"}


def write(folder: Path, preset: str = "") -> Path:
    """Write REPORT.md into `folder` from the results of all presets there and their archives."""
    results = {name: _results(folder / name) for name in Study("exactness").presets}
    lines = ["# Results\n\nWritten by report.py. Mean ± standard deviation (median) over seeds; physical units.\n"]
    lines += _summary(results)
    for name, found in results.items():
        lines += OWN[name](found) if name in OWN else _race(name, found)
    return write_text(folder / "REPORT.md", "\n".join([*lines, *_times(results)]))


def _results(folder: Path) -> Runs:
    return read(folder) if folder.exists() or folder.with_suffix(".nc").exists() else []


def _races(found: Runs, system: str) -> Runs:
    return [run for run in found if run.attrs.get("system") == system and "kind" not in run.attrs]


def _over_contexts(errors: xr.DataArray) -> np.ndarray:
    return np.sqrt((errors**2).mean("context")).values


def _spread(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ± {values.std():.4f} ({np.median(values):.4f})"


def _spreads(run: xr.Dataset) -> list[str]:
    return [_spread(_over_contexts(run[name])) for name in ERRORS]


def _provenance(runs: Runs) -> str:
    devices, epochs = (", ".join(sorted({str(run.attrs[name]) for run in runs})) for name in ("device", "epochs"))
    seeds = runs[0].seed.values
    return f"Seeds {seeds[0]} to {seeds[-1]}, {epochs} epochs; {devices}."


def _summary(results: dict[str, Runs]) -> Iterator[str]:
    """Errors of the flow over those of FiLM+AE, in all races."""
    rows = []
    for (preset, title), system in product(RACES.items(), TITLES):
        found = {run.attrs["method"]: run for run in _races(results[preset], system)}
        if {"flow", "film-ae"} <= found.keys():
            pairs = [[_over_contexts(found[method][name]) for method in ("flow", "film-ae")] for name in ERRORS]
            ratios = [f"{middle(own) / middle(other):.2f}" for own, other in pairs for middle in (np.mean, np.median)]
            rows.append([TITLES[system], title, *ratios])
    if rows:
        yield "\n## Errors of the flow over those of FiLM+AE\n\nOf their means and of their medians over seeds.\n"
        yield table(rows, ["system", "race", "position, means", "medians", "velocity, means", "medians"])


def _race(preset: str, found: Runs) -> Iterator[str]:
    for system, title in TITLES.items():
        runs = sorted(_races(found, system), key=lambda run: float(_over_contexts(run.velocity_rmse).mean()))
        if not runs:
            continue
        rows, away = [], []
        for run in runs:
            a, latent = run.attrs, run.get("latent_velocity_rmse")
            position, velocity = _spreads(run)
            latent = "-" if latent is None else _spread(_over_contexts(latent))
            exact, lost = f"{float(run.idempotency_error.max()):.1e}", int(run.training_diverged.sum())
            minutes = f"{a['training_cpu_seconds'] / 60:.1f}"
            row = [a["method"], a["parameters"], position, velocity, latent, exact, f"{lost} of {run.sizes['seed']}"]
            rows.append([*row, minutes])
        head = ["method", "parameters", "position RMSE", "velocity RMSE", "latent velocity RMSE", "idempotency"]
        yield f"\n## {title}, {RACES[preset]}\n\nRoot mean squares over all test contexts.\n"
        yield table(rows, [*head, "diverged", "CPU min"])
        if system == "lorenz96":
            for run in runs:
                others = run.velocity_rmse.where((run.F < SWITCH - BELOW) | (run.F > SWITCH), drop=True)
                means = (_spread(errors.mean("context").values) for errors in (run.velocity_rmse, others))
                away.append([run.attrs["method"], *means])
            yield "\nVelocity RMSE of each forcing, averaged over forcings:\n"
            yield table(away, ["method", "mean over forcings", "away from the change of wave number"])
        yield f"\n{_provenance(runs)}\n"


def _times(results: dict[str, Runs]) -> Iterator[str]:
    """What a step costs, and errors by what whole trainings of size equal cost."""
    costs = {(run.attrs["system"], run.attrs["method"]): run for run in results["cost"]}
    if not costs:
        return
    least = {key: float(run.seconds.min()) for key, run in costs.items()}
    rows = [
        [TITLES[system], method, f"{1e6 * own:.0f}", f"{own / least.get((system, 'ncae'), np.nan):.2f}"]
        for (system, method), own in least.items()
    ]
    yield "\n## What a step of training costs, size equal\n"
    epochs = max(run.sizes["epoch"] for run in costs.values())
    yield f"CPU time of a seed, one of ten at once, compiled: the least of {epochs} epochs.\n"
    yield table(rows, ["system", "method", "µs for a seed and step", "NcAE = 1"])
    for system, title in TITLES.items():
        rows = []
        for run in (run for preset in EQUAL for run in _races(results[preset], system)):
            key = system, run.attrs["method"]
            if key in costs:
                time = least[key] * costs[key].attrs["steps_per_epoch"] * run.attrs["epochs"]
                rows.append((time, key[1], str(run.attrs["epochs"]), *_spreads(run)))
        yield f"\n## {title}, size equal: errors by the time of training\n\nTime of all steps at these costs.\n"
        head = ["CPU s for a seed", "method", "epochs", "position RMSE", "velocity RMSE"]
        yield table([(f"{time:.1f}", *rest) for time, *rest in sorted(rows)], head)


def _floor(found: Runs) -> Iterator[str]:
    names = ("position_rest", "velocity_rest", "position_outside", "velocity_outside")
    for run in (run for run in found if run.attrs["kind"] == "waves"):
        yield "\n## Lorenz96: what in the test set is no wave\n\nRoot mean squares; no loop of one turn has it."
        yield "Of that, what no wave of twice the period in space has, and how often that one turns while the wave"
        yield "turns once, over 60 time units: at half a turn the state is on a loop that closes after two.\n"
        rows = []
        for forcing, *parts, pace in zip(*(run[name].values for name in ("F", *names, "pace")), strict=True):
            rows.append([f"{x:.4f}" for x in (forcing, *parts)] + ["-" if np.isnan(pace) else f"{pace:.5f}"])
        rows.append(["all", *(f"{float(_over_contexts(run[name])):.4f}" for name in names), ""])
        rows.append(["mean over forcings", *(f"{float(run[name].mean()):.4f}" for name in names), ""])
        yield table(rows, ["F", "position", "velocity", "no double wave, position", "velocity", "turns"])
    alone = [run for run in found if run.attrs["kind"] == "alone"]
    if alone:
        rows = [[r.attrs["method"], r.attrs["latent_dim"], *(_spread(r[k].values) for k in ERRORS)] for r in alone]
        yield f"\n## Lorenz96: models of F = {alone[0].attrs['F']:.4f} alone\n\n{alone[0].sizes['seed']} seeds.\n"
        yield table(rows, ["method", "latents", "position RMSE", "velocity RMSE"])


def _robustness(found: Runs) -> Iterator[str]:
    """Errors of noisy states, and at contexts out of the range."""
    if not found:
        return
    rows, levels, beyond = [], found[0].noise.values, found[0].beyond.values
    for run in found:
        cells = []
        for suffix in ("", "_beyond"):
            pairs = (run[f"{name}{suffix}"].median("seed").values for name in ERRORS)
            cells += [f"{position:.4f} / {velocity:.4f}" for position, velocity in zip(*pairs, strict=True)]
        rows.append([TITLES[run.attrs["system"]], run.attrs["method"], *cells])
    shares = [f"noise {share:.0%}" for share in levels] + [f"{share:.0%} out of range" for share in beyond]
    yield "\n## Noise, and contexts out of the range, size double\n"
    yield "Noise as a share of each component's deviation; medians over seeds of position / velocity RMSE.\n"
    yield table(rows, ["system", "method", *shares])
    yield f"\n{_provenance(found)}\n"


def _waves(run: xr.Dataset) -> list[str]:
    away = run.valid_time.isel(context=np.abs(run.F.values - SWITCH) >= MARGIN)
    shares = [(run.valid_time > 100), (run.valid_time > 500), (away > 500)]
    return [f"{np.median(run.valid_time):.0f}", *(f"{float(share.mean()):.0%}" for share in shares)]


def _motions(run: xr.Dataset) -> list[str]:
    whole = run.valid_time >= DURATION * (1 - 1e-9)
    return [f"{float(whole.mean()):.2%}", f"{float(run.peak_energy_drift.median()):.0e}"]


FOLLOWED: dict[str, tuple[str, tuple[str, ...], Callable[[xr.Dataset], list[str]]]] = {
    "lorenz96": (
        "Time until NRMSE exceeds 0.5, of 1000; away from the change of wave number by 0.004 or more.",
        ("median", "share > 100", "share > 500", "share > 500, away"),
        _waves,
    ),
    "pendulum": ("Of 256 configurations over 30 s.", ("valid to the end", "energy error, median"), _motions),
}
"""Caption of the rollouts of a system, its columns, and what fills them."""


def _rollouts(title: str, found: Runs) -> Iterator[str]:
    for system, (rule, head, cells) in FOLLOWED.items():
        runs = [run for run in found if run.attrs["task"].startswith(system)]
        if not runs:
            continue
        rows, seeds = [], runs[0].seed.values
        for run in runs:
            lost, minutes = int(run.diverged.sum()), run.attrs["training_cpu_seconds"] / 60
            own = [run.attrs["method"], run.attrs["dynamics"], *cells(run)]
            rows.append([*own, f"{lost} of {run.valid_time.size}", f"{minutes:.1f}"])
        yield f"\n## {title}: {TITLES[system]}\n\n{rule} Seeds {seeds[0]} to {seeds[-1]}.\n"
        yield table(rows, ["method", "dynamics", *head, "diverged", "training, CPU min"])


def _guarantees(found: Runs) -> Iterator[str]:
    """Certificates and energies."""
    bounds, moved, head = [], [], ["system", "method", "map", "radius"]
    for run in (run for run in found if run.attrs["kind"] == "certificates"):
        for which, symbol in MAPS.items():
            row = run.sel(map=which)
            own = [TITLES[run.attrs["system"]], run.attrs["method"], symbol, f"{float(row.radius.max()):.3g}"]
            sizes = [f"{float(x):.3g}" for x in (row.upper.max(), row.lower.max())]
            ratios = [(row.upper / row.lower).max(), row.of_pairs.max(), row.seconds.max()]
            bounds.append([*own, *sizes, *(f"{float(x):.2f}" for x in ratios)])
            ratio = row.context_upper / row.context_lower
            if np.isfinite(ratio).all():  # not for all states, nor for a map that no context moves
                upper = (run.attrs["context_radius"], row.context_upper.median(), row.context_upper.max())
                quotients = [f"{float(x):.2f}" for x in (ratio.median(), ratio.max())]
                moved.append([*own, *(f"{float(x):.3g}" for x in upper), *quotients])
    if bounds:
        yield "\n## Certificates\n\nLargest of each over random contexts of the range.\n"
        yield table(bounds, [*head, "upper", "lower", "upper / lower", "pairs / bound", "seconds"])
    if moved:
        yield "\n## Certificates of the context\n\nHow far a unit of it moves each map; over random contexts.\n"
        yield table(moved, [*head, "of contexts", "upper, median", "largest", "upper / lower, median", "largest"])
    energies = []
    for run in (run for run in found if run.attrs["kind"] == "energy"):
        error, time = run.energy_error.values, run.time.values
        trend = np.polyfit(time, error, 1)[0] * time[-1]
        sizes = [f"{x:.1e}" for x in (np.abs(error).max(), trend, run.attrs["symplecticity"])]
        solver = str(run.attrs["solver"]).split(", iter")[0].split(", div")[0] + ")"
        energies.append([solver, run.attrs["steps"], *sizes])
    if energies:
        yield "\n## Energy of the pendulum's reduced motion\n\nRelative to the first; the trend is a fitted line's.\n"
        yield table(energies, ["solver", "steps", "largest error", "change by the trend", "lift"])


OWN: dict[str, Callable[[Runs], Iterator[str]]] = {
    "cost": lambda found: iter(()),
    "robustness": _robustness,
    "floor": _floor,
    "guarantees": _guarantees,
    "rollouts": partial(_rollouts, "Rollouts after training on snapshots, size equal"),
    "dynamics": partial(_rollouts, "Rollouts with the preset dynamics, size equal"),
}
"""Sections of presets that are no races."""
