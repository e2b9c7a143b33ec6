"""Continuation against bifurcations that are known in closed form, or from the literature."""

import math

import numpy as np
import pytest
import torch
from romkit.errors import InputError

import romkit
from romkit.data import ContextParameter
from romkit.integrators import LSPG, Galerkin
from romkit.systems import Lorenz96, Pendulum, System


class Textbook(System):
    """A system of one parameter, by its right-hand side."""

    dt, duration, horizon = 0.01, 1.0, 1.0

    def __init__(self, rhs, size):
        self.formula, self.state_names = rhs, [f"x{k}" for k in range(size)]
        self.name, self.context = rhs.__name__, (ContextParameter("r", "1", -1.0, 1.0, "parameter"),)

    def rhs(self, t, x, c):
        return torch.stack(self.formula(*x.unbind(-1), c[..., 0]), dim=-1)

    def initial_state(self, contexts, rng):
        return contexts.new_zeros(len(contexts), len(self.state_names))


def cusp(x, r):
    return [r + x - x**3]


def pitchfork(x, r):
    return [r * x - x**3]


def brusselator(x, y, r):
    return [1 - (r + 1) * x + x**2 * y, r * x - x**2 * y]


def roessler(x, y, z, r):
    return [-y - z, x + 0.2 * y, 0.2 + z * (x - r)]


def circle(x, y, r):
    """A cycle of radius √r and period 2π/(1 + r)."""
    growth, turn = r - x**2 - y**2, 1 + x**2 + y**2
    return [growth * x - turn * y, growth * y + turn * x]


FOLD = 2 / (3 * math.sqrt(3))


@pytest.mark.parametrize(
    ("formula", "start", "ends", "kinds", "at"),
    [
        (cusp, [-1.3], (-1.0, 1.0), ["fold", "fold"], [FOLD, -FOLD]),
        (pitchfork, [0.0], (-1.0, 1.0), ["branch point"], [0.0]),
        (brusselator, [1.0, 0.5], (0.5, 4.0), ["Hopf"], [2.0]),
        (brusselator, [1.0, 4.0], (4.0, 0.5), ["Hopf"], [2.0]),
    ],
)
def test_bifurcations_of_equilibria_are_located(formula, start, ends, kinds, at):
    branch = romkit.continuation(Textbook(formula, len(start)), start=start, r=ends)
    assert branch.special_kind.values.tolist() == kinds
    assert branch.special_parameter.values == pytest.approx(at, abs=1e-6)
    assert branch.r[0] == ends[0]
    assert abs(branch.r[-1] - ends[1]) < 0.05 * abs(ends[1] - ends[0])
    rates = [formula(*x, r) for x, r in zip(branch.state.values, branch.r.values, strict=True)]
    assert np.abs(rates).max() < 1e-8


def test_eigenvalues_are_those_of_the_linearised_field():
    branch = romkit.continuation(Textbook(brusselator, 2), start=[1.0, 0.5], r=(0.5, 4.0))
    for r, values in zip(branch.r.values, branch.eigenvalue.values, strict=True):
        known = np.linalg.eigvals([[r - 1, 1], [-r, -1]])  # at x = 1, y = r
        assert np.sort_complex(values) == pytest.approx(np.sort_complex(known), abs=1e-7)
    assert float(branch.frequency[0]) == pytest.approx(1.0, abs=1e-6)
    assert (branch.stable.values == (branch.r.values < 2)).all()


def test_lorenz96_has_a_hopf_point_where_its_eigenvalues_say():
    # the eigenvalues at x = F are -1 + F (ω^k - ω^-2k) for ω = exp(2πi/n)
    n = 5
    phase = 2 * np.pi * np.arange(1, n) / n
    first = 1 / (np.cos(phase) - np.cos(2 * phase)).max()
    branch = romkit.continuation(Lorenz96(n=n), start=[0.5] * n, F=(0.5, 1.0))
    assert branch.special_kind.values.tolist() == ["Hopf"]
    assert float(branch.special_parameter[0]) == pytest.approx(first, abs=1e-6)


def test_a_pendulum_at_rest_swings_with_the_frequencies_of_its_stiffness():
    system, lengths = Pendulum(), {"l2": 0.5, "l3": 0.5, "l4": 0.5}
    branch = romkit.continuation(system, start=[0.0] * 32, points=2, l1=(0.4, 0.6), **lengths)
    f, rest = system.field(torch.tensor([0.4, 0.5, 0.5, 0.5])), torch.zeros(16, dtype=torch.float64)
    stiffness = torch.func.jacfwd(lambda q: f(torch.tensor(0.0), q, rest))(rest)
    squares = -np.linalg.eigvals(stiffness).real
    found = branch.eigenvalue.values[0].imag
    # twelve of the sixteen angles follow from the other four and do not swing by themselves
    assert np.sort(found[found > 1e-3]) == pytest.approx(np.sort(np.sqrt(squares[squares > 1e-6])), rel=1e-6)
    assert int((found > 1e-3).sum()) == 4


