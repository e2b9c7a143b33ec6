"""Rollouts of Lorenz96 to 1000 time units: which training and which latent field stay true for how long.

python -m studies.rollout_drift.run                        # all that is in TRAININGS
python -m studies.rollout_drift.run ncae/paper-loss        # one of them

Every result is added to results.json as soon as it is there; a result that is there is not computed again.
"""

import json
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit import provenance
from romkit.files import atomic
from romkit.integrators import DYNAMICS
from romkit.metrics import nrmse, reconstruction_rmse, valid_time
from romkit.projections import Projection
from romkit.solvers import RK4

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SYSTEM = romkit.systems.Lorenz96()
SEEDS = range(10)
HORIZON = 1000.0
STEP = 0.1
CONTEXTS = 3.1335 + 0.001 * np.arange(60)
"""Training forcings: the whole range, without the test forcings, so that gaps between them are not what is measured."""

SNAPSHOTS = {"epochs": 150, "batch_size": 256}
ROLLOUTS = {"preset": "dynamics", "rollout_every": 1, **SNAPSHOTS}
TRAININGS: dict[str, dict[str, object]] = {
    "ncae/paper-loss": SNAPSHOTS,
    "ncae/latent-velocity": {"latent_weight": 10.0, **SNAPSHOTS},
    "ncae/rollouts": {"latent_weight": 0.0, **ROLLOUTS},
    "ncae/dynamics": ROLLOUTS,
    "ncae/dynamics, galerkin": {"rollout_dynamics": "galerkin", **ROLLOUTS},
}
"""Settings of `romkit.fit` by name: method/training."""


def main(names: list[str]) -> None:
    for name in names or TRAININGS:
        if name not in _load():
            _add(name, measure(name.split("/")[0], TRAININGS[name]))


def measure(method: str, settings: dict[str, object]) -> dict[str, object]:
    """Train ten seeds, follow each at the ten test forcings by both latent fields."""
    started = time.process_time()
    stacked = romkit.fit(method, training_set(), seeds=SEEDS, **settings)
    seconds = time.process_time() - started
    return {
        "training_cpu_seconds": seconds,
        "recipe": stacked.report["seeds"][0]["recipe"],
        "diverged": [bool(r["diverged"] or r.get("rollout_diverged", False)) for r in stacked.report["seeds"]],
        **reconstruction(stacked),
        "rollouts": {name: follow(stacked, name) for name in ("galerkin", "petrov-galerkin")},
        "contexts": SYSTEM.test_contexts()[:, 0].tolist(),
        "device": provenance.device_name("cpu"),
        "versions": provenance.versions(),
    }


@cache
def training_set() -> xr.Dataset:
    """60 forcings x 60 time units, sampled as rollouts step."""
    data = SYSTEM.dataset(F=CONTEXTS, duration=60.0)
    return data.isel(time=slice(None, None, round(STEP / SYSTEM.dt)))


@cache
def truth() -> tuple[Tensor, Tensor, Tensor]:
    """Contexts (10, 1), times (T,) and states (10, T, n) of the full model."""
    contexts = torch.from_numpy(SYSTEM.test_contexts())
    times = torch.arange(round(HORIZON / STEP) + 1, dtype=torch.float64) * STEP
    return contexts, times, SYSTEM.simulate(SYSTEM.settled_state(contexts), contexts, times).state


def follow(stacked: Projection, dynamics: str) -> dict[str, object]:
    """Valid prediction times (seed, context) and how many of the members diverge."""
    contexts, times, x = truth()
    stacked = stacked.double()
    c, x0 = contexts.expand(len(SEEDS), -1, -1), x[:, 0].expand(len(SEEDS), -1, -1)
    with torch.no_grad():
        P = stacked(c)
        solution = DYNAMICS[dynamics]().solve(P, SYSTEM.field(c), x0, times, RK4(STEP, label=dynamics))
        errors = nrmse(x, P.decode(solution.states), stacked.frame.state_std)
    return {
        "valid_time": valid_time(times, errors).tolist(),
        "valid_time_0.05": valid_time(times, errors, 0.05).tolist(),
        "diverged": int((solution.status != 0).sum()),
        "engine": solution.engine,
    }


def reconstruction(stacked: Projection) -> dict[str, object]:
    """Root mean square errors of each seed over the test set."""
    test = SYSTEM.dataset("test")
    x, v = (
        torch.from_numpy(test[name].values).float().expand(len(SEEDS), -1, -1, -1) for name in ("state", "velocity")
    )
    with torch.no_grad():
        position, velocity = (e.square().mean(-1).sqrt() for e in reconstruction_rmse(stacked(test), x, v))
    return {"position_rmse": position.tolist(), "velocity_rmse": velocity.tolist()}


def _load() -> dict[str, object]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def _add(name: str, result: dict[str, object]) -> None:
    with atomic(RESULTS) as temporary:
        temporary.write_text(json.dumps(_load() | {name: result}, indent=1) + "\n")
    medians = {k: float(np.median(r["valid_time"])) for k, r in result["rollouts"].items()}
    print(name, medians, {k: r["diverged"] for k, r in result["rollouts"].items()}, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
