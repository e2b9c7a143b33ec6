"""Tasks of the verbs, one small and one middle, that two versions of romkit are given.

Imports nothing but romkit and what it needs, in names that old commits have as well.
"""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import xarray as xr

import romkit

Task = Callable[[], object]
"""A call of a verb, which gives an error of its result or something without one."""

try:
    from romkit import laws
except ImportError:  # until November 2026 laws were integrators
    laws = romkit.integrators

START = (-0.9, 2.8)
"""Latent state on the attractor of Lorenz96."""


@functools.cache
def lorenz(number: int, duration: float, transient: float = 0.0) -> xr.Dataset:
    system = romkit.systems.Lorenz96(transient=transient)
    forcings = np.linspace(3.135, 3.19, number).tolist()
    return system.dataset(F=forcings, duration=duration)


@functools.cache
def waves(number: int, duration: float, transient: float = 60.0) -> xr.Dataset:
    """Return runs near the attractor, every tenth sample."""
    return lorenz(number, duration, transient).isel(time=slice(None, None, 10))


def shipped_waves(number: int, duration: float) -> xr.Dataset:
    """Return runs on the waves that the shipped models know, which half of the forcings reach late."""
    return waves(number, duration, 1000.0)


@functools.cache
def shipped(name: str) -> object:
    return romkit.load(name)


def held_out_error(projection: object, law: object) -> float:
    """Return mean NRMSE of forecasts at forcings between those of the data."""
    truth = romkit.systems.Lorenz96(transient=60.0).dataset(F=[3.147, 3.178], duration=10.0)
    return float(romkit.rollout(truth, projection, dynamics=law).nrmse.mean())


def simulate(number: int, duration: float) -> Task:
    forcings = np.linspace(3.0, 3.4, number).tolist()
    return lambda: romkit.simulate(
        romkit.systems.Lorenz96(), F=forcings, duration=duration, dt=0.02
    )


def rollout(number: int, duration: float) -> Task:
    system, ncae = romkit.systems.Lorenz96(), shipped("ncae-lorenz96")
    start = ncae(F=3.15).decode(np.array(START))
    given = {"initial_state": start, "duration": duration, "dt": 0.02}
    given["F"] = np.linspace(3.14, 3.18, number).tolist()

    def task() -> float:
        return float(romkit.rollout(system, ncae, **given).nrmse.mean())

    return task


def follow(number: int, duration: float) -> Task:
    data = lorenz(number, duration)
    return lambda: romkit.follow(shipped("ncae-lorenz96"), data)


def score(number: int, duration: float) -> Task:
    data = lorenz(number, duration)
    reduced = romkit.follow(shipped("ncae-lorenz96"), data)
    return lambda: romkit.score(data, reduced)


def forecast(number: int, duration: float) -> Task:
    system, ncae = romkit.systems.Lorenz96(), shipped("ncae-lorenz96")
    given = {"initial_state": list(START), "system": system, "duration": duration, "dt": 0.02}
    given["F"] = np.linspace(3.14, 3.18, number).tolist()
    return lambda: romkit.forecast(ncae, **given)


def fit(method: str, number: int, duration: float, **settings: object) -> Task:
    data = lorenz(number, duration)
    quiet = {"verbose": False} if method == "ncae" else {}
    return lambda: romkit.fit(method, data, latent_dim=2, **quiet, **settings)


def law(number: int, duration: float, kinds: list[str]) -> Task:
    data = waves(number, duration)
    pod = romkit.fit("pod", data, latent_dim=4)

    def task() -> float:
        return held_out_error(pod, romkit.law(pod, data, kinds=kinds))

    return task


def sindy(number: int, duration: float) -> Task:
    data = waves(number, duration)
    pod = romkit.fit("pod", data, latent_dim=4)

    def task() -> float:
        return held_out_error(pod, laws.SINDy().fit(pod, data))

    return task


def compare(number: int, duration: float) -> Task:
    data = waves(number, duration)

    def task() -> None:
        with tempfile.TemporaryDirectory() as folder:
            romkit.compare(
                data, ["pod"], ["dmd", "galerkin"], latent_dim=2, folder=Path(folder, "table")
            )

    return task


def bootstrap(members: int, duration: float) -> Task:
    data = waves(4, duration)
    pod = romkit.fit("pod", data, latent_dim=2)
    settings = laws.SINDy(degree=1, threshold=0.0)
    return lambda: romkit.bootstrap(pod, settings, data, members=members)


