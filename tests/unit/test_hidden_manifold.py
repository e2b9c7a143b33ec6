"""Projections that are trained together with a context that nobody recorded."""

import numpy as np
import pytest

import romkit
from romkit.errors import InputError

ANGLES = np.array([0.0, 0.9, 0.3, 1.2, 0.6, 0.45, 0.75])


@pytest.fixture(scope="module")
def runs():
    """Curves in planes that turn about the first axis, by an angle that is not in the data."""
    t = np.linspace(0, 2 * np.pi, 40)
    x, y = np.cos(t), 0.5 * np.sin(2 * t)
    states = [np.stack([x, np.cos(a) * y, np.sin(a) * y], -1) for a in ANGLES]
    return romkit.data.from_arrays(states, t)


def error(model, runs, contexts):
    """Root mean square error of projections at the contexts of the runs."""
    states = runs["state"].values
    images = [model(hidden1=float(c))(x) - x for c, x in zip(contexts, states, strict=True)]
    return np.sqrt(np.square(images).mean())


def test_the_angle_is_recovered_up_to_a_monotone_map(runs):
    settings = {"latent_dim": 2, "layers": (2, 3, 3), "epochs": 100, "verbose": False}
    model, found = romkit.hidden_manifold("ncae-weights", runs, **settings)
    hidden = found["hidden1"].values
    steps = np.diff(hidden[ANGLES.argsort()])
    assert (steps > 0).all() or (steps < 0).all()
    assert (hidden.min(), hidden.max()) == (-1, 1)
    assert romkit.data.context_names(found) == ("hidden1",)
    # one plane for all of them is far from most
    flat = romkit.fit("pod", found, latent_dim=2)
    assert error(model, found, hidden) < 0.1 * error(flat, found, hidden)


def test_runs_of_a_group_have_one_value(runs):
    twice = romkit.data.from_arrays([*runs["state"].values] * 2, runs["time"].values)
    twice = twice.assign_coords(batch=("trajectory", [f"b{k}" for k in range(7)] * 2))
    model, found = romkit.hidden_manifold(
        "ncae", twice, "batch", number=2, latent_dim=2, epochs=1, verbose=False
    )
    assert model.frame.context_names == ("hidden1", "hidden2")
    for name in model.frame.context_names:
        np.testing.assert_array_equal(found[name].values[:7], found[name].values[7:])


@pytest.mark.parametrize("method", ["pod", "polynomial-manifold"])
def test_methods_that_are_not_trained_are_refused(runs, method):
    with pytest.raises(InputError, match="method"):
        romkit.hidden_manifold(method, runs, latent_dim=2)
