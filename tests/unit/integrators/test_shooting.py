"""Laws by multiple shooting: exact derivatives, textbook systems with gaps, uneven times, inputs,
moving contexts and second order, and what is refused.
"""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.core.levenberg import levenberg_marquardt
from romkit.laws import LatentSamples, PolynomialLaw, SINDy, compiled, shooting
from romkit.laws.chebyshev import Chebyshev
from romkit.laws.compiled import Truth
from romkit.laws.courses import Course, Runs, windows
from romkit.laws.libraries import Fourier, Polynomial
from romkit.laws.samples import SAMPLED
from romkit.laws.sensitivities import Motion, kept
from romkit.laws.shooting import Shots, Squares
from romkit.laws.terms import LatentTerms, LibraryTerms, MonomialTerms
from romkit.solvers import RK4
from tests.refusals import refused

MU = np.linspace(0.5, 1.5, 6)
TIMES = np.linspace(0.0, 12.0, 121)


def van_der_pol(t, s, mu):
    return [s[1], mu * (1 - s[0] ** 2) * s[1] - s[0]]


def solved(rate, start, times, *args):
    found = solve_ivp(
        rate, (times[0], times[-1]), start, "DOP853", times, args=args, rtol=1e-10, atol=1e-10
    )
    return found.y.T


def samples_of(states, context, times, **labels):
    z = torch.as_tensor(np.asarray(states))
    rate = torch.gradient(z, spacing=(torch.as_tensor(times),), dim=1)[0]
    return LatentSamples.first_order(
        z, rate, torch.as_tensor(np.asarray(context)), times=torch.as_tensor(times), **labels
    )


def together(rate, starts, times, *args):
    """The runs (C, T, d) from starts (C, d) by one solver, whose steps suit the fastest of them."""
    starts = np.asarray(starts, dtype=float)

    def of_all(t, flat):
        s = flat.reshape(starts.shape)
        return np.stack(rate(t, s.T, *args), -1).ravel()

    path = solved(of_all, starts.ravel(), times)  # (T, C d)
    return path.reshape(len(times), *starts.shape).swapaxes(0, 1)


def oscillators(times, mu=MU):
    mu = np.asarray(mu)
    return together(van_der_pol, np.tile([2.0, 0.5], (len(mu), 1)), times, mu)


@pytest.mark.parametrize(("variables", "degree"), [(1, 5), (2, 4), (3, 3), (4, 2)])
@pytest.mark.parametrize("rows", [3, 100])
def test_monomials_and_their_jacobians_are_those_of_the_library(variables, degree, rows):
    draw = torch.Generator().manual_seed(0)
    fast, slow = MonomialTerms(variables, degree), LibraryTerms(Polynomial(degree), variables)
    w = torch.randn(2, rows, variables, generator=draw).double()
    weights = torch.randn(2, fast.number, 2, generator=draw).double()
    phi = slow(w)
    assert torch.allclose(fast(w), phi)
    assert torch.allclose(fast.jacobians(w, phi, weights), slow.jacobians(w, phi, weights))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("library", [Polynomial(2), Fourier(1)])
