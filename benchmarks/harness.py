"""Harness of all benchmarks: command line, presets, resuming, clocks, rates of the machine, agreement."""

import argparse
import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from romkit.core import runtime
from romkit.engine.threads import one_thread
from studies.report import write_text

XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"
LARGE = {"cpu": 1024, "cuda": 8192}
"""Size of the square matrices whose product runs at the highest rate of a core, or of a GPU."""

Result = dict[str, object]
Times = dict[str, list[tuple[float, float]]]
"""CPU and wall seconds of each round, by contestant."""


class Disagreement(AssertionError):
    """Contestants that do not compute the same."""


def command(
    folder: Path,
    presets: Mapping[str, object],
    measure: Callable,
    page: Callable,
    packages: Sequence[str] = (),
    devices: Sequence[str] = ("cpu",),
) -> Path:
    """Command line of a benchmark: `python -m benchmarks.NAME [full|smoke] [--device cpu|cuda]`.

    The preset "full" writes into the benchmark's folder, any other into runs/benchmarks/NAME. Returns that folder.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{folder.name}")
    parser.add_argument("preset", nargs="?", default="full", choices=presets)
    parser.add_argument("--device", default="cpu", choices=devices)
    given = parser.parse_args()
    target = folder if given.preset == "full" else Path("runs", "benchmarks", folder.name)
    target.mkdir(parents=True, exist_ok=True)
    keep_to_one_core()
    run(presets[given.preset], measure, page, target, given.device, packages)
    return target


def run(
    config: object, measure: Callable, page: Callable, folder: Path, device: str = "cpu", packages: Sequence[str] = ()
) -> Result:
    """Measure on one thread; write results.json after each part, and RESULTS.md (with "-cuda" for a GPU) at the end.

    Args:
        config: dataclass with the size of the benchmark.
        measure: (config, device, results so far) -> generator that adds parts to the results and yields after each.
            Parts that are there already are skipped, so that an interrupted run goes on.
        page: results -> text of RESULTS.md.
        folder: target of both files.
        device: "cpu" or "cuda".
        packages: names of rivals whose versions are recorded.
    """
    about = {
        "config": dataclasses.asdict(config),
        "device": runtime.device_name(device),
        "clock": clock_of(device),
        "versions": runtime.versions(*packages),
        "xla_flags": [XLA_FLAGS],
    }
    about = json.loads(json.dumps(about))  # as it is read back: lists for tuples
    file = folder / f"results{_suffix(device)}.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if found.get("complete", True) or {key: found[key] for key in about} != about:
        found = about | {"complete": False}
    with one_thread():
        for _ in measure(config, device, found):
            write_text(file, json.dumps(found, indent=1) + "\n")
    write_text(file, json.dumps(found | {"complete": True}, indent=1) + "\n")
    found = json.loads(file.read_text(encoding="utf-8"))
    print(write_text(folder / f"RESULTS{_suffix(device)}.md", page(found)).read_text(encoding="utf-8"))
    return found


def report(folder: Path, page: Callable[[Result], str]) -> None:
    """Write RESULTS.md again from results.json, and RESULTS-cuda.md where there are results of a GPU."""
    for suffix in map(_suffix, LARGE):
        file = folder / f"results{suffix}.json"
        if file.exists():
            write_text(folder / f"RESULTS{suffix}.md", page(json.loads(file.read_text(encoding="utf-8"))))


def _suffix(device: str) -> str:
    return "" if device == "cpu" else f"-{device}"


def used(found: Result, *packages: str) -> str:
    """Versions of packages for a page."""
    versions = found["versions"]
    return ", ".join(f"{name} {versions[name]}" for name in packages if name in versions)


def keep_to_one_core() -> None:
    """Bind the process, with the threads of XLA if JAX is imported later, to the last core that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"XLA_FLAGS": XLA_FLAGS, "JAX_PLATFORMS": "cpu"}


def timed(work: Callable[[], object], device: str = "cpu") -> tuple[float, float]:
    """CPU and wall time in seconds, until the device has finished."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.process_time() - cpu, time.perf_counter() - wall


def in_turns(contestants: Mapping[str, Callable[[], object]], repeats: int, device: str = "cpu") -> Times:
    """Times of all contestants in rounds, so that other load of the machine meets all of them."""
    rounds = [{name: timed(run, device) for name, run in contestants.items()} for _ in range(repeats)]
    return {name: [each[name] for each in rounds] for name in contestants}


def clock_of(device: str) -> str:
    """Clock of a device: CPU time for a core; on a GPU, for which the processor only waits, wall time."""
    return "wall" if device == "cuda" else "cpu"


def summary(times: Sequence[tuple[float, float]], scale: float, unit: str, device: str = "cpu") -> dict[str, float]:
    """Medians of CPU and wall time, and range of the device's clock, in a unit of which a second has `scale`."""
    columns = dict(zip(("cpu", "wall"), ([t * scale for t in each] for each in zip(*times, strict=True)), strict=True))
    counting = columns[clock_of(device)]
    found = {name: statistics.median(each) for name, each in columns.items()}
    return {f"{name}_{unit}": x for name, x in (found | {"low": min(counting), "high": max(counting)}).items()}


def median_seconds(work: Callable[[], object], repeats: int, device: str = "cpu") -> float:
    """Median time by the clock of the device, after one run to warm up."""
    timed(work, device)
    return summary([timed(work, device) for _ in range(repeats)], 1.0, "s", device)[f"{clock_of(device)}_s"]


def peak_rate(like: Tensor, repeats: int) -> float:
    """Floating-point operations per second of a large matrix product, with dtype and device of `like`."""
    size, device = LARGE[like.device.type], like.device.type
    a, b, result = (torch.randn(size, size, dtype=like.dtype, device=device) for _ in range(3))
    return 2 * size**3 / median_seconds(partial(torch.matmul, a, b, out=result), repeats, device)


def copy_rate(numbers: int, like: Tensor, repeats: int) -> float:
    """Bytes per second, read and written, of copies of so many numbers."""
    source = torch.randn(numbers, dtype=like.dtype, device=like.device)
    target, device = torch.empty_like(source), like.device.type
    seconds = median_seconds(lambda: [target.copy_(source) for _ in range(100)], repeats, device)
    return 2 * source.element_size() * numbers * 100 / seconds


def close(what: str, found: Tensor, expected: Tensor, tolerance: float) -> float:
    """Largest difference, relative to the largest entry.

    Raises:
        Disagreement: it exceeds the tolerance.
    """
    difference = float((found.to(expected.device) - expected).abs().max() / expected.abs().max())
    if not difference <= tolerance:
        raise Disagreement(f"{what} differs by {difference:.1e} of the largest entry, over {tolerance:.0e}")
    return difference


Parts = Iterator[None]
"""Return type of `measure`."""
