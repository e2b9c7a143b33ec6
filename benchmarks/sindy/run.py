"""Time romkit and pysindy on the same problems, in turns, on one core."""

import dataclasses
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import keep_to_one_core, timed
from benchmarks.sindy import report
from benchmarks.sindy.contestants import check, make_contestants
from benchmarks.sindy.problem import make_problem
from romkit.core import runtime
from romkit.core.files import atomic
from romkit.engine.threads import one_thread

RESULTS = Path(__file__).parent / "results.json"


@dataclass(frozen=True)
class Config:
    """Size of the benchmark: `cases` are pairs of problems and samples of each."""

    cases: tuple[tuple[int, int], ...] = ((1, 50_000), (20, 50_000), (20, 2_000))
    degree: int = 3
    repeats: int = 15


CONFIGS = {"full": Config(), "smoke": Config(cases=((1, 500), (2, 500)), repeats=2)}


def main(config: Config, results: Path = RESULTS) -> None:
    """Check, time, write results.json and RESULTS.md beside it, and print the latter."""
    keep_to_one_core()
    with one_thread():
        cases = [measure(config, *case) for case in config.cases]
    found = {
        "config": dataclasses.asdict(config),
        "cases": cases,
        "device": runtime.device_name("cpu"),
        "versions": runtime.versions(),
    }
    with atomic(results) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")
    page = report.page(found)
    with atomic(results.with_name("RESULTS.md")) as temporary:
        temporary.write_text(page)
    print(page)


def measure(config: Config, problems: int, samples: int) -> dict[str, object]:
    """Times of all contestants on one case, after all have shown that they find the same."""
    contestants = make_contestants(make_problem(problems, samples), config.degree)
    difference = check(contestants)
    rounds = [{name: timed(fit) for name, fit in contestants.items()} for _ in range(config.repeats)]
    times = {name: _summary([r[name] for r in rounds]) for name in contestants}
    return {"problems": problems, "samples": samples, "difference": difference, "contestants": times}


def _summary(times: list[tuple[float, float]]) -> dict[str, float]:
    """Milliseconds: least and median CPU time and least wall time. The least is what other work disturbs least."""
    cpu, wall = ([t * 1e3 for t in column] for column in zip(*times, strict=True))
    return {"cpu_ms": min(cpu), "median_ms": statistics.median(cpu), "wall_ms": min(wall)}
