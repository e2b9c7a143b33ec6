"""Race all contestants on both systems, in one thread; a result that is in results.json is not computed again."""

import dataclasses
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.optimizers import report
from benchmarks.optimizers.contestants import CONTESTANTS, QUICK
from benchmarks.optimizers.problem import PAPER, Problem, make_problem
from benchmarks.optimizers.race import Contestant, Race, paces
from romkit.core import runtime
from romkit.core.errors import FileError
from romkit.core.files import atomic
from romkit.engine.threads import one_thread

RESULTS = Path(__file__).parent / "results.json"
MARGIN = 1.1
"""Of the training loss, within which trials count as equal."""


@dataclass(frozen=True)
class Config:
    """Size of the benchmark.

    Attributes:
        seeds: models of a stack.
        budgets: CPU seconds of each contestant, by system.
        trial_share: part of the budget that each trial of a learning rate takes.
        window, windows: CPU seconds of a timing, and how many are made in turns with the quick recipe.
        samples: how often a contestant is judged on the way.
        test_every: takes each such time of the test set, by system.
        short: settings of the systems that make their data cheaper.
        compiled: whether steps are compiled; the time that takes is not counted.
        contestants: names from `CONTESTANTS`.
    """

    seeds: int = 3
    budgets: dict[str, float] = dataclasses.field(default_factory=lambda: {"lorenz96": 60.0, "pendulum": 90.0})
    trial_share: float = 0.125
    window: float = 0.25
    windows: int = 9
    samples: int = 20
    test_every: dict[str, int] = dataclasses.field(default_factory=lambda: {"lorenz96": 5, "pendulum": 30})
    short: dict[str, dict[str, float]] = dataclasses.field(default_factory=lambda: {"lorenz96": {}, "pendulum": {}})
    compiled: bool = True
    contestants: tuple[str, ...] = tuple(CONTESTANTS)


CONFIGS = {
    "full": Config(),
    "smoke": Config(
        seeds=2,
        budgets={"lorenz96": 0.05, "pendulum": 0.05},
        samples=2,
        window=0.02,
        windows=1,
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
    found = _opened(config, results)
    missing = [(n, s) for n in config.contestants for s in config.budgets if n not in found["systems"].get(s, {})]
    with one_thread():
        problems = {
            system: make_problem(system, range(config.seeds), config.test_every[system], config.short[system])
            for system in {system for _, system in missing}
        }
        for name, system in missing:
            result = measure(problems[system], CONTESTANTS[name], found["quick_s"].get(system), config)
            found["quick_s"].setdefault(system, result["step_s"])
            found["systems"].setdefault(system, {})[name] = result
            with atomic(results) as temporary:
                temporary.write_text(json.dumps(found, indent=1) + "\n")
            print(system, name, json.dumps(result["curve"][-1]), flush=True)
    report.write(found, results.parent)


def measure(problem: Problem, contestant: Contestant, quick_s: float | None, config: Config) -> dict[str, object]:
    """The race of one contestant, at the learning rate that short trials choose.

    Args:
        problem: what it trains.
        contestant: who.
        quick_s: CPU seconds that a step of the quick recipe counts; None to take what it needs now.
        config: size of the benchmark.
    """
    torch.compiler.reset()
    started = time.process_time()
    race = Race(problem, contestant, compiled=config.compiled)
    quick = Race(problem, CONTESTANTS[QUICK], compiled=config.compiled)
    now, pace = paces([quick, race], config.window, config.windows)
    step_s = pace / now * (quick_s or now)
    steps = max(1, round(config.budgets[problem.system] / step_s))
    short = max(1, round(config.trial_share * steps))
    trials = {rate: race.run(rate, short, samples=1)["curve"][-1]["loss"] for rate in contestant.learning_rates}
    chosen = choose(trials)
    return {
        "learning_rate": chosen,
        "trials": [{"learning_rate": rate, "loss": loss} for rate, loss in trials.items()],
        "start_s": race.start_seconds,
        "step_s": step_s,
        **race.run(chosen, steps, config.samples),
        "all_s": time.process_time() - started,
    }


def choose(trials: dict[float, Sequence[float]]) -> float:
    """The smallest rate whose losses come within `MARGIN` of the best: short runs are kind to large rates."""
    means = {rate: _geometric_mean(losses) for rate, losses in trials.items()}
    return min(rate for rate, mean in means.items() if mean <= MARGIN * min(means.values()))


def _geometric_mean(losses: Sequence[float]) -> float:
    """Infinite where a loss is not finite."""
    return math.prod(losses) ** (1 / len(losses)) if all(map(math.isfinite, losses)) else math.inf


def _opened(config: Config, results: Path) -> dict[str, object]:
    """What results.json holds so far, or a fresh page."""
    sizes = json.loads(json.dumps({k: v for k, v in dataclasses.asdict(config).items() if k != "contestants"}))
    if not results.exists():
        device, versions = runtime.device_name("cpu"), runtime.versions()
        about = {"config": sizes, "paper": PAPER, "device": device, "versions": versions}
        return {**about, "quick_s": {}, "systems": {}}
    found = json.loads(results.read_text())
    if found["config"] != sizes:
        raise FileError(results, problem="holds a race of another size", fix="delete it to start again")
    return found
