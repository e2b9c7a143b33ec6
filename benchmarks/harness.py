"""Harness of all benchmarks: presets, resuming, pages, clocks, rates of the machine, agreement."""

import importlib
import json
import os
import statistics
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from romkit.core import runtime
from romkit.engine.threads import one_thread
from studies.report import save_png, write_text

HERE = Path(__file__).parent
XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"
LARGE = {"cpu": 1024, "cuda": 8192}
"""Size of the square matrices whose product runs at the highest rate of a core, or of a GPU."""

Config = dict[str, object]
Result = dict[str, object]
Times = dict[str, list[tuple[float, float]]]
"""CPU and wall seconds of each round, by contestant."""


class Disagreement(AssertionError):
    """Contestants that do not compute the same."""


def preset(name: str, which: str) -> Config:
    """Return size of a benchmark, "full" or "smoke": a table of its presets.toml."""
    return tomllib.loads((HERE / name / "presets.toml").read_text(encoding="utf-8"))[which]


def run(name: str, config: Config, folder: Path, device: str = "cpu") -> Result:
    """Measure on one thread; write results.json after each part, and the pages at the end.

    `benchmarks.NAME.run` has `measure(config, device, results so far)`, a generator that adds parts
    to the results and yields after each. Parts that are there already are skipped, so that an
    interrupted run goes on. PACKAGES in it are rivals whose versions are recorded.

    Args:
        name: of the benchmark.
        config: size of the benchmark.
        folder: of results and pages; it is made.
        device: "cpu" or "cuda".
    """
    measuring = importlib.import_module(f"benchmarks.{name}.run")
    about = {
        "config": config,
        "device": runtime.device_name(device),
        "clock": clock_of(device),
        "versions": runtime.versions(*getattr(measuring, "PACKAGES", ())),
        "xla_flags": [XLA_FLAGS],
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"results{_suffix(device)}.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if found.get("complete", True) or {key: found[key] for key in about} != about:
        found = about | {"complete": False}
    with one_thread():
        for _ in measuring.measure(SimpleNamespace(**config), device, found):
            write_text(file, json.dumps(found, indent=1) + "\n")
    write_text(file, json.dumps(found | {"complete": True}, indent=1) + "\n")
    report(name, folder)
    return json.loads(file.read_text(encoding="utf-8"))


def report(name: str, folder: Path) -> None:
    """Write pages from results.json and, where there are results of a GPU, results-cuda.json.

    `benchmarks.NAME.report` has `page(results)` and may have `draw(results)`, pictures by the names
    of their files.
    """
    reporting = importlib.import_module(f"benchmarks.{name}.report")
    for suffix in map(_suffix, LARGE):
        if (file := folder / f"results{suffix}.json").exists():
            found = json.loads(file.read_text(encoding="utf-8"))
            text = reporting.page(found)
            print(write_text(folder / f"RESULTS{suffix}.md", text), text, sep="\n\n")
            for picture, figure in (
                reporting.draw(found).items() if hasattr(reporting, "draw") else ()
            ):
                save_png(figure, folder / picture)


def _suffix(device: str) -> str:
    return "" if device == "cpu" else f"-{device}"


def used(found: Result, *packages: str) -> str:
    """Versions of packages for a page."""
    versions = found["versions"]
    return ", ".join(f"{name} {versions[name]}" for name in packages if name in versions)


def keep_to_one_core() -> None:
    """Bind the process, with the threads of XLA if JAX is imported later, to the last core that it
    may use.
    """
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


def in_turns(
    contestants: Mapping[str, Callable[[], object]], repeats: int, device: str = "cpu"
) -> Times:
    """Return times of all contestants in rounds, so that other load of the machine meets all of
    them.
    """
    rounds = [
        {name: timed(run, device) for name, run in contestants.items()} for _ in range(repeats)
    ]
    return {name: [each[name] for each in rounds] for name in contestants}


def clock_of(device: str) -> str:
    """Clock of a device: CPU time for a core; on a GPU, for which the processor only waits, wall
    time.
    """
    return "wall" if device == "cuda" else "cpu"


def summary(
    times: Sequence[tuple[float, float]], scale: float, unit: str, device: str = "cpu"
) -> dict[str, float]:
    """Medians of CPU and wall time, and range of the device's clock, in a unit of which a second
    has `scale`.
    """
    columns = dict(
        zip(
            ("cpu", "wall"),
            ([t * scale for t in each] for each in zip(*times, strict=True)),
            strict=True,
        )
    )
    counting = columns[clock_of(device)]
    found = {name: statistics.median(each) for name, each in columns.items()}
    return {
        f"{name}_{unit}": x
        for name, x in (found | {"low": min(counting), "high": max(counting)}).items()
    }


def median_seconds(work: Callable[[], object], repeats: int, device: str = "cpu") -> float:
    """Median time by the clock of the device, after one run to warm up."""
    timed(work, device)
    return summary([timed(work, device) for _ in range(repeats)], 1.0, "s", device)[
        f"{clock_of(device)}_s"
    ]


def peak_rate(like: Tensor, repeats: int) -> float:
    """Floating-point operations per second of a large matrix product, with dtype and device of
    `like`.
    """
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
    """Return largest difference, relative to the largest entry.

    Raises:
        Disagreement: it exceeds the tolerance.
    """
    difference = float((found.to(expected.device) - expected).abs().max() / expected.abs().max())
    if not difference <= tolerance:
        raise Disagreement(
            f"{what} differs by {difference:.1e} of the largest entry, over {tolerance:.0e}"
        )
    return difference


Parts = Iterator[None]
"""Return type of `measure`."""
