"""Time all contestants on the same rollouts, in turns, on one core."""

import contextlib
import dataclasses
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from benchmarks.measuring import XLA_FLAGS, clock_of, keep_jax_to_one_core, summary, timed
from benchmarks.rollout import report, with_torch
from benchmarks.rollout.agreement import calibrate, check_fields, check_trajectories
from benchmarks.rollout.floor import floor
from benchmarks.rollout.printed import measure_printed
from benchmarks.rollout.problem import STEPS, Problem, make_problem
from benchmarks.rollout.size import measure_size
from benchmarks.rollout.with_torch import ROMKIT, Solve
from romkit.core import runtime
from romkit.core.files import atomic
from romkit.engine.compiled.build import _library
from romkit.engine.threads import one_thread

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """How many contexts, and for how many time units (of `STEPS` steps) romkit, JAX and the eager ones are timed."""

    contexts: int
    romkit: int = 100
    jax: int = 100
    eager: int = 2


@dataclass(frozen=True)
class Config:
    """Size of the benchmark.

    `sizes` are (n, contexts, intervals) of the cost against n, `printed` is the length of the rollout whose printed
    cost is checked; tolerances are found on `calibration` contexts and time units.
    """

    cases: tuple[Case, ...] = (Case(1), Case(100), Case(1000, jax=10))
    cuda_cases: tuple[Case, ...] = (Case(1, romkit=2), Case(1000, romkit=2), Case(10_000, romkit=2))
    sizes: tuple[tuple[int, int, int], ...] = (
        (36, 1, 500), (360, 1, 100), (3600, 1, 10), (36, 10, 200), (360, 10, 50), (3600, 10, 5),
    )  # fmt: skip
    printed: float = 100.0
    calibration: tuple[int, int] = (10, 10)
    repeats: int = 5
    jax: bool = True
    compiled_field: bool = True


CONFIGS = {
    "full": Config(),
    "smoke": Config(
        cases=(Case(1, romkit=50, jax=1, eager=1), Case(2, romkit=50, jax=1, eager=1)),
        cuda_cases=(Case(2, romkit=1, eager=1),),
        sizes=((36, 2, 2),),
        printed=10.0,
        calibration=(1, 1),
        repeats=2,
        compiled_field=False,
    ),
}


def main(config: Config, device: str = "cpu", folder: Path = FOLDER) -> None:
    """Check, time, write results.json and RESULTS.md into the folder, and print the latter."""
    keep_jax_to_one_core()
    with one_thread(), torch.no_grad():
        found = measure(config, device)
    suffix = "" if device == "cpu" else f"-{device}"
    with atomic(folder / f"results{suffix}.json") as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")
    report.write(folder)
    print(report.page(found))


@contextlib.contextmanager
def cold_start() -> Iterator[None]:
    """romkit and torch.compile find nothing that they compiled before."""
    caches = ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, dict.fromkeys(caches, folder)):
        _library.cache_clear()
        yield


def measure(config: Config, device: str) -> dict[str, object]:
    """Everything that the report needs."""
    adaptive = adaptive_solvers(config, device)
    small = make_problem(config.calibration[0])  # on the CPU, which is quicker for a few contexts
    calibrated = {name: calibrate(small, make, config.calibration[1]) for name, make in adaptive.items()}
    tolerances = {name: found["tolerance"] for name, found in calibrated.items()}
    cases = []
    for case in config.cases if device == "cpu" else config.cuda_cases:
        cases.append(measure_case(config, case, tolerances, device))
        print(json.dumps(cases[-1], indent=1), flush=True)
    sizes = config.sizes if device == "cpu" else ()
    return {
        "config": dataclasses.asdict(config),
        "calibration": calibrated,
        "cases": cases,
        "sizes": [measure_size(*size, config.repeats) for size in sizes],
        "printed": measure_printed(config.printed, config.repeats) if device == "cpu" else None,
        "device": runtime.device_name(device),
        "clock": clock_of(device),
        "versions": runtime.versions("torchode", "jax", "diffrax"),
        "xla_flags": list(XLA_FLAGS),
    }


def adaptive_solvers(config: Config, device: str) -> dict[str, Callable[[Problem, float], Solve]]:
    """Those with step-size control, by name."""
    found = {
        "torchdiffeq, dopri5": with_torch.torchdiffeq_dopri5,
        "torchode, dopri5": with_torch.torchode_dopri5,
    }
    if config.jax and device == "cpu":
        from benchmarks.rollout.with_jax import diffrax_dopri5

        found["diffrax, Dopri5, adaptive"] = diffrax_dopri5
    return found


def make_solvers(
    config: Config, case: Case, problem: Problem, tolerances: dict[str, float]
) -> dict[str, tuple[Solve, int]]:
    """Contestants by name, and the time units for which each is timed."""
    device = problem.z0.device.type
    found = {name: (solve, case.eager) for name, solve in with_torch.fixed(problem).items()}
    found[ROMKIT] = (found[ROMKIT][0], case.romkit)
    if config.compiled_field:
        found[with_torch.COMPILED] = (with_torch.compiled_field(problem), case.eager)
    if config.jax and device == "cpu":
        from benchmarks.rollout.with_jax import fixed

        found |= {name: (solve, case.jax) for name, solve in fixed(problem).items()}
    for name, make in adaptive_solvers(config, device).items():
        found[name] = (make(problem, tolerances[name]), case.jax if "diffrax" in name else case.eager)
    return found


def measure_case(config: Config, case: Case, tolerances: dict[str, float], device: str) -> dict[str, object]:
    """Microseconds per step and trajectory, after all contestants have shown that they compute the same."""
    problem = make_problem(case.contexts, device)
    solvers = make_solvers(config, case, problem, tolerances)
    states, starts = {}, {}
    with cold_start():
        for name, (solve, intervals) in solvers.items():
            started = time.perf_counter()
            states[name] = solve(intervals)[0].to(device)
            starts[name] = time.perf_counter() - started
    difference = check_fields(problem, _jax_fields(config, problem))
    errors = check_trajectories(problem, states, same_method={ROMKIT, with_torch.EAGER, *_JAX_RK4})
    rounds = [
        {name: timed(partial(solve, intervals), device) for name, (solve, intervals) in solvers.items()}
        for _ in range(config.repeats)
    ]
    return {
        "contexts": case.contexts,
        "field_difference": difference,
        "floor": floor(problem, config.repeats),
        "contestants": {
            name: summary([r[name] for r in rounds], 1e6 / (intervals * STEPS * case.contexts), "us", device)
            | {"start_s": max(0.0, starts[name] - statistics.median(r[name][1] for r in rounds))}
            | {"steps": intervals * STEPS, "error": errors[name]}
            for name, (_, intervals) in solvers.items()
        },
    }


_JAX_RK4 = ("JAX, RK4 by lax.scan", "diffrax, RK4")


def _jax_fields(config: Config, problem: Problem) -> dict[str, Tensor]:
    if not config.jax or problem.z0.device.type != "cpu":
        return {}
    from benchmarks.rollout.with_jax import field_once, members_first, members_last

    return {field.__name__: field_once(problem, field) for field in (members_first, members_last)}