def test_sensitivities_are_the_derivatives_of_the_steps(order, moving, library):
    draw = torch.Generator().manual_seed(1)
    times = torch.tensor([0.0, 0.3, 0.5, 1.1], dtype=torch.float64)
    d = 2 * order
    speed = torch.tensor([1.0, 2.0], dtype=torch.float64) if order == 2 else None
    motion = Motion(LatentTerms.build(library, d), 2, order, speed)
    states = 0.3 * torch.randn(2, 4, d, generator=draw).double()
    context = torch.randn(2, 4, 1, generator=draw).double()
    runs = Runs(states, times, torch.arange(2), torch.ones(2, 1).double())
    if moving:
        factors = lambda c: torch.cat([torch.ones_like(c), c], -1)  # noqa: E731
        drift = 0.1 * torch.randn(2, 4, d, generator=draw).double()
        runs = Runs(states, times, runs.group, runs.mix, context, factors, drift)
    several = windows(runs, 2, 1, 0.25)
    number = motion.terms.number * (2 if moving else 1)
    weights = 0.2 * torch.randn(2, number, 2, generator=draw).double()
    reached, derivative = motion.sensitivities(
        weights, several.start, several.course, by_start=True
    )
    assert torch.allclose(reached, motion.rollout(weights, several.start, several.course))
    for index in ((0, 0, 0), (1, number - 1, 1)):
        nudge = torch.zeros_like(weights)
        nudge[index] = 1e-6
        up, down = (
            motion.rollout(weights + sign * nudge, several.start, several.course)
            for sign in (1, -1)
        )
        column = derivative[:, index[0], ..., 2 * index[1] + index[2]]
        assert torch.allclose(((up - down) / 2e-6)[:, index[0]], column, atol=1e-8)
    nudge = torch.zeros_like(several.start)
    nudge[..., 1] = 1e-6
    up, down = (
        motion.rollout(weights, several.start + sign * nudge, several.course) for sign in (1, -1)
    )
    assert torch.allclose((up - down) / 2e-6, derivative[..., 2 * number + 1], atol=1e-8)


@pytest.mark.parametrize(("order", "m"), [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 2)])
@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("by_start", [False, True])
def test_compiled_rollouts_and_derivatives_are_those_of_torch(order, m, moving, by_start):
    if shutil.which("c++") is None:
        pytest.skip("no compiler")
    draw = torch.Generator().manual_seed(2)
    random = lambda *shape: torch.randn(*shape, generator=draw).double()  # noqa: E731
    d = m * order
    times = torch.tensor([0.0, 0.3, 0.5, 1.1, 1.2], dtype=torch.float64)
    speed = torch.tensor([1.0, 2.0], dtype=torch.float64) if order == 2 else None
    scale = 1 + 0.1 * random(d)
    # a law of this size leaves the reach, where rollouts are held
    motion = Motion(MonomialTerms(d, 3), m, order, speed, 0.1 * random(d), scale, reach=0.8)
    states = random(3, 5, d)
    states[1, 2] = torch.nan
    runs = Runs(states, times, torch.arange(3), torch.ones(3, 1).double())
    q = 1
    if moving:
        q = 2
        factors = lambda c: torch.cat([torch.ones_like(c), c], -1)  # noqa: E731
        drift = 0.1 * random(3, 5, d)
        runs = Runs(states, times, runs.group, runs.mix, random(3, 5, 1), factors, drift)
    start, _, _, course = windows(runs, 2, 1, 0.25)
    weights = 0.4 * random(3, motion.terms.number * q, m)
    reached, derivative = motion._sensitivities(weights, start, course, by_start=by_start)
    states, slopes = motion.sensitivities(weights, start, course, by_start=by_start)
    assert float(reached[1:].abs().max()) == 0.8
    assert torch.allclose(states, reached, rtol=1e-12, atol=1e-12)
    assert torch.equal(motion.rollout(weights, start, course), states)
    largest = float(derivative.abs().max())
    assert torch.allclose(slopes, derivative, rtol=1e-11, atol=1e-12 * largest)


