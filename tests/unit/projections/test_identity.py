"""The identity: exact, stored, and laws of physical states in the user's names and terms."""

import warnings

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.core.errors import DataWarning
from romkit.laws import DMD, Fourier, OperatorInference, Polynomial, SINDy

TIMES = 0.02 * np.arange(400)


def runs(field, starts, **labels):
    """Runs of a field and their exact velocities."""
    paths = [
        solve_ivp(field, (0, TIMES[-1]), start, t_eval=TIMES, rtol=1e-10, atol=1e-12).y
        for start in starts
    ]
    velocity = np.stack([np.stack(field(0.0, path), -1) for path in paths])
    states = np.stack([path.T for path in paths])
    return romkit.data.from_arrays(states, TIMES, velocity=velocity, **labels)


@pytest.fixture(scope="module")
def pendulum():
    starts = [[angle, 0.0] for angle in (0.5, 1.5, 2.5, 3.0)]
    return runs(lambda t, y: [y[1], -np.sin(y[0])], starts, names=["theta", "omega"])


def test_states_stay_as_they_are(pendulum, tmp_path):
    identity = romkit.fit("identity", pendulum)
    assert (identity.latent_dim, identity.idempotent) == (2, True)
    x = torch.from_numpy(pendulum.state.values)
    for model in (identity, romkit.load(romkit.save(identity, tmp_path / "identity"))):
        P = model.double()(pendulum)
        assert torch.equal(P.encode(x), x)
        assert torch.equal(P.decode(x), x)
        assert torch.equal(P(x), x)


def test_terms_are_of_the_users_variables(pendulum):
    identity = romkit.fit("identity", pendulum)
    settings = SINDy(library=Polynomial(1) + Fourier(1), threshold=0.05, refine=False)
    law = settings.fit(identity, pendulum)
    assert law.equations() == ["theta' = 1.000 omega", "omega' = -1.000 sin(theta)"]
    run = romkit.rollout(pendulum, identity, dynamics=law)
    assert float(run.nrmse.max()) < 1e-3


def test_states_of_very_different_units_are_no_rounding_of_each_other():
    """Lotka and Volterra with predators counted in 1e9."""
    data = runs(
        lambda t, y: [y[0] - 5e8 * y[0] * y[1], -0.75 * y[1] + 0.25 * y[0] * y[1]],
        [[3.0, 1e-9], [1.0, 3e-9], [4.0, 2e-9]],
        names=["prey", "predators"],
    )
    law = SINDy(degree=2, share=1e-3, refine=False).fit(romkit.fit("identity", data), data)
    assert law.equations() == [
        "prey' = 1.000 prey - 5.000e+08 prey predators",
        "predators' = -0.7500 predators + 0.2500 prey predators",
    ]


def test_other_laws_and_a_rotation_in_three_names():
    A = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, -1.0]])
    data = runs(lambda t, y: list(A @ y), [[1, 0, 0], [0, 2, 1], [1, 1, -1]], names=["a", "b", "c"])
    identity = romkit.fit("identity", data)
    linear = SINDy(degree=1, threshold=0.1, refine=False).fit(identity, data)
    assert linear.equations() == [
        "a' = -1.000 b",
        "b' = 1.000 a",
        "c' = 0.5000 b - 1.000 c",
    ]
    for settings in (DMD(), OperatorInference(degree=1, regularization=1e-6)):
        law = settings.fit(identity, data)
        z = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(law.predict(z), z @ torch.from_numpy(A).mT, atol=1e-4)


def test_behind_a_basis_latents_are_its_coordinates():
    t = np.linspace(0, 6, 200)
    plane = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 2)))[0]
    states = (np.stack([np.cos(t), np.sin(t)], -1) @ plane.T)[None]
    data = romkit.data.from_arrays(states, t)
    basis = romkit.basis(data, rank=2)
    identity = romkit.fit("identity", data, basis=basis)
    x = torch.from_numpy(states)
    assert torch.allclose(identity.double()(data).encode(x), basis.encode(x), atol=1e-12)


def test_a_stack_is_stored(pendulum, tmp_path):
    stacked = romkit.projections.stack([romkit.fit("identity", pendulum) for _ in range(3)])
    romkit.save(stacked, tmp_path / "stack.safetensors")
    loaded = romkit.load(tmp_path / "stack.safetensors")
    assert loaded.seeds == 3
    assert bool((loaded().encode(torch.ones(3, 4, 2)) == 1).all())


@pytest.mark.parametrize("sizes", [{"latent_dim": 1}, {"layers": (1, 2)}])
def test_sizes_that_it_cannot_have_are_told(pendulum, sizes):
    (name,) = sizes
    with pytest.warns(DataWarning, match=name):
        assert romkit.fit("identity", pendulum, **sizes).latent_dim == 2


@pytest.mark.parametrize(("duration", "told"), [(1.0, True), (1.4, True), (1.2, False)])
def test_durations_of_broken_intervals_are_told(pendulum, duration, told):
    identity = romkit.fit("identity", pendulum)
    law = SINDy(degree=1).fit(identity, pendulum)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        run = romkit.forecast(
            identity, dynamics=law, initial_state=[0.1, 0.0], duration=duration, dt=0.6
        )
    assert float(run.time[-1]) == pytest.approx(1.2)
    assert any("duration" in str(warning.message) for warning in issued) == told
