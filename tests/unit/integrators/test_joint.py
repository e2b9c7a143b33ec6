"""States and coefficients jointly: laws of trajectories with noise."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.laws import LatentSamples, PolynomialLaw
from romkit.laws.joint import denoised, jointly
from romkit.laws.shooting import NOISY, noise
from romkit.laws.trajectories import ShootingProblem

NOISE = 1.0
"""Of the Lorenz system, an eighth of its deviations."""


def lorenz(number: int) -> np.ndarray:
    """Return samples (number, 3) on the attractor, every 0.05."""

    def rate(t, s):
        x, y, z = s
        return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]

    times = 20 + 0.05 * np.arange(number)
    run = solve_ivp(rate, (0, times[-1]), [1, 1, 20], t_eval=times, rtol=1e-10, atol=1e-10)
    return run.y.T


def fitted(measured: torch.Tensor) -> tuple[LatentSamples, object]:
    """Return samples of a run (T, 3), and the law that is fitted together with its states."""
    times = 0.05 * torch.arange(len(measured), dtype=torch.float64)
    rates = torch.zeros_like(measured)
    samples = LatentSamples.first_order(measured[None], rates[None], times=times)
    law = PolynomialLaw(degree=2, context_degree=0).fit_samples(samples)
    return samples, jointly(law, samples)


@pytest.fixture(scope="module")
def states() -> np.ndarray:
    return lorenz(400)


@pytest.fixture(scope="module")
def measured(states) -> torch.Tensor:
    draw = np.random.default_rng(1)
    return torch.from_numpy(states + NOISE * draw.standard_normal(states.shape))


def test_states_and_terms_of_noisy_chaos_are_those_of_the_motion(states, measured):
    samples, law = fitted(measured)
    assert law.coefficient_count == 7
    found = denoised(law, samples)[0].numpy()
    assert np.sqrt(np.mean((found - states) ** 2)) < 0.4 * NOISE
    # forecasts start at the last one, of which nothing that follows is known
    assert np.abs(law.last[0].numpy() - states[-1]).max() < NOISE
    assert np.allclose(found[-1], law.last[0], atol=0.1 * NOISE)


def test_gaps_are_filled_by_the_law(states, measured):
    gappy = measured.clone()
    gappy[100:110] = torch.nan
    samples, law = fitted(gappy)
    assert law.coefficient_count == 7
    missing = denoised(law, samples)[0, 100:110].numpy()
    assert np.sqrt(np.mean((missing - states[100:110]) ** 2)) < NOISE


def test_law_of_data_without_noise_stays():
    times = torch.linspace(0, 6, 61, dtype=torch.float64)
    z = torch.stack([times.cos(), times.sin()], -1)
    samples = LatentSamples.first_order(z[None], torch.zeros(1, 61, 2), times=times)
    law = PolynomialLaw(degree=1).fit_samples(samples)
    assert jointly(law, samples) is law
    assert torch.equal(denoised(law, samples), z[None])


def test_chaos_that_is_sampled_coarsely_is_no_noise():
    """Chen & Lee (2004): differences of any order are as large as those of noise of 1 %."""

    def rate(t, s):
        x, y, z = s
        return [5 * x - y * z, -10 * y + x * z, -0.38 * z + x * y / 3]

    times = 20 + 0.12 * np.arange(300)
    run = solve_ivp(rate, (0, times[-1]), [8, 8, 8], t_eval=times, rtol=1e-10, atol=1e-10)
    states = torch.from_numpy(run.y.T.copy())
    samples = LatentSamples.first_order(
        states[None], torch.zeros_like(states)[None], times=torch.from_numpy(times)
    )
    law = PolynomialLaw(degree=2, context_degree=0).fit_samples(samples)
    assert noise(ShootingProblem.build(samples, law.basis).runs) > NOISY
    assert jointly(law, samples) is law
    rates = torch.from_numpy(np.array([rate(0, state) for state in run.y.T]))
    assert torch.allclose(law.predict(states), rates, atol=1e-3)


def test_noisy_runs_over_a_parameter_have_the_law_of_the_motion(tmp_path):
    times = np.arange(0, 10, 0.1)
    rate = np.repeat([1.0, 1.25, 1.5, 1.75, 2.0], 2)[:, None]
    start = np.tile([0.2, 0.08], 5)[:, None]
    # z' = c (z - z²), logistic growth
    states = 1 / (1 + (1 / start - 1) * np.exp(-rate * times))
    states = states + 0.02 * np.random.default_rng(0).standard_normal(states.shape)
    data = romkit.data.from_arrays(states[..., None], times, context={"c": rate[:, 0]})
    projection = romkit.fit("identity", data, verbose=False)
    law = romkit.law(projection, data, kinds=["polynomial"])
    assert law.last.shape == (10, 1)
    assert law.coefficient_count == 2
    run = romkit.forecast(
        projection, dynamics=law, initial_state=[0.1], duration=6.0, dt=0.1, c=1.6
    )
    exact = 1 / (1 + 9 * np.exp(-1.6 * run.time.values))
    assert np.abs(run.state.values[:, 0] - exact).max() < 0.02
    file = romkit.save(law, tmp_path / "law")
    assert torch.equal(romkit.load(file).last, law.last)