def test_squares_are_the_normal_equations_of_their_rows():
    draw = torch.Generator().manual_seed(4)
    parts = [
        (torch.randn(N, 8, generator=draw).double(), group)
        for N, group in ((40, 0), (1, 2), (0, 1), (5, 0))
    ]
    squares = Squares(3, 7)
    for rows, group in parts:
        squares.add(group, rows)
    matrix, slope = squares.normal_equations()
    assert torch.equal(matrix, matrix.mT)
    for group in range(3):
        rows = torch.cat(
            [rows[:0] for rows, _ in parts] + [rows for rows, k in parts if k == group]
        )
        J, residual = rows[:, :-1], rows[:, -1]
        assert torch.allclose(matrix[group], J.mT @ J, rtol=1e-13, atol=1e-13)
        assert torch.allclose(slope[group], J.mT @ residual, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("d", [2, 3, 7])
def test_compiled_residuals_end_where_a_window_is_lost(d):
    draw = torch.Generator().manual_seed(d)
    states = torch.randn(3, 9, d, generator=draw).double()
    states[0, 2] = torch.nan
    states[2, 0] = torch.nan
    motion = Motion(MonomialTerms(d, 2), d, 1)
    weights = 0.4 * torch.randn(3, motion.terms.number, d, generator=draw).double()
    weights[1, 0] = torch.nan
    runs = Runs(
        states, torch.linspace(0, 2, 9).double(), torch.arange(3), torch.ones(3, 1).double()
    )
    start, truth, seen, course = windows(runs, 4, 2, 0.1)
    for lost, steep in ((1e9, 1e9), (1.5, 1e9), (1e9, 0.5)):
        limits = Truth(truth, seen, lost, steep)
        compiled = motion.residual_rows(weights, start, course, limits)
        states, derivatives = motion._sensitivities(weights, start, course, by_start=False)
        counts = kept(states - truth, derivatives, limits)
        for run, rows in enumerate(compiled):
            J = derivatives[1:, run][counts[1:, run]].flatten(0, 1)
            residual = (states - truth)[1:, run][counts[1:, run]].flatten()
            assert torch.allclose(rows.mT @ rows, _products(J, residual), rtol=1e-9, atol=1e-11)
            assert len(rows) == len(J)


def _products(J, residual):
    rows = torch.cat([J, residual[:, None]], 1)
    return rows.mT @ rows


def test_compiled_rollouts_take_steps_that_windows_share():
    draw = torch.Generator().manual_seed(3)
    start = 0.5 * torch.randn(3, 2, 2, generator=draw).double()
    motion = Motion(MonomialTerms(2, 3), 2, 1)
    weights = 0.3 * torch.randn(3, motion.terms.number, 2, generator=draw).double()
    steps = torch.rand(40, 3, 1, 1, generator=draw).double() / 10
    course = Course(steps, list(range(1, 41)), None, None)
    shared = motion.rollout(weights, start, course)
    assert torch.allclose(shared, motion._states(weights, start, course, None), rtol=1e-12)
    single = Course(steps[:, :1], course.ends, None, None)
    of_all = motion.rollout(weights[:1].expand(3, -1, -1), start, single)
    assert torch.equal(of_all[:, 0], motion.rollout(weights[:1], start[:1], single)[:, 0])


def test_a_law_is_the_same_without_a_compiler(monkeypatch):
    times, mu = TIMES[:41], MU[::3]
    samples = samples_of(oscillators(times, mu), mu[:, None], times)
    settings = PolynomialLaw(degree=3, context_degree=1)
    law = settings.fit_samples(samples)
    monkeypatch.setattr(compiled, "_function", lambda size: None)
    alone = settings.fit_samples(samples)
    assert torch.allclose(alone.coefficients, law.coefficients, rtol=1e-6, atol=1e-7)


def forecast_error(law, mu=1.07):
    """Largest error of a forecast at another context, against SciPy, relative to the amplitude."""
    exact = oscillators(TIMES, [mu])[0]
    at = np.array([mu])

    def rate(t, s):
        return law.predict(torch.as_tensor(s)[None], torch.as_tensor(at)[None])[0].numpy()

    return float(np.abs(solved(rate, exact[0], TIMES) - exact).max()) / 2


def test_an_oscillator_with_a_parameter():
    law = PolynomialLaw(degree=3, context_degree=1).fit_samples(
        samples_of(oscillators(TIMES), MU[:, None], TIMES)
    )
    assert forecast_error(law) < 2e-3
    assert law.residual.max() < 0.05  # of central differences


def test_uneven_times_and_missing_samples():
    draw = np.random.default_rng(0)
    times = np.sort(np.r_[0.0, draw.uniform(0.0, 12.0, 119), 12.0])
    states = oscillators(times)
    states[draw.uniform(size=states.shape[:2]) < 0.2] = np.nan
    law = PolynomialLaw(degree=3, context_degree=1).fit_samples(
        samples_of(states, MU[:, None], times)
    )
    assert forecast_error(law) < 5e-3


def test_an_input_that_moves_and_a_second_order():
    forced = lambda t, s, omega: [s[1], -s[0] - 0.2 * s[1] - 0.3 * s[0] ** 3 + np.sin(omega * t)]  # noqa: E731
    omegas = np.linspace(0.7, 1.3, 4)
    states = together(forced, np.tile([0.5, 0.0], (4, 1)), TIMES, omegas)
    force = np.sin(omegas[:, None] * TIMES)[..., None]
    given = samples_of(states, force, TIMES, parameters=["u"], control_names=("u",))
    law = PolynomialLaw(degree=3, context_degree=1).fit_samples(given)
    z, u = torch.tensor([[0.4, -0.3]]).double(), torch.tensor([[0.5]]).double()
    exact = [-0.3, -0.4 + 0.06 - 0.3 * 0.4**3 + 0.5]
    assert law.predict(z, u)[0].tolist() == pytest.approx(exact, abs=5e-3)
    q, v = (torch.as_tensor(states[..., k : k + 1]) for k in (0, 1))
    a = torch.gradient(v, spacing=(torch.as_tensor(TIMES),), dim=1)[0]
    second = LatentSamples.second_order(
        q,
        v,
        a,
        torch.as_tensor(force),
        times=torch.as_tensor(TIMES),
        parameters=["u"],
        control_names=("u",),
    )
    law = PolynomialLaw(degree=3, context_degree=1).fit_samples(second)
    assert law.order == 2
    assert law.predict(z, u)[0].item() == pytest.approx(exact[1], abs=5e-3)


def duffing(s, u):
    return [s[1], -s[0] - 0.2 * s[1] - 0.3 * s[0] ** 3 + u]


def linear(s, u):
    return [-0.3 * s[0] + s[1] + 0.5 * u, -2.0 * s[0] - 0.4 * s[1] + 1.5 * u]


def driven(rate, times, inputs, starts, held):
    """States (C, T, d) under inputs (C, T) that are held or straight lines between samples, interval
    by interval.
    """
    path = [np.asarray(starts)]
    for a, b, before, after in zip(times, times[1:], inputs.T, inputs.T[1:], strict=False):
        slope = 0.0 if held else (after - before) / (b - a)
        u = lambda t, a=a, before=before, slope=slope: before + slope * (t - a)  # noqa: E731
        path.append(together(lambda t, s, u=u: rate(s, u(t)), path[-1], [a, b])[:, -1])
    return np.stack(path, 1)


@pytest.mark.parametrize(
    ("rate", "degree", "uneven", "held"),
    [
        (linear, 1, True, False),
        (duffing, 3, False, True),
    ],
)
def test_coefficients_of_driven_systems_are_exact(rate, degree, uneven, held):
    draw = np.random.default_rng(0)
    times = np.linspace(0.0, 8.0, 61)
    if uneven:
        times = np.sort(np.r_[0.0, draw.uniform(0.0, 8.0, 59), 8.0])
    inputs = draw.normal(size=(3, len(times)))
    starts = draw.normal(size=(3, 2))
    states = driven(rate, times, inputs, starts, held)
    if uneven:
        states[draw.uniform(size=states.shape[:2]) < 0.1] = np.nan
    samples = samples_of(states, inputs[..., None], times, parameters=["u"], control_names=("u",))
    law = PolynomialLaw(degree=degree, context_degree=1).fit_samples(replace(samples, held=held))
    z, u = torch.from_numpy(draw.normal(size=(20, 2))), torch.from_numpy(draw.normal(size=(20, 1)))
    exact = torch.stack(rate(z.T, u[:, 0]), -1)
    assert torch.allclose(law.predict(z, u), exact, atol=1e-6)


def test_a_context_that_moves_is_followed_to_its_exact_law():
    times = np.linspace(0.0, 8.0, 81)
    ramps = np.stack([0.5 + 0.1 * times, 1.5 - 0.1 * times, 0.8 + 0.05 * times])
    rate = lambda s, mu: van_der_pol(0.0, s, mu)  # noqa: E731
    states = driven(rate, times, ramps, np.tile([1.5, 0.5], (3, 1)), False)
    law = PolynomialLaw(degree=3, context_degree=1, ridge=0.0).fit_samples(
        samples_of(states, ramps[..., None], times, parameters=["mu"])
    )
    z = torch.tensor([[0.7, -0.4], [1.2, 0.9]]).double()
    mu = torch.tensor([[0.9], [1.2]]).double()
    exact = torch.stack(van_der_pol(0.0, z.T, mu[:, 0]), -1)
    assert torch.allclose(law.predict(z, mu), exact, atol=1e-5)


def test_noise_of_starts_does_not_bias_a_law():
    draw = np.random.default_rng(0)
    clean = oscillators(TIMES)
    noisy = clean + 0.05 * clean.std((0, 1)) * draw.normal(size=clean.shape)
    samples = samples_of(noisy, MU[:, None], TIMES)
    settings = PolynomialLaw(degree=3, context_degree=1)
    free = forecast_error(settings.fit_samples(samples))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shooting, "NOISY", np.inf)
        fixed = forecast_error(settings.fit_samples(samples))
    assert free < 0.05
    assert free < fixed


