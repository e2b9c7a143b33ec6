"""Continuation against bifurcations that are known in closed form, or from the literature."""

import math

import numpy as np
import pytest
import torch

import romkit
from romkit.data import ContextParameter
from romkit.errors import InputError
from romkit.inference import branches
from romkit.integrators import LSPG, Galerkin
from romkit.solvers import RK4
from romkit.systems import Lorenz96, Pendulum, System


class Textbook(System):
    """A system of one parameter, by its right-hand side."""

    dt, duration, horizon = 0.01, 1.0, 1.0

    def __init__(self, rhs, size):
        self.formula, self.state_names = rhs, [f"x{k}" for k in range(size)]
        self.name, self.context = (
            rhs.__name__,
            (ContextParameter("r", "1", -1.0, 1.0, "parameter"),),
        )

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


def transcritical(x, r):
    return [x * (r - x)]


def twisted(x, y, p, q, r):
    """A cycle with p = q = 0 and period 2π, and about it a band with half a twist that lets (p, q)
    grow by r.
    """
    along, across = ((1 + x) * p + y * q) / 2, (y * p + (1 - x) * q) / 2
    growth, turn = r - p * along - q * across, 1 - x**2 - y**2
    return [
        turn * x - y, turn * y + x,
        growth * along - (p - along) - q / 2, growth * across - (q - across) + p / 2,
    ]  # fmt: skip


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
    found = branch.eigenvalue.sel(part="real") + 1j * branch.eigenvalue.sel(part="imaginary")
    for r, values in zip(branch.r.values, found.values, strict=True):
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
    found = branch.eigenvalue.sel(part="imaginary").values[0]
    # twelve of the sixteen angles follow from the other four and do not swing by themselves
    assert np.sort(found[found > 1e-3]) == pytest.approx(
        np.sort(np.sqrt(squares[squares > 1e-6])), rel=1e-6
    )
    assert int((found > 1e-3).sum()) == 4


def test_orbits_have_their_period_and_multipliers():
    branch = romkit.continuation(
        Textbook(circle, 2), kind="orbits", start=[0.7, 0.0], period=4.0, points=8, r=(0.5, 0.9)
    )
    r = branch.r.values
    assert np.hypot(*branch.state.values.T) == pytest.approx(np.sqrt(r), abs=1e-7)
    assert branch.period.values == pytest.approx(2 * np.pi / (1 + r), abs=1e-7)
    # radial deviations decay with the rate 2r
    assert branch.multiplier.values[:, 0, 0] == pytest.approx(
        np.exp(-2 * r * branch.period.values), abs=1e-6
    )


@pytest.mark.parametrize("amplitude", [0.01, -0.01])
def test_another_equilibrium_leaves_a_branch_point(amplitude):
    fork, cross = Textbook(pitchfork, 1), Textbook(transcritical, 1)
    rest = romkit.continuation(fork, start=[0.0], r=(-1.0, 1.0))
    arm = romkit.continuation(fork, start=rest, at=0, amplitude=amplitude, r=(-1.0, 1.0))
    x, r = arm.state.values[:, 0], arm.r.values
    assert x**2 == pytest.approx(r, abs=1e-8)
    assert (np.sign(x) == np.sign(amplitude)).all()
    assert bool(arm.stable.all())
    line = romkit.continuation(cross, start=[-1.0], r=(-1.0, 1.0))
    assert float(line.special_parameter[0]) == pytest.approx(0.0, abs=1e-6)
    assert (
        np.abs(
            romkit.continuation(cross, start=line, at=0, amplitude=amplitude, r=(-1.0, 1.0)).state
        ).max()
        < 1e-8
    )


def test_orbits_leave_a_hopf_point():
    rest = romkit.continuation(Textbook(circle, 2), start=[0.0, 0.0], r=(-0.5, 1.0))
    cycles = romkit.continuation(
        Textbook(circle, 2), start=rest, at=0, points=8, steps=100, r=(-0.5, 1.0)
    )
    r = cycles.r.values
    assert 0 < r[0] < 0.001 < r[-1]
    assert np.hypot(*cycles.state.values.T) ** 2 == pytest.approx(r, abs=1e-6)
    assert cycles.period.values == pytest.approx(2 * np.pi / (1 + r), abs=1e-6)


def test_a_doubled_orbit_leaves_a_period_doubling():
    """About the cycle of `twisted` the multiplier is -exp(2πr); the doubled cycle has p² + q² = r."""
    system, settings = Textbook(twisted, 4), {"steps": 100, "r": (-0.1, 0.2)}
    once = romkit.continuation(
        system, kind="orbits", start=[1.0, 0.0, 0.0, 0.0], period=6.0, points=12, **settings
    )
    assert once.special_kind.values.tolist() == ["period doubling"]
    assert float(once.special_parameter[0]) == pytest.approx(0.0, abs=1e-6)
    twice = romkit.continuation(system, start=once, at=0, points=5, **settings)
    r = twice.r.values
    assert (twice.state.values[:, 2:] ** 2).sum(-1) == pytest.approx(r, abs=1e-6)
    assert twice.period.values == pytest.approx(4 * np.pi, abs=1e-5)
    assert twice.multiplier.values[:, 0, 0] == pytest.approx(np.exp(-8 * np.pi * r), abs=1e-4)


def test_an_orbit_ends_where_it_shrinks_to_an_equilibrium():
    branch = romkit.continuation(
        Textbook(circle, 2), kind="orbits", start=[0.1, 0.0], period=6.0, steps=50, r=(0.01, -1.0)
    )
    assert abs(branch.r[-1]) < 0.003
    assert bool(branch.stable[:-1].all())


