"""Filters of Lorenz96 on the full and on the reduced model: scores, constant, drifting and jumping
forcings, alarms.
"""

import functools
import time

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.assimilation import Tracker
from romkit.integrators import PetrovGalerkin
from romkit.solvers import RK4
from romkit.systems import Lorenz96
from romkit.systems.lorenz96 import dominant_wave_number
from romkit.systems.motion import Motion
from studies.runner import Numbers

NOISE, EVERY, DRIFT = 0.075, 0.05, 5e-4
"""Standard deviation of the observations of all 36 components (5 %), time between them, and the
filters' walk of F.
"""

LOW, HIGH, CHANGE = 3.133, 3.193, 3.163
"""Training range, and where the wave of the training data changes its number."""

SYSTEM = Lorenz96()

FILTERS = ("flow", "POD", "quadratic manifold", "full")
"""The shipped flow of two latents, two models of 29 that know both waves at all forcings, and the
full model.
"""


def tasks(runs: int, length: float, ramp: float, steps: int) -> list[Numbers]:
    """Tasks of the entry `tracking` of a preset."""
    given = {"runs": runs, "length": length}
    return [
        Numbers.of("tracking: score", score, seeds=min(runs, 10), steps=steps),
        *(
            Numbers.of(f"tracking: constant, {model}", constant, model=model, **given)
            for model in FILTERS
        ),
        *(Numbers.of(f"tracking: jump, {model}", jump, model=model, **given) for model in FILTERS),
        Numbers.of("tracking: cost", cost, updates=min(steps // 40, 50)),
        *(
            Numbers.of(f"tracking: alarm, {model}", alarm, model=model, **given)
            for model in FILTERS[:-1]
        ),
        *(
            Numbers.of(f"tracking: drift, {model}", drift, model=model, length=ramp)
            for model in FILTERS
        ),
    ]


def score(seeds: int, steps: int) -> dict[str, object]:
    """Return error of the full-order filter on Lorenz96 with 40 variables, F = 8, noise 1 (Sakov &
    Oke 2008).
    """
    system, found = Lorenz96(n=40, dt=EVERY, transient=20.0), []
    truth = system.dataset(F=8.0 + 1e-9 * np.arange(seeds), duration=steps * EVERY)
    for k in range(seeds):
        rng, one = np.random.default_rng(k), truth.isel(trajectory=[k])
        start = one.state.values[0, 0] + np.sqrt(0.001) * rng.standard_normal((24, 40))
        near = romkit.simulate(system, initial_state=start, duration=EVERY, F=8.0)
        seen = (one.state + rng.standard_normal(one.state.shape)).to_dataset(name="state")
        run = romkit.assimilate(
            system, seen, noise=1.0, training=near, inflation=1.013, seed=k, F=8.0
        )
        error = np.sqrt(((run.state.values - one.state.values) ** 2).mean(-1))[0, steps // 5 :]
        found.append(float(error.mean()))
    return {"scores": found}


@functools.cache
def tracker(model: str) -> Tracker:
    """Tracker by one of `FILTERS`."""
    given = {"noise": NOISE, "drift": DRIFT, "dynamics": PetrovGalerkin(), "system": SYSTEM}
    if model in ("POD", "quadratic manifold"):
        some = waves(0.05, 700.0).isel(time=slice(1000, None, 137))
        turned = xr.concat([some.roll(component=k) for k in range(SYSTEM.n)], "trajectory")
        quadratic = ("polynomial-manifold", {"degree": 2, "context_degree": 0})
        method, settings = ("pod", {}) if model == "POD" else quadratic
        projection = romkit.fit(method, turned, latent_dim=29, verbose=False, **settings)
        run, length = waves(0.02, 310.0), 200
        parts = [run.isel(time=slice(k, k + length)) for k in (1000, 6000)]
        training = xr.concat(
            [part.assign_coords(time=run.time[:length]) for part in parts], "trajectory"
        )
        return Tracker(
            projection, training=training, members=32, **given
        )  # more than latents and parameters
    training = SYSTEM.dataset(F=np.linspace(LOW, HIGH, 31), duration=10.0).isel(
        time=slice(None, None, 5)
    )
    if model == "full":
        return Tracker(SYSTEM, training=training, noise=NOISE, drift=DRIFT)
    return Tracker(romkit.load("flow-lorenz96"), training=training, **given)


def waves(perturbation: float, duration: float) -> xr.Dataset:
    """Return runs from disturbed sines of numbers 8 and 7 at forcings of the whole range.

    Above F = 3.16 others grow slowly on the wave of number 8, until that of number 7 takes over.
    """
    F, rng, found = np.linspace(LOW, HIGH, 16), np.random.default_rng(0), []
    for number in (8, 7):
        start = F[:, None] + np.sin(2 * np.pi * number * np.arange(SYSTEM.n) / SYSTEM.n)
        start = start + perturbation * rng.standard_normal(start.shape)
        found.append(romkit.simulate(SYSTEM, initial_state=start, F=F, duration=duration, dt=EVERY))
    return xr.concat(found, "trajectory")


def tracked(model: str, states: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Estimates, deviations, alarms and jumps (T,) of observations with noise of states (T, 36)."""
    one, rng = tracker(model), np.random.default_rng(1000 + seed)
    one.restart(seed)
    found, seconds = [], []
    for k, x in enumerate(states):
        seen = x + NOISE * rng.standard_normal(len(x))
        started = time.process_time()  # of one thread
        found.append(one.update(EVERY * k, seen))
        seconds.append(time.process_time() - started)
    each = {
        name: np.array([getattr(track, name) for track in found]).reshape(len(found))
        for name in found[0]._fields
    }
    return each | {"seconds": np.array(seconds)}


def forcings(runs: int, seed: int) -> np.ndarray:
    """Return forcings of the range, none of them where both waves mix."""
    rng = np.random.default_rng(seed)
    below, above = (
        rng.uniform(LOW + 0.002, 3.156, runs // 2),
        rng.uniform(3.168, HIGH - 0.002, runs - runs // 2),
    )
    return np.concatenate([below, above])


def settled(F: np.ndarray, length: float) -> np.ndarray:
    """Return (runs, T, 36) states on the wave of each forcing, from random phases on."""
    data = SYSTEM.dataset(F=F, duration=length + 5.0).state.values[:, ::5]
    first = np.random.default_rng(11).integers(0, int(5.0 / EVERY), len(F))
    return np.stack([x[k : k + round(length / EVERY)] for k, x in zip(first, data, strict=True)])


def constant(model: str, runs: int, length: float) -> dict[str, object]:
    """Return errors over time at constant forcings, coverage of 90 % intervals, seconds, false
    alarms.
    """
    F = forcings(runs, 10)
    found = [tracked(model, x, k) for k, x in enumerate(settled(F, length))]
    error = np.array([run["estimate"] - c for run, c in zip(found, F, strict=True)])
    std = np.array([run["std"] for run in found])
    at = [round(t / EVERY) - 1 for t in (1, 2, 5, length)]
    return {
        "times": [1, 2, 5, length],
        "rms": np.sqrt((error[:, at] ** 2).mean(0)).tolist(),
        "largest": np.abs(error[:, at]).max(0).tolist(),
        "covered": (np.abs(error) < 1.645 * std)[:, at].mean(0).tolist(),
        "milliseconds": 1e3 * float(np.median(np.concatenate([run["seconds"] for run in found]))),
        "alarms": float(np.mean([run["alarm"].any() for run in found])),
        "jumps": float(np.mean([run["jump"].any() for run in found])),
    }


def jump(model: str, runs: int, length: float) -> dict[str, object]:
    """Jumps by 0.01 and 0.02 on one wave: how often noticed within two units of time, and the error
    five after.
    """
    found = {}
    for size in (0.01, 0.02):
        start = np.tile([3.136, 3.156 - 0.002, 3.169, 3.19], runs)[:runs]
        end = start + size * np.tile([1, -1, 1, -1], runs)[:runs]
        x = settled(start, length)
        after = romkit.simulate(
            SYSTEM, initial_state=x[:, -1], F=end, duration=length, dt=EVERY
        ).state.values[:, 1:]
        done = [
            tracked(model, np.concatenate(each), k)
            for k, each in enumerate(zip(x, after, strict=True))
        ]
        k = x.shape[1]
        noticed = [
            bool((run["jump"] | run["alarm"])[k : k + round(2 / EVERY)].any()) for run in done
        ]
        error = np.array([run["estimate"][k:] for run in done]) - end[:, None]
        found[f"{size:g}"] = {
            "noticed": float(np.mean(noticed)),
            "2 after": float(np.sqrt((error[:, round(2 / EVERY) - 1] ** 2).mean())),
            "5 after": float(np.sqrt((error[:, round(5 / EVERY) - 1] ** 2).mean())),
        }
    return found


def alarm(model: str, runs: int, length: float) -> dict[str, object]:
    """Return share of runs with an alarm by distance of the forcing from its training range, and
    false ones inside.
    """
    found = {}
    for far in (0.01, 0.02, 0.03, 0.06):
        F = np.array([LOW - far, HIGH + far] * runs)[:runs]
        F += np.random.default_rng(12).uniform(-0.002, 0.002, runs)
        done = [tracked(model, x, k)["alarm"].any() for k, x in enumerate(settled(F, length))]
        found[f"{far:g}"] = {
            "below": float(np.mean(done[::2])),
            "above": float(np.mean(done[1::2])),
        }
    F = forcings(5 * runs, 13)
    inside = [tracked(model, x, k)["alarm"].any() for k, x in enumerate(settled(F, length))]
    return {
        "outside": found,
        "false": float(np.mean(inside)),
        "runs": len(F),
        "limits": tracker(model).limits,
    }


def cost(updates: int) -> dict[str, object]:
    """Milliseconds of an update with n = 10 008, the ring of 36 variables 278 times over, at 271
    sensors.
    """
    small = SYSTEM.dataset(F=np.linspace(LOW, HIGH, 13), duration=4.0).isel(
        time=slice(None, None, 5)
    )
    many, times = [1, 1, 278], torch.from_numpy(small.time.values)
    state, velocity = (
        torch.from_numpy(small[name].values).repeat(many) for name in ("state", "velocity")
    )
    contexts, filters = torch.from_numpy(small.F.values[:, None]), {}
    for dt in (0.05, 0.01):
        large = Lorenz96(n=10_008, dt=dt)
        motion = Motion(state, velocity, None, torch.zeros(len(contexts), dtype=torch.int8), {})
        data = large.record(motion, times, contexts, {})
        given = {
            "noise": NOISE,
            "training": data,
            "sensors": range(0, 10_008, 37),
            "false_alarms": None,
            "drift": DRIFT,
        }
        if dt == 0.05:
            basis = romkit.basis(data, rank=12)
            flow = romkit.fit(
                "flow", data, basis=basis, latent_dim=2, epochs=30, seed=0, verbose=False
            )
            filters["reduced"] = Tracker(flow, system=large, **given)
        filters[f"full, steps of {dt:g}"] = Tracker(large, **given)
    return _milliseconds(filters, data.state.values[6, : updates + 3, ::37])


def _milliseconds(filters: dict[str, Tracker], seen: np.ndarray) -> dict[str, float]:
    """Median processor time of an update of each, by turns; the first three of a run are left out."""
    found = {name: [] for name in filters}
    for _ in range(5):
        for name, one in filters.items():
            one.restart()
            for k, x in enumerate(seen):
                started = time.process_time()
                one.update(EVERY * k, x)
                found[name] += [time.process_time() - started] * (k >= 3)
    return {name: 1e3 * float(np.median(seconds)) for name, seconds in found.items()}


def forcing(t: torch.Tensor) -> torch.Tensor:
    """F(t): up by 3e-4 in a unit of time until it is 3.18, then by 5e-6."""
    return 3.150 + 3e-4 * t.clamp(max=100.0) + 5e-6 * (t - 100.0).clamp(min=0.0)


def drift(model: str, length: float) -> dict[str, object]:
    """Return a drift across the change of the wave's number, which the full model makes a thousand
    units of time later.
    """
    (start,) = SYSTEM.start(torch.tensor([[3.150]], dtype=torch.float64))
    times = torch.arange(round(length / EVERY), dtype=torch.float64) * EVERY
    field = SYSTEM.field(lambda t: forcing(t.double()).reshape(1, 1))
    states = RK4(0.05)(field, start, times, label="truth").states[0]
    F, number = (
        forcing(times).numpy(),
        dominant_wave_number(states.unfold(0, 1, 1).transpose(-1, -2)).numpy(),
    )
    power = torch.fft.rfft(states).abs().square()[:, 6:10]
    pure = (power.amax(-1) / power.sum(-1) > 0.98).numpy()
    run = tracked(model, states.numpy(), 0)
    error, t = run["estimate"] - F, times.numpy()
    change = float(t[np.argmax(number == 7)]) if (number == 7).any() else np.inf
    mixed = t[~pure & (t > 50)]
    ends = float(mixed[-1]) if len(mixed) else np.inf
    begins = float(mixed[0]) if len(mixed) else np.inf
    parts = {
        "before": (t > 5) & (F < 3.158),
        "other wave": (F > CHANGE + 0.002) & (t < begins),
        "changing": (t >= begins) & (t <= ends),
        "after": t > ends + 5,
    }
    rms = {
        name: float(np.sqrt((error[part] ** 2).mean())) if part.any() else np.nan
        for name, part in parts.items()
    }
    largest = {
        name: float(np.abs(error[part]).max()) if part.any() else np.nan
        for name, part in parts.items()
    }
    shown = slice(None, None, 20)
    return {
        "rms": rms, "largest": largest, "change": change, "mixed": [begins, ends],
        "alarm": {name: float(run["alarm"][part].mean()) if part.any() else np.nan for name, part in parts.items()},
        "t": t[shown].tolist(), "F": F[shown].tolist(), "estimate": run["estimate"][shown].tolist(),
        "std": run["std"][shown].tolist(), "jumps": t[run["jump"]].tolist(),
    }  # fmt: skip
