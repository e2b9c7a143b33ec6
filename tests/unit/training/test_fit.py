"""`romkit.fit`: what it learns, records and refuses, and that seeds in a stack do not know of each other."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.core.errors import DivergenceWarning, FileError, InputError
from romkit.projections import METHODS, NcAE, unstack
from romkit.training import Penalty, PhaseFit, Recipe, Reconstruction, RolloutTraining, SnapshotTraining
from romkit.training.batches import Batch, batches
from romkit.training.optimizers import Adam, Plateau, Plateaus
from romkit.verbs.presets import PRESETS

TRAINED = [name for name in METHODS if name not in ("pod", "quadratic-manifold")]


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("method", TRAINED)
def test_training_lowers_the_loss(method, lorenz_data):
    model = romkit.fit(method, lorenz_data, epochs=20)
    losses = model.report["losses"]
    assert losses[-1] < 0.7 * losses[0]
    assert model.name == method


def test_the_report_says_how_it_was_made(lorenz_data):
    report = romkit.fit("ncae", lorenz_data, seed=7, epochs=1, batch_size=64).report
    assert (report["seed"], report["diverged"], report["preset"]) == (7, False, "quick")
    assert report["recipe"]["snapshots"]["batch_size"] == 64
    assert report["versions"]["torch"] == torch.__version__
    assert report["data"]["system"] == "lorenz96"


@pytest.mark.parametrize("method", TRAINED)
def test_a_seed_means_the_same_alone_and_in_a_stack(method, lorenz_data):
    stacked = romkit.fit(method, lorenz_data, seeds=[5, 6, 7], epochs=3)
    alone = romkit.fit(method, lorenz_data, seed=6, epochs=3)
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
    eager = romkit.fit("cae", lorenz_data, **settings, engine="torch")
    compiled = romkit.fit("cae", lorenz_data, **settings, engine="compiled")
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
    assert model.config == {"layers": [1, 2, 3], "embedding": [1, 5], "bandwidth": 1.0}


def test_units_group_the_scales():
    rng = np.random.default_rng(0)
    state = rng.normal(size=(2, 50, 3)) * [1.0, 2.0, 100.0]
    data = xr.Dataset(
        {name: (("trajectory", "time", "component"), state) for name in ("state", "velocity")},
        coords={"time": np.linspace(0, 1, 50), "component_units": ("component", ["rad", "rad", "Pa"])},
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
        ({"layres": (2, 36)}, "layres: expected a setting of the training or of ncae, .*; did you mean 'layers'?"),
        ({"batchsize": 64}, "batchsize: expected a setting .*; did you mean 'batch_size'?"),
        ({"rollout.steps": 64}, "rollout.steps: expected a setting .*; did you mean 'rollouts.steps'?"),
        ({"zzz": 1}, "zzz: expected a setting .*; ncae takes bandwidth, .*, layers, fit snapshots, loss"),
        ({"rollouts": 3}, "rollouts: expected a RolloutTraining, got 3"),
        ({"snapshots": None}, "snapshots: expected a SnapshotTraining, got None"),
        ({"loss": []}, "loss: expected a list of terms"),
        ({"loss": [Reconstruction]}, r"loss\[0\]: expected a LossTerm, got the class Reconstruction"),
        ({"rollouts.steps": 0}, "rollouts.steps: expected an integer >= 1"),
        ({"phase.dynamics": "lspg"}, "phase.dynamics: expected one of"),
        ({"seeds": []}, "seeds: expected 1 or more of them, got"),
        ({"seeds": 3}, "seeds: expected a list, got 3"),
        ({"seeds": [0, -1]}, r"seeds\[1\]: expected an integer >= 0, got -1"),
        ({"seed": 1.5}, "seed: expected an integer, got 1.5"),
        ({"seed": "a"}, "seed: expected an integer"),
        ({"seed": 2**70}, "seed: expected an integer"),
        ({"device": "abacus"}, "device: expected 'cpu', or 'cuda'"),
        ({"device": "meta"}, "device: expected 'cpu', or 'cuda'"),
        ({"engine": "fast"}, "engine: expected one of auto, compiled, torch"),
        ({"method": 3}, "method: expected a name, a class of projections, or one with its sizes, got 3"),
        ({"method": dict}, "method: expected .*, got the class dict"),
        ({"layers": (2, 18, 35)}, "layers: expected sizes that do not decrease"),
        ({"slope": 0.3}, "slope: expected a setting of the training or of ncae"),
    ],
)
def test_bad_settings_are_named_in_one_line(lorenz_data, arguments, message):
    arguments = {"method": "ncae", **arguments}
    with pytest.raises(InputError, match=message) as caught:
        romkit.fit(arguments.pop("method"), lorenz_data, **arguments)
    assert "\n" not in str(caught.value)


def test_bad_data_are_named_in_one_line(own_data):
    holes = own_data.copy(deep=True)
    holes["state"][1, 3, 0] = np.inf
    for data, message in (
        (own_data.drop_vars("state"), "data: expected a variable 'state'"),
        (own_data.rename(component="x"), "data: expected state with dims"),
        (
            holes,
            "data: expected finite state, or NaN where it is missing, got infinity in 1 trajectories; drop or mask it",
        ),
        (own_data.state.values, "data: expected an xarray.Dataset, got ndarray"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            romkit.fit("ncae", data, latent_dim=2)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="latent_dim: expected the number of latent coordinates, got none"):
        romkit.fit("ncae", own_data)
    with pytest.raises(InputError, match="data: expected a context"):
        romkit.fit("ncae", own_data.drop_vars("speed"), latent_dim=2)


@pytest.mark.parametrize("optimizer", ["adam", "soap"])
def test_an_interrupted_run_resumes_bit_for_bit(lorenz_data, tmp_path, monkeypatch, optimizer):
    from romkit.training.loop import Checkpoint

    settings = {"seeds": [1, 2], "optimizer": optimizer, "batch_size": 32}
    whole = romkit.fit("ncae", lorenz_data, **settings, epochs=6)
    monkeypatch.setattr("romkit.training.loop.SHARE", 1e9)  # save after every epoch
    save, saves = Checkpoint.save, []

    def interrupted(self, snapshot):
        save(self, snapshot)
        saves.append(len(snapshot.losses))
        if len(saves) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        romkit.fit("ncae", lorenz_data, **settings, epochs=6, checkpoint=tmp_path)
    monkeypatch.setattr(Checkpoint, "save", save)
    assert 0 < saves[-1] < 6
    resumed = romkit.fit("ncae", lorenz_data, **settings, epochs=6, checkpoint=tmp_path)
    assert torch.equal(parameters(whole), parameters(resumed))
    assert [r["losses"] for r in whole.report["seeds"]] == [r["losses"] for r in resumed.report["seeds"]]
    with pytest.raises(FileError, match="belongs to a run with other settings"):
        romkit.fit("ncae", lorenz_data, **settings, epochs=7, checkpoint=tmp_path)


def test_plateaus_equal_torch(lorenz_data):
    """Per-seed ReduceLROnPlateau against torch.optim.lr_scheduler on random loss curves."""
    schedule = Plateau(patience=3, factor=0.5)
    losses = torch.rand(60, 4, generator=torch.Generator().manual_seed(0)) + torch.linspace(1, 0, 60).unsqueeze(1)
    plateaus = Plateaus.start(losses.T)
    optimizers = [torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0) for _ in range(4)]
    oracles = [torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=3, factor=0.5) for o in optimizers]
    for epoch in losses:
        plateaus = schedule.observe(plateaus, epoch)
        for oracle, loss in zip(oracles, epoch.tolist(), strict=True):
            oracle.step(loss)
        assert schedule.factors(0.5, plateaus).squeeze(1).tolist() == [o.param_groups[0]["lr"] for o in optimizers]
    assert plateaus.factor.max() < 1


def test_noise_depends_on_seed_and_epoch_alone_and_has_the_stated_scale(lorenz_data):
    frame = romkit.projections.Frame.from_dataset(lorenz_data)
    rows = Batch(torch.zeros(4000, 36), torch.zeros(4000, 36), torch.zeros(4000, 1))
    for unit, state, context in (
        ("scale", 0.1, 0.2),
        ("deviation", 0.1, 0.2 / 3**0.5),
        ("physical", 0.1 / frame.state_scale[0].item(), 0.2 / frame.context_scale[0].item()),
    ):
        noise = SnapshotTraining(state_noise=0.1, context_noise=0.2, noise_unit=unit).make_noise(frame)
        together = next(batches(rows, [3, 4], 5, 4000, noise))
        alone = next(batches(rows, [4], 5, 4000, noise))
        assert all(torch.equal(a[1], b[0]) for a, b in zip(together, alone, strict=True))
        assert together.y.std().item() == pytest.approx(state, rel=0.02)
        assert together.c.std().item() == pytest.approx(context, rel=0.05)
        assert together.dy.abs().max() == 0
    assert SnapshotTraining().make_noise(frame) is None
    model = romkit.fit("ncae", lorenz_data, epochs=1, state_noise=0.1)
    assert not torch.equal(parameters(model), parameters(romkit.fit("ncae", lorenz_data, epochs=1)))


def test_stacks_larger_than_the_cache_are_trained_in_chunks(lorenz_data, monkeypatch):
    one = romkit.fit("ncae", lorenz_data, seeds=range(3), epochs=1)
    monkeypatch.setattr(sys.modules["romkit.training.recipe"], "CACHE_ROWS", 256)
    chunked = romkit.fit("ncae", lorenz_data, seeds=range(3), epochs=1)
    assert torch.equal(parameters(one), parameters(chunked))
    assert [r["seeds_in_stack"] for r in chunked.report["seeds"]] == [2, 2, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 3}, "layers: expected a list, got 3"),
        ({"latent_dim": 2.5}, "latent_dim: expected an integer, got 2.5"),
        ({"bandwidth": 0.0}, "bandwidth: expected a positive number"),
        ({"embedding": (3, 4)}, "embedding: expected sizes that start with the 1 context parameters"),
        ({"optimizer": "sgd"}, "optimizer: expected one of"),
        ({"state_noise": -0.1}, "state_noise: expected a number that is not negative"),
    ],
)
def test_bad_sizes_and_recipes_are_named(lorenz_data, settings, message):
    with pytest.raises(InputError, match=message):
        romkit.fit("ncae", lorenz_data, **settings)


def test_a_method_is_a_name_or_a_class_or_one_with_its_sizes(lorenz_data):
    class Mine(NcAE):
        name = "mine"

    sizes = {"layers": (2, 8, 36)}
    named = romkit.fit("ncae", lorenz_data, epochs=1, **sizes)
    for method, more in ((NcAE, sizes), (NcAE.with_sizes(**sizes), {}), (NcAE.with_sizes(layers=(3, 36)), sizes)):
        assert torch.equal(parameters(romkit.fit(method, lorenz_data, epochs=1, **more)), parameters(named))
    assert romkit.fit(Mine, lorenz_data, epochs=1, **sizes).name == "mine"
    assert "mine" not in METHODS
    with pytest.raises(InputError, match=r"setting of ncae: expected one of .*; did you mean 'layers'"):
        romkit.fit(NcAE.with_sizes(layres=(2, 36)), lorenz_data)


def test_settings_by_name_by_object_and_dotted_mean_the_same():
    base = PRESETS["dynamics"]("lorenz96", "ncae")
    dotted = base.with_settings({"rollouts.steps": 30, "snapshots.epochs": 5, "phase": None, "latent_weight": 0.0})
    rollouts = dataclasses.replace(base.rollouts, steps=30)
    objects = base.with_settings(
        {
            "rollouts": rollouts,
            "snapshots": SnapshotTraining(epochs=5),
            "phase": None,
            "loss": [Reconstruction(), Penalty()],
        }
    )
    assert dotted == objects
    assert dotted.with_settings({"penalty_weight": 0}).loss == (Reconstruction(),)
    assert Recipe().with_settings({"rollouts.length": 7}).rollouts == RolloutTraining(length=7)
    with pytest.raises(InputError, match=r"settings: expected one of .*; did you mean 'rollouts\.length'"):
        Recipe().with_settings({"rollouts.lenght": 7})
    assert Recipe(rollouts=RolloutTraining(every=3), phase=PhaseFit()).timing.every == 3
    json.dumps(base.to_json())


def test_a_recipe_of_ones_own_is_a_preset(lorenz_data):
    own = Recipe(SnapshotTraining(epochs=2, batch_size=64), [Reconstruction(velocity_weight=0.5), Penalty()])
    one = romkit.fit("cae", lorenz_data, preset=own)
    other = romkit.fit("cae", lorenz_data, epochs=2, batch_size=64, velocity_weight=0.5)
    assert torch.equal(parameters(one), parameters(other))
    assert one.report["recipe"] == other.report["recipe"]