def test_noise_is_told_from_motion():
    clean = oscillators(TIMES)
    runs = lambda states: Runs(  # noqa: E731
        torch.from_numpy(states), torch.from_numpy(TIMES), torch.arange(len(states)), None
    )
    assert shooting.noise(runs(clean)) < shooting.NOISY / 10
    noisy = clean + 0.03 * np.random.default_rng(0).normal(size=clean.shape)
    noisy[:, 40:45] = np.nan
    assert shooting.noise(runs(noisy)) == pytest.approx(0.03, rel=0.15)
    # pulses of a sample or two are no noise, and hide none
    pulses = np.exp(-800 * np.square(np.sin(TIMES / 2)))[:, None]
    assert shooting.noise(runs(clean + pulses)) < shooting.NOISY
    assert shooting.noise(runs(noisy + pulses)) == pytest.approx(0.03, rel=0.15)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_resampled_laws_begin_near_the_law_of_all(noise):
    steps = []

    def counted(problem, *point):
        steps.append(problem.windows.course.steps.numel())
        return equations(problem, *point)

    equations = Shots.normal_equations
    states = oscillators(TIMES)
    states = states + noise * np.random.default_rng(0).normal(size=states.shape)
    samples = samples_of(states, MU[:, None], TIMES)
    settings = PolynomialLaw(degree=3, context_degree=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shots, "normal_equations", counted)
        law = settings.fit_samples(samples)
        whole = sum(steps)
        rows = torch.tensor([0, 0, 2, 3, 5, 5])
        places = (rows[:, None] * len(TIMES) + torch.arange(len(TIMES))).flatten()
        parts = {name: getattr(samples, name)[places] for name in SAMPLED}
        member = settings.refitted(law, replace(samples, **parts), 0, resampled=True)
    assert sum(steps) - whole <= whole / 3
    # noise of 2 % on four of the six contexts leaves some per cent of phase
    assert forecast_error(member) < 2e-3 + 5 * noise
    assert member.domain is not None


