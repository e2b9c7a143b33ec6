"""Held-out data, the best parameters, an early end, callbacks, bars and logging."""

import logging
import time

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import FileError
from romkit.data import split
from romkit.projections import unstack
from romkit.training import Epoch, LossTerm, Recipe, Reconstruction
from romkit.training.batches import Batch
from romkit.training.loss import Objective
from tests.refusals import refused
from tests.unit.data.own import waves

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
    stack = romkit.fit("ncae", data, validation=0.2, epochs=12, seeds=range(2), **SMALL)
    for model, alone in zip(unstack(stack), stack.report["seeds"], strict=True):
        curve, best = alone["validation_losses"], alone["best_epoch"]
        assert len(curve) == len(alone["losses"]) == 12
        assert best == int(np.argmin(curve))
        assert loss_on(model, held_out) == pytest.approx(min(curve), rel=1e-4)
    same = romkit.fit("ncae", train, validation=held_out, epochs=12, seed=1, **SMALL)
    assert same.report["validation_losses"] == pytest.approx(stack.report["seeds"][1]["validation_losses"], rel=1e-5)


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
    message = "belongs to a run with other settings"
    refused(message, romkit.fit, "ncae", lorenz_data, **given, system=Other(), error=FileError)


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
    early, seen = {"validation": 0.2, "patience": 4, "epochs": 500, "learning_rate": 0.3, "checkpoint": tmp_path}, []
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
    first, again = (romkit.fit("ncae", waves(SPEEDS), **early, **SMALL).report["losses"] for _ in range(2))
    assert len(first) == 2
    assert again == first


@pytest.mark.parametrize("optimizer", ["adam", "soap"])
def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, monkeypatch, optimizer):
    data, calls = waves(SPEEDS), {"validation": 0.2, "epochs": 6, "seeds": [1, 2], "optimizer": optimizer, **SMALL}
    whole, seen = romkit.fit("ncae", data, **calls), []

    def stop(epoch):
        if epoch.number == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("romkit.training.loop.SHARE", 1e9)  # save after every epoch
    with pytest.raises(KeyboardInterrupt):
        romkit.fit("ncae", data, checkpoint=tmp_path, callback=stop, **calls)
    resumed = romkit.fit("ncae", data, checkpoint=tmp_path, callback=seen.append, **calls)
    assert [epoch.number for epoch in seen] == [4, 5]
    for one, other in zip(whole.report["seeds"], resumed.report["seeds"], strict=True):
        assert all(one[name] == other[name] for name in ("losses", "validation_losses", "best_epoch"))
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)
    message = "belongs to a run with other settings"
    refused(message, romkit.fit, "ncae", data, checkpoint=tmp_path, **calls | {"epochs": 7}, error=FileError)


def test_bars_can_be_hidden_and_the_log_tells_all(capsys, caplog, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    slow = lambda epoch: time.sleep(0.8)  # noqa: E731
    with caplog.at_level(logging.INFO, logger="romkit"):
        romkit.fit("ncae", waves(SPEEDS), epochs=4, callback=slow, validation=0.2, verbose=False, **SMALL)
    assert "training" not in capsys.readouterr().err
    assert "epoch 4 of 4: loss" in caplog.text
    assert "validation" in caplog.text


def test_what_cannot_be_watched():
    for settings, message in (
        ({"validation": 1.5}, "validation: expected a number <= 1 or an xarray.Dataset"),
        ({"validation": -0.1}, "validation: expected a number that is not negative or an xarray.Dataset"),
        ({"patience": 3}, "patience: expected held-out data"),
        ({"validation": 0.2, "patience": 0}, "patience: expected an integer >= 1"),
        ({"callback": 3}, "callback: expected a function"),
    ):
        refused(message, romkit.fit, "ncae", waves(SPEEDS), epochs=2, **SMALL, **settings)
