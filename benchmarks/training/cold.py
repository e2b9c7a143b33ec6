"""Cold start: the first step of a contestant in a fresh process with empty caches.

python -m benchmarks.training.cold lorenz96 10 128 "romkit, adam, compiled"
"""

import os
import subprocess
import sys
import tempfile

from benchmarks.measuring import timed
from romkit.engine.threads import one_thread

DURATION = 0.2
"""Of the trajectories: a start does not depend on how many snapshots there are."""


def cold_seconds(system: str, seeds: int, batch_size: int, contestant: str) -> float:
    """Wall time of the first step on all cores of the machine, imports and data not included."""
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-m", "benchmarks.training.cold", system, str(seeds), str(batch_size), contestant]
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": empty}
        output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(output.split()[-1])


def main(system: str, seeds: int, batch_size: int, contestant: str) -> None:
    """Print the seconds of the first step."""
    if hasattr(os, "sched_setaffinity"):  # who started this may have kept to one core
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    from benchmarks.training.problem import make_problem
    from benchmarks.training.run import Config, make_contestants

    problem = make_problem(system, range(seeds), batch_size, DURATION)
    config = Config(seeds=seeds, batch_size=batch_size, steps=1, plain_steps=1, jax=contestant.startswith("JAX"))
    with one_thread():
        (chosen,) = (c for c in make_contestants(problem, config) if c.name == contestant)
        print(timed(chosen.run)[1])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
