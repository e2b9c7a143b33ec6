"""Five foreign data sets through the whole path, and the pulses beside pydmd, opinf and pysindy.

python -m studies.own_data.run                      # all that is not yet in results.json
python -m studies.own_data.run pulses plumes        # these
python -m studies.own_data.run "pulses, seed 3"     # another draw of data, split and training
python -m studies.own_data.run rivals               # the packages, on pulses and noisy pulses
python -m studies.own_data.run large                # an epoch at n = 20 000

Every result is added to results.json as soon as it is there; a result that is there is not computed again.
"""

import contextlib
import inspect
import io
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import xarray as xr

import romkit
from romkit.core import runtime
from romkit.core.files import atomic
from studies.own_data import paths, rivals, sets

RESULTS = Path(__file__).parent / "results.json"
HORIZON = 40.0
"""Time units over which forecasts of the pulses are scored."""
PULSES = ("pulses", "noisy-pulses")
FRESH = (1, 2, 3)
"""Seeds of the pulses, their split and their training that no setting was chosen by."""


def main(names: list[str]) -> None:
    fresh = {f"{name}, seed {seed}": one_set for name in PULSES for seed in FRESH}
    tasks = {name: one_set for name in sets.SETS} | fresh | {"rivals": all_rivals, "large": large}
    for name in names or tasks:
        if name not in results():
            record({name: tasks[name](name) | {"provenance": _provenance()}})
            print(name, json.dumps(results()[name], indent=1), flush=True)


def results() -> dict[str, dict]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def record(more: dict[str, dict]) -> None:
    with atomic(RESULTS) as temporary:
        temporary.write_text(json.dumps(results() | more, indent=1) + "\n")


def one_set(name: str) -> dict[str, object]:
    """Errors on held-out runs, CPU seconds of the whole path, and how many lines a user writes for it."""
    name, _, number = name.partition(", seed ")
    seed, path = int(number or 0), paths.PATHS[name]
    raw, settings = sets.SETS[name](seed=seed), {"seed": seed} if seed else {}
    started = time.process_time()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        projection, law, _, run = path(raw, verbose=False, **settings)
    seconds = time.process_time() - started
    lines = len(inspect.getsource(path).splitlines()) - 1
    found = {"summary": said.getvalue().splitlines(), "lines": lines, "cpu_seconds": seconds}
    found |= {"method": projection.name, "law": law.details(), "errors": _errors(run)}
    if "pulses" in name:
        found["errors_to_40"] = _errors(run.sel(time=slice(0, HORIZON + 1e-6)))
    if name == "noisy-pulses":
        truth = _held_out_pulses(seed)
        known = {key: run[key].rename("state").to_dataset() for key in ("rom", "projected")}
        clean = {key: _nrmse(truth, each.assign_coords(state_std=run.state_std)) for key, each in known.items()}
        found["errors_against_clean"] = {
            "projection_median": float(np.median(clean["projected"])),
            "forecast_median_to_40": float(np.median(clean["rom"][:, truth.time.values <= HORIZON + 1e-6])),
        }
    return found


def _errors(run: xr.Dataset) -> dict[str, object]:
    per_run = run.nrmse.median("time").values
    return {
        "projection_median": float(run.nrmse_projected.median()),
        "projection_90": float(run.nrmse_projected.quantile(0.9)),
        "forecast_median": float(run.nrmse.median()),
        "forecast_median_of_each_run": per_run.round(4).tolist(),
        "forecast_at_end": _last(run.nrmse.values).round(4).tolist(),
        "diverged": int((run.status != 0).sum()),
    }


def _last(errors: np.ndarray) -> np.ndarray:
    """The error of each run (..., T) at its last measured time."""
    return np.array([row[np.isfinite(row)][-1] for row in np.atleast_2d(errors)])


def _nrmse(truth: xr.Dataset, reduced: xr.Dataset) -> np.ndarray:
    return romkit.score(truth, reduced).nrmse.values


def _held_out_pulses(seed: int = 0) -> xr.Dataset:
    with contextlib.redirect_stdout(io.StringIO()):
        data = romkit.data.describe(sets.pulses(seed=seed), context=["rate"])
    return romkit.data.split(data, 0.2, seed=seed)[1]


def all_rivals(name: str) -> dict[str, object]:
    """Errors to 40 time units of each package, on POD coordinates of the latent dimension and of four times as many."""
    truth, found = _held_out_pulses(), {}
    for kind in PULSES:
        with contextlib.redirect_stdout(io.StringIO()):
            data = romkit.data.describe(sets.SETS[kind](), context=["rate"])
        train, held_out = romkit.data.split(data, 0.2)
        for rank in (2, 8) if kind == "pulses" else (2,):
            pod = romkit.fit("pod", train, latent_dim=rank)
            projected = pod(held_out)(held_out).assign_coords(
                state_std=("component", pod.normalization.state_std.numpy())
            )
            floor = float(np.median(_nrmse(truth, projected)))
            for package in rivals.CANDIDATES:
                started = time.process_time()
                reduced, chosen = rivals.side_by_side(package, pod, train, held_out)
                errors = _nrmse(truth, reduced)[:, truth.time.values <= HORIZON + 1e-6]
                row = {"projection_median": floor, "forecast_median_to_40": float(np.median(errors))}
                row |= {"chosen": chosen, "cpu_seconds": time.process_time() - started}
                found[f"{kind}, {package}, {rank} modes"] = row
    return found


def large(name: str) -> dict[str, object]:
    """An epoch of one seed with all defaults at n = 20 000 and 2 000 snapshots; time, and memory of the process."""
    x, time_ = np.linspace(0, 2 * np.pi, 20_000, endpoint=False), np.linspace(0, 10, 200)
    speed = np.linspace(0.5, 1.5, 10)
    phase = x - speed[:, None, None] * time_[:, None]
    wave, rate = np.exp(np.cos(phase)), speed[:, None, None] * np.sin(phase) * np.exp(np.cos(phase))
    with contextlib.redirect_stdout(io.StringIO()):
        data = romkit.data.from_arrays(wave, time_, context={"speed": speed}, velocity=rate)
    del phase, wave, rate
    clock = [(time.perf_counter(), time.process_time())]
    model = romkit.fit(
        "ncae",
        data,
        latent_dim=2,
        epochs=3,
        callback=lambda _: clock.append((time.perf_counter(), time.process_time())),
    )
    wall, cpu = np.diff(np.array(clock), axis=0).T[:, 1:]
    started = time.process_time()
    romkit.fit("pod", data, latent_dim=10)
    pod = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "layers": list(model.config["layers"]),
        "seconds_per_epoch": wall.tolist(),
        "cpu_seconds_per_epoch": cpu.tolist(),
        "cpu_seconds_of_pod": pod,
        "peak_memory_GiB": memory,
    }


def _provenance() -> dict[str, object]:
    packages = ("scipy", "pydmd", "opinf")
    return {
        "versions": runtime.versions(*packages),
        "device": runtime.device_name("cpu"),
        "threads": 1,
        "seed": 0,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
