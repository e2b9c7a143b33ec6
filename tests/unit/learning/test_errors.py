"""Errors of all variables and of each, by the definition of the root mean square."""

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.laws.baselines import interpolated_runs
from romkit.learning.errors import forecasts_of, mean_kept

OFFSETS = {"force": 3.0, "heat": 0.5}


def runs(values):
    """Two variables of different size and unit, one a field over x, at these contexts."""
    time, load, x = np.linspace(0, 1, 21), np.asarray(values), np.arange(3.0)
    wave = load[:, None] * np.sin(2 * np.pi * time)
    force = 100 * wave[..., None] * (1 + x)
    data = xr.Dataset(
        {
            "force": (("run", "time", "x"), force, {"units": "N"}),
            "heat": (("run", "time"), wave**2, {"units": "K"}),
        },
        {"time": time, "load": ("run", load), "x": x},
    )
    return romkit.data.describe(data, context=["load"])


def rolled_out(test, share=1.0):
    """A rollout that is off by the offset of each variable, times a share."""
    truth = test["state"].values
    offset = np.array([OFFSETS["force"]] * 3 + [OFFSETS["heat"]])
    forecast = truth + share * offset
    return xr.Dataset(
        {"rom": (test["state"].dims, forecast), "projected": (test["state"].dims, truth)}
    )


@pytest.mark.parametrize("share", [1.0, 0.1, -2.0])
def test_errors_of_variables_are_in_their_unit_and_in_their_deviation(share):
    train, test = runs([1.0, 2.0, 4.0]), runs([1.5, 3.0])
    forecasts = forecasts_of(rolled_out(test, share), train, test)
    errors = forecasts.errors_of_variables
    variance = train["state"].values.var((0, 1))
    deviation = np.sqrt(np.array([variance[:3].mean()] * 3 + [variance[3]]))
    assert errors["force"].units == "N"
    for name, columns in (("force", slice(0, 3)), ("heat", slice(3, 4))):
        off = abs(share) * OFFSETS[name]
        relative = off / deviation[columns][0]
        assert errors[name].absolute["forecast"] == pytest.approx([off, off])
        assert errors[name].relative["forecast"] == pytest.approx([relative, relative])
        assert errors[name].in_unit == pytest.approx(off)
        assert errors[name].absolute["projection"].max() == 0
    of_all = np.sqrt(np.square(share * np.array([3.0, 3.0, 3.0, 0.5]) / deviation).mean())
    assert forecasts.errors["forecast"] == pytest.approx([of_all, of_all])


@pytest.mark.parametrize("least", [1e-6, 1e-3, 1.0])
def test_coordinates_that_hardly_move_count_as_little_as_they_matter(least):
    """A forecast that misses all of the last coordinate errs by its share of the motion."""
    time, load = np.linspace(0, 1, 40, endpoint=False), np.array([1.0, 2.0, 3.0])
    wave = np.sin(2 * np.pi * time)
    states = np.stack([wave, wave, least * wave], axis=-1) * np.ones((3, 1, 1))
    data = romkit.data.from_arrays(states, time, context={"load": load})
    forecast = data["state"].copy(deep=True)
    forecast[..., 2] = 0.0
    run = xr.Dataset({"rom": forecast, "projected": data["state"]})
    error = forecasts_of(run, data, data).errors["forecast"]
    share = least / np.sqrt(2 + least**2)
    # the mean over time of |sin| is 2 / π, its root mean square 1 / √2
    assert error == pytest.approx(np.full(3, share * np.sqrt(8) / np.pi), rel=1e-2)


def test_forecasts_without_a_model_are_those_of_their_names():
    train, test = runs([1.0, 2.0, 4.0]), runs([1.9])
    errors = forecasts_of(rolled_out(test), train, test).errors_of_variables
    scale = abs(np.sin(2 * np.pi * train["time"].values)).mean()
    assert errors["heat"].absolute["nearest run"] == pytest.approx(
        (2.0**2 - 1.9**2) * 0.5 * 20 / 21, rel=1e-6
    )
    force = 0.1 * 100 * scale * np.sqrt(np.square([1, 2, 3]).mean())
    assert errors["force"].absolute["nearest run"] == pytest.approx(force, rel=1e-6)


@pytest.mark.parametrize("component", [0, 3])
def test_a_lost_forecast_is_infinite_and_leaves_the_others_their_mean(component):
    train, test = runs([1.0, 2.0, 4.0]), runs([1.5, 3.0])
    run = rolled_out(test)
    run["rom"].values[1, 5:, component] = np.nan
    forecasts = forecasts_of(run, train, test)
    errors = forecasts.errors["forecast"]
    assert np.isinf(errors[1])
    assert mean_kept(errors) == errors[0]
    of_variables = forecasts.errors_of_variables
    name = "force" if component < 3 else "heat"
    assert np.isinf(of_variables[name].absolute["forecast"][1])


def test_missing_samples_of_the_truth_do_not_count():
    train, test = runs([1.0, 2.0, 4.0]), runs([1.5, 3.0])
    run = rolled_out(test)
    test["state"].values[0, 3:9] = np.nan
    errors = forecasts_of(run, train, test).errors_of_variables
    assert errors["force"].absolute["forecast"] == pytest.approx([3.0, 3.0])


def test_components_of_a_small_state_are_told_one_by_one():
    time = np.linspace(0, 1, 11)
    states = np.stack([np.full((2, 11), 1.0) * time, np.full((2, 11), 2.0) * time], axis=-1)
    data = romkit.data.from_arrays(states, time, context={"load": [1.0, 2.0]})
    run = xr.Dataset({name: data["state"] + 0.25 for name in ("rom", "projected")})
    errors = forecasts_of(run, data, data).errors_of_variables
    assert len(errors) == 2
    for of_component in errors.values():
        assert of_component.in_unit == pytest.approx(0.25)


@pytest.mark.parametrize("parameters", [1, 2, 3])
def test_runs_that_are_linear_in_the_context_are_interpolated_exactly(parameters):
    rng = np.random.default_rng(0)
    context = torch.from_numpy(rng.random((9, parameters)))
    slopes = torch.from_numpy(rng.standard_normal((parameters, 5 * 2)))
    states = (1 + context @ slopes).unflatten(1, (5, 2))
    found = interpolated_runs(states[:7], context[:7], context[7:])
    assert torch.allclose(found, states[7:], rtol=0, atol=1e-9)


def test_repeats_are_interpolated_by_their_mean():
    context = torch.tensor([[0.0], [0.0], [1.0], [1.0], [0.5]], dtype=torch.float64)
    states = torch.tensor([0.0, 2.0, 5.0, 7.0, 0.0], dtype=torch.float64)[:, None, None]
    found = interpolated_runs(states[:4], context[:4], context[4:])
    assert found.item() == pytest.approx(3.5)


def test_contexts_on_a_line_are_interpolated_too():
    context = torch.linspace(0, 1, 5, dtype=torch.float64).unsqueeze(1).repeat(1, 2)
    states = context[:, :1, None] ** 2
    others = [0, 1, 3, 4]
    found = interpolated_runs(states[others], context[others], context[2:3])
    assert found.item() == pytest.approx(0.25, abs=0.1)
