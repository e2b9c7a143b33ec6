"""Branches of textbooks, each with its source and the values that formulas or SciPy give."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import romkit
from romkit.data import ContextParameter
from romkit.systems import System


class Textbook(System):
    """A system of one parameter, by its right-hand side."""

    dt, duration, horizon = 0.01, 1.0, 1.0

    def __init__(self, rhs, size, ends=(-1.0, 1.0)):
        self.formula, self.state_names = rhs, [f"x{k}" for k in range(size)]
        self.name = getattr(rhs, "__name__", "textbook")
        self.context = (ContextParameter("r", "1", min(ends), max(ends), "parameter"),)

    def rhs(self, t, x, c):
        return torch.stack(self.formula(*x.unbind(-1), c[..., 0]), dim=-1)

    def initial_state(self, contexts, rng):
        return contexts.new_zeros(len(contexts), len(self.state_names))


def followed(formula, start, ends, **settings):
    system = Textbook(formula, len(start), ends)
    return romkit.continuation(system, start=start, r=ends, **settings)


def specials(branch):
    places = branch.special_parameter.values
    return list(zip(branch.special_kind.values.tolist(), places, strict=True))


@dataclass
class Case:
    """A branch of equilibria: formula, start at the first end, ends, and special points in order."""

    source: str
    formula: object
    start: list
    ends: tuple
    expected: list


def gene(s):
    """Rest of g' = s - 0.4 g + g²/(1 + g²) as s of g."""
    return 0.4 * s - s**2 / (1 + s**2)


def turning(parameter_of, low, high):
    """Parameter of an equilibrium where it turns between two states."""

    def slope(x, h=1e-6):
        return parameter_of(x + h) - parameter_of(x - h)

    return parameter_of(brentq(slope, low, high))


def budworm(x):
    """Growth r of r x (1 - x/10) = x²/(1 + x²) as a function of the state."""
    return x / (1 + x**2) / (1 - x / 10)


def reactor(y):
    """p of p (1 - x) e^y = x, with y = 14 x / 3."""
    x = 3 * y / 14
    return x / ((1 - x) * np.exp(y))


def reactor_trace(y):
    p = reactor(y)
    x = 3 * y / 14
    by_x, by_y = -1 - p * np.exp(y), -3 + 14 * p * (1 - x) * np.exp(y)
    return by_x + by_y


FOLD = 2 / (3 * np.sqrt(3))
STEEP_FOLD = np.sqrt(0.99) - np.arctanh(np.sqrt(0.99)) / 100
NERVE = -np.sqrt(1 - 0.8 * 0.08)
NERVE_HOPF = NERVE**3 / 3 - NERVE + (NERVE + 0.7) / 0.8
HOPF_OF_LORENZ = 10 * (10 + 8 / 3 + 3) / (10 - 8 / 3 - 1)
AT_HOPF = brentq(reactor_trace, 3.0, 4.5)

