"""`romkit.fit`: what it learns, records and refuses, and that seeds in a stack do not know of each other."""

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.errors import DivergenceWarning, InputError
from romkit.projections import METHODS, unstack
from romkit.training.optimizers import Adam


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("method", [name for name in METHODS if name != "pod"])
def test_training_lowers_the_loss(method, lorenz_data):
    model = romkit.fit(method, lorenz_data, epochs=20)
    losses = model.report["losses"]
    assert losses[-1] < 0.7 * losses[0]
    assert model.name == method


def test_the_report_says_how_it_was_made(lorenz_data):
    report = romkit.fit("ncae", lorenz_data, seed=7, epochs=1, batch_size=64).report
    assert (report["seed"], report["diverged"], report["preset"]) == (7, False, "quick")
    assert report["recipe"]["batch_size"] == 64
    assert report["versions"]["torch"] == torch.__version__
    assert report["data"]["system"] == "lorenz96"


def test_a_seed_means_the_same_alone_and_in_a_stack(lorenz_data):
    stacked = romkit.fit("ncae", lorenz_data, seeds=[5, 6, 7], epochs=3)
    alone = romkit.fit("ncae", lorenz_data, seed=6, epochs=3)
    assert torch.equal(parameters(alone), parameters(unstack(stacked)[1]))
    assert not torch.equal(parameters(alone), parameters(unstack(stacked)[0]))


def test_a_diverging_seed_is_frozen_and_reported_and_harms_nobody(lorenz_data, monkeypatch):
    start = Adam.start

    def poisoned(self, theta, flat):
        theta[1] = torch.nan
        return start(self, theta, flat)

    healthy = romkit.fit("ncae", lorenz_data, seeds=[5, 7], epochs=2)
    monkeypatch.setattr(Adam, "start", poisoned)
    with pytest.warns(DivergenceWarning, match="seed 6 diverged in epoch 0"):
        stacked = romkit.fit("ncae", lorenz_data, seeds=[5, 6, 7], epochs=2)
    models = unstack(stacked)
    assert [model.report["diverged"] for model in models] == [False, True, False]
    for mine, other in zip((models[0], models[2]), unstack(healthy), strict=True):
        assert torch.equal(parameters(mine), parameters(other))


def test_compiled_training_follows_eager_training(lorenz_data):
    settings = {"layers": (2, 36), "epochs": 3}
    eager = romkit.fit("cae", lorenz_data, **settings, compile=False)
    compiled = romkit.fit("cae", lorenz_data, **settings, compile=True)
    assert compiled.report["losses"] == pytest.approx(eager.report["losses"], rel=1e-3)


def test_weight_zero_trains_on_positions_alone(lorenz_data):
    """The velocity term is a setting: without it, the velocities of the data cannot matter."""
    scrambled = lorenz_data.assign(velocity=lorenz_data.velocity * 100)
    one, other = (romkit.fit("ae", data, epochs=2, velocity_weight=0.0) for data in (lorenz_data, scrambled))
    assert torch.equal(parameters(one), parameters(other))


@pytest.fixture
def own_data():
    """A user's own dataset: no system class, no attributes, one context coordinate."""
    t = np.linspace(0, 6, 60)
    speed = np.array([0.8, 1.0, 1.2])
    angle = speed[:, None] * t
    state = np.stack([np.cos(angle), np.sin(angle), np.cos(angle) ** 2], axis=-1)
    velocity = speed[:, None, None] * np.stack([-np.sin(angle), np.cos(angle), -np.sin(2 * angle)], axis=-1)
    dims = ("trajectory", "time", "component")
    return xr.Dataset(
        {"state": (dims, state), "velocity": (dims, velocity)}, coords={"time": t, "speed": ("trajectory", speed)}
    )


def test_own_data_train_with_sizes_from_latent_dim_or_layers(own_data):
    model = romkit.fit("ncae", own_data, latent_dim=2, epochs=2)
    assert model.config["layers"] == [2, 3, 3]
    assert model(speed=1.1).encode(torch.zeros(3)).shape == (2,)
    model = romkit.fit("ncae", own_data, layers=(1, 2, 3), embedding=(1, 5), epochs=2)
    assert model.config == {"layers": [1, 2, 3], "embedding": [1, 5]}


def test_units_group_the_scales():
    rng = np.random.default_rng(0)
    state = rng.normal(size=(2, 50, 3)) * [1.0, 2.0, 100.0]
    data = xr.Dataset(
        {name: (("trajectory", "time", "component"), state) for name in ("state", "velocity")},
        coords={"component_units": ("component", ["rad", "rad", "Pa"])},
    )
    scale = romkit.projections.Frame.from_dataset(data).state_scale
    assert scale[0] == scale[1]
    assert scale[0].item() == pytest.approx(np.sqrt(state[..., :2].reshape(-1, 2).var(0).mean()), rel=1e-5)
    assert scale[2] > 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "nacae"}, "method: expected one of .*; did you mean 'ncae'?"),
        ({"preset": "quik"}, "preset: expected one of .*; did you mean 'quick'?"),
        ({"epochs": 0}, "epochs: expected an integer >= 1, got 0"),
        ({"learning_rate": -1.0}, "learning_rate: expected a positive number"),
        ({"layres": (2, 36)}, "layres: expected an architecture setting"),
        ({"layers": (2, 18, 35)}, "layers: expected sizes that do not decrease"),
        ({"slope": 0.3}, "slope: expected an architecture setting, got an unknown name; ncae takes"),
    ],
)
def test_bad_settings_are_named_in_one_line(lorenz_data, arguments, message):
    arguments = {"method": "ncae", **arguments}
    with pytest.raises(InputError, match=message) as caught:
        romkit.fit(arguments.pop("method"), lorenz_data, **arguments)
    assert "\n" not in str(caught.value)


def test_bad_data_are_named_in_one_line(own_data):
    holes = own_data.copy(deep=True)
    holes["state"][1, 3, 0] = np.nan
    for data, message in (
        (own_data.drop_vars("velocity"), "data: expected a variable 'velocity'"),
        (own_data.rename(component="x"), "data: expected state with dims"),
        (holes, "data: expected finite state, got NaN or infinity in 1 trajectories; drop those trajectories"),
        (own_data.state.values, "data: expected an xarray.Dataset, got ndarray"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            romkit.fit("ncae", data, latent_dim=2)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="latent_dim: expected the number of latent coordinates, got none"):
        romkit.fit("ncae", own_data)
    with pytest.raises(InputError, match="data: expected a context"):
        romkit.fit("ncae", own_data.drop_vars("speed"), latent_dim=2)