def test_chebyshev_polynomials_of_a_context():
    c = torch.linspace(2.0, 8.0, 5, dtype=torch.float64).unsqueeze(-1)
    scaled = (c - 5) / 3
    plain = torch.stack(Chebyshev(3)(scaled), -1).numpy()
    assert np.allclose(plain, np.polynomial.chebyshev.chebvander(scaled[:, 0].numpy(), 3))
    assert Chebyshev(2).names(["a", "b"])[-1] == "T2(a)"
    assert len(Chebyshev(2)(torch.randn(4, 3))) == 10


def test_a_stack_of_problems_is_one_law_of_each():
    states = oscillators(TIMES)
    z = torch.as_tensor(np.stack([states, 2 * states + 1]))
    rate = torch.gradient(z, spacing=(torch.as_tensor(TIMES),), dim=2)[0]
    both = LatentSamples.first_order(
        z, rate, torch.as_tensor(MU[:, None]), times=torch.as_tensor(TIMES)
    )
    law = PolynomialLaw(degree=3, context_degree=1).fit_samples(both)
    assert law.coefficients.shape == (2, 20, 2)
    assert forecast_error(law[0]) < 1e-3
    z, c = torch.tensor([[0.3, 0.2]]).double(), torch.tensor([[1.1]]).double()
    assert torch.allclose(law[1].predict(2 * z + 1, c), 2 * law[0].predict(z, c), atol=1e-4)


