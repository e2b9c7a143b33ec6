"""Output times say where a solution is wanted, never how exactly: one law on four grids, of
0.2 and 5 times the interval of the data, uneven, and a single point.
"""

import math

import numpy as np
import pytest
import torch

import romkit
from romkit.integrators import Galerkin, Reencoded
from romkit.laws import DMD, LatentSamples, NeuralODE, SINDy
from romkit.models import ReducedModel
from romkit.projections import Path
from romkit.solvers import Adaptive
from romkit.systems.problem import PROBLEMS
from romkit.testing.projections import probe
from tests.properties.test_projection_rules import make

T64 = torch.float64
RTOL = 1e-6
DT = 0.1
END = 40 * DT
STARTS = torch.tensor([[1.0, 0.3], [-0.5, 0.8], [0.1, 0.0]], dtype=T64)


def grids(end=END):
    """The densest one holds all times of the others but those of the uneven one."""
    even = [torch.linspace(0, end, count + 1, dtype=T64) for count in (200, 8)]
    uneven = torch.tensor([0.0, 0.003, 0.01, 0.37, 0.51, 0.52, 0.999, 1.0], dtype=T64) * end
    alone = torch.tensor([0.0, end], dtype=T64)
    return [*even, alone, uneven]


def check_that_no_grid_decides(solve, end=END, within=10):
    """Compare the states at times that two grids share; the end is shared by all."""
    dense, *others = grids(end)
    fine = solve(dense).detach()
    size = float(fine.abs().max())
    for times in others:
        states = solve(times).detach()
        for k, t in enumerate(times):
            place = (dense - t).abs().argmin()
            if abs(float(dense[place] - t)) < 1e-12 * end:
                apart = (states[..., k, :] - fine[..., place, :]).abs().max()
                assert float(apart) < within * RTOL * size


@pytest.fixture(scope="module")
def samples():
    """z (400, 2) of the box of the laws below."""
    draw = torch.Generator().manual_seed(0)
    return 4 * torch.rand(400, 2, generator=draw, dtype=T64) - 2


def problem_of(law, control=None):
    """Problem of a law alone, whose latents are the two components of a state."""
    data = romkit.data.from_arrays(np.random.default_rng(0).normal(size=(2, 5, 2)), DT)
    path = Path.constant(romkit.fit("identity", data).double()())
    return PROBLEMS[law.order](path, control=control)


def van_der_pol(z, u=0.0):
    x, v = z.unbind(-1)
    return torch.stack([v, (1 - x**2) * v - x + u], dim=-1)


def relaxing(z):
    """A slow component, which a fast one follows within 1e-4."""
    x, y = z.unbind(-1)
    return torch.stack([-x, 1e4 * (x**2 - y)], dim=-1)


@pytest.mark.parametrize("field", [van_der_pol, relaxing])
def test_a_polynomial_law(field, samples):
    law = SINDy(degree=3, threshold=0.0).fit_samples(samples, field(samples))
    problem = problem_of(law)
    check_that_no_grid_decides(lambda times: law.solve(problem, STARTS, times).states)


def test_a_linear_law(samples):
    matrix = torch.tensor([[-0.1, 30.0], [-30.0, -0.1]], dtype=T64)
    times = torch.linspace(0, 2, 41, dtype=T64)
    z = torch.stack([torch.matrix_exp(t * matrix) @ STARTS[0] for t in times])
    law = DMD().fit_samples(z.unsqueeze(0), (z @ matrix.mT).unsqueeze(0), times=times)
    problem = problem_of(law)
    solution = law.solve(problem, STARTS, times)
    assert solution.cost["solver"].startswith("Exponential")
    check_that_no_grid_decides(lambda times: law.solve(problem, STARTS, times).states)


def test_a_network():
    times = torch.linspace(0, END, 41, dtype=T64)
    states = Adaptive()(lambda t, z: van_der_pol(z), STARTS, times).states
    settings = NeuralODE(regression_steps=30, shooting_steps=1, hidden=(8,))
    law = settings.fit_samples(states, van_der_pol(states), times=times)
    problem = problem_of(law)
    check_that_no_grid_decides(lambda times: law.solve(problem, STARTS, times).states)


def test_a_law_of_second_order(samples):
    z, dz = samples, samples.flip(0)
    ddz = -z - z**3 - 0.1 * dz
    law = SINDy(degree=3, threshold=0.0).fit_samples(LatentSamples.second_order(z, dz, ddz))
    assert law.order == 2
    starts = torch.cat([STARTS, STARTS.flip(0)], dim=-1)
    problem = problem_of(law)
    check_that_no_grid_decides(lambda times: law.solve(problem, starts, times).states)


INPUTS = {
    "smooth": (lambda t: math.sin(5 * t), ()),
    "switch": (
        lambda t: math.copysign(1, math.sin(3 * t)),
        (math.pi / 3, 2 * math.pi / 3, math.pi),
    ),
    "pulse": (lambda t: 20.0 * (1.713 < t < 1.813), (1.713, 1.813)),
}
"""Inputs, and the times at which they jump, which are in no grid."""


@pytest.mark.parametrize(
    ("name", "known"),
    # jumps that are told are those of any function
    [("smooth", False), ("switch", True), ("pulse", False)],
)
def test_a_forced_law(name, known, samples):
    """An input that is a function of time: steps find its jumps, and are exact where they are
    told of them.
    """
    function, jumps = INPUTS[name]

    def control(t):
        return torch.full((len(STARTS), 1), function(float(t)), dtype=T64)

    u = 2 * samples[:, :1].flip(0)
    rate = van_der_pol(samples, u.squeeze(-1))
    labels = {"parameters": ("u",), "control_names": ("u",)}
    law = SINDy(degree=3, threshold=0.0).fit_samples(samples, rate, u, **labels)
    problem = problem_of(law, control)
    solver = Adaptive(jump_times=jumps) if known else None
    check_that_no_grid_decides(
        lambda times: law.solve(problem, STARTS, times, solver=solver).states,
        end=2.4,  # behind two jumps
        within=10 if known else 100,
    )


RARELY = pytest.param(Reencoded(Galerkin(), every=10**6), marks=pytest.mark.slow)


@pytest.mark.parametrize("dynamics", [Galerkin(), RARELY])
def test_galerkin_of_a_system(dynamics):
    ncae, system = romkit.load("ncae-lorenz96"), romkit.systems.Lorenz96()
    c = torch.tensor([[3.14], [3.18]], dtype=T64)
    model = ReducedModel.build(ncae, dynamics, system).fix_context(c)
    start = torch.tensor([[1.0, 0.5], [-0.5, 1.0]], dtype=T64)
    check_that_no_grid_decides(lambda times: model.solve(start, times).states, end=1.0)


def test_galerkin_of_a_mechanical_problem():
    P = probe(make("ncae", (2, 3, 1, 0)), batch=2).operator
    problem = PROBLEMS[2](Path.constant(P), lambda t, q, v: -torch.sin(q) - 0.1 * v)
    start = torch.tensor([[1.0, 0.5, 0.0, 0.3], [-0.5, 1.0, 0.2, 0.0]], dtype=T64)
    check_that_no_grid_decides(
        lambda times: Galerkin().solve(problem, start, times, engine="torch").states, end=2.0
    )