CASES = {
    "cusp": Case(
        "Strogatz, Nonlinear Dynamics and Chaos, 3.6",
        lambda x, r: [r + x - x**3], [-1.3], (-1.0, 1.0), [("fold", FOLD), ("fold", -FOLD)],
    ),
    "transcritical": Case(
        "Strogatz 3.2", lambda x, r: [x * (r - x)], [0.0], (-1.0, 1.0), [("branch point", 0.0)]
    ),
    "pitchfork": Case(
        "Strogatz 3.4", lambda x, r: [r * x - x**3], [0.0], (-1.0, 1.0), [("branch point", 0.0)]
    ),
    "subcritical pitchfork, from its upper branch": Case(
        "Strogatz 3.4",
        lambda x, r: [r * x + x**3 - x**5], [1.27], (1.0, -1.0),
        [("fold", -0.25), ("branch point", 0.0), ("fold", -0.25)],
    ),
    "imperfect pitchfork": Case(
        "Strogatz 3.6", lambda x, r: [1e-6 + r * x - x**3], [0.0], (-1.0, 1.0), []
    ),
    "budworm": Case(
        "Ludwig, Jones, Holling (1978); Strogatz 3.7",
        lambda x, r: [r * x * (1 - x / 10) - x**2 / (1 + x**2)], [0.22], (0.2, 0.7),
        [("fold", turning(budworm, 0.5, 2.0)), ("fold", turning(budworm, 2.0, 6.0))],
    ),
    "gene": Case(
        "Lewis, Slack, Wolpert (1977); Strogatz, exercise 3.7.5",
        lambda x, r: [r - 0.4 * x + x**2 / (1 + x**2)], [0.0], (0.0, 0.1),
        [("fold", turning(gene, 0.05, 0.5))],
    ),
    "steep switch": Case(
        "its formula: 1 = 100 sech²(100 x)",
        lambda x, r: [r - x + torch.tanh(100 * x)], [-2.5], (-1.5, 1.5),
        [("fold", STEEP_FOLD), ("fold", -STEEP_FOLD)],
    ),
    "hoop": Case(
        "bead on a rotating hoop, Strogatz 3.5",
        lambda x, v, r: [v, torch.sin(x) * (r * torch.cos(x) - 1) - v], [0.0, 0.0], (0.2, 3.0),
        [("branch point", 1.0)],
    ),
    "Brusselator": Case(
        "Prigogine, Lefever (1968)",
        lambda x, y, r: [1 - (r + 1) * x + x**2 * y, r * x - x**2 * y], [1.0, 0.5], (0.5, 4.0),
        [("Hopf", 2.0)],
    ),
    "nerve": Case(
        "FitzHugh (1961): zero trace",
        lambda v, w, r: [v - v**3 / 3 - w + r, 0.08 * (v + 0.7 - 0.8 * w)], [-1.2, -0.62],
        (0.0, 2.0), [("Hopf", NERVE_HOPF), ("Hopf", 1.75 - NERVE_HOPF)],
    ),
    "Lorenz at rest": Case(
        "Lorenz (1963)",
        lambda x, y, z, r: [10 * (y - x), x * (r - z) - y, x * y - 8 / 3 * z], [0.0] * 3,
        (0.5, 30.0), [("branch point", 1.0)],
    ),
    "Lorenz in convection": Case(
        "Lorenz (1963): σ (σ + b + 3)/(σ - b - 1)",
        lambda x, y, z, r: [10 * (y - x), x * (r - z) - y, x * y - 8 / 3 * z],
        [np.sqrt(8 / 3 * 9), np.sqrt(8 / 3 * 9), 9.0], (10.0, 30.0), [("Hopf", HOPF_OF_LORENZ)],
    ),
    "reactor": Case(
        "Uppal, Ray, Poore (1974), demo ab of AUTO",
        lambda x, y, r: [
            -x + r * (1 - x) * torch.exp(y), -3 * y + 14 * r * (1 - x) * torch.exp(y)
        ],
        [0.0, 0.0], (0.0, 0.15),
        [
            ("fold", turning(reactor, 0.3, 2.0)), ("fold", turning(reactor, 2.0, 4.0)),
            ("Hopf", reactor(AT_HOPF)),
        ],
    ),
    "predator and prey": Case(
        "Rosenzweig, MacArthur (1963): capacity x* and 1 + 2 x*, x* = 1",
        lambda x, y, r: [x * (1 - x / r) - x * y / (1 + x), y * (x / (1 + x) - 0.5)], [0.5, 0.0],
        (0.5, 5.0), [("branch point", 1.0)],
    ),
    "predator and prey together": Case(
        "Rosenzweig, MacArthur (1963)",
        lambda x, y, r: [x * (1 - x / r) - x * y / (1 + x), y * (x / (1 + x) - 0.5)], [1.0, 1.0],
        (2.0, 5.0), [("Hopf", 3.0)],
    ),
    "fold outside of the range": Case(
        "the cusp again", lambda x, r: [r + x - x**3], [-1.3], (-1.0, 0.384), []
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equilibria(name):
    case = CASES[name]
    branch = followed(case.formula, case.start, case.ends)
    found = specials(branch)
    assert [kind for kind, _ in found] == [kind for kind, _ in case.expected], found
    assert [at for _, at in found] == pytest.approx([at for _, at in case.expected], abs=2e-6)
    w, r = torch.tensor(branch.state.values), torch.tensor(branch.r.values)
    rest = torch.stack(case.formula(*w.unbind(-1), r), -1)
    assert float(rest.abs().max()) < 1e-7
    assert branch.attrs["end"] == "range"


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("from_zero", [False, True])
def test_components_of_any_size_have_their_folds(unit, from_zero):
    """A cusp in a unit of its own, beside a pressure in Pa that follows it."""

    def formula(x, y, r):
        a = x / unit
        return [unit * (r + a - a**3), 101325 * (1 + 0.1 * a) - y]

    ends = (-1.0, 1.0)
    start = -1.3247179572447460
    if from_zero:
        # the middle branch, which turns back at a fold
        ends, start = (0.0, 0.9), 0.0
    branch = followed(formula, [unit * start, 101325 * (1 + 0.1 * start)], ends)
    a = branch.state.values[:, 0] / unit
    assert np.abs(branch.r.values + a - a**3).max() < 1e-6
    if not from_zero:
        assert [at for _, at in specials(branch)] == pytest.approx([FOLD, -FOLD], abs=1e-6)


def test_a_component_that_is_zero_by_symmetry_has_its_own_unit():
    def formula(x, y, r):
        return [r * x - 1e12 * x**3, 1e5 - y]

    rest = followed(formula, [0.0, 1e5], (-1.0, 1.0))
    assert specials(rest) == [("branch point", pytest.approx(0.0, abs=1e-6))]
    fork = romkit.continuation(
        Textbook(formula, 2), start=rest, at=0, amplitude=0.05, r=(-1.0, 1.0)
    )
    assert np.abs(fork.state.values[:, 0]) == pytest.approx(1e-6 * np.sqrt(fork.r.values), abs=1e-8)


def ring_of_four(*cells_and_parameter):
    """Eigenvalues r, twice r - 2, r - 4; Golubitsky, Stewart, Schaeffer (1988), chapter XIII."""
    *x, r = cells_and_parameter
    return [r * x[k] - x[k] ** 3 + x[k - 1] - 2 * x[k] + x[(k + 1) % 4] for k in range(4)]


def ring_of_three(*cells_and_parameter):
    """A double eigenvalue with the symmetry of a triangle: three lines, one kind."""
    *x, r = cells_and_parameter
    return [
        r * x[k] + x[k] ** 2 - x[k] ** 3 + x[k - 1] + x[(k + 1) % 3] - 2 * x[k] for k in (0, 1, 2)
    ]


def test_branches_of_both_kinds_leave_a_double_eigenvalue_of_a_square():
    system = Textbook(ring_of_four, 4, (-1.0, 3.0))
    rest = romkit.continuation(system, start=[0.0] * 4, r=(-1.0, 3.0))
    assert specials(rest)[1:] == [("branch point", pytest.approx(2.0, abs=1e-6))] * 2
    kinds = set()
    for at in (1, 2):
        branch = romkit.continuation(system, start=rest, at=at, r=(-1.0, 3.0))
        # (a, -a, -a, a) and (a, 0, -a, 0), a² = r - 2
        kinds.add(tuple(np.sort(np.abs(branch.state.values[-1])).round(4)))
    assert kinds == {(1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0)}


@pytest.mark.slow
def test_one_kind_of_branches_leaves_a_double_eigenvalue_of_a_triangle():
    system = Textbook(ring_of_three, 3, (-1.0, 5.0))
    rest = romkit.continuation(system, start=[0.0] * 3, r=(-1.0, 3.5))
    assert [round(at, 5) for _, at in specials(rest)] == [0.0, 3.0, 3.0]
    for at in (1, 2):
        branch = romkit.continuation(system, start=rest, at=at, points=5, r=(-1.0, 3.5))
        first = np.sort(branch.state.values[0])
        # two cells alike
        assert min(np.diff(first)) < 1e-3 * max(np.diff(first))


def test_a_total_that_is_conserved_stays():
    """A + B <-> C: K = a b / c at each forward rate r, with a + c = 2 and b + c = 1."""

    def reaction(a, b, c, r):
        rate = r * a * b - c
        return [-rate, -rate, rate]

    # at r = 0.5: a b / 2 = c
    c = (5 - np.sqrt(17)) / 2
    branch = followed(reaction, [2 - c, 1 - c, c], (0.5, 8.0))
    a, b, c = branch.state.values.T
    assert a + c == pytest.approx(2.0, abs=1e-7)
    assert b + c == pytest.approx(1.0, abs=1e-7)
    assert c == pytest.approx(branch.r.values * a * b, abs=1e-7)
    assert branch.attrs["end"] == "range"


def test_bratu_has_its_fold():
    """u'' + λ e^u = 0, u(0) = u(1) = 0: λ = 3.5138307 (Bratu 1914), here by 40 cells."""
    n = 39

    def bratu(*values):
        *cells, r = values
        u = torch.stack(cells, -1)
        padded = torch.nn.functional.pad(u, (1, 1))
        bent = (padded[..., 2:] - 2 * u + padded[..., :-2]) * (n + 1) ** 2
        return (bent + r[..., None] * torch.exp(u)).unbind(-1)

    branch = followed(bratu, [0.0] * n, (0.0, 4.0), points=60)
    kind, at = specials(branch)[0]
    # second order: an error of λ⁰ · (π h)²/12 or so
    assert kind == "fold"
    assert at == pytest.approx(3.5138307, rel=1e-3)


def test_multipliers_keep_liouvilles_identity():
    """Van der Pol: the multiplier is the exponential of ∫ μ (1 - x²) dt, down to 1e-60."""

    def van_der_pol(x, y, r):
        return [y, r * (1 - x**2) * y - x]

    branch = followed(
        van_der_pol, [2.00862, 0.0], (1.0, 6.0), kind="orbits", period=6.6633, points=60
    )
    assert float(branch.period[0]) == pytest.approx(6.66328686, abs=1e-6)
    for k in (0, branch.sizes["point"] // 2, -1):
        r, period = float(branch.r[k]), float(branch.period[k])

        def with_divergence(t, w, r=r):
            x, y, _ = w
            return [y, r * (1 - x**2) * y - x, r * (1 - x**2)]

        start = [*branch.state.values[k], 0.0]
        end = solve_ivp(with_divergence, (0, period), start, rtol=1e-10, atol=1e-12).y[-1, -1]
        assert np.log(branch.multiplier.values[k, 0, 0]) == pytest.approx(end, rel=1e-4)


def test_a_torus_leaves_an_orbit_where_its_normal_growth_is_zero():
    """Kuznetsov, Elements of Applied Bifurcation Theory, 4.7: a cycle of radius one with a normal
    rotation that grows by r.
    """

    def tube(x, y, p, q, r):
        shrink, growth = 1 - x**2 - y**2, r - p**2 - q**2
        return [
            shrink * x - y, shrink * y + x,
            growth * p - 0.3 * q, growth * q + 0.3 * p,
        ]  # fmt: skip

    branch = followed(tube, [1.0, 0.0, 0.0, 0.0], (-0.5, 0.5), kind="orbits", period=2 * np.pi)
    assert specials(branch) == [("torus", pytest.approx(0.0, abs=1e-5))]


def test_symmetric_orbits_of_lorenz_lose_their_symmetry():
    """Sparrow, The Lorenz Equations (1982): near r = 313."""

    def lorenz(x, y, z, r):
        return [10 * (y - x), x * (r - z) - y, x * y - 8 / 3 * z]

    def rates(t, w):
        return [float(rate) for rate in lorenz(*w, 350.0)]

    settled = solve_ivp(rates, (0, 20), [1.0, 1.0, 330.0], method="DOP853", rtol=1e-10, atol=1e-10)
    start = settled.y[:, -1]
    branch = followed(lorenz, start, (350.0, 300.0), kind="orbits", period=0.3885)
    assert specials(branch) == [("branch point", pytest.approx(312.97, abs=0.05))]


@pytest.mark.slow
def test_orbits_end_at_a_canard_and_say_so():
    """FitzHugh-Nagumo with ε = 0.02: no single shooting gets through, and steps do not go on."""

    def nerve(v, w, r):
        return [(v - v**3 / 3 - w + r) / 0.02, v + 0.7 - 0.8 * w]

    system = Textbook(nerve, 2, (0.0, 2.0))
    rest = romkit.continuation(system, start=[-1.2, -0.6], r=(0.0, 2.0), points=30)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        orbits = romkit.continuation(system, start=rest, at=0, r=(0.0, 2.0), points=100)
    # whether it ends in the explosion depends on rounding; relaxation oscillations beyond are slow
    if orbits.attrs["end"] == "step":
        assert any("canard" in str(warning.message) for warning in caught)
    else:
        assert orbits.period.values.max() > 2 * orbits.period.values[0]
