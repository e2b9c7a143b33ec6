"""REPORT.md: the tables of all presets that have results."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.core.files import atomic
from studies.exactness.report_guarantees import guarantees
from studies.exactness.tasks import TITLES
from studies.markdown import table
from studies.rollout_drift.report import MARGIN
from studies.rollout_drift.tasks import SWITCH
from studies.runner import Study, read

RESTS = ("position_rest", "velocity_rest", "position_outside", "velocity_outside")
RACES = {preset: f"size {preset}" for preset in ("smoke", "equal", "half", "double")}
RACES |= {"paper": "FiLM+AE's sizes of the paper", "bent": "encoders that are networks"}
RACES |= {"long": "size equal, 400 epochs", "adam": "size equal, by Adam", "time": "size equal, as long as the flow's"}
EQUAL = ("equal", "long", "time")
"""Races at size equal, by the length of training."""
BELOW = 0.012
"""So far below the change of wave number, in F, other waves are strong in the data."""
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


def write(folder: Path, preset: str = "") -> Path:
    """Write REPORT.md into `folder` from the results of its presets and their archives."""
    page = folder / "REPORT.md"
    with atomic(page) as temporary:
        temporary.write_text("\n".join(_page(folder)))
    return page


def _page(folder: Path) -> Iterator[str]:
    yield "# Results\n\nWritten by report.py. Mean ± standard deviation (median) over seeds; physical units.\n"
    results = {preset: _results(folder / preset) for preset in Study("exactness").presets}
    yield from _summary(results)
    for preset, found in results.items():
        if preset in OWN:
            yield from OWN[preset](found)
            continue
        for system, title in TITLES.items():
            runs = sorted(_races(found, system), key=_velocity)
            if not runs:
                continue
            yield f"\n## {title}, {RACES[preset]}\n\nRoot mean squares over all test contexts.\n"
            yield table(HEAD, [_row(run) for run in runs])
            if system == "lorenz96":
                yield "\nVelocity RMSE of each forcing, averaged over forcings:\n"
                yield table(AWAY, [_away(run) for run in runs])
            yield f"\n{_provenance(runs)}\n"
    yield from _times(results)


def _summary(results: dict[str, list[xr.Dataset]]) -> Iterator[str]:
    """Errors of the flow over those of FiLM+AE, in all races."""
    rows = []
    for (preset, title), system in product(RACES.items(), TITLES):
        found = {run.attrs["method"]: run for run in _races(results[preset], system)}
        if {"flow", "film-ae"} <= found.keys():
            rows.append([TITLES[system], title, *_over(found["flow"], found["film-ae"])])
    if rows:
        yield "\n## Errors of the flow over those of FiLM+AE\n\nOf their means and of their medians over seeds.\n"
        yield table(("system", "race", "position, means", "medians", "velocity, means", "medians"), rows)


def _over(run: xr.Dataset, rival: xr.Dataset) -> list[str]:
    errors = [[_over_contexts(of[f"{name}_rmse"]) for of in (run, rival)] for name in ("position", "velocity")]
    return [f"{middle(own) / middle(other):.2f}" for own, other in errors for middle in (np.mean, np.median)]


def _results(folder: Path) -> list[xr.Dataset]:
    return read(folder) if folder.exists() or folder.with_suffix(".nc").exists() else []


def _races(found: list[xr.Dataset], system: str) -> list[xr.Dataset]:
    return [run for run in found if run.attrs.get("system") == system and "kind" not in run.attrs]


def _times(results: dict[str, list[xr.Dataset]]) -> Iterator[str]:
    """What a step costs, and errors by what whole trainings of size equal cost."""
    costs = {(run.attrs["system"], run.attrs["method"]): run for run in results["cost"]}
    if not costs:
        return
    epochs = max(run.sizes["epoch"] for run in costs.values())
    yield "\n## What a step of training costs, size equal\n"
    yield f"CPU time of a seed, one of ten at once, compiled: the least of {epochs} epochs.\n"
    yield table(("system", "method", "µs for a seed and step", "NcAE = 1"), [_cost(costs, *which) for which in costs])
    for system, title in TITLES.items():
        races = [run for preset in EQUAL for run in _races(results[preset], system)]
        rows = [
            _raced(run, costs[system, run.attrs["method"]]) for run in races if (system, run.attrs["method"]) in costs
        ]
        yield f"\n## {title}, size equal: errors by the time of training\n\nTime of all steps at these costs.\n"
        head = ("CPU s for a seed", "method", "epochs", "position RMSE", "velocity RMSE")
        yield table(head, [(f"{time:.1f}", *rest) for time, *rest in sorted(rows)])


def _cost(costs: dict[tuple[str, str], xr.Dataset], system: str, method: str) -> list[str]:
    own, least = costs[system, method].seconds.min(), costs.get((system, "ncae"), xr.Dataset({"seconds": np.nan}))
    return [TITLES[system], method, f"{1e6 * float(own):.0f}", f"{float(own / least.seconds.min()):.2f}"]


def _raced(run: xr.Dataset, cost: xr.Dataset) -> tuple[object, ...]:
    """Seconds of the training of a seed, and what came of it."""
    time = float(cost.seconds.min()) * cost.attrs["steps_per_epoch"] * run.attrs["epochs"]
    errors = [_spread(_over_contexts(run[f"{name}_rmse"])) for name in ("position", "velocity")]
    return (time, run.attrs["method"], str(run.attrs["epochs"]), *errors)


def _floor(found: list[xr.Dataset]) -> Iterator[str]:
    for run in (run for run in found if run.attrs["kind"] == "waves"):
        yield "\n## Lorenz96: what in the test set is no wave\n\nRoot mean squares; no loop of one turn has it."
        yield "Of that, what no wave of twice the period in space has, and how often that one turns while the wave"
        yield "turns once, over 60 time units: at half a turn the state is on a loop that closes after two.\n"
        rows = [_rest(*row) for row in _columns(run, "F", *RESTS, "pace")]
        whole = [f"{float(_over_contexts(run[name])):.4f}" for name in RESTS]
        mean = [f"{float(run[name].mean()):.4f}" for name in RESTS]
        head = ("F", "position", "velocity", "no double wave, position", "velocity", "turns")
        yield table(head, [*rows, ("all", *whole, ""), ("mean over forcings", *mean, "")])
    alone = [run for run in found if run.attrs["kind"] == "alone"]
    if alone:
        yield f"\n## Lorenz96: models of F = {alone[0].attrs['F']:.4f} alone\n\n{alone[0].sizes['seed']} seeds.\n"
        yield table(("method", "latents", "position RMSE", "velocity RMSE"), [_alone(run) for run in alone])


def _rest(forcing: float, *values: float) -> list[str]:
    *parts, pace = values
    return [f"{forcing:.4f}", *(f"{part:.4f}" for part in parts), "-" if np.isnan(pace) else f"{pace:.5f}"]


def _columns(run: xr.Dataset, *names: str) -> Iterator[tuple]:
    return zip(*(run[name].values for name in names), strict=True)


def _alone(run: xr.Dataset) -> list[str]:
    errors = [_spread(run[name].values) for name in ("position_rmse", "velocity_rmse")]
    return [run.attrs["method"], str(run.attrs["latent_dim"]), *errors]


def _robustness(found: list[xr.Dataset]) -> Iterator[str]:
    """Errors of noisy states, and at contexts out of the range."""
    if not found:
        return
    levels, beyond = found[0].noise.values, found[0].beyond.values
    shares = [f"noise {share:.0%}" for share in levels] + [f"{share:.0%} out of range" for share in beyond]
    yield "\n## Noise, and contexts out of the range, size double\n"
    yield "Noise as a share of each component's deviation; medians over seeds of position / velocity RMSE.\n"
    yield table(("system", "method", *shares), [_noisy(run) for run in found])
    yield f"\n{_provenance(found)}\n"


def _noisy(run: xr.Dataset) -> list[str]:
    cells = []
    for suffix in ("", "_beyond"):
        pairs = (run[f"{name}_rmse{suffix}"].median("seed").values for name in ("position", "velocity"))
        cells += [f"{position:.4f} / {velocity:.4f}" for position, velocity in zip(*pairs, strict=True)]
    return [TITLES[run.attrs["system"]], run.attrs["method"], *cells]


def _rollouts(title: str, found: list[xr.Dataset]) -> Iterator[str]:
    for system, (rule, head, row) in FOLLOWED.items():
        runs = [run for run in found if run.attrs["task"].startswith(system)]
        if runs:
            seeds = runs[0].seed.values
            yield f"\n## {title}: {TITLES[system]}\n\n{rule} Seeds {seeds[0]} to {seeds[-1]}.\n"
            yield table(("method", "dynamics", *head, "diverged", "training, CPU min"), [_valid(r, row) for r in runs])


def _valid(run: xr.Dataset, row: Callable[[xr.Dataset], list[str]]) -> list[str]:
    lost = f"{int(run.diverged.sum())} of {run.valid_time.size}"
    minutes = f"{run.attrs['training_cpu_seconds'] / 60:.1f}"
    return [run.attrs["method"], run.attrs["dynamics"], *row(run), lost, minutes]


def _waves(run: xr.Dataset) -> list[str]:
    away = run.valid_time.isel(context=np.abs(run.F.values - SWITCH) >= MARGIN)
    shares = [(run.valid_time > 100), (run.valid_time > 500), (away > 500)]
    return [f"{np.median(run.valid_time):.0f}", *(f"{float(share.mean()):.0%}" for share in shares)]


def _motions(run: xr.Dataset) -> list[str]:
    whole = run.valid_time >= DURATION * (1 - 1e-9)
    return [f"{float(whole.mean()):.2%}", f"{float(run.peak_energy_drift.median()):.0e}"]


DURATION = 30.0
"""Of the pendulum's rollouts, in s."""

FOLLOWED = {
    "lorenz96": (
        "Time until NRMSE exceeds 0.5, of 1000; away from the change of wave number by 0.004 or more.",
        ("median", "share > 100", "share > 500", "share > 500, away"),
        _waves,
    ),
    "pendulum": ("Of 256 configurations over 30 s.", ("valid to the end", "energy error, median"), _motions),
}
"""What is said of rollouts of a system, its columns, and what fills them."""


OWN = {
    "robustness": _robustness,
    "floor": _floor,
    "guarantees": guarantees,
    "rollouts": partial(_rollouts, "Rollouts after training on snapshots, size equal"),
    "dynamics": partial(_rollouts, "Rollouts with the preset dynamics, size equal"),
}
"""Sections of presets that are no races."""


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
    return f"{values.mean():.4f} ± {values.std():.4f} ({np.median(values):.4f})"


def _provenance(runs: list[xr.Dataset]) -> str:
    devices = ", ".join(sorted({str(run.attrs["device"]) for run in runs}))
    seeds = runs[0].seed.values
    epochs = ", ".join(sorted({str(run.attrs["epochs"]) for run in runs}))
    return f"Seeds {seeds[0]} to {seeds[-1]}, {epochs} epochs; {devices}."
