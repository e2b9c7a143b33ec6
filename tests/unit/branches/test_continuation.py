"""Continuation against bifurcations that are known in closed form, or from the literature."""

import math
import warnings

import numpy as np
import pytest
import torch
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.special import ellipk

import romkit
from romkit.branches import verification
from romkit.data import ContextParameter
from romkit.errors import ExtrapolationWarning, InputError
from romkit.integrators import LSPG, Galerkin
from romkit.laws import SINDy
from romkit.projections import stack
from romkit.solvers import RK4
from romkit.systems import Lorenz96, Pendulum, System
from tests.refusals import refused


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

    def rate(self, t, x, r):
        return self.formula(*x, r)

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


def slow_beside_fast(x, y, r):
    return [1e-9 * (r * x - x**3), -y]


def slow_pitchfork(x, r):
    return [1e-12 * (r * x - x**3)]


def fast_pitchfork(x, r):
    return [1e12 * (r * x - x**3)]


@pytest.mark.parametrize("formula", [slow_beside_fast, slow_pitchfork, fast_pitchfork])
def test_growth_of_any_rate_is_growth(formula):
    """A pitchfork at r = 0, in any unit of time and beside any decay; rest is unstable beyond."""
    size = formula.__code__.co_argcount - 1
    rest = romkit.continuation(Textbook(formula, size), start=[0.0] * size, r=(-1.0, 1.0))
    assert rest.special_kind.values.tolist() == ["branch point"]
    assert rest.special_parameter.values == pytest.approx(0.0, abs=0.01)
    # within a hundredth of r = 0 growth beside decay is rounding
    away = rest.where(abs(rest.r) > 0.01, drop=True)
    assert (away.stable == (away.r < 0)).all()


def test_eigenvalues_are_those_of_the_linearised_field():
    branch = romkit.continuation(Textbook(brusselator, 2), start=[1.0, 0.5], r=(0.5, 4.0))
    found = branch.eigenvalue.sel(part="real") + 1j * branch.eigenvalue.sel(part="imaginary")
    for r, values in zip(branch.r.values, found.values, strict=True):
        # trace and determinant at x = 1, y = r: eigenvalues meet at r = 4 and are ill-conditioned
        assert values.sum() == pytest.approx(r - 2, abs=1e-8)
        assert values.prod() == pytest.approx(1.0, abs=1e-8)
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


@pytest.mark.parametrize("dt", [0.5, 0.01])
def test_orbits_have_their_period_and_multipliers(dt):
    """Whatever the step of the system: steps of 0.5 alone would err by some 1e-3."""
    system = Textbook(circle, 2)
    system.dt = dt
    branch = romkit.continuation(
        system, kind="orbits", start=[0.7, 0.0], period=4.0, points=8, r=(0.5, 0.9)
    )
    r = branch.r.values
    assert np.hypot(*branch.state.values.T) == pytest.approx(np.sqrt(r), abs=1e-7)
    assert branch.period.values == pytest.approx(2 * np.pi / (1 + r), abs=1e-7)
    # radial deviations decay with the rate 2r
    assert branch.multiplier.values[:, 0, 0] == pytest.approx(
        np.exp(-2 * r * branch.period.values), abs=1e-6
    )


