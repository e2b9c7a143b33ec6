"""Rollouts of a reduced model of Lorenz96 by all contestants, timed in turns on one core or on a
GPU.
"""

import json
import os
import statistics
import tempfile
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from unittest import mock

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import romkit
from benchmarks.harness import (
    Parts,
    Result,
    copy_rate,
    in_turns,
    median_seconds,
    peak_rate,
    summary,
    timed,
)
from benchmarks.rollout import contestants
from benchmarks.rollout.contestants import (
    ADAPTIVE,
    DIFFRAX_ADAPTIVE,
    DT,
    STEPS,
    Problem,
    Solve,
    make_problem,
)
from romkit.core.errors import InputError
from romkit.core.types import Field
from romkit.integrators import Galerkin
from romkit.projections import Path
from romkit.solvers import RK4, Adaptive
from romkit.systems import Lorenz96
from romkit.systems.problem import FirstOrder

F = 3.15
STAGES = 4
"""Evaluations of the field in a step of RK4."""
NUMBERS = {"cpu": 2**15, "cuda": 2**28}
"""Numbers in a copy: one that stays in the second-level cache of a core, one that fills a GPU."""

PACKAGES = ("torchode", "jax", "diffrax")


def measure(config: SimpleNamespace, device: str, found: Result) -> Parts:
    """Tolerances of the adaptive solvers, then the cases; on a core also the cost against n and the
    printed cost.
    """
    with torch.no_grad():
        if "calibration" not in found:
            small, intervals = (
                make_problem(config.calibration[0]),
                config.calibration[1],
            )  # quicker on the CPU
            adaptive = dict(ADAPTIVE)
            if config.jax and device == "cpu":
                from benchmarks.rollout.with_jax import adaptive_steps

                adaptive[DIFFRAX_ADAPTIVE] = adaptive_steps
            calibrated = {
                name: contestants.calibrate(small, make, intervals)
                for name, make in adaptive.items()
            }
            found["calibration"] = calibrated
            yield
        cases = found.setdefault("cases", [])
        for case in (config.cases if device == "cpu" else config.cuda_cases)[len(cases) :]:
            tolerances = {name: each["tolerance"] for name, each in found["calibration"].items()}
            cases.append(
                measure_case(case, tolerances, device, config.repeats, config.compiled_field)
            )
            print(json.dumps(cases[-1], indent=1), flush=True)
            yield
        on_core = device == "cpu"
        found["sizes"] = [measure_size(*size, config.repeats) for size in config.sizes if on_core]
        found["printed"] = measure_printed(config.printed, config.repeats) if on_core else None


def make_solvers(
    problem: Problem, case: Mapping[str, int], tolerances: Mapping[str, float], compiled_field: bool
) -> dict[str, tuple[Solve, int]]:
    """Contestants by name, each with the time units for which it is timed."""
    found = {
        name: (solve, case["eager"]) for name, solve in contestants.fixed_steps(problem).items()
    }
    if compiled_field:
        found[contestants.COMPILED] = (contestants.fused_field(problem), case["eager"])
    adaptive = {
        name: (make(problem, tolerances[name]), case["eager"]) for name, make in ADAPTIVE.items()
    }
    for solvers, name in ((found, contestants.ROMKIT), (adaptive, contestants.ROMKIT_ADAPTIVE)):
        solvers[name] = (solvers[name][0], case["romkit"])
    if DIFFRAX_ADAPTIVE in tolerances:
        from benchmarks.rollout.with_jax import adaptive_steps, fixed_steps

        found |= {name: (solve, case["jax"]) for name, solve in fixed_steps(problem).items()}
        adaptive[DIFFRAX_ADAPTIVE] = (
            adaptive_steps(problem, tolerances[DIFFRAX_ADAPTIVE]),
            case["jax"],
        )
    return found | adaptive


def measure_case(
    case: Mapping[str, int],
    tolerances: Mapping[str, float],
    device: str,
    repeats: int,
    compiled_field: bool,
) -> Result:
    """Microseconds per step and trajectory, after all contestants have shown that they compute the
    same.
    """
    problem = make_problem(case["contexts"], device)
    solvers, states, starts = make_solvers(problem, case, tolerances, compiled_field), {}, {}
    # a cold start: neither romkit nor torch finds compiled code
    with tempfile.TemporaryDirectory() as empty:
        caches = dict.fromkeys(("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR"), empty)
        with mock.patch.dict(os.environ, caches):
            for name, (solve, intervals) in solvers.items():

                def first_run(name=name, solve=solve, intervals=intervals) -> None:
                    states[name] = solve(intervals)[0].to(device)

                starts[name] = timed(first_run, device)[1]
    fields = {}
    if DIFFRAX_ADAPTIVE in tolerances:
        from benchmarks.rollout.with_jax import fields_once

        fields = fields_once(problem)
    difference, errors = (
        contestants.check_fields(problem, fields),
        contestants.check_trajectories(problem, states),
    )
    output_times = problem.times(1)
    record = partial(Adaptive().prepare, problem.g, problem.z0, output_times, "compiled", "timing")
    times = in_turns({name: partial(*solver) for name, solver in solvers.items()}, repeats, device)
    return {
        "contexts": case["contexts"],
        "field_difference": difference,
        "floor": floor(problem, repeats),
        "recording_ms": 1e3 * median_seconds(record, repeats, device) if device == "cpu" else None,
        "contestants": {
            name: summary(times[name], 1e6 / (intervals * STEPS * case["contexts"]), "us", device)
            | {
                "start_s": max(
                    0.0, starts[name] - statistics.median(wall for _, wall in times[name])
                )
            }
            | {"steps": intervals * STEPS, "error": errors[name]}
            for name, (_, intervals) in solvers.items()
        },
    }


