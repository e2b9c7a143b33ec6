"""Laws against the packages that are known for them, on equal problems: pysindy, opinf and pydmd."""

import numpy as np
import opinf
import pydmd
import pysindy
import pytest
import torch

from romkit.laws import DMD, OperatorInference, SINDy, WeakSINDy
from romkit.laws.noise import is_noisy, noise_level
from romkit.laws.weak import (
    TestFunctions,
    linear_weights,
    smooth_weights,
    spread_windows,
)
from romkit.solvers import RK4
from tests.refusals import refused
from tests.unit.integrators.test_sindy import lorenz63_rate, trajectory

TIMES = torch.arange(401, dtype=torch.float64) * 0.01

LORENZ = {
    (1, 0): -10.0,
    (2, 0): 10.0,
    (1, 1): 28.0,
    (2, 1): -1.0,
    (6, 1): -1.0,
    (5, 2): 1.0,
    (3, 2): -8 / 3,
}
"""Coefficients of Lorenz63, by term (1, x, y, z, x², xy, xz, ...) and equation."""


@pytest.fixture(scope="module")
def lorenz():
    """(x (401, 3), ẋ) of one trajectory, of unequal means and sizes."""
    x = trajectory(lorenz63_rate, [-8.0, 8.0, 27.0], 401, 0.01)
    return x, lorenz63_rate(x)


@pytest.fixture(scope="module")
def forced():
    """z (4, 201, 2), ż and μ (4, 1) of quadratic oscillators at four contexts."""
    mu = torch.linspace(0.5, 1.5, 4, dtype=torch.float64)[:, None]

    def field(t, z):
        x, y = z.unbind(-1)
        c = mu.squeeze(-1)
        return torch.stack([y + 0.2 * c, -c * x - 0.1 * y + 0.3 * (1 + c) * x * y], dim=-1)

    start = torch.tensor([[0.5, 0.0], [0.3, 0.4], [-0.4, 0.2], [0.1, -0.5]], dtype=torch.float64)
    z = RK4(0.05)(field, start, torch.arange(201, dtype=torch.float64) * 0.05).states
    rate = torch.stack([field(0, z[:, k]) for k in range(201)], dim=1)
    return z, rate, mu


def test_weak_sindy_finds_terms_in_noise_where_pysindy_has_others(lorenz):
    """pysindy's weak form weighs overlapping windows as if their noise were independent."""
    x, _ = lorenz
    polynomials = pysindy.PolynomialLibrary(degree=2, include_bias=False)
    library = pysindy.WeakPDELibrary(
        polynomials, include_bias=True, spatiotemporal_grid=TIMES.numpy(), H_xt=0.2, K=150, p=4
    )
    false = 0
    for seed in range(2):
        draw = torch.Generator().manual_seed(seed)
        z = x + 0.02 * x.std(0) * torch.randn(x.shape, generator=draw, dtype=x.dtype)
        np.random.seed(seed)  # noqa: NPY002, pysindy draws its windows from the global generator
        optimizer = pysindy.STLSQ(threshold=0.1, alpha=0.0)
        oracle = pysindy.SINDy(optimizer=optimizer, feature_library=library)
        oracle.fit(z.numpy(), t=TIMES.numpy())
        found = {tuple(k) for k in np.argwhere(oracle.coefficients().T)}
        false += len(found - set(LORENZ))
        law = WeakSINDy(degree=2, threshold=0.1).fit_samples(
            z[None], torch.zeros_like(z)[None], times=TIMES
        )
        assert {tuple(k) for k in law.support.nonzero().tolist()} == set(LORENZ)
    assert false > 0


def test_weak_sindy_without_noise_is_exact_to_the_accuracy_of_the_data(lorenz):
    x, _ = lorenz
    law = WeakSINDy(degree=2).fit_samples(x[None], torch.zeros_like(x)[None], times=TIMES)
    assert {tuple(k) for k in law.support.nonzero().tolist()} == set(LORENZ)
    for index, value in LORENZ.items():
        assert float(law.coefficients[index]) == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("threshold", [0.1, 0.3, 1.5])