def ensemble(seeds: int, epochs: int) -> Task:
    data = lorenz(3, 0.5)
    stack = romkit.fit("ncae", data, epochs=epochs, seeds=range(seeds), verbose=False)
    found = laws.DMD().fit(stack, data)
    state = data.state[0, 0]

    def task() -> None:
        model = romkit.Ensemble(stack, found)
        model.forecast(initial_state=state, duration=1.0, dt=0.01, F=3.15)

    return task


def error_estimate(duration: float, windows: int) -> Task:
    system = romkit.systems.Lorenz96(transient=0.0)
    run = romkit.follow(shipped("flow-lorenz96"), lorenz(3, duration))
    return lambda: romkit.error_estimate(run, system, windows=windows)


def sample(budget: int, candidates: int) -> Task:
    system = romkit.systems.Lorenz96(n=8, transient=0.0, duration=0.2)
    return lambda: romkit.sample(system, budget, "greedy", candidates=candidates, latent_dim=4)


def basis(snapshots: int, size: int) -> Task:
    x = np.random.default_rng(0).normal(size=(snapshots, size))
    return lambda: romkit.basis(x, rank=10)


def transformer(snapshots: int, size: int) -> Task:
    x = np.random.default_rng(0).normal(size=(snapshots, size))

    def task() -> None:
        pod = romkit.ProjectionTransformer("pod", latent_dim=4).fit(x)
        pod.inverse_transform(pod.transform(x))

    return task


def storage(number: int, duration: float) -> Task:
    data = lorenz(number, duration)
    pod = romkit.fit("pod", data, latent_dim=4)

    def task() -> None:
        with tempfile.TemporaryDirectory() as folder:
            runs = romkit.data.save_dataset(data, Path(folder, "runs.nc"))
            romkit.open(runs).close()
            romkit.load(romkit.save(pod, Path(folder, "pod.safetensors")))

    return task


def load(name: str) -> Task:
    return lambda: romkit.load(name)


def export(name: str) -> Task:
    def task() -> None:
        with tempfile.TemporaryDirectory() as folder:
            system = romkit.systems.Lorenz96()
            romkit.export(shipped(name), Path(folder, "model.c"), system=system)

    return task


def certify(epochs: int, size: int) -> Task:
    system = romkit.systems.Lorenz96(n=size, transient=0.0, duration=0.1)
    data = system.dataset(F=[3.1, 3.2])
    model = romkit.fit("ncae", data, layers=(1, size), epochs=epochs, verbose=False)
    return lambda: romkit.certify(model, F=3.15, radius=0.1)


def reduced_mesh(cells: int, modes: int) -> Task:
    burgers = romkit.systems.Burgers2D(cells=cells, duration=0.5)
    data = burgers.dataset("train")
    model = romkit.fit("pod", data, basis=modes, latent_dim=3)
    return lambda: romkit.reduced_mesh(burgers, model, data, tolerance=0.1)


def continuation(size: int, end: float) -> Task:
    ring = romkit.systems.Lorenz96(n=size)
    return lambda: romkit.continuation(ring, start=[0.5] * size, F=(0.5, end))


def verify(size: int, end: float) -> Task:
    ring = romkit.systems.Lorenz96(n=size)
    branch = romkit.continuation(ring, start=[0.5] * size, F=(0.5, end))
    return lambda: romkit.verify(branch, ring)


def sensors(count: int, duration: float) -> Task:
    data = lorenz(4, duration)
    return lambda: romkit.sensors(shipped("ncae-lorenz96"), count, training=data, noise=0.1)


def noisy(data: xr.Dataset, sigma: float) -> xr.Dataset:
    noise = np.random.default_rng(0).normal(size=data.state.shape)
    states = (data.state.dims, data.state.values + sigma * noise)
    return xr.Dataset({"state": states}, {"time": data.time.values, "component": data.component})


def calibrated(number: int, times: int) -> tuple[Callable[[], object], xr.Dataset]:
    data = shipped_waves(number, 0.1 * (times + 20))
    seen = noisy(data.isel(time=slice(0, times)), 0.05)
    given = {"dynamics": romkit.integrators.PetrovGalerkin(), "noise": 0.05}
    given["system"] = romkit.systems.Lorenz96()
    return lambda: romkit.calibrate(shipped("flow-lorenz96"), data, seen, **given), seen


def calibrate(number: int, times: int) -> Task:
    return calibrated(number, times)[0]


def infer(number: int, times: int) -> Task:
    make, seen = calibrated(number, times)
    calibration = make()
    forcings = np.linspace(3.135, 3.19, number)

    def task() -> float:
        found = romkit.infer(calibration, seen)
        return float(np.abs(found.estimate.values[:, 0] - forcings).mean())

    return task


