"""The quadratic manifold: what it recovers, what its regularisation is for, and that it runs compiled."""

import numpy as np
import pytest
import torch

import romkit
from tests.refusals import refused


def dataset(states):
    return romkit.data.from_arrays(
        states, np.arange(states.shape[1]), context={"c": np.arange(len(states))}, velocity=0 * states
    )


def left(model, states):
    """What a model leaves of states, relative to their deviation from the mean of the training data."""
    x = torch.from_numpy(states)
    P = model.double()(c=0.0)
    return ((P(x) - x).norm() / (x - model.frame.state_shift).norm()).item()


def test_states_on_a_paraboloid_are_recovered():
    rng = np.random.default_rng(0)
    modes = np.linalg.qr(rng.standard_normal((40, 5)))[0]
    z = rng.uniform(-1, 1, (4, 60, 2))
    z[2] = -z[1]  # and z[0] below: no mean, and no correlation with products, so that modes are those of z
    z[0] = np.concatenate([z[0, :30], -z[0, :30]])
    squares = np.stack([z[..., 0] ** 2, z[..., 0] * z[..., 1], z[..., 1] ** 2], axis=-1)
    states = z @ (3 * modes[:, :2]).T + 0.3 * squares @ modes[:, 2:].T
    train, unseen = dataset(states[:3]), states[3]
    curved, flat = (romkit.fit(name, train, latent_dim=2) for name in ("quadratic-manifold", "pod"))
    assert left(flat, unseen) > 0.05
    assert left(curved, unseen) < 1e-4


def test_the_regularisation_is_that_which_holds_for_snapshots_that_are_not_seen():
    states = np.random.default_rng(1).standard_normal((6, 10, 30))  # nothing that products could tell
    train, unseen = dataset(states[:5]), states[5]
    chosen, free = (
        romkit.fit("quadratic-manifold", train, latent_dim=7, regularisation=ridge) for ridge in (None, 1e-10)
    )
    flat = left(romkit.fit("pod", train, latent_dim=7), unseen)
    assert left(free, unseen) > 1.05 * flat
    assert left(chosen, unseen) < 1.02 * flat


def test_data_with_fewer_directions_than_modes():
    states = np.zeros((2, 20, 10))
    states[..., 0] = np.linspace(0, 1, 40).reshape(2, 20)
    model = romkit.fit("quadratic-manifold", dataset(states), latent_dim=3)
    assert left(model, states) < 1e-6
    message = "regularisation: expected .* got 0"
    refused(message, romkit.fit, "quadratic-manifold", dataset(states), latent_dim=2, regularisation=0)


@pytest.mark.parametrize("method", ["pod", "quadratic-manifold"])
def test_what_is_not_trained_needs_no_velocities(method):
    data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.15, 3.18], duration=0.02)
    one_time = data.drop_vars("velocity").isel(time=[1])
    assert romkit.fit(method, one_time, latent_dim=1).latent_dim == 1
    refused("states to differentiate", romkit.fit, "ncae", one_time, latent_dim=1)
