"""Cost of a step against the size of the state, and how f, the projection and the solve share it."""

import statistics
import time

import torch
from torch import Tensor

from benchmarks.rollout.problem import DT, STEPS, Problem, untrained_problem
from romkit.core.errors import InputError
from romkit.core.types import Field
from romkit.integrators import Galerkin
from romkit.solvers import RK4
from romkit.systems.problem import ConstantPath, FirstOrder


def measure_size(n: int, contexts: int, intervals: int, repeats: int) -> dict[str, object]:
    """µs of CPU time per step of all contexts, of the full model and of the reduced one and its parts.

    The field is timed whole, with f replaced by -x, and without f and solve; the differences are the shares.
    """
    problem = untrained_problem(n, contexts)
    without_f = Galerkin().field(FirstOrder(ConstantPath(problem.operator), lambda t, x: -x))
    engine = _engine(problem)
    full = _step(engine, problem, problem.f, problem.x0, intervals, repeats)
    whole, rest, projection = (
        _step(engine, problem, field, problem.z0, intervals, repeats)
        for field in (problem.g, without_f, _projection_alone(problem))
    )
    return {
        "n": n,
        "contexts": contexts,
        "engine": engine,
        "full_us": full,
        "whole_us": whole,
        "f_us": whole - rest,
        "solve_us": rest - projection,
        "projection_us": projection,
    }


def _projection_alone(problem: Problem) -> Field:
    def field(t: Tensor, z: Tensor) -> Tensor:
        x, J = problem.operator.decode_jacobian(z)
        return -1e-6 * (J.sum(-2) + x.sum(-1, keepdim=True))  # everything is needed, and nothing happens

    return field


def _engine(problem: Problem) -> str:
    """What romkit's default is in a long run: compiled, unless the field is too large."""
    try:
        RK4(DT)(problem.g, problem.z0, problem.times(1), engine="compiled")
    except InputError:
        return "torch"
    return "compiled"


def _step(engine: str, problem: Problem, field: Field, start: Tensor, intervals: int, repeats: int) -> float:
    """Median over repeats; what a run costs before its first step is subtracted."""

    def seconds(intervals: int) -> float:
        started = time.process_time()
        with torch.no_grad():
            RK4(DT)(field, start, problem.times(intervals), engine=engine)
        return time.process_time() - started

    seconds(1)
    times = [seconds(1 + intervals) - seconds(1) for _ in range(repeats)]
    return statistics.median(times) / (intervals * STEPS) * 1e6
