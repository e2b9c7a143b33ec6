"""`romkit.fit`: what it learns, records and refuses; held-out data, an early end, callbacks, bars
and logging.
"""

import dataclasses
import json
import logging
import sys
import time

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.core.errors import FileError
from romkit.data import split
from romkit.projections import METHODS, NcAE, unstack
from romkit.training import (
    Epoch,
    LossTerm,
    Penalty,
    PhaseFit,
    Recipe,
    Reconstruction,
    RolloutTraining,
    SnapshotTraining,
)
from romkit.training.batches import Batch, batches
from romkit.training.loss import Objective
from romkit.training.schedules import Plateau, Plateaus
from romkit.verbs.presets import PRESETS
from tests.refusals import refused
from tests.unit.data.own import waves

TRAINED = [name for name, method in METHODS.items() if method.trained]


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("method", TRAINED)
def test_training_lowers_the_loss_and_a_seed_means_the_same_alone_and_in_a_stack(
    method, lorenz_data
):
    stacked = romkit.fit(method, lorenz_data, seeds=[5, 6], epochs=12)
    alone = romkit.fit(method, lorenz_data, seed=6, epochs=12)
    assert alone.report["losses"][-1] < 0.8 * alone.report["losses"][0]
    assert alone.name == method
    assert torch.equal(parameters(alone), parameters(unstack(stacked)[1]))
    assert not torch.equal(parameters(alone), parameters(unstack(stacked)[0]))


def test_weight_zero_trains_on_positions_alone(lorenz_data):
    """The velocity term is a setting: without it, the velocities of the data cannot matter."""
    scrambled = lorenz_data.assign(velocity=lorenz_data.velocity * 100)
    one, other = (
        romkit.fit("ae", data, epochs=2, velocity_weight=0.0) for data in (lorenz_data, scrambled)
    )
    assert torch.equal(parameters(one), parameters(other))


def test_own_data_train_with_sizes_from_latent_dim_or_layers():
    model = romkit.fit("ncae", waves(), latent_dim=2, epochs=2)
    assert model.config["layers"] == [2, 9, 16]
    assert model(speed=1.1).encode(torch.zeros(16)).shape == (2,)
    model = romkit.fit("ncae", waves(), layers=(1, 2, 16), embedding=(1, 5), epochs=2)
    assert model.config == {"layers": [1, 2, 16], "embedding": [1, 5], "bandwidth": 1.0}


def test_small_deviations_from_a_large_mean_are_kept():
    """Pressure of an atmosphere in Pa, that changes by a hundredth: less than the rounding of
    float32 there.
    """
    time, phase = np.linspace(0, 1, 50), np.linspace(0, 6, 4)
    wave = np.sin(6 * time[None, :, None] + phase + np.array([0.0, 1.0])[:, None, None])
    data = romkit.data.from_arrays(101325 + 0.01 * wave, time, context={"a": [0.0, 1.0]})
    data = romkit.data.with_velocity(data)
    y = Batch.from_dataset(data, romkit.projections.Frame.from_dataset(data), 1).y.double().numpy()
    flat = wave.reshape(-1, 4)
    exact = (flat - flat.mean(0)) / flat.std()
    assert np.abs(y - y.mean(0) - exact * y.std()).max() < 0.01


def test_units_group_the_scales():
    rng = np.random.default_rng(0)
    state = rng.normal(size=(2, 50, 3)) * [1.0, 2.0, 100.0]
    data = xr.Dataset(
        {name: (("trajectory", "time", "component"), state) for name in ("state", "velocity")},
        coords={
            "time": np.linspace(0, 1, 50),
            "component_units": ("component", ["rad", "rad", "Pa"]),
        },
    )
    scale = romkit.projections.Frame.from_dataset(data).state_scale
    assert scale[0] == scale[1]
    assert scale[0].item() == pytest.approx(
        np.sqrt(state[..., :2].reshape(-1, 2).var(0).mean()), rel=1e-5
    )
    assert scale[2] > 50


