"""Race all contestants on both systems, on one core; a result that is in results.json is not computed again."""

import dataclasses
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.optimizers import report
from benchmarks.optimizers.contestants import CONTESTANTS
from benchmarks.optimizers.problem import PAPER, Problem, make_problem
from benchmarks.optimizers.race import Contestant, Race
from romkit import provenance
from romkit.errors import FileError
from romkit.files import atomic
from romkit.threads import one_thread

RESULTS = Path(__file__).parent / "results.json"


@dataclass(frozen=True)
class Config:
    """Size of the benchmark.

    Attributes:
        seeds: models of a stack.
        budgets: CPU seconds of each contestant, by system.
        trial_share: part of the budget that all trials of the learning rate take together.
        samples: how often a contestant is judged on the way.
        test_every: takes each such time of the test set, by system.
        short: settings of the systems that make their data cheaper.
        compiled: whether steps are compiled; the time that takes is not counted.
        contestants: names from `CONTESTANTS`.
    """

    seeds: int = 3
    budgets: dict[str, float] = dataclasses.field(default_factory=lambda: {"lorenz96": 60.0, "pendulum": 90.0})
    trial_share: float = 0.2
    samples: int = 20
    test_every: dict[str, int] = dataclasses.field(default_factory=lambda: {"lorenz96": 5, "pendulum": 30})
    short: dict[str, dict[str, float]] = dataclasses.field(default_factory=lambda: {"lorenz96": {}, "pendulum": {}})
    compiled: bool = True
    contestants: tuple[str, ...] = tuple(CONTESTANTS)


CONFIGS = {
    "full": Config(),
    "smoke": Config(
        seeds=2,
        budgets={"lorenz96": 0.5, "pendulum": 0.5},
        samples=2,
        test_every={"lorenz96": 100, "pendulum": 100},
        short={"lorenz96": {"transient": 5.0, "duration": 0.5}, "pendulum": {"duration": 0.5}},
        compiled=False,
    ),
}


def main(config: Config, results: Path = RESULTS) -> None:
    """Race, add each result to results.json, and write RESULTS.md and curves.png beside it.

    Raises:
        FileError: results.json holds a race of another size.
    """
    stay_on_one_core()
    found = _opened(config, results)
    with one_thread():
        for system in config.budgets:
            missing = [name for name in config.contestants if name not in found["systems"].get(system, {})]
            problem = missing and make_problem(
                system, range(config.seeds), config.test_every[system], config.short[system]
            )
            for name in missing:
                result = measure(problem, CONTESTANTS[name], config)
                found["systems"].setdefault(system, {})[name] = result
                with atomic(results) as temporary:
                    temporary.write_text(json.dumps(found, indent=1) + "\n")
                print(system, name, json.dumps(result["curve"][-1]), flush=True)
    report.write(found, results.parent)


def stay_on_one_core() -> None:
    """The process on the last of the cores that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def measure(problem: Problem, contestant: Contestant, config: Config) -> dict[str, object]:
    """The race of one contestant, at the learning rate that ends lowest in short trials."""
    torch.compiler.reset()
    started = time.process_time()
    race = Race(problem, contestant, compiled=config.compiled)
    budget = config.budgets[problem.system]
    share = config.trial_share * budget / len(contestant.learning_rates)
    trials = {rate: race.run(rate, share, samples=1)["curve"][-1]["loss"] for rate in contestant.learning_rates}
    chosen = min(trials, key=lambda rate: _geometric_mean(trials[rate]))
    return {
        "learning_rate": chosen,
        "trials": [{"learning_rate": rate, "loss": loss} for rate, loss in trials.items()],
        "start_s": race.start_seconds,
        **race.run(chosen, budget, config.samples),
        "all_s": time.process_time() - started,
    }


def _geometric_mean(losses: Sequence[float]) -> float:
    """Infinite where a loss is not finite."""
    return math.prod(losses) ** (1 / len(losses)) if all(map(math.isfinite, losses)) else math.inf


def _opened(config: Config, results: Path) -> dict[str, object]:
    """What results.json holds so far, or a fresh page."""
    sizes = json.loads(json.dumps({k: v for k, v in dataclasses.asdict(config).items() if k != "contestants"}))
    about = {
        "config": sizes,
        "paper": PAPER,
        "device": provenance.device_name("cpu"),
        "versions": provenance.versions(),
    }
    if not results.exists():
        return {**about, "systems": {}}
    found = json.loads(results.read_text())
    if found["config"] != sizes:
        raise FileError(results, problem="holds a race of another size", fix="delete it to start again")
    return found
