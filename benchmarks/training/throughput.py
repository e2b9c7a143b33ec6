"""Seed-steps per second against the number of stacked seeds, eager and on the fast path, on any device.

python -m benchmarks.training.throughput           # on the GPU if there is one
python -m benchmarks.training.throughput cpu

Writes throughput.json; an entry is a system, a device and a number of seeds.
"""

import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.ncae import make_problem
from benchmarks.training.contestants import SHORT
from romkit.core import runtime
from romkit.engine.captured import Captured
from romkit.engine.inductor import Traced
from romkit.engine.threads import one_thread
from romkit.training.optimizers import Adam, Step
from studies.report import write_text

RESULTS = Path(__file__).parent / "throughput.json"


def main(device: torch.device, seeds: Sequence[int] = (10, 70, 700), steps: int = 50, results: Path = RESULTS) -> None:
    """Time both systems with each number of seeds, and add the results to the file."""
    for system in SHORT:
        for number in seeds:
            with one_thread():
                entry = {f"{system}/{device.type}/{number} seeds": measure(system, number, device, steps)}
            found = json.loads(results.read_text()) if results.exists() else {}
            write_text(results, json.dumps(found | entry, indent=1) + "\n")
            print(json.dumps(entry), flush=True)


def measure(system: str, seeds: int, device: torch.device, steps: int, repeats: int = 5) -> dict[str, object]:
    """Median of seed-steps per second of each way, batch 128, with device and versions."""
    settings = SHORT[system] | {"duration": 1.0}
    problem = make_problem(system, range(seeds), batch_size=128, settings=settings)
    problem = problem._replace(rows=type(problem.rows)(*(tensor.to(device) for tensor in problem.rows)))
    objective, flat = problem.objective(problem.penalty_weight)
    objective.to(device)
    optimizer = Adam(clip=problem.plan.snapshots.clip)
    step = optimizer.make_step(flat.function(objective), flat)
    compiled = Traced(step)
    ways: dict[str, Step] = {"eager": step, "compiled": compiled}
    if device.type == "cuda":
        ways |= {"captured": Captured(step), "compiled and captured": Captured(compiled)}
    state, batch = optimizer.start(flat.read(), flat), next(problem.batches())
    rate = torch.full((seeds, 1), 1e-3, device=device)

    def run(way: Step) -> float:
        now, started = state, time.perf_counter()
        for _ in range(steps):
            now, losses = way(now, rate, *batch)
        losses.sum().item()  # waits for the device
        return seeds * steps / (time.perf_counter() - started)

    for way in ways.values():
        run(way)
    return {
        "seed_steps_per_second": {n: statistics.median(run(way) for _ in range(repeats)) for n, way in ways.items()},
        "device": runtime.device_name(device),
        "versions": runtime.versions(),
    }


if __name__ == "__main__":
    main(torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"))
