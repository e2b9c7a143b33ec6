"""How all benchmarks measure: on one core, in CPU time, and into a file as a whole."""

import os
import statistics
import time
from collections.abc import Callable, Sequence

XLA_FLAGS = ("--xla_cpu_multi_thread_eigen=false",)
"""XLA reads them when JAX starts."""


def keep_to_one_core() -> None:
    """The process, with all of its threads, on the last of the cores that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def keep_jax_to_one_core() -> None:
    """As `keep_to_one_core`, the threads of XLA included; to be called before JAX is imported."""
    keep_to_one_core()
    os.environ["XLA_FLAGS"] = " ".join(XLA_FLAGS)
    os.environ["JAX_PLATFORMS"] = "cpu"


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall time in seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    """Median CPU time, after a first run that does not count."""
    work()
    return statistics.median(timed(work)[0] for _ in range(repeats))


def summary(times: Sequence[tuple[float, float]], scale: float, unit: str) -> dict[str, float]:
    """Medians of CPU and wall time, and the range of the first, in a unit that one second has `scale` of."""
    cpu, wall = ([t * scale for t in column] for column in zip(*times, strict=True))
    found = {"cpu": statistics.median(cpu), "wall": statistics.median(wall), "low": min(cpu), "high": max(cpu)}
    return {f"{name}_{unit}": value for name, value in found.items()}