def assimilate(number: int, times: int) -> Task:
    data = shipped_waves(number, 0.1 * (times + 20))
    seen = noisy(data.isel(trajectory=[1], time=slice(0, times)), 0.05)
    given = {"noise": 0.05, "training": data, "system": romkit.systems.Lorenz96()}
    forcing = float(data.F[1])

    def task() -> float:
        found = romkit.assimilate(shipped("flow-lorenz96"), seen, **given)
        return abs(float(found.estimate[0, -1, 0]) - forcing)

    return task


def tracker(number: int, times: int) -> Task:
    data = shipped_waves(number, 0.1 * times)
    given = {"noise": 0.1, "training": data, "false_alarms": None}
    given["system"] = romkit.systems.Lorenz96()

    def task() -> None:
        filtering = romkit.Tracker(shipped("flow-lorenz96"), **given)
        for k in range(times):
            filtering.update(0.1 * k, data.state.values[1, k])

    return task


def learn(number: int, samples: int) -> Task:
    t = np.linspace(0, 6, samples)
    rates = np.linspace(1.0, 2.0, number)
    runs = [np.stack([np.cos(rate * t), -rate * np.sin(rate * t)], -1) for rate in rates]
    data = romkit.data.from_arrays(np.stack(runs), t, names=["x", "v"], context={"rate": rates})

    def task() -> float:
        return float(romkit.learn(data).error)

    return task


def timed(number: int, duration: float) -> Task:
    system = romkit.systems.Lorenz96(transient=60.0)
    data = lorenz(number, duration, 60.0)
    return lambda: romkit.timed(shipped("ncae-lorenz96"), system, data)


TASKS: dict[str, tuple[Callable[[], Task], Callable[[], Task]]] = {
    "simulate": (lambda: simulate(1, 2.0), lambda: simulate(20, 20.0)),
    "rollout": (lambda: rollout(1, 2.0), lambda: rollout(20, 20.0)),
    "follow": (lambda: follow(2, 1.0), lambda: follow(20, 10.0)),
    "score": (lambda: score(2, 1.0), lambda: score(20, 10.0)),
    "forecast": (lambda: forecast(1, 2.0), lambda: forecast(20, 20.0)),
    "fit": (lambda: fit("pod", 3, 1.0), lambda: fit("ncae", 5, 2.0, epochs=20)),
    "law": (lambda: law(6, 5.0, ["dmd"]), lambda: law(6, 10.0, ["sindy", "operator-inference"])),
    "SINDy": (lambda: sindy(4, 5.0), lambda: sindy(10, 10.0)),
    "compare": (lambda: compare(4, 2.0), lambda: compare(8, 10.0)),
    "bootstrap": (lambda: bootstrap(5, 2.0), lambda: bootstrap(50, 5.0)),
    "Ensemble": (lambda: ensemble(3, 5), lambda: ensemble(10, 5)),
    "error_estimate": (lambda: error_estimate(1.0, 2), lambda: error_estimate(5.0, 10)),
    "sample": (lambda: sample(3, 4), lambda: sample(6, 16)),
    "basis": (lambda: basis(100, 50), lambda: basis(1000, 1000)),
    "ProjectionTransformer": (lambda: transformer(100, 50), lambda: transformer(1000, 500)),
    "save, open": (lambda: storage(2, 1.0), lambda: storage(20, 20.0)),
    "load": (lambda: load("ncae-lorenz96"), lambda: load("ncae-cylinder-wake")),
    "export": (lambda: export("flow-lorenz96"), lambda: export("ncae-lorenz96")),
    "certify": (lambda: certify(1, 4), lambda: certify(1, 8)),
    "reduced_mesh": (lambda: reduced_mesh(6, 6), lambda: reduced_mesh(12, 10)),
    "continuation": (lambda: continuation(4, 2.0), lambda: continuation(12, 2.0)),
    "verify": (lambda: verify(4, 2.0), lambda: verify(12, 2.0)),
    "sensors": (lambda: sensors(4, 0.2), lambda: sensors(8, 2.0)),
    "calibrate": (lambda: calibrate(6, 5), lambda: calibrate(12, 20)),
    "infer": (lambda: infer(6, 5), lambda: infer(12, 20)),
    "assimilate": (lambda: assimilate(6, 10), lambda: assimilate(12, 100)),
    "Tracker": (lambda: tracker(6, 10), lambda: tracker(12, 100)),
    "learn": (lambda: learn(4, 50), lambda: learn(8, 200)),
    "timed": (lambda: timed(5, 10.0), lambda: timed(9, 20.0)),
}
"""Makers of the small and the middle task of each verb; what they prepare is not measured."""


def ready(verb: str, size: str) -> Task:
    """Return a task with its data and models made."""
    torch.manual_seed(0)
    return TASKS[verb][("small", "middle").index(size)]()
