"""Seed-steps per second against the number of stacked seeds, eager and on the fast path.

python -m benchmarks.training.throughput           # on the GPU if there is one
python -m benchmarks.training.throughput cpu

Writes throughput.json; an entry is a system, a device and a number of seeds.
"""

import json
import sys
from functools import partial
from pathlib import Path

import torch

from benchmarks.harness import in_turns, summary
from benchmarks.ncae import make_problem
from benchmarks.training.contestants import SHORT
from romkit.core import runtime
from romkit.engine.captured import Captured
from romkit.engine.inductor import Traced
from romkit.engine.threads import one_thread
from romkit.training.optimizers import Adam, Step
from studies.report import write_text

RESULTS = Path(__file__).parent / "throughput.json"
SEEDS, STEPS, REPEATS = (10, 70, 700), 50, 5


def measure(system: str, seeds: int, device: str, steps: int = STEPS) -> dict[str, object]:
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
    if device == "cuda":
        ways |= {"captured": Captured(step), "compiled and captured": Captured(compiled)}
    start, batch = optimizer.start(flat.read(), flat), next(problem.batches())
    rate = torch.full((seeds, 1), 1e-3, device=device)

    def run(way: Step) -> None:
        state = start
        for _ in range(steps):
            state, _ = way(state, rate, *batch)

    runs = {name: partial(run, way) for name, way in ways.items()}
    in_turns(runs, 1, device)  # compiles
    times = {name: summary(rounds, 1.0, "s")["wall_s"] for name, rounds in in_turns(runs, REPEATS, device).items()}
    rates = {name: seeds * steps / seconds for name, seconds in times.items()}
    return {"seed_steps_per_second": rates, "device": runtime.device_name(device), "versions": runtime.versions()}


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"
    for system in SHORT:
        for seeds in SEEDS:
            with one_thread():
                entry = {f"{system}/{device}/{seeds} seeds": measure(system, seeds, device)}
            found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            write_text(RESULTS, json.dumps(found | entry, indent=1) + "\n")
            print(json.dumps(entry), flush=True)
