"""python -m benchmarks.packages: forecasts of the cylinder wake at unseen Reynolds numbers by romkit
and by other packages, into results.json and RESULTS.md.
"""

import functools
import json
import logging
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from matplotlib.figure import Figure

import romkit
from romkit.core.runtime import device_name
from romkit.integrators import LearnedField
from romkit.projections import Projection
from studies.first_afternoon import rivals
from studies.report import dots, save_png, table
from studies.wake.data import BASIS, COORDINATES, TRAIN, UNSEEN
from studies.wake.reduced import DragLift, cycle

HERE = Path(__file__).parent

FOLDER = Path("runs/benchmarks/packages")
"""Where romkit's model is kept between calls."""

BEYOND = 5.0
"""Size of the coordinates, in the largest of the truth, beyond which a forecast is lost."""


TEXT = """# Results

Written by `python -m benchmarks.packages` from results.json; {device}; {versions}.

![Error of the velocity of each forecast; forecasts that are lost are left out](errors.png)

Forecasts of the flow past a cylinder at ten unseen Reynolds numbers, learned from the ten training runs of
[studies/wake](../../studies/wake/README.md), coordinates in 64 modes. Errors are medians and, in brackets, the largest of
the forecasts that are not lost: of the velocity relative to its fluctuation, over the whole forecast, and of Strouhal
number and lift relative to their values. "Lost" are forecasts that leave the data, or shed no vortices.

- romkit: `fit("polynomial-manifold", latent_dim=3)` and `law`, with their defaults, from whole runs.
- pysindy, opinf, pydmd: their documented defaults, a model of each run of the task, interpolated between the nearest
  two Reynolds numbers; "scaled" with coordinates and time of size one (`studies/first_afternoon/rivals.py`).
- pymor: `DataDrivenReductor` with its default regressor, from the Reynolds number to whole runs. It takes no start.
  pyMOR's main way, projection of equations that it discretises, is not among these: POD-Galerkin is in
  [studies/wake](../../studies/wake/RESULTS.md).

CPU seconds are those of fits and forecasts together.

{sections}
"""


class Task(NamedTuple):
    """Runs to learn from, and runs whose first states are forecast.

    Attributes:
        train, truth: coordinates (C, T, r).
        known, unseen: their Reynolds numbers (C,).
        times: (T,) from zero.
        first: sample from which runs are used.
    """

    train: np.ndarray
    truth: np.ndarray
    known: np.ndarray
    unseen: np.ndarray
    times: np.ndarray
    first: int


class Result(NamedTuple):
    """Forecasts (C, T, r), NaN where they are lost, and CPU seconds of fit and forecasts."""

    paths: np.ndarray
    seconds: float


def coordinates(reynolds: tuple[float, ...]) -> xr.Dataset:
    runs = romkit.data.open_dataset(COORDINATES)
    rows = [int(abs(runs["Re"].values - value).argmin()) for value in reynolds]
    return runs.isel(trajectory=rows)


def task(first: int) -> Task:
    """Return runs from a sample on: all of the transient, or the orbit alone."""
    train, truth = coordinates(TRAIN), coordinates(UNSEEN)
    times = truth["time"].values[first:]
    states = (runs["state"].values[:, first:].astype(float) for runs in (train, truth))
    return Task(*states, np.array(TRAIN), np.array(UNSEEN), times - times[0], first)


class Model(NamedTuple):
    """Manifold and law, with the CPU seconds of their fits."""

    manifold: Projection
    law: LearnedField
    seconds: float


@functools.cache
def learned() -> Model:
    """Manifold and law, with the defaults of `romkit.fit` and `romkit.law`, of whole runs; kept in
    `FOLDER`.
    """
    files = {name: FOLDER / f"{name}.safetensors" for name in ("manifold", "law")}
    clock = FOLDER / "seconds.json"
    if clock.exists():
        return Model(*(romkit.load(file) for file in files.values()), json.loads(clock.read_text()))
    begun = time.process_time()
    train = coordinates(TRAIN)
    manifold = romkit.fit("polynomial-manifold", train, latent_dim=3)
    law = romkit.law(manifold, train)
    seconds = time.process_time() - begun
    FOLDER.mkdir(parents=True, exist_ok=True)
    romkit.save(manifold, files["manifold"])
    romkit.save(law, files["law"])
    clock.write_text(json.dumps(seconds))
    return Model(manifold, law, seconds)


def by_romkit(given: Task) -> Result:
    model = learned()
    begun = time.process_time()
    truth = coordinates(UNSEEN).isel(time=slice(given.first, None))
    run = romkit.rollout(truth, model.manifold, dynamics=model.law)
    return Result(run["rom"].values, model.seconds + time.process_time() - begun)


def by_interpolation(name: str, scaled: bool) -> Callable[[Task], Result]:
    """Return a model of each run, interpolated between the nearest two."""

    def run(given: Task) -> Result:
        paths, seconds = rivals.side_by_side(
            given.train, given.known, given.truth, given.unseen, given.times, scaled=scaled
        )[name]
        return Result(paths, seconds)

    return run