def test_no_coefficient_is_below_the_threshold(lorenz, threshold):
    x, rate = lorenz
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(3), dtype=x.dtype)
    for law in (
        WeakSINDy(degree=2, threshold=threshold).fit_samples(x[None], rate[None], times=TIMES),
        SINDy(degree=2, threshold=threshold).fit_samples(x, rate),
        SINDy(degree=2, threshold=threshold, alpha=50.0).fit_samples(x, rate + noise),
        SINDy(degree=3, threshold=threshold, alpha=1e3).fit_samples(x, rate + 5 * noise),
    ):
        kept = law.coefficients[law.support].abs()
        assert bool((kept >= threshold).all())
        assert len(kept) >= (threshold < 1)


def test_weights_integrate_and_their_test_functions_are_orthonormal():
    times = torch.linspace(0, 3, 61, dtype=torch.float64)
    (within,), (across,) = smooth_weights(times, [(10, 40)], 4)
    s = (times - 1.25) / 0.75
    bump = torch.where(s.abs() < 1, (1 - s**2) ** 4, 0.0)
    exact = float(torch.trapezoid(bump * times.sin(), times))
    assert float(within @ times.sin()) == pytest.approx(exact, rel=1e-12)
    # by parts: - ∫ φ' sin = ∫ φ cos
    assert float(-across @ times.sin()) == pytest.approx(float(within @ times.cos()), rel=1e-4)
    tests = TestFunctions.build(times, [(k, k + 20) for k in range(0, 41, 2)], 4)
    assert torch.allclose(
        tests.across @ tests.across.mT, torch.eye(len(tests)).double(), atol=1e-10
    )


def test_noise_is_measured_and_coarse_sampling_is_none():
    t = torch.arange(400, dtype=torch.float64)
    for step in (0.01, 0.1, 0.5, 0.8):
        clean = torch.stack([(step * t).sin(), (0.3 * step * t).cos()], dim=-1)[None]
        assert not is_noisy(clean)
        noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0)).double()
        assert is_noisy(clean + 0.05 * noise)
        if step <= 0.1:
            level = noise_level(clean + 0.05 * noise)
            assert torch.allclose(level, torch.tensor([0.05, 0.05]).double(), rtol=0.2)


def test_weights_and_windows_are_for_uneven_times():
    times = torch.tensor([0.0, 0.3, 0.5, 1.2, 1.4, 2.0], dtype=torch.float64)
    (within,), (across,) = linear_weights(times, [(0, 5)], 2)
    s = times - 1  # φ = (1 - s²)²: ∫ φ = 16 / 15, ∫ s φ' = - ∫ φ
    assert torch.allclose(within.sum(), torch.tensor(16 / 15, dtype=torch.float64))
    assert torch.allclose((across * s).sum(), torch.tensor(-16 / 15, dtype=torch.float64))
    assert abs(float((within * s).sum())) < 1e-14
    assert abs(float(across.sum())) < 1e-14
    times = torch.cat([torch.linspace(0, 1, 50), torch.linspace(1.1, 3, 20)]).double()
    spans = spread_windows(times, 0.5, 30)
    assert spans[0][0] == 0
    assert spans[-1][1] == 69
    refused("width", spread_windows, times, 0.01, 30)


def test_weak_sindy_sees_through_noise(lorenz):
    """At 5 % noise the seven coefficients come back within a twentieth, without any rates."""
    x = trajectory(lorenz63_rate, [-8.0, 8.0, 27.0], 4001, 0.005)
    z = x + 0.05 * x.std(0) * torch.randn(
        x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype
    )
    times = torch.arange(4001, dtype=torch.float64) * 0.005
    law = WeakSINDy(degree=2, threshold=0.5).fit_samples(
        z[None], torch.zeros_like(z)[None], times=times
    )
    assert {tuple(k) for k in law.support.nonzero().tolist()} == set(LORENZ)
    for index, value in LORENZ.items():
        assert abs(float(law.coefficients[index]) / value - 1) < 0.1