SETTINGS = [
    ({"method": "nacae"}, "method"),
    ({"preset": "quik"}, "preset"),
    ({"epochs": 0}, "epochs"),
    (
        {"layres": (2, 36)},
        "layres",
    ),
    ({"batchsize": 64}, "batchsize"),
    ({"rollout.steps": 64}, "rollout.steps"),
    (
        {"zzz": 1},
        "zzz",
    ),
    ({"rollouts": 3}, "rollouts"),
    ({"loss": []}, "loss"),
    ({"loss": [Reconstruction]}, "loss[0]"),
    ({"rollouts.steps": 0}, "rollouts.steps"),
    ({"phase.dynamics": "lspg"}, "phase.dynamics"),
    ({"seeds": [0, -1]}, "seeds[1]"),
    ({"device": "abacus"}, "device"),
    ({"engine": "fast"}, "engine"),
    ({"layers": 3}, "layers"),
    ({"layers": (2, 18, 35)}, "layers"),
    ({"slope": 0.3}, "slope"),
    ({"embedding": (3, 4)}, "embedding"),
    ({"optimizer": "sgd"}, "optimizer"),
    ({"state_noise": -0.1}, "state_noise"),
]


def test_bad_settings_are_named(lorenz_data):
    for arguments, fact in SETTINGS:
        refused(fact, romkit.fit, **{"method": "ncae", "data": lorenz_data} | arguments)
    refused(
        "latent_dim",
        romkit.fit,
        "ncae",
        waves(),
    )
    refused("data", romkit.fit, "ncae", waves().drop_vars("speed"), latent_dim=2)


def test_plateaus_equal_torch(lorenz_data):
    """Per-seed ReduceLROnPlateau against torch.optim.lr_scheduler on random loss curves."""
    schedule = Plateau(patience=3, factor=0.5)
    losses = torch.rand(60, 4, generator=torch.Generator().manual_seed(0)) + torch.linspace(
        1, 0, 60
    ).unsqueeze(1)
    plateaus = Plateaus.start(losses.T)
    optimizers = [torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0) for _ in range(4)]
    oracles = [
        torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=3, factor=0.5) for o in optimizers
    ]
    for epoch in losses:
        plateaus = schedule.observe(plateaus, epoch)
        for oracle, loss in zip(oracles, epoch.tolist(), strict=True):
            oracle.step(loss)
        assert schedule.factors(0.5, plateaus).squeeze(1).tolist() == [
            o.param_groups[0]["lr"] for o in optimizers
        ]
    assert plateaus.factor.max() < 1


def test_noise_depends_on_seed_and_epoch_alone_and_has_the_stated_scale(lorenz_data):
    frame = romkit.projections.Frame.from_dataset(lorenz_data)
    rows = Batch(torch.zeros(4000, 36), torch.zeros(4000, 36), torch.zeros(4000, 1))
    for unit, state, context in (
        ("scale", 0.1, 0.2),
        ("deviation", 0.1, 0.2 / 3**0.5),
        ("physical", 0.1 / frame.state_scale[0].item(), 0.2 / frame.context_scale[0].item()),
    ):
        noise = SnapshotTraining(state_noise=0.1, context_noise=0.2, noise_unit=unit).make_noise(
            frame
        )
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
    monkeypatch.setattr(sys.modules["romkit.training.run"], "CACHE_ROWS", 256)
    chunked = romkit.fit("ncae", lorenz_data, seeds=range(3), epochs=1)
    assert torch.equal(parameters(one), parameters(chunked))
    assert [r["seeds_in_stack"] for r in chunked.report["seeds"]] == [2, 2, 1]


def test_a_method_is_a_name_or_a_class_or_one_with_its_sizes(lorenz_data):
    class Mine(NcAE):
        name = "mine"

    sizes = {"layers": (2, 8, 36)}
    named = romkit.fit("ncae", lorenz_data, epochs=1, **sizes)
    for method, more in (
        (NcAE, sizes),
        (NcAE.with_sizes(**sizes), {}),
        (NcAE.with_sizes(layers=(3, 36)), sizes),
    ):
        assert torch.equal(
            parameters(romkit.fit(method, lorenz_data, epochs=1, **more)), parameters(named)
        )
    assert romkit.fit(Mine, lorenz_data, epochs=1, **sizes).name == "mine"
    assert "mine" not in METHODS
    fact = "setting of ncae: expected one of .*; did you mean 'layers'"
    refused(fact, romkit.fit, NcAE.with_sizes(layres=(2, 36)), lorenz_data)