def floor(problem: Problem, repeats: int) -> dict[str, float]:
    """Cost of the arithmetic alone per step of RK4 and trajectory: operations, bytes that are read,
    times in µs.

    Weights, biases and slopes are read once for each evaluation of the field for all contexts.
    """
    with FlopCounterMode(display=False) as counter:
        problem.g(problem.times(0)[0], problem.z0)
    layers, contexts = problem.operator._maps.layers, len(problem.z0)
    constants = [x for layer in layers for x in (layer.phi, layer.beta, *layer.plus)]
    flops = STAGES * counter.get_total_flops() / contexts
    size = STAGES * 8 * sum(x.numel() for x in (problem.operator.context, *constants)) / contexts
    peak = peak_rate(problem.z0, repeats)
    copy = copy_rate(NUMBERS[problem.z0.device.type], problem.z0, repeats)
    return {
        "kiloflop": flops / 1e3,
        "kilobyte": size / 1e3,
        "peak_gflop_per_s": peak / 1e9,
        "copy_gbyte_per_s": copy / 1e9,
        "arithmetic_us": flops / peak * 1e6,
        "memory_us": size / copy * 1e6,
    }


def measure_size(n: int, contexts: int, intervals: int, repeats: int) -> Result:
    """µs of CPU time per step of all contexts, of the full model and of the reduced one and its
    parts.

    The field is timed whole, with f replaced by -x, and without f and solve; the differences are
    the shares.
    """
    problem = contestants.untrained_problem(n, contexts)
    without_f = Galerkin().field(FirstOrder(Path.constant(problem.operator), lambda t, x: -x))

    def projection_alone(t: Tensor, z: Tensor) -> Tensor:
        x, J = problem.operator.decode_jacobian(z)
        return -1e-6 * (
            J.sum(-2) + x.sum(-1, keepdim=True)
        )  # everything is needed, and nothing happens

    engine = "compiled"
    try:  # the default of a long run, unless the field is too large
        RK4(DT)(problem.g, problem.z0, problem.times(1), engine=engine)
    except InputError:
        engine = "torch"

    def step(field: Field, start: Tensor) -> float:
        """Median over repeats; the cost before the first step is subtracted."""
        seconds = lambda n: timed(lambda: RK4(DT)(field, start, problem.times(n), engine=engine))[0]  # noqa: E731
        seconds(1)
        times = [seconds(1 + intervals) - seconds(1) for _ in range(repeats)]
        return statistics.median(times) / (intervals * STEPS) * 1e6

    full = step(problem.f, problem.x0)
    whole, rest, projection = (
        step(field, problem.z0) for field in (problem.g, without_f, projection_alone)
    )
    parts = {"f_us": whole - rest, "solve_us": rest - projection, "projection_us": projection}
    return {
        "n": n,
        "contexts": contexts,
        "engine": engine,
        "full_us": full,
        "whole_us": whole,
    } | parts


def measure_printed(duration: float, repeats: int) -> dict[str, float]:
    """µs per step of full and reduced model: printed by `romkit rollout` (wall time), and timed
    here (CPU time).

    Medians over repeats. Both write every step, which is most of the cost of a step of so small a
    full model.
    """
    system, projection = Lorenz96(), romkit.load("ncae-lorenz96")
    runs = [
        romkit.rollout(system, projection, F=F, duration=duration, engine="compiled")
        for _ in range(1 + repeats)
    ]
    times = torch.from_numpy(runs[0]["time"].values.copy())
    context = torch.full((1, 1), F, dtype=torch.float64)
    x0, operator = system.start(context)[0], projection.double()(context)
    problem = system.problem(Path.constant(operator), context)
    models = {
        "full": (problem.field, x0),
        "reduced": (Galerkin().field(problem), operator.encode(x0)),
    }
    printed, timings = {}, {}
    for model, (field, start) in models.items():
        seconds = statistics.median(run.attrs[f"seconds_computing_{model}_model"] for run in runs)
        printed[f"{model}_printed_us"] = 1e6 * seconds / (len(times) - 1)
        run, _ = RK4(float(times[1])).prepare(field, start, times, "compiled", "timing")
        timings[f"{model}_us"] = (
            1e6 * median_seconds(partial(run, start, times), repeats) / (len(times) - 1)
        )
    return printed | timings
