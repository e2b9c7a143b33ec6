"""Kinds of laws of `romkit.learn`, as of `romkit.law`."""

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import romkit
from romkit.cli.main import app
from romkit.core.errors import InputError
from romkit.laws import DMD, SINDy
from romkit.laws.polynomial import PolynomialLaw


def decays(count=6):
    """ẋ = -c x, ẏ = c (x - y), which each of these kinds has exactly or nearly."""
    time, rates = np.linspace(0, 3, 31), np.linspace(0.5, 1.5, count)
    x = np.exp(-rates[:, None] * time)
    y = rates[:, None] * time * x
    return romkit.data.from_arrays(
        np.stack([x, y, x + 2 * y], axis=-1), time, context={"rate": rates}
    )


@pytest.mark.parametrize(
    ("kinds", "names", "settings"),
    [
        (["sindy"], {"sindy"}, SINDy),
        (["dmd", "polynomial"], {"dmd", "polynomial"}, PolynomialLaw),
        ([SINDy(degree=1, context_degree=1), DMD()], {"sindy", "dmd"}, SINDy),
    ],
)
def test_laws_are_of_the_kinds_asked_for(kinds, names, settings):
    model = romkit.learn(decays(), kinds=kinds, latent_dim=2, seconds=5.0)
    assert isinstance(model.settings, settings)
    assert model.interpolated is None
    # a linear law is exact here, after which no further one is tried
    assert {row["law"] for row in model.law.report} <= names
    assert model.errors["forecast"].max() < 0.05


def test_settings_are_kept():
    kinds = [SINDy(degree=2, context_degree=1, threshold=0.001)]
    model = romkit.learn(decays(), kinds=kinds, latent_dim=2, seconds=5.0)
    assert model.settings == kinds[0]
    assert model.bars is not None


def test_a_model_of_a_kind_is_loaded_with_its_settings(tmp_path):
    kinds = [SINDy(degree=1, context_degree=1)]
    model = romkit.learn(decays(), kinds=kinds, latent_dim=2, seconds=5.0)
    again = romkit.Learned.load(model.save(tmp_path / "saved"))
    assert repr(again.settings) == repr(model.settings)
    assert repr(again) == repr(model)


@pytest.mark.parametrize("kinds", [["sundy"], [], "sindy dmd"])
def test_unknown_kinds_are_refused(kinds):
    with pytest.raises(InputError) as caught:
        romkit.learn(decays(), kinds=kinds)
    assert caught.value.argument == "kinds"


def test_the_command_line_takes_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SINDy, "DEGREES", (1,))
    romkit.data.save_dataset(decays(), "runs.nc")
    command = [
        "learn",
        "runs.nc",
        "--kinds",
        "dmd,sindy",
        "--latent-dim",
        "2",
        "--out",
        "here",
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    model = romkit.Learned.load("here")
    assert {row["law"] for row in model.law.report} == {"dmd", "sindy"}
    of_all = romkit.learn(decays(), kinds=["dmd", "sindy"], latent_dim=2)
    assert torch.equal(model.law.coefficients, of_all.law.coefficients)


def test_of_several_settings_of_one_kind_one_is_chosen():
    kinds = [romkit.laws.SINDy(degree=1), romkit.laws.SINDy(degree=3)]
    model = romkit.learn(decays(), kinds=kinds, latent_dim=2, seconds=5.0)
    chosen = [row["chosen"] for row in model.law.report]
    assert len(chosen) >= 2
    assert sum(chosen) == 1
    assert "SINDy" in repr(model)


def test_a_kind_that_takes_more_time_than_there_is_says_so():
    with pytest.raises(InputError, match=r"seconds: expected .* neural ODE"):
        romkit.learn(decays(), kinds=["neural-ode"], latent_dim=2, seconds=0.1)
