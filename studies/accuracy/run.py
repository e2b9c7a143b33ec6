"""How accurate the quick preset is, how long it takes, and whether any seed diverges.

python -m studies.accuracy.run solo                     # median of three seeds, each trained alone
python -m studies.accuracy.run stack ncae ncae-bias     # ten seeds stacked, these methods, both systems
python -m studies.accuracy.run data-seeds               # Lorenz96 over five training sets

Every result is added to results.json as soon as it is there; a result that is there is not computed again.
"""

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.core import runtime
from romkit.core.files import atomic
from romkit.metrics import reconstruction_rmse
from romkit.projections import Projection
from romkit.projections.constrained import Constrained
from romkit.systems import SYSTEMS

RESULTS = Path(__file__).parent / "results.json"
SWITCH = 3.165
"""F at which the wave number of Lorenz96 changes from 8 to 7."""
MARGIN = 0.004
"""Distance from the switch, and from gaps in the training contexts, at which a test context counts as covered."""
WIDE = 0.008
"""An interval without a training context that is wider than this is a gap."""
METHODS = ("ncae", "ncae-bias", "ncae-slope", "cae")
DATA_SEEDS = (15, 1, 11, 18, 3)
"""Training sets of Lorenz96; the first has the narrowest widest gap of the seeds 0 to 29, and none at the switch."""


def main(arguments: list[str]) -> None:
    what, *methods = arguments or ["stack"]
    if what == "solo":
        for system in ("lorenz96", "pendulum"):
            for seed in range(3):
                measure(system, "ncae", seeds=[seed], data_seed=0)
    elif what == "data-seeds":
        for data_seed in DATA_SEEDS:
            measure("lorenz96", "ncae", seeds=range(10), data_seed=data_seed)
    else:
        for method in methods or METHODS:
            for system in ("lorenz96", "pendulum"):
                measure(system, method, seeds=range(10), data_seed=0)


def measure(system_name: str, method: str, *, seeds: list[int] | range, data_seed: int) -> None:
    """Train, evaluate on the paper's test set, and add the result."""
    key = f"{system_name}/{method}/seeds {seeds[0]}-{seeds[-1]}/data {data_seed}"
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if key in results:
        return
    system = SYSTEMS[system_name]()
    train = system.dataset("train", seed=data_seed)
    started, cpu = time.perf_counter(), time.process_time()
    stacked = romkit.fit(method, train, seeds=seeds)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    test = system.dataset("test").isel(time=slice(None, None, 1 if system_name == "lorenz96" else 10))
    result = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "diverged": [r["diverged"] for r in stacked.report["seeds"]],
        "recipe": stacked.report["seeds"][0]["recipe"],
        "final_loss": [r["losses"][-1] for r in stacked.report["seeds"]],
        **evaluate(stacked, test, covered(system_name, train, test)),
        "condition_numbers": conditioning(stacked),
        "device": runtime.device_name("cpu"),
        "versions": runtime.versions(),
    }
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with atomic(RESULTS) as temporary:
        temporary.write_text(json.dumps(results | {key: result}, indent=1) + "\n")
    print(key, json.dumps({k: result[k] for k in ("seconds", "position_rmse", "velocity_rmse", "covered")}), flush=True)


def evaluate(stacked: Projection, test: xr.Dataset, mask: np.ndarray) -> dict[str, object]:
    """Root mean square errors of each seed over all test contexts, over the covered ones, and per context."""
    x, v = (torch.from_numpy(test[name].values).float().unsqueeze(0) for name in ("state", "velocity"))
    with torch.no_grad():
        errors = reconstruction_rmse(stacked(test), *(a.expand(stacked.seeds, -1, -1, -1) for a in (x, v)))
    position, velocity = (e.square() for e in errors)
    over = lambda e: e.mean(-1).sqrt().tolist()  # noqa: E731
    return {
        "position_rmse": over(position),
        "velocity_rmse": over(velocity),
        "covered": {"position_rmse": over(position[:, mask]), "velocity_rmse": over(velocity[:, mask])},
        "position_rmse_by_context": position.mean(0).sqrt().tolist() if len(mask) < 20 else None,
    }


def covered(system_name: str, train: xr.Dataset, test: xr.Dataset) -> np.ndarray:
    """Which test contexts are away from the switch and from gaps of the training set; all of them for the pendulum."""
    if system_name != "lorenz96":
        return np.ones(test.sizes["trajectory"], dtype=bool)
    F, known = test.F.values, np.sort(train.F.values)
    away = np.abs(F - SWITCH) >= MARGIN
    for low, high in pairwise(known):
        if high - low > WIDE:
            away &= (low >= F) | (high <= F)
    return away


def conditioning(stacked: Projection) -> list[float] | None:
    """Largest condition number of Φ and Ψ over the layers, for each seed."""
    if not isinstance(stacked, Constrained):
        return None
    worst = [torch.stack([torch.linalg.cond(w) for w in weight()]).amax(0) for weight in stacked.weights]
    return torch.stack(worst).amax(0).tolist()


if __name__ == "__main__":
    main(sys.argv[1:])
