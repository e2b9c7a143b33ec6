"""Five foreign data sets through the whole path: python -m studies.own_data.run [PIECE ...] [--preset smoke].

Every result is added to results.json as soon as it is there; a result that is there is not computed again.
"""

import contextlib
import inspect
import io
import resource
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr

import romkit
from romkit.integrators import NeuralODE
from studies.own_data import paths, report, sets
from studies.pieces import Numbers, Pieces, command

HERE = Path(__file__).parent
HORIZON = 40.0
"""Time units over which forecasts of the pulses are scored."""


@dataclass(frozen=True)
class Scale:
    """Size of the study: settings of each set, settings of each path, seeds of the pulses, and n of the large state."""

    sets: dict[str, dict[str, float]] = field(default_factory=lambda: {name: {} for name in sets.SETS})
    path: dict[str, object] = field(default_factory=dict)
    fresh: tuple[int, ...] = report.FRESH
    large: int = 20_000


QUICK = NeuralODE(hidden=(12,), regression_steps=150, shooting_steps=30, segment=4, batch_size=64)
SCALES = {
    "full": Scale(),
    "smoke": Scale(
        sets={
            "pulses": {"size": 0.4, "runs": 6, "duration": 20.0},
            "forced-array": {"size": 0.4, "runs": 5, "duration": 10.0},
            "plumes": {"size": 0.4, "runs": 6},
            "spirals": {"size": 0.3, "runs": 10},
            "noisy-pulses": {"size": 0.4, "runs": 10, "duration": 20.0},
        },
        path={"law": QUICK, "epochs": 6},
        fresh=(1,),
        large=200,
    ),
}


def one_set(scale: Scale, name: str, seed: int = 0) -> Numbers:
    """Errors on held-out runs, CPU seconds of the whole path, and number of lines that a user writes for it."""
    path, raw = paths.PATHS[name], sets.SETS[name](seed=seed, **scale.sets[name])
    settings, said, started = {"seed": seed} if seed else {}, io.StringIO(), time.process_time()
    with contextlib.redirect_stdout(said):
        projection, law, _, run = path(raw, verbose=False, **settings, **scale.path)
    found = {"summary": said.getvalue().splitlines(), "lines": len(inspect.getsource(path).splitlines()) - 1}
    found |= {"cpu_seconds": time.process_time() - started, "method": projection.name}
    found |= {"law": law.details(), "errors": _errors(run)}
    if "pulses" in name:
        found["errors_to_40"] = _errors(run.sel(time=slice(0, HORIZON + 1e-6)))
    if name == "noisy-pulses":
        with contextlib.redirect_stdout(io.StringIO()):
            clean = romkit.data.describe(sets.pulses(seed=seed, **scale.sets[name]), context=["rate"])
        truth = romkit.data.split(clean, 0.2, seed=seed)[1]
        known = {key: run[key].rename("state").to_dataset() for key in ("rom", "projected")}
        std = {"state_std": run.state_std}
        errors = {key: romkit.score(truth, each.assign_coords(std)).nrmse.values for key, each in known.items()}
        found["errors_against_clean"] = {
            "projection_median": float(np.median(errors["projected"])),
            "forecast_median_to_40": float(np.median(errors["rom"][:, truth.time.values <= HORIZON + 1e-6])),
        }
    return found


def _errors(run: xr.Dataset) -> dict[str, object]:
    last = [row[np.isfinite(row)][-1] for row in np.atleast_2d(run.nrmse.values)]  # at the last measured time
    return {
        "projection_median": float(run.nrmse_projected.median()),
        "projection_90": float(run.nrmse_projected.quantile(0.9)),
        "forecast_median": float(run.nrmse.median()),
        "forecast_median_of_each_run": run.nrmse.median("time").values.round(4).tolist(),
        "forecast_at_end": np.round(last, 4).tolist(),
        "diverged": int((run.status != 0).sum()),
    }


def large(scale: Scale) -> Numbers:
    """Epoch of one seed with all defaults at a large n and 2 000 snapshots; time, and memory of the process."""
    x, times = np.linspace(0, 2 * np.pi, scale.large, endpoint=False), np.linspace(0, 10, 200)
    speed = np.linspace(0.5, 1.5, 10)
    phase = x - speed[:, None, None] * times[:, None]
    wave, rate = np.exp(np.cos(phase)), speed[:, None, None] * np.sin(phase) * np.exp(np.cos(phase))
    with contextlib.redirect_stdout(io.StringIO()):
        data = romkit.data.from_arrays(wave, times, context={"speed": speed}, velocity=rate)
    del phase, wave, rate
    now = lambda _=None: clock.append((time.perf_counter(), time.process_time()))  # noqa: E731
    clock: list[tuple[float, float]] = []
    now()
    model = romkit.fit("ncae", data, latent_dim=2, epochs=3, callback=now)
    wall, cpu = np.diff(np.array(clock), axis=0).T[:, 1:]
    started = time.process_time()
    romkit.fit("pod", data, latent_dim=10)
    return {
        "layers": list(model.config["layers"]),
        "seconds_per_epoch": wall.tolist(),
        "cpu_seconds_per_epoch": cpu.tolist(),
        "cpu_seconds_of_pod": time.process_time() - started,
        "peak_memory_GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def pieces(scale: Scale) -> Pieces:
    """Work of the study, by name; fresh seeds are draws of data, split and training that chose no setting."""
    work = {name: partial(one_set, scale, name) for name in sets.SETS}
    work |= {
        f"{name}, seed {seed}": partial(one_set, scale, name, seed) for name in report.PULSES for seed in scale.fresh
    }
    return work | {"large": partial(large, scale)}


if __name__ == "__main__":
    command(HERE, {name: pieces(scale) for name, scale in SCALES.items()}, report.page, packages=("scipy",))