def test_rosenbrock_by_levenberg_and_marquardt():
    class Valley:
        def __init__(self, x):
            a, b = x.unbind(-1)
            self.x = x
            self.r = torch.stack([1 - a, 10 * (b - a**2)], -1)
            self.cost = self.r.square().sum(-1)

        def select(self, members):
            return Valley(self.x[members])

        def replaced(self, members, other):
            x = self.x.clone()
            x[members] = other.x
            return Valley(x)

        def moved(self, members, damping):
            a = self.x[:, 0]
            zero, one = torch.zeros_like(a), torch.ones_like(a)
            J = torch.stack(
                [torch.stack([-one, zero], -1), torch.stack([-20 * a, 10 * one], -1)], -2
            )
            H = J.mT @ J
            H = H + damping[:, None, None] * torch.diag_embed(H.diagonal(dim1=-2, dim2=-1))
            return Valley(self.x - torch.linalg.solve(H, (J.mT @ self.r[..., None])[..., 0]))

    start = torch.tensor([[-1.2, 1.0], [2.0, -3.0], [0.5, 0.5]], dtype=torch.float64)
    end = levenberg_marquardt(Valley(start), trials=200, absolute=1e-20)
    assert torch.allclose(end.x, torch.ones(3, 2, dtype=torch.float64), atol=1e-8)


def test_what_cannot_be_fitted_is_refused():
    few = samples_of(oscillators(TIMES[:4]), MU[:, None], TIMES[:4])
    refused("degree", PolynomialLaw(degree=9).fit_samples, few)
    z = torch.randn(30, 2).double()
    single = samples_of(oscillators(TIMES, MU[:1]), MU[:1, None], TIMES)
    alone = PolynomialLaw(degree=3, context_degree=1)
    refused("context_degree", alone.fit_samples, single)
    refused("ridge:", PolynomialLaw, degree=3, ridge=-1.0)
    refused("samples", PolynomialLaw(degree=1).fit_samples, z, zdot=z)


def test_refinement_leaves_a_stiff_law_that_is_exact():
    """Steps of the refinement are long for the fast rate, and fit a slower one better."""
    t = np.linspace(0, 2, 41)
    slow = np.exp(-t)
    runs = [[a * np.exp(-200 * t) + b * slow, b * slow] for a, b in ((1, 1), (0.5, 1), (1, -0.5))]
    x = np.array(runs).swapaxes(1, 2)
    v = np.stack([-200 * (x[..., 0] - x[..., 1]) - x[..., 1], -x[..., 1]], -1)
    data = romkit.data.from_arrays(x, t, velocity=v)
    identity = romkit.fit("identity", data)
    law = SINDy(degree=1, threshold=0.01).fit(identity, data)
    run = romkit.rollout(data, identity, dynamics=law)
    assert float(run.nrmse.max()) < 1e-5


def test_the_last_fit_leaves_out_what_holds_coefficients_elsewhere():
    """Cycles of radius √μ, approached from both sides: the law is a cubic, affine in μ."""
    mu = torch.linspace(0.5, 1.5, 6, dtype=torch.float64)
    times = torch.arange(81, dtype=torch.float64) * 0.1

    def rate(z, mu):
        x, y = z.unbind(-1)
        growth = mu - x**2 - y**2
        return torch.stack([growth * x - 2 * y, growth * y + 2 * x], dim=-1)

    start = torch.stack([torch.linspace(0.2, 1.6, 6).double(), torch.zeros_like(mu)], dim=-1)
    context = mu[:, None]
    z = RK4(0.005)(lambda t, z: rate(z, mu), start, times).states  # (6, 81, 2)
    settings = PolynomialLaw(degree=3, context_degree=1)
    law = settings.fit_samples(z, rate(z, context), context, times=times, parameters=["mu"])
    field = law.right_hand_side(context)
    followed = RK4(0.005)(lambda t, w: field(w), z[:, :1], times).states.squeeze(1)
    assert float((followed - z).abs().max()) < 2e-6
