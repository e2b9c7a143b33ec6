"""Laws with an energy, on data of systems whose energy is known."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.core.errors import InputError
from romkit.laws import Hamiltonian, HamiltonianLaw, LatentSamples, PolynomialLaw
from romkit.laws.trajectories import equation_rollout


def runs(rate, starts, values, name, duration, samples):
    """Return a dataset of runs at values of a parameter, each from its start."""
    times = np.linspace(0, duration, samples)
    states = [
        solve_ivp(
            rate, (0, duration), start, "DOP853", times, args=(value,), rtol=1e-11, atol=1e-12
        ).y.T
        for start, value in zip(starts, values, strict=True)
    ]
    return romkit.data.from_arrays(np.array(states), times, context={name: values})


def fitted(settings, data):
    return settings.fit(romkit.fit("identity", data, verbose=False), data)


def change_of(energy, law, start, value, duration):
    """Return largest relative change of an energy along a rollout of a law by short steps."""
    start, value = (torch.tensor([each], dtype=torch.float64) for each in (start, [value]))
    times = torch.linspace(0, duration, 300, dtype=torch.float64)
    path = equation_rollout(law, start, value, times, tau=1.0, resolution=40)[0]
    values = energy(*path.numpy().T)
    return float(np.abs(values / values[0] - 1).max())


def test_energy_and_canonical_form_of_henon_and_heiles():
    """H = (p² + q²) / 2 + x² y - y³ / 3, whose bracket nobody gave."""

    def rate(t, s):
        x, y, px, py = s
        return [px, py, -x - 2 * x * y, -y - x * x + y * y]

    times = np.linspace(0, 10, 81)
    starts = np.random.default_rng(0).uniform(-0.3, 0.3, (4, 4))
    z = np.array([solve_ivp(rate, (0, 10), s, "DOP853", times, rtol=1e-11).y.T for s in starts])
    samples = LatentSamples.first_order(
        torch.tensor(z), torch.zeros(z.shape), times=torch.tensor(times)
    )
    law = Hamiltonian(degree=3, damped=False).fit_samples(samples)
    canonical = torch.tensor(np.kron([[0, 1], [-1, 0]], np.eye(2)))
    assert torch.allclose(law.interconnection, canonical, atol=1e-5)
    x, y, px, py = points = np.random.default_rng(1).uniform(-0.3, 0.3, (4, 50))
    energy = (px**2 + py**2 + x**2 + y**2) / 2 + x**2 * y - y**3 / 3
    found = law.energy(torch.tensor(points.T)) - law.energy(torch.zeros(4, dtype=torch.float64))
    assert np.allclose(found, energy, atol=1e-5)


@pytest.fixture(scope="module")
def duffing():
    """Return runs of q̈ = q - q³ - γ q̇ at four γ, and the law that is chosen for them."""
    gamma = np.repeat([0.05, 0.1, 0.15, 0.2], 2)
    starts = np.tile([[1.5, 0.2], [0.3, 1.0]], (4, 1))
    data = runs(
        lambda t, s, g: [s[1], s[0] - s[0] ** 3 - g * s[1]], starts, gamma, "gamma", 12, 121
    )
    return data, fitted(Hamiltonian(degree=4, context_degree=1), data)


def test_damping_over_a_parameter_is_found(duffing):
    _, law = duffing
    for value in (0.05, 0.125, 0.2):
        R = law.dissipation_map(torch.tensor([value], dtype=torch.float64))
        assert torch.allclose(R, torch.diag(torch.tensor([0, value]).double()), atol=1e-3)
    assert law.energy_formula(2) == "H = 0.25 x0^4 - 0.5 x0^2 + 0.5 x1^2"


def test_rates_are_those_of_the_energy(duffing):
    _, law = duffing
    c = torch.tensor([0.13], dtype=torch.float64)
    z = torch.tensor([0.7, -0.4], dtype=torch.float64)
    gradient = torch.func.grad(law.energy)(z, c)
    rate = (law.interconnection - law.dissipation_map(c)) @ gradient
    assert torch.allclose(law.right_hand_side(c)(z), rate, atol=1e-10)


def test_laws_are_saved_with_their_energy(duffing, tmp_path):
    _, law = duffing
    back = romkit.load(romkit.save(law, tmp_path / "law"))
    assert isinstance(back, HamiltonianLaw)
    assert back.details() == law.details()


SWINGS = {
    "pendulum": (
        lambda t, s, length: [s[1], -np.sin(s[0]) / length],
        lambda q, p: p**2 / 2 + (1 - np.cos(q)) / 1.1,
        np.repeat([0.8, 1.0, 1.2, 1.4], 2),
        np.tile([[0.6, 0.0], [1.2, 0.0]], (4, 1)),
        1.1,
        [0.9, 0.0],
    ),
    "distance of a planet": (
        lambda t, s, L: [s[1], L**2 / s[0] ** 3 - 1 / s[0] ** 2],
        lambda r, p: p**2 / 2 + 1.02**2 / (2 * r**2) - 1 / r,
        np.repeat([0.9, 0.95, 1.0, 1.05, 1.1], 2),
        [[v**2 / (1 + e), 0.0] for v in (0.9, 0.95, 1.0, 1.05, 1.1) for e in (0.15, 0.3)],
        1.02,
        [1.02**2 / 1.2, 0.0],
    ),
}


@pytest.mark.parametrize("name", SWINGS)
def test_energy_is_kept_for_a_hundred_periods(name):
    rate, energy, values, starts, value, start = SWINGS[name]
    data = runs(rate, starts, values, "c", 16, 161)
    law = fitted(Hamiltonian(degree=8, context_degree=2, damped=False), data)
    free = fitted(PolynomialLaw(degree=7, context_degree=2), data)
    change, of_free = (change_of(energy, each, start, value, 680) for each in (law, free))
    assert change < 5e-3
    assert change < 0.1 * of_free


def test_settings_are_chosen_by_forecasts(duffing):
    data, _ = duffing
    law = romkit.law(romkit.fit("identity", data, verbose=False), data, kinds=["hamiltonian"])
    assert isinstance(law, HamiltonianLaw)
    assert bool(law.dissipation.any())


def test_odd_latents_without_damping_are_refused():
    t = torch.linspace(0, 6, 61, dtype=torch.float64)
    z = torch.stack([t.cos(), t.sin(), t.cos() ** 2], -1)
    samples = LatentSamples.first_order(z[None], torch.zeros(1, 61, 3), times=t)
    with pytest.raises(InputError, match="even number"):
        Hamiltonian(degree=2, damped=False).fit_samples(samples)
