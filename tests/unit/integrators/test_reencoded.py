"""Restarts from the decoded state: nothing for exact projections, nothing for Galerkin, jumps for the others."""

import numpy as np
import pytest
import torch

import romkit
from romkit.integrators import LSPG, Galerkin, LearnedField, PetrovGalerkin, Reencoded, SINDy
from romkit.systems import Lorenz96, Pendulum
from tests.refusals import refused


@pytest.fixture(scope="module")
def system():
    return Lorenz96(n=8, transient=2.0)


@pytest.fixture(scope="module")
def models(system):
    data = system.dataset(F=[3.14, 3.18], duration=2.0)
    return {method: romkit.fit(method, data, epochs=200, layers=(3, 6, 8), seeds=range(2)) for method in ("cae", "ae")}


def latent(system, model, dynamics, **more):
    settings = {"duration": 0.5, "dt": 0.1, "F": [3.14, 3.15]} | more
    return romkit.rollout(system, model, dynamics=dynamics, **settings).latent.values


@pytest.mark.parametrize("every", [1, 2, 100])
def test_it_costs_nothing_where_the_encoder_is_a_left_inverse(system, models, every):
    stays = latent(system, models["cae"], PetrovGalerkin())
    assert np.allclose(latent(system, models["cae"], Reencoded(PetrovGalerkin(), every)), stays, atol=1e-11)


def test_a_restart_is_one_more_encoding(system, models):
    model = models["ae"]
    stays, jumps = (latent(system, model, d) for d in (PetrovGalerkin(), Reencoded(PetrovGalerkin(), 2)))
    assert np.array_equal(jumps[..., :3, :], stays[..., :3, :])  # the state before the jump is reported
    assert np.abs(jumps[..., 3:, :] - stays[..., 3:, :]).max() > 1e-3
    P = model.double()(torch.tensor([[3.14], [3.15]], dtype=torch.float64))
    again = P.decode(torch.from_numpy(jumps[..., 2, :])).detach().numpy()
    one = [latent(system, model, PetrovGalerkin(), duration=0.1, initial_state=again[s])[s] for s in range(2)]
    assert np.allclose(np.stack(one)[..., 1, :], jumps[..., 3, :], atol=1e-10)


def test_it_costs_nothing_from_the_nearest_point(system, models):
    stays, restarts = (latent(system, models["ae"], d, duration=0.3) for d in (Galerkin(), Reencoded(Galerkin(), 1)))
    assert np.allclose(restarts, stays, atol=1e-6)


def test_a_law_of_second_order_needs_no_system():
    class Law(LearnedField):
        order, latent_dim, context_names = 2, 2, ()

        def right_hand_side(self, c):
            return lambda w: -w[..., :2]

    data = Pendulum().dataset("train", duration=0.05).isel(trajectory=slice(2))
    model = romkit.fit("pod", data, latent_dim=2)
    lengths = {name: 0.5 for name in Pendulum().context_names}
    start = {"initial_state": [0.1, 0.2], "initial_velocity": [0.0, 1.0]}
    run = romkit.forecast(model, dynamics=Reencoded(Law(), 2), duration=1.0, dt=0.01, **start, **lengths)
    t = run.time.values
    assert np.allclose(run.latent, np.stack([0.1 * np.cos(t), 0.2 * np.cos(t) + np.sin(t)], -1), atol=1e-6)


def test_what_cannot_be_restarted():
    refused("every", Reencoded, Galerkin(), 0)
    refused("dynamics: expected a LatentField, got LSPG", Reencoded, LSPG(), 2)


def test_laws_keep_what_they_know():
    times = np.linspace(0, 5, 51)
    u = np.stack([k * np.sin(times) for k in (1.0, 2.0, 3.0)])[..., None]
    states = np.cumsum(u, axis=1) * np.array([0.1, 0.2])
    data = romkit.data.from_arrays(states, times, control=u)
    pod = romkit.fit("pod", data, latent_dim=1)
    law = SINDy(degree=1, threshold=0.0).fit(pod, data)
    given = {"initial_state": states[0, 0], "duration": 1.0, "dt": 0.1, "control": u[0, :11]}
    plain, again = (romkit.forecast(pod, dynamics=d, **given) for d in (law, Reencoded(law, 5)))
    assert np.allclose(plain.latent, again.latent, atol=1e-9)
    assert np.allclose(plain.state_distance, again.state_distance, atol=1e-9)