def test_another_equilibrium_leaves_a_branch_point():
    fork, cross = Textbook(pitchfork, 1), Textbook(transcritical, 1)
    ends = {"r": (-1.0, 1.0)}
    rest = romkit.continuation(fork, start=[0.0], **ends)
    line = romkit.continuation(cross, start=[-1.0], **ends)
    assert float(line.special_parameter[0]) == pytest.approx(0.0, abs=1e-6)
    for amplitude in (0.01, -0.01):
        arm = romkit.continuation(fork, start=rest, at=0, amplitude=amplitude, **ends)
        x, r = arm.state.values[:, 0], arm.r.values
        assert x**2 == pytest.approx(r, abs=1e-8)
        assert (np.sign(x) == np.sign(amplitude)).all()
        assert bool(arm.stable.all())
        other = romkit.continuation(cross, start=line, at=0, amplitude=amplitude, **ends)
        assert np.abs(other.state).max() < 1e-8


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
    # p and q are what settling leaves of zero, and not of that size
    start = [1.0, 0.0, 1e-20, -1e-20]
    once = romkit.continuation(
        system, kind="orbits", start=start, period=6.0, points=12, **settings
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
        ncae, initial_state=x, dynamics=dynamics, system=system, duration=40.0, dt=0.02, F=3.18,
        solver=RK4(0.01),
    )  # fmt: skip
    start = settled.latent.values[-1]
    branch = romkit.continuation(
        ncae, kind="orbits", start=start, period=2.55, dynamics=dynamics, system=system, points=2,
        F=(3.18, 3.17),
    )  # fmt: skip
    period = float(branch.period[0])
    around = romkit.forecast(
        ncae, initial_state=branch.state.values[0], dynamics=dynamics, system=system, duration=period, dt=period / 100,
        F=3.18, solver=RK4(period / 1600),
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
    monkeypatch.setattr(verification, "DENSE", 5)
    assert romkit.verify(shifted, system, every=1).state.values == pytest.approx(
        rest.state.values, abs=1e-7
    )


def test_a_verified_fold_lies_where_it_does():
    system = Textbook(cusp, 1)
    branch = romkit.continuation(system, start=[-1.3], r=(-1.0, 1.0))
    assert romkit.verify(branch, system).special_parameter.values == pytest.approx(
        [FOLD, -FOLD], abs=1e-6
    )


def integrated(system, w, parameter, duration):
    """States of the full model by SciPy."""

    def rate(t, y):
        return system.rate(t, y, parameter)

    return solve_ivp(rate, (0.0, duration), w, rtol=1e-11, atol=1e-12, method="DOP853").y


def gap(system, orbits, k):
    """Distance of orbit k from itself after its period."""
    w = orbits.state.values[k]
    parameter = float(orbits[orbits.attrs["parameter"]][k])
    return np.abs(integrated(system, w, parameter, float(orbits.period[k]))[:, -1] - w).max()


def test_orbits_leave_the_hopf_point_of_the_brusselator():
    """Hopf at B = 1 + A² with frequency A; stable cycles behind it."""
    A = 2.2

    def reaction(x, y, r):
        return [A + x**2 * y - (r + 1) * x, r * x - x**2 * y]

    system, hopf = Textbook(reaction, 2), 1 + A**2
    ends = (0.9 * hopf, hopf + 1.5)
    rest = romkit.continuation(system, start=[A, 0.9 * hopf / A], r=ends)
    assert rest.special_parameter.values == pytest.approx([hopf], abs=1e-6)
    cycles = romkit.continuation(system, start=rest, at=0, points=6, r=ends)
    assert 0 < cycles.r[0] - hopf < 0.001
    assert float(cycles.period[0]) == pytest.approx(2 * np.pi / A, rel=1e-3)
    assert max(gap(system, cycles, k) for k in (0, 2, 5)) < 1e-6
    assert bool(cycles.stable.all())


def fitzhugh(v, w, r):
    return [v - v**3 / 3 - w + r, 0.08 * (v + 0.7 - 0.8 * w)]


def lorenz(x, y, z, r):
    return [10 * (y - x), x * (r - z) - y, x * y - 8 / 3 * z]


def test_orbits_leave_both_hopf_points_of_fitzhugh_nagumo():
    system, frequency = Textbook(fitzhugh, 2), math.sqrt(0.08 - (0.08 * 0.8) ** 2)
    rest = romkit.continuation(system, start=[-1.2, -0.6], r=(0.0, 1.6))
    for at, side in enumerate((-1, 1)):
        v = side * math.sqrt(1 - 0.08 * 0.8)
        hopf = (v + 0.7) / 0.8 - v + v**3 / 3
        assert float(rest.special_parameter[at]) == pytest.approx(hopf, abs=1e-6)
        cycles = romkit.continuation(system, start=rest, at=at, points=6, r=(0.0, 1.6))
        assert float(cycles.period[0]) == pytest.approx(2 * np.pi / frequency, rel=1e-3)
        assert max(gap(system, cycles, k) for k in (0, 5)) < 1e-6
        assert not bool(cycles.stable[0])  # both are subcritical
        # amplitudes grow like the root of the distance from the Hopf point
        amplitude, distance = np.ptp(cycles.state.values[:2, 0]), np.abs(cycles.r.values[:2] - hopf)
        assert distance[1] > distance[0]
        assert amplitude > 0


def test_unstable_orbits_leave_the_hopf_point_of_lorenz():
    """Subcritical at r = σ(σ + β + 3)/(σ - β - 1); multipliers by the variational equation."""
    system, hopf = Textbook(lorenz, 3), 10 * (10 + 8 / 3 + 3) / (10 - 8 / 3 - 1)
    rest = romkit.continuation(system, start=[6.0, 6.0, 15.0], r=(16.0, 30.0))
    assert rest.special_parameter.values == pytest.approx([hopf], rel=1e-6)
    cycles = romkit.continuation(system, start=rest, at=0, points=36, r=(13.0, 30.0))
    assert (cycles.r < hopf).all()
    assert not bool(cycles.stable.any())
    assert cycles.special_kind.values.tolist() == []
    assert max(gap(system, cycles, k) for k in (0, 20, 35)) < 1e-5
    r, w, period = float(cycles.r[-1]), cycles.state.values[-1], float(cycles.period[-1])

    def varied(t, y):
        (x, y_, z), V = y[:3], y[3:].reshape(3, 3)
        J = np.array([[-10, 10, 0], [r - z, -1, -x], [y_, x, -8 / 3]])
        return np.concatenate([lorenz(x, y_, z, r), (J @ V).ravel()])

    begin = np.concatenate([w, np.eye(3).ravel()])
    end = solve_ivp(varied, (0, period), begin, rtol=1e-11, atol=1e-12, method="DOP853").y[:, -1]
    largest = np.abs(np.linalg.eigvals(end[3:].reshape(3, 3))).max()
    assert largest > 5
    assert float(cycles.multiplier[-1, 0, 0]) == pytest.approx(largest, rel=1e-3)


def test_states_of_any_size_have_the_same_branches():
    """The cycle of `circle` in units of 10⁻⁴ and 10⁴."""

    class Scaled(Textbook):
        def __init__(self, unit):
            super().__init__(circle, 2)
            # as a tensor, so that one kernel serves all units
            self.unit = torch.tensor(unit, dtype=torch.float64)

        def rhs(self, t, x, c):
            return self.unit * super().rhs(t, x / self.unit, c)

        def initial_state(self, contexts, rng):
            return self.unit * contexts.new_ones(len(contexts), 2)

    for unit in (1e-4, 1e4):
        system = Scaled(unit)
        rest = romkit.continuation(system, start=[0.0, 0.0], r=(-0.5, 1.0))
        assert rest.special_kind.values.tolist() == ["Hopf"]
        cycles = romkit.continuation(system, start=rest, at=0, r=(-0.5, 1.0))
        assert cycles.attrs["end"] == "range"
        assert cycles.sizes["point"] < 60
        radius = np.hypot(*cycles.state.values.T) / unit
        assert radius**2 == pytest.approx(cycles.r.values, abs=1e-6)


def imperfect(x, r):
    return [1e-3 + r * x - x**3]


def round_pitchfork(x, y, r):
    return [r * x - x * (x**2 + y**2), r * y - y * (x**2 + y**2)]


def coupled(x, y, r):
    return [(r - x**2) * x, r - 0.3 - y]


@pytest.mark.parametrize(
    ("formula", "start", "ends", "kinds", "at"),
    [
        (pitchfork, [1.0], (1.0, -1.0), ["branch point"], [0.0]),
        (pitchfork, [-1.0], (1.0, -1.0), ["branch point"], [0.0]),
        (round_pitchfork, [1.0, 0.0], (1.0, -1.0), ["branch point"], [0.0]),
        (coupled, [1.0, 0.7], (1.0, -1.0), ["branch point"], [0.0]),
        # x³ - rx = 10⁻³ turns where 3x² = r
        (imperfect, [-1.0], (1.0, -1.0), ["fold"], [3 * (1e-3 / 2) ** (2 / 3)]),
        (transcritical, [-1.0], (-1.0, 1.0), ["branch point"], [0.0]),
    ],
)
def test_branch_points_are_told_from_folds(formula, start, ends, kinds, at):
    branch = romkit.continuation(Textbook(formula, len(start)), start=start, r=ends)
    assert branch.special_kind.values.tolist() == kinds
    assert branch.special_parameter.values == pytest.approx(at, abs=1e-4)


def test_a_branch_leaves_a_branch_point_that_was_met_from_the_side():
    fork = Textbook(pitchfork, 1)
    arm = romkit.continuation(fork, start=[1.0], r=(1.0, -1.0))
    rest = romkit.continuation(fork, start=arm, at=0, r=(1.0, -1.0))
    assert np.abs(rest.state.values).max() < 1e-3
    assert np.ptp(rest.r.values) > 0.9


def ring(x, r):
    """Equilibria on a circle about (0, 0)."""
    return [x**2 + r**2 - 0.25]


def lost(x, r):
    return [torch.sqrt(0.5 - r) - x]


@pytest.mark.parametrize(
    ("formula", "start", "settings", "end"),
    [
        (cusp, [-1.3], {"r": (-1.0, 1.0)}, "range"),
        (cusp, [-1.3], {"r": (-1.0, 1.0), "points": 5}, "points"),
        (ring, [0.5], {"r": (0.0, 1.0)}, "range"),
        (ring, [0.4], {"r": (-0.3, 1.0)}, "range"),
        (circle, [0.3, 0.0], {"r": (0.1, -1.0), "kind": "orbits", "period": 6.0}, "equilibrium"),
    ],
)
def test_a_branch_says_why_it_ended(formula, start, settings, end, recwarn):
    branch = romkit.continuation(Textbook(formula, len(start)), start=start, **settings)
    assert branch.attrs["end"] == end
    assert not [w for w in recwarn if w.category is RuntimeWarning]
    if end == "range":
        low, high = settings["r"]
        assert min(abs(branch.r.values[-1] - low), abs(branch.r.values[-1] - high)) < 1e-9


def test_a_closed_branch_ends_where_it_began():
    branch = romkit.continuation(Textbook(ring, 1), start=[0.4], r=(0.3, 1.3))
    assert branch.attrs["end"] == "range"  # r = 0.3 is the end of the range
    inside = Textbook(ring, 1)
    whole = romkit.continuation(inside, start=[0.5], r=(-1e-9, 1.0))
    assert whole.attrs["end"] in ("range", "closed")


def test_a_branch_that_ends_inside_its_range_warns_once():
    with pytest.warns(RuntimeWarning) as caught:
        branch = romkit.continuation(Textbook(lost, 1), start=[1.2], r=(-1.0, 1.0))
    assert branch.attrs["end"] == "step"
    assert float(branch.r[-1]) == pytest.approx(0.5, abs=0.01)
    assert len([w for w in caught if w.category is RuntimeWarning]) == 1


class Forced(System):
    """An oscillator x″ + 0.2 x′ + x + stiffness · x³ = g cos ωt, by the time."""

    name, state_names, dt, duration, horizon = "forced", ["x", "v"], 0.01, 10.0, 10.0
    context = (ContextParameter("g", "1", 0.0, 2.0, "amplitude"),)

    def __init__(self, stiffness, frequency=1.0):
        # as a tensor, so that one kernel serves all of them
        self.constants = torch.tensor([stiffness, frequency], dtype=torch.float64)
        self.stiffness, self.frequency = stiffness, frequency

    def rhs(self, t, x, c):
        q, v = x.unbind(-1)
        stiffness, frequency = self.constants
        force = c[..., 0] * torch.cos(frequency * t)
        return torch.stack([v, -0.2 * v - q - stiffness * q**3 + force], dim=-1)

    def rate(self, t, x, g):
        q, v = x
        return [v, -0.2 * v - q - self.stiffness * q**3 + g * np.cos(self.frequency * t)]

    def initial_state(self, contexts, rng):
        return contexts.new_ones(len(contexts), 2)


class Swept(Forced):
    """The frequency is the parameter."""

    def rhs(self, t, x, c):
        q, v = x.unbind(-1)
        return torch.stack([v, -0.2 * v - q + torch.cos((1 + c[..., 0]) * t)], dim=-1)


class Parametric(Forced):
    """A swing: its rest knows nothing of the time, its linearisation does."""

    def rhs(self, t, x, c):
        q, v = x.unbind(-1)
        return torch.stack([v, -0.2 * v - (1 + c[..., 0] * torch.cos(2 * t)) * q - q**3], dim=-1)


class Pulsed(Forced):
    """A pulse that comes late and ends."""

    def rhs(self, t, x, c):
        q, v = x.unbind(-1)
        return torch.stack([v, -0.2 * v - q + c[..., 0] * torch.exp(-((t - 7) ** 2))], dim=-1)


@pytest.mark.parametrize("system", [Forced(1.0), Swept(0.0), Parametric(1.0), Pulsed(0.0)])
def test_a_forced_field_has_no_equilibria(system):
    with pytest.raises(InputError) as refused:
        romkit.continuation(system, start=[0.0, 0.0], g=(0.0, 0.5))
    assert refused.value.argument == "source"


def test_orbits_of_a_linear_oscillator_in_resonance_are_exact():
    """x = 5 g sin t; both multipliers have the modulus e^(-0.2π)."""
    orbits = romkit.continuation(
        Forced(0.0), kind="orbits", start=[0.0, 0.5], period=6.28, points=9, g=(0.1, 1.0)
    )
    assert orbits.period.values == pytest.approx(2 * np.pi, abs=1e-9)
    assert orbits.state.values[:, 0] == pytest.approx(0.0, abs=1e-6)
    assert orbits.state.values[:, 1] == pytest.approx(5 * orbits.g.values, abs=1e-6)
    modulus = np.hypot(*np.moveaxis(orbits.multiplier.values, -1, 0))
    assert modulus == pytest.approx(math.exp(-0.2 * np.pi), abs=1e-6)


def test_forced_orbits_turn_where_a_multiplier_is_one():
    system, period = Forced(1.0, frequency=1.6), 2 * np.pi / 1.6
    start = integrated(system, [0.0, 0.0], 0.05, 40 * period)[:, -1]
    orbits = romkit.continuation(system, kind="orbits", start=start, period=period, g=(0.05, 1.0))
    assert orbits.special_kind.values.tolist() == ["fold", "fold"]
    assert orbits.attrs["end"] == "range"
    assert max(gap(system, orbits, k) for k in range(0, orbits.sizes["point"], 30)) < 1e-6
    for w, g in zip(orbits.special_state.values, orbits.special_parameter.values, strict=True):
        h = 1e-5 * np.eye(2)
        moved = np.vstack([w + h, w - h])
        ends = np.stack([integrated(system, state, float(g), period)[:, -1] for state in moved])
        monodromy = (ends[:2] - ends[2:]).T / 2e-5
        assert np.abs(np.linalg.eigvals(monodromy) - 1).min() < 1e-3


@pytest.mark.parametrize(
    ("system", "period"), [(Forced(1.0), 5.0), (Swept(0.0), 2 * np.pi), (Pulsed(0.0), 6.0)]
)
def test_a_period_that_is_none_of_the_force_is_refused(system, period):
    with pytest.raises(InputError) as refused:
        romkit.continuation(
            system, kind="orbits", start=[0.1, 0.0], period=period, points=2, g=(0.1, 0.5)
        )
    assert refused.value.argument in ("period", "start")


@pytest.fixture(scope="module")
def rest():
    """States of rest of the Brusselator, with a Hopf bifurcation."""
    return romkit.continuation(Textbook(brusselator, 2), start=[1.0, 0.5], r=(0.5, 4.0))


BAD = [
    ({"r": 0.5}, "context"),
    ({"r": (0.5, 0.5)}, "r"),
    ({"r": ("a", "b")}, "context"),
    ({"r": xr.Dataset()}, "context"),
    ({"r": [[0.5, 1.0], [1.0]]}, "context"),
    ({"r": (0.5, math.nan)}, "r"),
    ({"q": (0.0, 1.0)}, "q"),
    ({"r": (0.0, 1.0), "start": [1.0]}, "start"),
    ({"r": (0.0, 1.0), "start": [math.nan, 0.0]}, "start"),
    ({"r": (0.0, 1.0), "start": [[1.0, 0.5]]}, "start"),
    ({"r": (0.0, 1.0), "start": 1.0}, "start"),
    ({"r": (0.0, 1.0), "kind": "tori"}, "kind"),
    ({"r": (0.0, 1.0), "kind": "orbits"}, "period"),
    ({"r": (0.0, 1.0), "kind": "orbits", "period": 0.0}, "period"),
    ({"r": (0.5, 1.0), "kind": "orbits", "period": 1.0}, "start"),
    ({"r": (0.5, 1.0), "kind": "orbits", "period": 1e-6, "start": [3.0, 2.0]}, "start"),
    ({"r": (0.0, 1.0), "dynamics": Galerkin()}, "dynamics"),
    ({"r": (0.5, 4.0), "at": 0}, "at"),
]

BAD_STARTS = [
    (lambda rest: {"start": rest}, "at"),
    (lambda rest: {"start": rest, "at": 1}, "at"),
    (lambda rest: {"start": rest.assign_coords(special_kind=("special", ["fold"])), "at": 0}, "at"),
    (lambda rest: {"start": rest.assign_attrs(parameter="q"), "at": 0}, "start"),
    (lambda rest: {"start": rest[["state"]], "at": 0}, "start"),
]


@pytest.mark.parametrize(("given", "argument"), BAD)
def test_bad_input_is_refused_by_name(given, argument):
    refused(
        argument,
        romkit.continuation,
        Textbook(brusselator, 2),
        **{"start": [1.0, 0.5]} | given,
    )


@pytest.mark.parametrize(("given", "argument"), BAD_STARTS)
def test_a_branch_that_is_no_start_is_refused(rest, given, argument):
    system = Textbook(brusselator, 2)
    refused(argument, romkit.continuation, system, r=(0.5, 4.0), **given(rest))


def test_a_branch_of_another_model_is_not_verified(rest):
    own = Textbook(brusselator, 2)
    others = [
        (rest, Textbook(cusp, 1)),
        (rest, Lorenz96()),
        (rest[["state"]], own),
        (rest.assign(state=rest.state * np.nan), own),
        (rest.assign(state=rest.state * 1j), own),
        (rest.isel(point=slice(0)), own),
    ]
    for branch, system in others:
        refused("branch", romkit.verify, branch, system)


class Growing(System):
    """A cycle of radius √r, from a radius of its own inwards or outwards."""

    name, state_names, dt, duration, horizon = "growing", ["x", "y"], 0.05, 15.0, 15.0
    context = (ContextParameter("r", "1", 0.8, 1.2, "square of the radius"),)

    def __init__(self, begin):
        self.begin = begin

    def rhs(self, t, x, c):
        return torch.stack(circle(*x.unbind(-1), c[..., 0]), dim=-1)

    def initial_state(self, contexts, rng):
        start = torch.tensor([self.begin, 0.0], dtype=contexts.dtype)
        return start.expand(len(contexts), 2).clone()


@pytest.mark.parametrize(("begin", "known"), [(0.02, True), (0.9, False)])
def test_points_beyond_the_samples_of_a_law_are_warned_of_once(begin, known):
    """The equilibrium in the middle of the cycle is near data only where runs begin there."""
    data = Growing(begin).dataset(r=[0.8, 0.9, 1.0, 1.1, 1.2])
    plane = romkit.fit("pod", data, latent_dim=2, verbose=False)
    law = SINDy(degree=3, threshold=0.0, context_degree=1, refine=False).fit(plane, data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rest = romkit.continuation(plane, dynamics=law, start=[0.0, 0.0], r=(0.8, 1.2))
    beyond = [w for w in caught if w.category is ExtrapolationWarning]
    assert len(beyond) == (0 if known else 1)
    assert np.abs(rest.decoded).max() < 1e-2
    if known:
        # the linearised field grows as r
        growth = rest.eigenvalue.sel(part="real").max("mode")
        assert np.allclose(growth, rest.r, atol=1e-3)


def test_a_stack_has_no_branch():
    ncae = romkit.load("ncae-lorenz96")
    with pytest.raises(InputError) as caught:
        romkit.continuation(stack([ncae, ncae]), start=[0.0, 0.0], F=(3.14, 3.19))
    assert caught.value.argument == "projection"


def test_dynamics_without_a_field_are_refused():
    refused(
        "dynamics",
        romkit.continuation,
        romkit.load("ncae-lorenz96"),
        dynamics=LSPG(),
        system=Lorenz96(),
        start=[0.1, 0.2],
        F=(3.14, 3.15),
    )


class WithoutRest(System):
    """ẋ = 1 + x² + c² has no equilibrium, and least residual at zero."""

    name, state_names, dt, duration, horizon = "without", ("x",), 0.05, 1.0, 1.0
    context = (ContextParameter("r", "1", 0.0, 1.0, "offset"),)

    def rhs(self, t, x, c):
        return 1 + x**2 + c**2

    def initial_state(self, contexts, rng):
        return torch.zeros(len(contexts), 1, dtype=torch.float64)


@pytest.mark.parametrize("start", [0.0, 0.3, -2.0])
def test_a_least_residual_is_no_equilibrium(start):
    refused("start", romkit.continuation, WithoutRest(), start=[start], r=(0.0, 1.0))


class Oscillator(System):
    """Van der Pol."""

    name, state_names, dt, duration, horizon = "oscillator", ("x", "y"), 0.05, 1.0, 1.0
    context = (ContextParameter("mu", "1", 0.1, 2.0, "damping"),)

    def rhs(self, t, x, c):
        position, velocity = x.unbind(-1)
        force = c[..., 0] * (1 - position**2) * velocity - position
        return torch.stack([velocity, force], dim=-1)

    def initial_state(self, contexts, rng):
        return torch.tensor([[2.0, 0.0]], dtype=torch.float64).expand(len(contexts), 2)


@pytest.mark.parametrize("rounds", [2, 3, 4])
def test_the_time_of_several_rounds_is_no_period(rounds):
    once = {"start": [2.0, 0.0], "kind": "orbits", "mu": (0.5, 0.55)}
    branch = romkit.continuation(Oscillator(), period=6.38, **once)
    assert float(branch.period[0]) == pytest.approx(6.38068, abs=1e-4)
    refused("period", romkit.continuation, Oscillator(), period=rounds * 6.38, **once)


def duffing(x, y, r):
    return [y, r * x - x - x**3]


def test_an_orbit_of_a_conservative_system_is_refused_as_one_of_a_family():
    # x'' = -x - x^3 from x = 1 at rest: T = 4 K(1/4) / sqrt(2)
    period = 4 * ellipk(1 / 4) / math.sqrt(2)
    call = {"start": [1.0, 0.0], "kind": "orbits", "period": 4.6, "r": (0.0, 0.5)}
    refused(f"of period {period:.6g}", romkit.continuation, Textbook(duffing, 2), **call)


def beside_a_circle(x, y, z, r):
    rest = 1 + r - x**2 - y**2
    return [rest * x - y, rest * y + x, 1e-7 * z]


def test_orbits_whose_growth_differences_do_not_see_are_named():
    call = {"start": [1.0, 0.0, 0.0], "kind": "orbits", "period": 2 * math.pi, "points": 2}
    with pytest.warns(RuntimeWarning, match="2 of 2 orbits neither grow nor decay"):
        romkit.continuation(Textbook(beside_a_circle, 3), r=(0.0, 0.5), **call)
