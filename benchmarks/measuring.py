"""How all benchmarks measure: on one core in CPU time or on a GPU by the wall's clock, and into a file as a whole."""

import os
import statistics
import time
from collections.abc import Callable, Sequence

import torch

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


def timed(work: Callable[[], object], device: str = "cpu") -> tuple[float, float]:
    """CPU and wall time in seconds, until the device has finished."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.process_time() - cpu, time.perf_counter() - wall


def clock_of(device: str) -> str:
    """The time that counts: a core's own, and on a GPU, where the processor only waits, the wall's."""
    return "wall" if device == "cuda" else "cpu"


def median_seconds(work: Callable[[], object], repeats: int, device: str = "cpu") -> float:
    """Median time by the clock of the device, after a first run that does not count."""
    timed(work, device)
    column = ("cpu", "wall").index(clock_of(device))
    return statistics.median(timed(work, device)[column] for _ in range(repeats))


def summary(times: Sequence[tuple[float, float]], scale: float, unit: str, device: str = "cpu") -> dict[str, float]:
    """Medians of CPU and wall time, and the range of what counts, in a unit that one second has `scale` of."""
    columns = {
        name: [t * scale for t in column]
        for name, column in zip(("cpu", "wall"), zip(*times, strict=True), strict=True)
    }
    counting = columns[clock_of(device)]
    found = {name: statistics.median(column) for name, column in columns.items()}
    found |= {"low": min(counting), "high": max(counting)}
    return {f"{name}_{unit}": value for name, value in found.items()}