def test_settings_by_name_by_object_and_dotted_mean_the_same():
    base = PRESETS["dynamics"]("lorenz96", "ncae")
    dotted = base.replace_settings(
        {"rollouts.steps": 30, "snapshots.epochs": 5, "phase": None, "latent_weight": 0.0}
    )
    rollouts, loss = dataclasses.replace(base.rollouts, steps=30), [Reconstruction(), Penalty()]
    objects = {
        "rollouts": rollouts,
        "snapshots": SnapshotTraining(epochs=5),
        "phase": None,
        "loss": loss,
    }
    assert dotted == base.replace_settings(objects)
    assert dotted.replace_settings({"penalty_weight": 0}).loss == (Reconstruction(),)
    assert Recipe().replace_settings({"rollouts.length": 7}).rollouts == RolloutTraining(length=7)
    refused("settings", Recipe().replace_settings, {"rollouts.lenght": 7})
    assert Recipe(rollouts=RolloutTraining(every=3), phase=PhaseFit()).timing.every == 3
    json.dumps(base.to_json())


def test_a_recipe_of_ones_own_is_a_preset_and_the_report_says_how_a_model_was_made(lorenz_data):
    own = Recipe(
        SnapshotTraining(epochs=2, batch_size=64), [Reconstruction(velocity_weight=0.5), Penalty()]
    )
    one = romkit.fit("cae", lorenz_data, preset=own)
    other = romkit.fit("cae", lorenz_data, epochs=2, batch_size=64, velocity_weight=0.5)
    assert torch.equal(parameters(one), parameters(other))
    assert one.report["recipe"] == other.report["recipe"]
    assert (other.report["seed"], other.report["diverged"], other.report["preset"]) == (
        0,
        False,
        "quick",
    )
    assert other.report["recipe"]["snapshots"]["batch_size"] == 64
    assert torch.__version__.startswith(
        other.report["versions"]["torch"]
    )  # a build for CUDA adds +cu130, say
    assert other.report["data"]["system"] == "lorenz96"


SPEEDS = (1.0, 1.3, 1.6, 2.0, 2.4)
SMALL = {"latent_dim": 2, "batch_size": 64}


def loss_on(model, data):
    """The loss of a model on all snapshots of a dataset, all at once."""
    rows = Batch.from_dataset(data, model.frame, 1)
    with torch.no_grad():
        return float(Objective(model, Recipe().loss)(*rows))


def test_the_parameters_that_are_kept_are_the_best_on_held_out_contexts():
    data = waves(SPEEDS)
    train, held_out = split(data, 0.2)
    given = SMALL | {"anchor_weight": 0.0}
    stack = romkit.fit("ncae", data, validation=0.2, epochs=12, seeds=range(2), **given)
    speed = train.velocity / stack.frame.state_scale.numpy()
    in_unit = held_out.assign(
        velocity=held_out.velocity / float(np.sqrt((speed**2).mean()))
    )  # of the training
    for model, alone in zip(unstack(stack), stack.report["seeds"], strict=True):
        curve, best = alone["validation_losses"], alone["best_epoch"]
        assert len(curve) == len(alone["losses"]) == 12
        assert best == int(np.argmin(curve))
        assert loss_on(model, in_unit) == pytest.approx(min(curve), rel=1e-4)
    same = romkit.fit("ncae", train, validation=held_out, epochs=12, seed=1, **given)
    assert same.report["validation_losses"] == pytest.approx(
        stack.report["seeds"][1]["validation_losses"], rel=1e-5
    )


def test_watching_changes_nothing_but_what_is_kept():
    data = waves(SPEEDS)
    train, held_out = split(data, 0.2)
    plain = romkit.fit("ncae", train, epochs=3, **SMALL)
    watched = romkit.fit("ncae", train, validation=held_out, epochs=3, **SMALL)
    assert plain.report["losses"] == watched.report["losses"]
    assert "validation_losses" not in plain.report


@pytest.mark.parametrize("answer", [True, np.True_, torch.tensor([True, True])])
def test_a_callback_ends_training_by_the_true_of_any_library(answer):
    ends = lambda epoch: answer if epoch.number == 1 else None  # noqa: E731
    several = romkit.fit("ncae", waves(SPEEDS), epochs=3, seeds=range(2), callback=ends, **SMALL)
    assert len(several.report["seeds"][0]["losses"]) == 2


def test_a_run_with_another_system_in_its_loss_does_not_resume(lorenz_data, tmp_path):
    class Other(romkit.systems.Lorenz96):
        name = "other"

    given = {"epochs": 1, "latent_weight": 1.0, "checkpoint": tmp_path, "engine": "torch"}
    romkit.fit("ncae", lorenz_data, **given)
    fact = "belongs to a run with other settings"
    refused(fact, romkit.fit, "ncae", lorenz_data, **given, system=Other(), error=FileError)