@pytest.mark.parametrize("regularization", [0.0, (0.3, 2.0)])
def test_operator_inference_is_that_of_opinf(lorenz, regularization):
    x, rate = lorenz
    law = OperatorInference(degree=2, regularization=regularization).fit_samples(x, rate)
    low, high = regularization if regularization else (0.0, 0.0)
    penalty = np.array([low] * 4 + [high] * 6)
    solver = opinf.lstsq.TikhonovSolver(penalty) if regularization else opinf.lstsq.PlainSolver()
    oracle = opinf.models.ContinuousModel("cAH", solver=solver).fit(x.T.numpy(), rate.T.numpy())
    z = np.random.default_rng(0).normal(size=(20, 3)) * 10
    theirs = np.stack([oracle.rhs(0.0, each) for each in z])
    ours = law.predict(torch.from_numpy(z)).numpy()
    assert np.abs(ours - theirs).max() < 1e-6 * np.abs(theirs).max()
    operators = np.hstack([oracle.c_.entries[:, None], oracle.A_.entries])
    assert np.abs(law.coefficients[:4].T.numpy() - operators).max() < 1e-6 * np.abs(operators).max()


def test_operators_that_are_affine_in_the_context_are_those_of_opinf(forced):
    z, rate, mu = forced
    law = OperatorInference(degree=2, regularization=0.1).fit_samples(
        z.flatten(0, 1), rate.flatten(0, 1), mu.repeat_interleave(201, 0)
    )
    kinds = (opinf.operators.AffineConstantOperator, opinf.operators.AffineLinearOperator)
    parts = [
        kind(lambda mu: (1.0, mu[0]), nterms=2)
        for kind in (*kinds, opinf.operators.AffineQuadraticOperator)
    ]
    model = opinf.models.ParametricContinuousModel(parts, solver=opinf.lstsq.L2Solver(0.1))
    model.fit(mu.numpy(), [each.T.numpy() for each in z], [each.T.numpy() for each in rate])
    for c in (0.6, 1.2):
        states = np.random.default_rng(0).normal(size=(10, 2))
        theirs = np.stack([model.evaluate([c]).rhs(0.0, each) for each in states])
        ours = law.predict(
            torch.from_numpy(states), torch.tensor([c], dtype=torch.float64).expand(10, 1)
        )
        assert np.abs(ours.numpy() - theirs).max() < 1e-6


def test_dmd_is_that_of_pydmd(forced):
    z, rate, _ = forced
    path, drive = z[0], torch.sin(0.3 * torch.arange(201, dtype=torch.float64))[:, None]
    times = torch.arange(201, dtype=torch.float64) * 0.05
    law = DMD().fit_samples(path[None], rate[:1], drive[None], times=times)
    oracle = pydmd.DMDc(svd_rank=-1)
    oracle.fit(path.T.numpy(), np.vstack([np.ones(200), drive[:-1, 0].numpy()]))
    A = np.real(oracle.basis @ oracle.operator.as_numpy_array @ oracle.basis.T)
    ours = law.step(0.05)
    assert np.abs(ours[0].numpy() - A).max() < 1e-6
    assert np.abs(ours[1].numpy() - oracle.B).max() < 1e-6


def test_a_linear_motion_is_found_exactly_whatever_the_scaling_or_said_to_be_none():
    A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], dtype=torch.float64)
    c = torch.tensor([[0.5], [1.0], [2.0]], dtype=torch.float64)
    field = lambda t, z: 30 + z @ A.T + c * torch.tensor([1.0, -1.0], dtype=torch.float64)  # noqa: E731
    times = torch.arange(101, dtype=torch.float64) * 0.05
    z = RK4(0.005)(field, torch.ones(3, 2, dtype=torch.float64), times).states
    law = DMD().fit_samples(z, torch.zeros_like(z), c, times=times)
    assert torch.allclose(law.predict(z[:, 0], c), field(0, z[:, 0]), rtol=1e-6)
    times = torch.arange(20, dtype=torch.float64)
    z = ((-0.9) ** times)[None, :, None]
    fact = "a mode that is multiplied by -0.9 in a step; sample more finely"
    refused(fact, DMD().fit_samples, z, torch.zeros_like(z), times=times)