def by_pymor(given: Task) -> Result:
    """pyMOR's `DataDrivenReductor` with its default regressor, from Reynolds number and time."""
    from pymor.parameters.base import Parameters
    from pymor.reductors.data_driven import DataDrivenReductor

    logging.disable(logging.INFO)
    begun = time.process_time()
    parameters = Parameters({"Re": 1})
    C, T, r = given.train.shape
    snapshots = given.train.reshape(C * T, r)
    training = [parameters.parse(value) for value in given.known]
    reductor = DataDrivenReductor(
        training, snapshots, T=float(given.times[-1]), time_vectorized=True
    )
    model = reductor.reduce()
    paths = [model.solve(parameters.parse(value)).to_numpy().T for value in given.unseen]
    return Result(np.stack(paths), time.process_time() - begun)


CONTESTANTS: dict[str, Callable[[Task], Result]] = {
    "romkit": by_romkit,
    **{name: by_interpolation(name, scaled=False) for name in rivals.PACKAGES},
    **{f"{name}, scaled": by_interpolation(name, scaled=True) for name in rivals.PACKAGES},
    "pymor": by_pymor,
}

TASKS = {"orbit": 312}
"""First sample of the runs: their last 5 s, on the orbit."""


def judged(given: Task, result: Result) -> dict[str, object]:
    """Return errors of each forecast; NaN where it is lost."""
    forces = DragLift.of(romkit.load(BASIS))
    paths = result.paths.copy()
    largest = np.linalg.norm(given.truth, axis=-1).max()
    paths[np.linalg.norm(paths, axis=-1) > BEYOND * largest] = np.nan
    contexts = torch.from_numpy(given.unseen)[:, None, None]
    lift, truth = (
        forces(torch.from_numpy(states), contexts)[..., 1].numpy()
        for states in (paths, given.truth)
    )
    errors: dict[str, list[float]] = {"field": [], "frequency": [], "lift": []}
    for k in range(len(paths)):
        apart = np.linalg.norm(paths[k] - given.truth[k])
        size = np.linalg.norm(given.truth[k] - given.truth[k].mean(0))
        errors["field"].append(apart / size)
        (frequency, largest_lift), (true_frequency, true_lift) = cycle(lift[k]), cycle(truth[k])
        errors["frequency"].append(abs(frequency / true_frequency - 1))
        errors["lift"].append(abs(largest_lift / true_lift - 1))
    return errors | {"seconds": result.seconds}


QUANTITIES = {"field": "velocity", "frequency": "Strouhal number", "lift": "largest lift"}
"""Errors of the page, by their name in the results."""


def percent(errors: list[float]) -> str:
    """Median and largest error of the forecasts that are not lost."""
    finite = np.array(errors)[np.isfinite(errors)]
    if len(finite) == 0:
        return "-"
    return f"{100 * np.median(finite):.2f} % ({100 * finite.max():.2f} %)"


def lost(row: dict) -> int:
    """Return number of forecasts that left the data, or do not shed vortices."""
    return int((~np.isfinite(row["frequency"])).sum())


def section(title: str, rows: dict[str, dict]) -> str:
    """Return table of one task."""
    lines = []
    for contestant, row in rows.items():
        line = {"package": contestant}
        line |= {words: percent(row[name]) for name, words in QUANTITIES.items()}
        line["lost of ten"] = lost(row)
        line["CPU seconds"] = f"{row['seconds']:.2g}"
        lines.append(line)
    return f"## {title}\n\n{table(lines)}"


def page(results: dict) -> str:
    """Return text of RESULTS.md."""
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    sections = {
        "orbit": "From the orbit: the last 5 s of each run",
    }
    parts = [section(title, results["tasks"][name]) for name, title in sections.items()]
    return TEXT.format(versions=versions, device=results["device"], sections="\n".join(parts))


def draw(results: dict) -> Figure:
    """Return error of the velocity at each unseen Reynolds number, by package."""
    rows = {}
    for contestant, row in results["tasks"]["orbit"].items():
        rows[contestant] = {"error": np.array(row["field"], dtype=float)}
    finding = "Forecasts of the wake at ten unseen Reynolds numbers, from the orbit"
    return dots(rows, "error of the velocity, relative to its fluctuation", finding)


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results = {"device": device_name("cpu"), "versions": {}, "tasks": {}}
    for package in ("romkit", *rivals.PACKAGES, "pymor"):
        results["versions"][package] = (
            romkit.__version__ if package == "romkit" else version(package)
        )
    for name, first in TASKS.items():
        given = task(first)
        results["tasks"][name] = {}
        for contestant, run in CONTESTANTS.items():
            results["tasks"][name][contestant] = judged(given, run(given))
            print(name, contestant, flush=True)
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (HERE / "RESULTS.md").write_text(page(results))
    save_png(draw(results), HERE / "errors.png")


if __name__ == "__main__":
    main()