class Weighed(LossTerm):
    """No dataclass, and a setting that is no plain value."""

    def __init__(self, weights):
        self.weights = weights

    def value(self, batch):
        return (self.weights * batch.encoded.value.square()).mean((-2, -1))


def test_a_run_with_other_settings_of_a_term_of_ones_own_does_not_resume(tmp_path):
    def fitted(weights):
        loss = [Reconstruction(), Weighed(torch.tensor(weights))]
        return romkit.fit("ncae", waves(SPEEDS), loss=loss, epochs=1, checkpoint=tmp_path, **SMALL)

    first, again = fitted([0.25, 0.5]), fitted([0.25, 0.5])
    assert first.report["recipe"]["loss"][1] == {"term": "Weighed", "weights": "[0.25, 0.5]"}
    assert again.report["losses"] == first.report["losses"]
    romkit.save(first, tmp_path / "model.safetensors")
    refused("belongs to a run with other settings", fitted, [0.25, 0.75], error=FileError)


def test_training_ends_when_nothing_gets_better_and_then_stays_as_it_was(tmp_path):
    early, seen = (
        {
            "validation": 0.2,
            "patience": 4,
            "epochs": 500,
            "learning_rate": 0.3,
            "checkpoint": tmp_path,
        },
        [],
    )
    model = romkit.fit("ncae", waves(SPEEDS), callback=seen.append, **early, **SMALL)
    report = model.report
    assert len(report["losses"]) < 500
    assert len(report["losses"]) - 1 - report["best_epoch"] == 4
    assert [epoch.number for epoch in seen] == list(range(len(report["losses"])))
    assert all(isinstance(epoch, Epoch) and epoch.validation.shape == (1,) for epoch in seen)
    again = romkit.fit("ncae", waves(SPEEDS), **early, **SMALL)
    assert again.report["losses"] == report["losses"]
    assert torch.equal(next(again.parameters()), next(model.parameters()))


def test_a_run_that_its_callback_ended_stays_as_it_was(tmp_path):
    early = {"callback": lambda epoch: epoch.number == 1, "epochs": 5, "checkpoint": tmp_path}
    first, again = (
        romkit.fit("ncae", waves(SPEEDS), **early, **SMALL).report["losses"] for _ in range(2)
    )
    assert len(first) == 2
    assert again == first


@pytest.mark.parametrize("optimizer", ["adam", "soap"])
def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, monkeypatch, optimizer):
    data, calls = (
        waves(SPEEDS),
        {"validation": 0.2, "epochs": 6, "seeds": [1, 2], "optimizer": optimizer, **SMALL},
    )
    whole, seen = romkit.fit("ncae", data, **calls), []

    def stop(epoch):
        if epoch.number == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("romkit.training.checkpoint.SHARE", 1e9)  # save after every epoch
    with pytest.raises(KeyboardInterrupt):
        romkit.fit("ncae", data, checkpoint=tmp_path, callback=stop, **calls)
    resumed = romkit.fit("ncae", data, checkpoint=tmp_path, callback=seen.append, **calls)
    assert [epoch.number for epoch in seen] == [4, 5]
    for one, other in zip(whole.report["seeds"], resumed.report["seeds"], strict=True):
        assert all(
            one[name] == other[name] for name in ("losses", "validation_losses", "best_epoch")
        )
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)
    fact = "belongs to a run with other settings"
    refused(
        fact,
        romkit.fit,
        "ncae",
        data,
        checkpoint=tmp_path,
        **calls | {"epochs": 7},
        error=FileError,
    )


def test_bars_can_be_hidden_and_the_log_tells_all(capsys, caplog, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    slow = lambda epoch: time.sleep(0.8)  # noqa: E731
    with caplog.at_level(logging.INFO, logger="romkit"):
        romkit.fit(
            "ncae", waves(SPEEDS), epochs=4, callback=slow, validation=0.2, verbose=False, **SMALL
        )
    assert "training" not in capsys.readouterr().err
    assert "epoch 4 of 4: loss" in caplog.text
    assert "validation" in caplog.text


def test_what_cannot_be_watched():
    for settings, fact in (
        ({"validation": 1.5}, "validation"),
        (
            {"validation": -0.1},
            "validation",
        ),
        ({"patience": 3}, "patience"),
        ({"validation": 0.2, "patience": 0}, "patience"),
        ({"callback": 3}, "callback"),
    ):
        refused(fact, romkit.fit, "ncae", waves(SPEEDS), epochs=2, **SMALL, **settings)
