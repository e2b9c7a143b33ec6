"""Contestants in torch (romkit, torchdiffeq, torchode) on the Galerkin field of an NcAE, and checks
that all agree.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torchdiffeq
import torchode
from torch import Tensor

import romkit
from benchmarks.harness import Disagreement, close
from romkit.core.types import Field
from romkit.engine import RungeKutta
from romkit.engine.captured import CapturedSteps
from romkit.integrators import Galerkin
from romkit.projections import Frame, NcAE, Path, Projection
from romkit.projections.operator import Operator
from romkit.solvers import RK4, Adaptive, Solver
from romkit.solvers.fixed import step_tensor
from romkit.systems import Lorenz96

DT = 0.01
STEPS = 100
"""Steps of RK4 between two outputs, which are one time unit apart."""
ROMKIT, EAGER = "romkit, RK4", "romkit, RK4, eager"
CAPTURED = "romkit, RK4, a launch per step"
ROMKIT_ADAPTIVE = "romkit, adaptive (default)"
TORCHDIFFEQ, COMPILED = "torchdiffeq, rk4", "torchdiffeq, rk4, field by torch.compile"
SCAN, DIFFRAX, DIFFRAX_ADAPTIVE = (
    "JAX, RK4 by lax.scan",
    "diffrax, RK4",
    "diffrax, Dopri5, adaptive",
)
TOLERANCE = 1e-10
"""Relative to the largest component of a velocity, and of a state where two contestants use one
method.
"""
METHOD_FACTOR = 10
"""Largest ratio of another method's error to that of RK4 with the same step."""
LADDER = tuple(10 ** (-k / 2) for k in range(6, 25))
"""Tolerances 1e-3, ..., 1e-12."""

Solve = Callable[[int], Tensor]
"""intervals -> states (intervals, C, m) at the end of each interval."""


class Problem(NamedTuple):
    """Operator at C contexts, full-order field f, latent field g, and states x0 (C, n) and z0 (C,
    m).
    """

    operator: Operator
    f: Field
    g: Field
    x0: Tensor
    z0: Tensor

    def times(self, intervals: int) -> Tensor:
        """0, 1, ..., intervals."""
        return torch.arange(intervals + 1, dtype=self.z0.dtype, device=self.z0.device) * (
            STEPS * DT
        )


def make_problem(contexts: int, device: str = "cpu") -> Problem:
    """Pretrained NcAE in float64, started from waves that have settled a little."""
    return _problem(Lorenz96(transient=20.0), romkit.load("ncae-lorenz96"), contexts, device)


def untrained_problem(n: int, contexts: int) -> Problem:
    """Untrained NcAE 2-18-n on a ring of n variables."""
    system = Lorenz96(n=n, transient=1.0)
    frame = Frame.from_dataset(system.dataset(F=[3.14, 3.18], duration=0.1))
    projection = NcAE(
        frame, torch.Generator().manual_seed(0), layers=(2, 18, n), embedding=(1, 2, 2, 2)
    )
    return _problem(system, projection, contexts, "cpu")


def _problem(system: Lorenz96, projection: Projection, contexts: int, device: str) -> Problem:
    parameter = system.context[0]
    F = torch.linspace(parameter.low, parameter.high, contexts, dtype=torch.float64).unsqueeze(-1)
    x0 = system.start(F)[0].to(device)
    operator = projection.double().to(device)(F.to(device))
    problem = system.problem(Path.constant(operator), F.to(device))
    return Problem(operator, problem.field, Galerkin().field(problem), x0, operator.encode(x0))


def fixed_steps(problem: Problem) -> dict[str, Solve]:
    """Return steps of DT by methods of order four. torchdiffeq's is the 3/8 rule, romkit's the
    classical one.
    """
    on_gpu = {CAPTURED: captured(problem)} if problem.z0.is_cuda else {}
    return {
        ROMKIT: prepared(problem, RK4(DT)),
        **on_gpu,
        EAGER: partial(rk4, problem, engine="torch"),
        TORCHDIFFEQ: partial(_torchdiffeq_rk4, problem, problem.g),
    }


def rk4(problem: Problem, intervals: int, engine: str = "auto", dt: float = DT) -> Tensor:
    """Return states at the end of each interval by romkit."""
    return RK4(dt)(problem.g, problem.z0, problem.times(intervals), engine=engine).states.movedim(
        -2, 0
    )[1:]


def captured(problem: Problem) -> Solve:
    """RK4 on a GPU whose step torch has fused and captured."""
    captured_steps = {}

    def solve(intervals: int) -> Tensor:
        times = problem.times(intervals)
        h = times.new_full((intervals,), DT)
        if not captured_steps:
            example = (problem.g, times[0], problem.z0, h[0])
            captured_steps["kernel"] = CapturedSteps(step_tensor, *example, fused=True)
        states = times.new_empty(intervals, *problem.z0.shape)
        steps = torch.full((intervals,), STEPS)
        kernel = captured_steps["kernel"]
        kernel.integrate(times[:-1], h, steps, torch.inf, problem.z0.clone(), states)
        return states

    return solve


