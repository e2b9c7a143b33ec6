"""Time all contestants on both systems, in turns, on one core."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import XLA_FLAGS, keep_jax_to_one_core, summary, timed
from benchmarks.training import report
from benchmarks.training.agreement import check_jax, check_jax_step, check_plain
from benchmarks.training.cold import cold_seconds
from benchmarks.training.contestant import Contestant
from benchmarks.training.engine import Engine
from benchmarks.training.floor import floor
from benchmarks.training.plain import Plain
from benchmarks.training.problem import Problem, make_problem
from romkit.core import runtime
from romkit.core.files import atomic
from romkit.engine.threads import one_thread

RESULTS = Path(__file__).parent / "results.json"


@dataclass(frozen=True)
class Config:
    """Size of the benchmark: `duration` of the trajectories in the systems' own units, None for the whole set."""

    seeds: int = 10
    batch_size: int = 128
    steps: int = 70
    plain_steps: int = 10
    repeats: int = 9
    duration: float | None = None
    optimizers: tuple[str, ...] = ("adam", "riemannian-adam")
    compiled: tuple[bool, ...] = (False, True)
    jax: bool = True


CONFIGS = {
    "full": Config(),
    "smoke": Config(seeds=2, steps=2, plain_steps=2, repeats=2, duration=0.2, compiled=(False,), jax=False),
}


def main(config: Config, results: Path = RESULTS) -> None:
    """Check, time, write results.json and RESULTS.md beside it, and print the latter."""
    keep_jax_to_one_core()
    systems = {}
    with one_thread():
        for system in ("lorenz96", "pendulum"):
            systems[system] = measure(
                make_problem(system, range(config.seeds), config.batch_size, config.duration), config
            )
            print(system, json.dumps(systems[system], indent=1), flush=True)
    found = {
        "config": dataclasses.asdict(config),
        "systems": systems,
        "device": runtime.device_name("cpu"),
        "versions": runtime.versions("jax"),
        "xla_flags": list(XLA_FLAGS),
    }
    with atomic(results) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")
    report.write(results.parent)
    print(results.with_name("RESULTS.md").read_text())


def measure(problem: Problem, config: Config) -> dict[str, object]:
    """Milliseconds per seed and step, after all contestants have shown that they compute the same."""
    check_plain(problem)
    if config.jax:
        check_jax(problem)
        for optimizer in config.optimizers:
            check_jax_step(problem, optimizer)
    contestants = make_contestants(problem, config)
    starts = {contestant.name: timed(contestant.run)[1] for contestant in contestants}
    for name in starts:
        if name.endswith(("compiled", "jit(scan)")):
            starts[name] = cold_seconds(problem.system, config.seeds, config.batch_size, name)
    rounds = [{c.name: timed(c.run) for c in contestants} for _ in range(config.repeats)]
    return {
        "rows": len(problem.rows.y),
        "layers": list(problem.models[0].config["layers"]),
        "parameters": sum(p.numel() for p in problem.models[0].parameters() if p.requires_grad),
        "contestants": {
            c.name: {"start_s": starts[c.name]}
            | summary([r[c.name] for r in rounds], 1e3 / (c.steps * config.seeds), "ms")
            for c in contestants
        },
        "floor": floor(problem, config.repeats),
    }


def make_contestants(problem: Problem, config: Config) -> list[Contestant]:
    contestants: list[Contestant] = [Plain(problem, config.plain_steps)]
    for optimizer in config.optimizers:
        contestants += [Engine(problem, config.steps, optimizer=optimizer, compiled=c) for c in config.compiled]
    if config.jax:
        from benchmarks.training.xla import XLA

        contestants += [XLA(problem, config.steps, optimizer=optimizer) for optimizer in config.optimizers]
    return contestants
