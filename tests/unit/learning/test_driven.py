"""Runs that inputs of their own drive: what is said of them, and what bars and reports hold."""

import re

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import solve_ivp

import romkit
from romkit.laws import PolynomialLaw
from romkit.learning.symptoms import individual_spread

TIME = np.linspace(0, 4, 81)
GAINS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)


def response(gain, push):
    """x' = -x + gain push, of pushes that are straight lines between samples."""

    def rate(t, x):
        return -x + gain * np.interp(t, TIME, push)

    return solve_ivp(rate, (0, TIME[-1]), [0.0], t_eval=TIME, rtol=1e-8).y.T


def driven(seed=0):
    """Runs of a lag, two at each gain, each with a push of its own."""
    rng = np.random.default_rng(seed)
    gains = np.repeat(GAINS, 2)
    pushes = np.sin(rng.uniform(1, 3, (len(gains), 1)) * TIME + rng.uniform(0, 6, (len(gains), 1)))
    states = np.stack([response(*run) for run in zip(gains, pushes, strict=True)])
    data = romkit.data.from_arrays(states, TIME, context={"gain": gains}, control=pushes[..., None])
    data.control.attrs["between"] = "linear"
    return data


@pytest.fixture(scope="module")
def learned():
    # gain times push is a term of second degree in the parameters
    law = PolynomialLaw(degree=1, context_degree=2)
    return romkit.learn(driven(), "gain", kinds=[law], seconds=3.0)


def test_runs_with_other_inputs_are_no_individuals(learned):
    data = driven()
    assert individual_spread(data.drop_vars(["control", "input"])) > 0
    assert np.isnan(individual_spread(data))
    assert learned.error < 0.01
    assert "ndividuals" not in repr(learned)


def test_the_command_of_the_report_gives_the_inputs(learned, tmp_path, blank_pictures):
    text = learned.report(tmp_path).read_text()
    (command,) = re.findall(r"```python\n(.*)\n```", text)
    forecast = eval(command, {"model": learned})
    truth = learned.test.state[0].sel(time=forecast.time)
    assert np.abs(forecast.state.values - truth.values).max() < 0.05


def test_bars_hold_for_most_of_the_runs_that_are_left_out(learned):
    assert 0.7 < learned.bars.inside <= 1
    assert learned.bars.width > 0


@pytest.mark.parametrize("between", ["held", "linear"])
def test_inputs_are_said_to_be_held_or_lines(between):
    data = driven()
    data.control.attrs["between"] = between
    assert f"{between} between samples" in romkit.data.summary(data)


@pytest.mark.parametrize("moves", [False, True])
def test_a_parameter_that_each_time_repeats_is_one_of_the_run(moves):
    gain = np.repeat([[1.0], [2.0], [3.0]], 5, axis=1)
    if moves:
        gain[2, 4] += 1
    else:
        gain[1, 3:] = np.nan  # behind its end a run has none
    states = np.ones((3, 5)).cumsum(1)
    data = xr.Dataset(
        {"x": (("run", "t"), states), "gain": (("run", "t"), gain)}, {"t": np.arange(5.0)}
    )
    described = romkit.data.describe(data, context=["gain"], state=["x"])
    assert described.gain.dims == (("trajectory", "time") if moves else ("trajectory",))
    if not moves:
        assert described.gain.values.tolist() == [1, 2, 3]


RATES = np.linspace(1.0, 2.0, 6)
CLOCK = np.linspace(0, 9, 91)
LINEAR = PolynomialLaw(degree=1, context_degree=1)


def shaken():
    """Runs of ẋ = sin(2πt/3) - rate x, ẏ = cos(2πt/3) - rate y from rest: nobody recorded the drive."""
    pace = 2j * np.pi / 3
    rate = RATES[:, None]
    z = (np.exp(pace * CLOCK) - np.exp(-rate * CLOCK)) / (rate + pace)
    states = np.stack([z.imag, z.real], axis=-1)
    return romkit.data.from_arrays(states, CLOCK, context={"rate": RATES})


def test_forecasts_of_driven_runs_begin_at_any_phase_of_the_drive(tmp_path):
    runs = shaken()
    model = romkit.learn(runs, "rate", kinds=[LINEAR], period=3.0, seconds=3.0)
    assert model.error < 0.02
    begin = 7  # of another phase of the drive
    forecast = model.forecast(
        initial_state=runs.state[0, begin].values, duration=3, dt=0.1, rate=1.0, start=0.7
    )
    truth = runs.state[0, begin : begin + 31].values
    assert np.abs(forecast.state.values - truth).max() < 0.05
    model.save(tmp_path)
    assert romkit.Learned.load(tmp_path).period == model.period