def test_a_period_doubles():
    """Rössler's first period doubling at a = b = 0.2 (2.832445 by shooting with SciPy's DOP853 at
    1e-12).
    """
    start, period = [-0.0255, -4.2, 0.06], 5.75
    system = Textbook(roessler, 3)
    branch = romkit.continuation(
        system, kind="orbits", start=start, period=period, points=12, steps=200, r=(2.7, 3.7)
    )
    assert "period doubling" in branch.special_kind.values.tolist()
    assert float(branch.special_parameter[0]) == pytest.approx(2.832445, abs=1e-5)
    assert not bool(branch.stable[-1])


def test_an_orbit_of_a_reduced_model_is_one_of_its_rollouts():
    ncae, system, dynamics = romkit.load("ncae-lorenz96"), Lorenz96(), Galerkin()
    x = ncae(F=3.18).decode(torch.tensor([0.5, 0.0])).detach()
    settled = romkit.forecast(
        ncae, initial_state=x, dynamics=dynamics, system=system, duration=40.0, dt=0.02, F=3.18
    )
    start = settled.latent.values[-1]
    branch = romkit.continuation(
        ncae, kind="orbits", start=start, period=2.55, dynamics=dynamics, system=system, points=2, steps=100,
        F=(3.18, 3.17),
    )  # fmt: skip
    period = float(branch.period[0])
    around = romkit.forecast(
        ncae, initial_state=branch.state.values[0], dynamics=dynamics, system=system, duration=period, dt=period / 100,
        F=3.18, solver=RK4(period / 100),
    )  # fmt: skip
    assert around.latent.values[-1] == pytest.approx(around.latent.values[0], abs=1e-6)
    found = romkit.verify(branch, system, every=2)
    assert float(found.period[0]) == pytest.approx(2.54824, abs=1e-5)  # the wave of the full model
    assert abs(period / float(found.period[0]) - 1) < 0.002
    assert float(found.distance.max()) < 0.05
    assert bool(found.stable.all())


def test_bifurcations_of_a_basis_are_those_of_the_full_model():
    """The steady state x = F leaves no more of itself than its mean to a basis of waves with it."""
    system = Lorenz96(n=8)
    wave = torch.cos(2 * torch.pi * torch.outer(torch.arange(5.0), torch.arange(8.0)) / 8)
    basis = romkit.basis(torch.cat([wave, wave.roll(1, 1), 2 * wave[:1]]).double(), rank=8)
    rest = romkit.continuation(
        system.through(basis), start=basis.encode(torch.full((8,), 0.5).double()), F=(0.5, 1.0)
    )
    found = romkit.verify(rest, system)
    assert rest.special_kind.values.tolist() == ["Hopf"]
    assert found.special_parameter.values == pytest.approx(rest.special_parameter.values, abs=1e-6)
    assert found.state.values == pytest.approx(rest.decoded.values[found.point], abs=1e-8)


def test_newton_krylov_finds_what_newton_finds(monkeypatch):
    system = Lorenz96(n=6)
    rest = romkit.continuation(system, start=[0.5] * 6, points=3, F=(0.5, 0.8))
    shifted = rest.assign(state=rest.state + 0.01)
    monkeypatch.setattr(branches, "DENSE", 5)
    assert romkit.verify(shifted, system, every=1).state.values == pytest.approx(
        rest.state.values, abs=1e-7
    )


def test_a_verified_fold_lies_where_it_does():
    system = Textbook(cusp, 1)
    branch = romkit.continuation(system, start=[-1.3], r=(-1.0, 1.0))
    assert romkit.verify(branch, system).special_parameter.values == pytest.approx(
        [FOLD, -FOLD], abs=1e-6
    )


REST = romkit.continuation(Textbook(brusselator, 2), start=[1.0, 0.5], r=(0.5, 4.0))

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
    ({"r": (0.5, 1.0), "kind": "orbits", "period": 1e-6, "start": [3.0, 2.0]}, "start"),
    ({"r": (0.0, 1.0), "dynamics": Galerkin()}, "dynamics"),
    ({"r": (0.5, 4.0), "start": REST}, "at"),
    ({"r": (0.5, 4.0), "at": 0}, "at"),
    ({"r": (0.5, 4.0), "start": REST, "at": 1}, "at"),
    (
        {"r": (0.5, 4.0), "start": REST.assign_coords(special_kind=("special", ["fold"])), "at": 0},
        "at",
    ),
    ({"r": (0.5, 4.0), "start": REST.assign_attrs(parameter="q"), "at": 0}, "start"),
    ({"r": (0.5, 4.0), "start": REST[["state"]], "at": 0}, "start"),
]


@pytest.mark.parametrize(("given", "argument"), BAD)
def test_bad_input_is_refused_by_name(given, argument):
    with pytest.raises(InputError, match=f"^{argument}: "):
        romkit.continuation(Textbook(brusselator, 2), **{"start": [1.0, 0.5]} | given)


@pytest.mark.parametrize(
    ("branch", "system"),
    [(REST, Textbook(cusp, 1)), (REST, Lorenz96()), (REST[["state"]], Textbook(brusselator, 2))],
)
def test_a_branch_of_another_model_is_not_verified(branch, system):
    with pytest.raises(InputError, match=r"^branch: "):
        romkit.verify(branch, system)


def test_dynamics_without_a_field_are_refused():
    with pytest.raises(InputError, match=r"^dynamics: "):
        romkit.continuation(
            romkit.load("ncae-lorenz96"),
            dynamics=LSPG(),
            system=Lorenz96(),
            start=[0.1, 0.2],
            F=(3.14, 3.15),
        )