def test_orbits_have_their_period_and_multipliers():
    branch = romkit.continuation(
        Textbook(circle, 2), kind="orbits", start=[0.7, 0.0], period=4.0, points=8, r=(0.5, 0.9)
    )
    r = branch.r.values
    assert np.hypot(*branch.state.values.T) == pytest.approx(np.sqrt(r), abs=1e-7)
    assert branch.period.values == pytest.approx(2 * np.pi / (1 + r), abs=1e-7)
    # radial deviations decay with the rate 2r
    assert branch.multiplier.values[:, 0].real == pytest.approx(np.exp(-2 * r * branch.period.values), abs=1e-6)


def test_an_orbit_ends_where_it_shrinks_to_an_equilibrium():
    branch = romkit.continuation(
        Textbook(circle, 2), kind="orbits", start=[0.1, 0.0], period=6.0, steps=50, r=(0.01, -1.0)
    )
    assert abs(branch.r[-1]) < 0.003
    assert bool(branch.stable[:-1].all())


def test_a_period_doubles():
    """Rössler's first period doubling at a = b = 0.2 (2.832445 by shooting with SciPy's DOP853 at 1e-12)."""
    start, period = [-0.0255, -4.2, 0.06], 5.75
    system = Textbook(roessler, 3)
    branch = romkit.continuation(system, kind="orbits", start=start, period=period, points=12, steps=200, r=(2.7, 3.7))
    assert "period doubling" in branch.special_kind.values.tolist()
    assert float(branch.special_parameter[0]) == pytest.approx(2.832445, abs=1e-5)
    assert not bool(branch.stable[-1])


def test_an_orbit_of_a_reduced_model_is_one_of_its_rollouts():
    ncae, system, dynamics = romkit.load("ncae-lorenz96"), Lorenz96(), Galerkin()
    x = ncae(F=3.18).decode(torch.tensor([0.5, 0.0])).detach()
    settled = romkit.forecast(ncae, initial_state=x, dynamics=dynamics, system=system, duration=40.0, dt=0.02, F=3.18)
    start = settled.latent.values[-1]
    branch = romkit.continuation(
        ncae, kind="orbits", start=start, period=2.55, dynamics=dynamics, system=system, points=2, steps=100,
        F=(3.18, 3.17),
    )  # fmt: skip
    period = float(branch.period[0])
    around = romkit.forecast(
        ncae, initial_state=branch.state.values[0], dynamics=dynamics, system=system, duration=period, dt=period / 100,
        F=3.18,
    )  # fmt: skip
    assert around.latent.values[-1] == pytest.approx(around.latent.values[0], abs=1e-6)
    assert abs(period - 2.5482) < 0.02  # of the full model's wave


BAD = [
    ({"r": 0.5}, "context"),
    ({"r": (0.5, 0.5)}, "r"),
    ({"r": (0.5, math.nan)}, "r"),
    ({"q": (0.0, 1.0)}, "q"),
    ({"r": (0.0, 1.0), "start": [1.0]}, "start"),
    ({"r": (0.0, 1.0), "start": [math.nan, 0.0]}, "start"),
    ({"r": (0.0, 1.0), "kind": "tori"}, "kind"),
    ({"r": (0.0, 1.0), "kind": "orbits"}, "period"),
    ({"r": (0.0, 1.0), "kind": "orbits", "period": 0.0}, "period"),
    ({"r": (0.5, 1.0), "kind": "orbits", "period": 1.0}, "start"),
    ({"r": (0.0, 1.0), "dynamics": Galerkin()}, "dynamics"),
]


@pytest.mark.parametrize(("given", "argument"), BAD)
def test_bad_input_is_refused_by_name(given, argument):
    with pytest.raises(InputError, match=f"^{argument}: "):
        romkit.continuation(Textbook(brusselator, 2), **{"start": [1.0, 0.5]} | given)


def test_dynamics_without_a_field_are_refused():
    with pytest.raises(InputError, match=r"^dynamics: "):
        romkit.continuation(
            romkit.load("ncae-lorenz96"), dynamics=LSPG(), system=Lorenz96(), start=[0.1, 0.2], F=(3.14, 3.15)
        )