def fused_field(problem: Problem) -> Solve:
    """torchdiffeq with a field that torch.compile has fused."""
    torch._dynamo.reset()
    return partial(_torchdiffeq_rk4, problem, torch.compile(problem.g, dynamic=False))


def _torchdiffeq_rk4(problem: Problem, g: Field, intervals: int) -> Tensor:
    options = {"step_size": DT}
    return torchdiffeq.odeint(
        g, problem.z0, problem.times(intervals), method="rk4", options=options
    )[1:]


def torchdiffeq_dopri5(problem: Problem, tolerance: float, intervals: int) -> Tensor:
    """One step size for the batch."""
    control = {"method": "dopri5", "rtol": tolerance, "atol": tolerance}
    return torchdiffeq.odeint(problem.g, problem.z0, problem.times(intervals), **control)[1:]


def torchode_dopri5(problem: Problem, tolerance: float, intervals: int) -> Tensor:
    """Return a step size for each member."""
    term = torchode.ODETerm(lambda t, z: problem.g(t[0], z), with_stats=False)
    control = torchode.IntegralController(tolerance, tolerance, term=term).to(problem.z0.device)
    times = problem.times(intervals)
    return torchode.solve_ivp(
        term, problem.z0, times, method="dopri5", controller=control
    ).ys.movedim(1, 0)[1:]


def prepared(problem: Problem, solver: Solver) -> Solve:
    """Return runs by a kernel that is recorded and compiled once for all, as one jit is in JAX."""
    runs = {}

    def solve(intervals: int) -> Tensor:
        times = problem.times(intervals)
        if not runs:
            runs["kernel"] = solver.prepare(problem.g, problem.z0, times, "compiled", "timing")[0]
        return runs["kernel"](problem.z0, times)[1:]

    return solve


def romkit_adaptive(problem: Problem, tolerance: float) -> Solve:
    """Return a step size for each member."""
    return prepared(problem, Adaptive(rtol=tolerance))


ADAPTIVE: dict[str, Callable[[Problem, float], Solve]] = {
    ROMKIT_ADAPTIVE: romkit_adaptive,
    "torchdiffeq, dopri5": lambda problem, tolerance: partial(
        torchdiffeq_dopri5, problem, tolerance
    ),
    "torchode, dopri5": lambda problem, tolerance: partial(torchode_dopri5, problem, tolerance),
}
"""(problem, tolerance) -> solvers with step-size control."""


def check_fields(problem: Problem, others: dict[str, Tensor]) -> float:
    """Return largest relative difference of ż (C, m) at the start from torch's; romkit's compiled
    field is among them.
    """
    expected, found = problem.g(problem.times(0)[0], problem.z0), dict(others)
    if problem.z0.device.type == "cpu":
        found["romkit, compiled"] = RungeKutta(problem.g, problem.times(1), problem.z0).evaluate(
            0.0, problem.z0
        )
    return max(
        (close(f"the field of {name}", z, expected, TOLERANCE) for name, z in found.items()),
        default=0.0,
    )


def check_trajectories(problem: Problem, states: dict[str, Tensor]) -> dict[str, float]:
    """Return errors of the states (C, m) after one time unit; those of the classical RK4s are equal
    to rounding.
    """
    exact = rk4(problem, 1, dt=DT / 10)[-1]  # a ten thousandth of the error
    errors = {name: float((z - exact).abs().max()) for name, z in states.items()}
    same_method = [name for name in states if name in (ROMKIT, EAGER, CAPTURED, SCAN, DIFFRAX)]
    for name in same_method:
        close(f"the trajectory of {name}", states[name], states[same_method[0]], TOLERANCE)
    for name, error in errors.items():
        if not error <= METHOD_FACTOR * errors[same_method[0]]:
            raise Disagreement(
                f"{name} has an error of {error:.1e}, RK4 one of {errors[same_method[0]]:.1e}"
            )
    return errors


def calibrate(
    problem: Problem, adaptive: Callable[[Problem, float], Solve], intervals: int
) -> dict[str, float]:
    """Return largest tolerance of the ladder with which an adaptive solver is as accurate as RK4
    with step DT.
    """
    exact = rk4(problem, intervals, dt=DT / 10)
    wanted = float((rk4(problem, intervals) - exact).abs().max())
    for tolerance in LADDER:
        error = float((adaptive(problem, tolerance)(intervals) - exact).abs().max())
        if error <= wanted:
            return {"tolerance": tolerance, "error": error, "rk4_error": wanted}
    raise Disagreement(
        f"no tolerance gives the error of RK4, {wanted:.1e}; the last one gives {error:.1e}"
    )
