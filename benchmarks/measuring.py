"""How all benchmarks measure: on one core, in CPU time, and into a file as a whole."""

import os
import statistics
import time
from collections.abc import Callable


def keep_to_one_core() -> None:
    """The process, with all of its threads, on the last of the cores that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall time in seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    """Median CPU time, after a first run that does not count."""
    work()
    return statistics.median(timed(work)[0] for _ in range(repeats))
