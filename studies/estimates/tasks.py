"""Estimates of errors beside the true ones, of rollouts at contexts that nothing was fitted to."""

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.data.context import context_columns
from romkit.projections import Projection
from romkit.solvers import RK4
from romkit.systems import Burgers2D, CylinderWake, KuramotoSivashinsky, Lorenz96, Pendulum, System
from romkit.systems.motion import Motion
from studies.runner import Numbers, Study, frozen
from studies.wake.data import BASIS, COORDINATES

SEED = 37
TIMES = 20
"""Times of a rollout, equally spaced and with the last, at which errors are compared."""


class Case(NamedTuple):
    """A shipped projection, rollouts of a length and with an interval of the output, and the step
    of the latent RK4.
    """

    system: Callable[[], System]
    projection: str
    duration: float
    interval: float
    step: float


CASES = {
    "Lorenz96, flow": Case(Lorenz96, "flow-lorenz96", 200.0, 0.1, 0.05),
    "Lorenz96, NcAE": Case(Lorenz96, "ncae-lorenz96", 200.0, 0.1, 0.05),
    "Pendulum, flow": Case(Pendulum, "flow-pendulum", 3.0, 0.005, 0.005),
    "Pendulum, NcAE": Case(Pendulum, "ncae-pendulum", 3.0, 0.005, 0.005),
    "Kuramoto-Sivashinsky, flow": Case(
        KuramotoSivashinsky, "flow-kuramoto-sivashinsky", 100.0, 0.2, 0.05
    ),
    "Wake in 64 modes, NcAE": Case(CylinderWake, "ncae-cylinder-wake", 10.0, 0.016, 0.016),
    "Burgers, flow": Case(Burgers2D, "flow-burgers2d", 25.0, 0.25, 0.05),
}
"""Five systems; two of them with two projections."""


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset."""
    rows = Study("estimates").presets[preset].items()
    others = {"Cost, Lorenz96": "cost", "Wake, NcAE": "wake"}
    named = lambda title: f"studies.estimates.tasks:{others.get(title, 'estimated')}"  # noqa: E731
    return [Numbers(title, named(title), frozen(row)) for title, row in rows]


def estimated(case: str, known: int = 20, unseen: int = 40) -> dict[str, object]:
    """Return true errors and estimates of unseen rollouts.

    Args:
        case: name in `CASES`.
        known: rollouts whose truth the regression may see.
        unseen: rollouts to be estimated.
    """
    setting, projection = CASES[case], romkit.load(CASES[case].projection)
    system = setting.system()
    system = system.through(projection.basis) if isinstance(system, CylinderWake) else system
    projection = projection.of_coordinates() if system.basis is not None else projection
    truth, seconds = drawn(setting, system, projection, known + unseen)
    run = romkit.follow(projection, truth, system=system, solver=RK4(setting.step))
    run = run.assign(nrmse=romkit.score(truth, run).nrmse)
    return compared(
        system,
        run,
        known,
        {name: each * unseen / (known + unseen) for name, each in seconds.items()},
    )


def wake(length: float = 5.0, known: int = 10) -> dict[str, object]:
    """Estimates beside the flows that are stored in 64 modes: known at the contexts of the
    training, unseen at others.

    The truth costs minutes a flow, so that its seconds are those of a twentieth of one, times as
    many.

    Args:
        length: of the rollouts, in s.
        known: number of flows, of ten of the training.
    """
    system, projection = CylinderWake(), romkit.load("ncae-cylinder-wake")
    stored = romkit.data.open_dataset(COORDINATES).isel(trajectory=slice(10 - known, None))
    stored = stored.sel(time=slice(0, length)).load()
    states = romkit.load(BASIS).decode(torch.from_numpy(stored.state.values.astype(float)))
    times, contexts = (torch.from_numpy(stored[name].values.copy()) for name in ("time", "Re"))
    contexts = contexts.unsqueeze(1)
    truth = system.record(Motion(states, None, None, None, {}), times, contexts, {})
    run = romkit.follow(projection, truth, system=system, solver=RK4(0.016))
    run = run.assign(nrmse=romkit.score(truth, run).nrmse)
    last, part = (
        ((states[-1:, 0],), contexts[-1:]),
        torch.linspace(0, length / 20, 32, dtype=torch.float64),
    )
    alone, whole = (
        timed(system.solve, *last, part, label="")[1],
        timed(system.simulate, *last, part)[1],
    )
    pieces = 20 * (len(states) - known)
    seconds = {"truth": whole * pieces, "solver": alone * pieces}
    return compared(system, run, known, seconds)


def timed(function: Callable, *given: object, **named: object) -> tuple[object, float]:
    """Return what a function returns, and its seconds of the processor."""
    began = time.process_time()
    return function(*given, **named), time.process_time() - began


def compared(
    system: System, run: xr.Dataset, known: int, seconds: dict[str, float]
) -> dict[str, object]:
    """Return true errors of a run's trajectories behind the first `known`, and what is estimated of
    these.
    """
    first, others = run.isel(trajectory=slice(known)), run.isel(trajectory=slice(known, None))
    estimate, paid = timed(romkit.error_estimate, others, system, known=first)
    raw = np.hypot(estimate["local"], estimate["shift"])
    at = np.linspace(0, run.sizes["time"] - 1, TIMES + 1).round().astype(int)[1:]
    inside = (estimate.lower <= others.nrmse) & (others.nrmse <= estimate.upper)
    means = {
        "truth": others.nrmse,
        "estimate": estimate.error,
        "without known": raw,
        "local": estimate["local"],
    }
    means["residual"] = residual(system, others)
    found = {
        name: four_digits(np.sqrt(np.square(error).mean("time")).values)
        for name, error in means.items()
    }
    sampled = {name: four_digits(error.isel(time=at).values) for name, error in means.items()}
    return {
        "contexts": four_digits(context_columns(others, system.context_names)),
        "rms": found,
        "along": sampled,
        "covered": four_digits(inside.mean("time").values),
        "width": float((estimate.upper / estimate.error).median()),
        "n": system.state_size,
        "share": estimate.attrs["share"],
        "seconds": seconds
        | {"estimate": paid * others.sizes["trajectory"] / run.sizes["trajectory"]},
        "device": run.attrs["device"],
    }


def four_digits(x: np.ndarray) -> list:
    """Return numbers of results in short."""
    unit = 10.0 ** (4 - np.ceil(np.log10(np.maximum(np.abs(x), 1e-12))))
    return (np.round(x * unit) / unit).tolist()


def drawn(
    setting: Case, system: System, projection: Projection, number: int
) -> tuple[xr.Dataset, dict[str, float]]:
    """Truth at contexts that are drawn, and the seconds of it and of its solver alone, behind the
    transient.
    """
    low, high = (
        projection.frame.context_shift + sign * projection.frame.context_scale for sign in (-1, 1)
    )
    contexts = (
        np.random.default_rng(SEED).uniform(0.02, 0.98, (number, len(low))) * (high - low).numpy()
        + low.numpy()
    )
    named = dict(zip(system.context_names, contexts.T, strict=True))
    start = functools.partial(romkit.simulate, system, dt=setting.interval, **named)
    if system.basis is not None:  # settles from the nearest run that is stored
        runs = romkit.data.open_dataset(COORDINATES)
        nearest = [int(abs(runs.Re.values - each).argmin()) for each in contexts[:, 0]]
        x0 = start(
            initial_state=runs.state.values[nearest, 0].astype(float), duration=setting.duration
        )
        given = {"initial_state": x0.state.values[:, -1]}
    else:
        parts = system.start(torch.from_numpy(contexts))
        given = dict(
            zip(
                ("initial_state", "initial_velocity"),
                (part.numpy() for part in parts),
                strict=False,
            )
        )
    return of_truth(functools.partial(start, **given, duration=setting.duration))


def of_truth(simulate: Callable[[], xr.Dataset]) -> tuple[xr.Dataset, dict[str, float]]:
    """Return simulation, and the seconds of the processor for it and for its solver alone."""
    began = time.perf_counter()
    truth, seconds = timed(simulate)
    solver = truth.attrs["seconds_computing"] / (time.perf_counter() - began)
    return truth, {"truth": seconds, "solver": seconds * solver}


def residual(system: System, run: xr.Dataset) -> xr.DataArray:
    """Norm (trajectory, time) of the full equations on the path, in standard deviations for a unit
    of time.
    """
    names = ["state", "velocity"][: system.order]
    parts = [run[name].transpose("trajectory", "time", "component").values for name in names]
    rate = np.gradient(parts[-1], run["time"].values, axis=1)
    times, *tensors = (torch.from_numpy(np.array(part)) for part in (run["time"].values, *parts))
    c = torch.from_numpy(context_columns(run, system.context_names))
    with torch.no_grad():
        field = system.rates(c, times, *tensors).numpy()
    return xr.DataArray(
        np.sqrt((((field - rate) / run["state_std"].values) ** 2).mean(-1)),
        dims=("trajectory", "time"),
    )


def cost(n: int, trajectories: int = 8, duration: float = 50.0) -> dict[str, object]:
    """Seconds of an estimate beside those of the truth, on large rings of Lorenz96; the path is the
    truth itself.
    """
    system = Lorenz96(n=n, transient=0.0)
    simulate = functools.partial(
        romkit.simulate, system, F=np.linspace(3.14, 3.18, trajectories), dt=0.1
    )
    simulate(duration=1.0)  # compiles
    truth, seconds = of_truth(functools.partial(simulate, duration=duration))
    run = truth.assign_coords(state_std=("component", np.ones(n)))
    estimate, paid = timed(romkit.error_estimate, run, system)
    found = seconds | {"estimate": paid}
    return {
        "n": n,
        "share": estimate.attrs["share"],
        "seconds": found,
        "device": truth.attrs["device"],
    }
