"""The contestants that call the field in torch: romkit, torchdiffeq and torchode."""

from collections.abc import Callable

import torch
import torchdiffeq
import torchode
from torch import Tensor

from benchmarks.rollout.problem import DT, Problem
from romkit.solvers import RK4

Solve = Callable[[int], Tensor]
"""intervals -> states (intervals, C, m) at the end of each interval."""

ROMKIT, EAGER = "romkit, RK4 (default)", "romkit, RK4, eager"
TORCHDIFFEQ, COMPILED = "torchdiffeq, rk4", "torchdiffeq, rk4, field by torch.compile"


def fixed(problem: Problem) -> dict[str, Solve]:
    """Steps of DT by methods of order four. torchdiffeq's is the 3/8 rule, romkit's the classical one."""
    return {
        ROMKIT: lambda intervals: _romkit("auto", problem, intervals),
        EAGER: lambda intervals: _romkit("torch", problem, intervals),
        TORCHDIFFEQ: lambda intervals: _torchdiffeq_rk4(problem, problem.g, intervals),
    }


def compiled_field(problem: Problem) -> Solve:
    """torchdiffeq with a field that torch.compile has fused."""
    torch._dynamo.reset()
    g = torch.compile(problem.g, dynamic=False)
    return lambda intervals: _torchdiffeq_rk4(problem, g, intervals)


def torchdiffeq_dopri5(problem: Problem, tolerance: float) -> Solve:
    """One step size for the batch."""

    def solve(intervals: int) -> Tensor:
        control = {"method": "dopri5", "rtol": tolerance, "atol": tolerance}
        return torchdiffeq.odeint(problem.g, problem.z0, problem.times(intervals), **control)[1:]

    return solve


def torchode_dopri5(problem: Problem, tolerance: float) -> Solve:
    """A step size for each member."""

    def solve(intervals: int) -> Tensor:
        term = torchode.ODETerm(lambda t, z: problem.g(t[0], z), with_stats=False)
        control = torchode.IntegralController(tolerance, tolerance, term=term).to(problem.z0.device)
        times = problem.times(intervals)
        return torchode.solve_ivp(term, problem.z0, times, method="dopri5", controller=control).ys.movedim(1, 0)[1:]

    return solve


def _romkit(engine: str, problem: Problem, intervals: int) -> Tensor:
    return RK4(DT)(problem.g, problem.z0, problem.times(intervals), engine=engine).states.movedim(-2, 0)[1:]


def _torchdiffeq_rk4(problem: Problem, g: Callable[[Tensor, Tensor], Tensor], intervals: int) -> Tensor:
    options = {"step_size": DT}
    return torchdiffeq.odeint(g, problem.z0, problem.times(intervals), method="rk4", options=options)[1:]
