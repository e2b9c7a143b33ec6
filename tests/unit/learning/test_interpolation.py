"""Runs that something outside moves follow no law: interpolation between them, and its limits."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import ExtrapolationWarning, InputError
from romkit.learning import words
from romkit.learning.contexts import are_interior
from romkit.learning.errors import AT_EQUAL_TIMES
from romkit.learning.interpolation import InterpolatedRuns, Interpolation, obstacle
from romkit.learning.pictures import forecast_run
from tests.quick import linear_laws_only

TIME = np.linspace(0, 8, 81)


def moved(sizes, time=TIME):
    """States (C, T, 3) that drives of two rhythms move, of a size that they follow in a curve."""
    fast, slow = np.sin(3.1 * time), np.cos(1.3 * time)
    base = np.stack([slow + fast, slow * fast, slow**2 - 0.5 * fast], axis=-1)
    sizes = np.asarray(sizes)[:, None, None]
    return sizes**1.5 * base + 0.3 * np.sin(sizes)


def driven(sizes, noise=0.0):
    states = moved(sizes)
    states = states + noise * np.random.default_rng(2).normal(size=states.shape)
    return romkit.data.from_arrays(states, TIME, context={"size": np.asarray(sizes)})


@pytest.fixture(scope="module")
def learned():
    with linear_laws_only():
        runs = driven(np.linspace(1, 2, 8))
        return romkit.learn(runs, "size", latent_dim=3, seconds=0.1)


def deviations(error):
    return np.sqrt(np.square(error / moved(np.linspace(1, 2, 8)).std((0, 1))).mean())


@pytest.mark.parametrize(
    ("size", "begin", "dt"), [(1.37, 0, 0.1), (1.5, 20, 0.05), (1.93, 37, 0.3)]
)
def test_forecasts_are_the_runs_between(learned, size, begin, dt):
    """At contexts, starts and times between those of the runs."""
    assert (learned.errors["forecast"] < 0.5 * learned.errors["law"]).all()
    time = TIME[begin] + dt * np.arange(11)
    exact = moved([size], time)[0]
    forecast = learned.forecast(duration=10 * dt, dt=dt, size=size, start=TIME[begin])
    assert deviations(forecast.state.values - exact) < 0.01
    begun = learned.forecast(
        initial_state=exact[0], duration=10 * dt, dt=dt, size=size, start=TIME[begin]
    )
    assert np.array_equal(begun.state, forecast.state)
    assert np.allclose(forecast.time, dt * np.arange(11))
    inside = (forecast.lower <= exact) & (exact <= forecast.upper)
    # of a single forecast, while the level holds for all
    assert float(inside.mean()) >= 0.7


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("duration", {"duration": 8.1}),
        ("duration", {"duration": 4.0, "start": 4.2}),
        ("start", {"start": -0.5}),
        ("initial_state", {"initial_state": moved([1.5])[0, 30]}),
        ("initial_state", {"initial_state": np.zeros(3)}),
        ("size", {"size": lambda t: 1.5 + 0.01 * t}),
        ("size", {"size": None}),
    ],
)
def test_what_the_runs_do_not_tell_is_refused(learned, argument, options):
    whole = {"duration": 2.0, "dt": 0.1, "size": 1.5} | options
    with pytest.raises(InputError) as caught:
        learned.forecast(**{name: value for name, value in whole.items() if value is not None})
    assert caught.value.argument == argument


def test_a_context_beyond_the_runs_is_warned_of(learned):
    with pytest.warns(ExtrapolationWarning):
        forecast = learned.forecast(duration=1, dt=0.1, size=2.3)
    assert float(forecast.context_distance) == pytest.approx(0.6, rel=1e-5)


def test_the_law_forecasts_what_is_refused_and_is_exported(learned, tmp_path):
    with pytest.raises(InputError):
        learned.export(tmp_path / "model.c")
    of_law = learned.of_law()
    assert of_law.interpolated is None
    assert np.array_equal(of_law.errors["forecast"], learned.errors["law"])
    assert set(of_law.errors) == set(learned.errors) - {"law"}


def test_the_report_and_the_picture_are_of_the_interpolation(learned, tmp_path):
    text = learned.report(tmp_path).read_text()
    assert learned.advice in text
    assert "of_law" in learned.advice
    (command,) = re.findall(r"```python\n(.*)\n```", text)
    begun = eval(command, {"model": learned})
    shown = learned.test.state[0].sel(time=begun.time)
    assert deviations(begun.state.values - shown.values) < 0.05
    # the one at equal times is a row of its own, and here the same forecast
    assert learned.errors[AT_EQUAL_TIMES] == pytest.approx(learned.errors["forecast"], rel=1e-6)
    drawn = forecast_run(learned)
    nrmse = drawn.nrmse.mean("time")
    assert float(nrmse.mean()) == pytest.approx(learned.mean_errors["forecast"], rel=0.2)
    # the same forecasts, the worst one first
    drawn_rows, rows = (
        {row.tobytes() for row in several.values} for several in (drawn.rom, learned.run.between)
    )
    assert drawn_rows == rows
    title = learned.plot().get_suptitle()
    assert "interpolated in size at equal times" in title
    assert "dimensions" not in title


def test_a_duration_beyond_the_runs_names_their_unit(learned):
    runs = driven(np.linspace(1, 2, 8)).assign_coords(
        time=("time", TIME, {"units": "days since 2001"})
    )
    between = InterpolatedRuns.fit(learned.projection, runs, with_bars=False)
    with pytest.raises(InputError, match="at most 8 days, "):
        between.forecast(duration=86400, dt=60, size=1.5)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
def test_bars_hold_between_the_runs(noise):
    sizes = np.linspace(1, 2, 8)
    runs = driven(sizes, noise)
    projection = romkit.fit("pod", runs, latent_dim=2)
    between = InterpolatedRuns.fit(projection, runs, with_bars=True)
    middles = (sizes[1:] + sizes[:-1]) / 2
    data = driven(middles, noise)
    band = between.follow(data)
    truth = data.state.values
    inside = (band.lower.values <= truth) & (truth <= band.upper.values)
    assert inside.mean() >= 0.8
    error = np.sqrt(np.square(band.state.values - truth).mean())
    half = np.sqrt(np.square((band.upper - band.lower).values / 2).mean())
    assert half <= 4 * error


def test_bars_hold_where_a_front_passes():
    """Most places are at rest at any time, where no bar fails."""
    places = np.linspace(0, 2, 200)
    time = np.linspace(0, 3, 61)

    def front(speed):
        at = 0.2 + speed * time[:, None] + 0.05 * np.sin(8 * speed)
        return 0.5 * (1 - np.tanh((places - at) / 0.03))

    speeds = np.linspace(0.2, 0.6, 8)
    runs = romkit.data.from_arrays(
        np.array([front(speed) for speed in speeds]), time, context={"speed": speeds}
    )
    projection = romkit.fit("pod", runs, latent_dim=2)
    between = Interpolation().fitted(projection, runs)
    inside, passing = [], []
    for speed in speeds[:-1] + 0.02:
        truth = front(speed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtrapolationWarning)
            forecast = between.forecast(duration=3, dt=0.05, speed=speed)
        inside.append((truth >= forecast.lower.values) & (truth <= forecast.upper.values))
        passing.append((truth > 0.01) & (truth < 0.99))
    # with quantiles of all values alike bars hold 0.47 of the front
    assert np.mean(inside) > 0.9
    assert np.array(inside)[np.array(passing)].mean() > 0.8


def test_a_law_that_is_as_good_is_taken():
    """Waves that turn at a frequency of their own: equal times are other phases."""
    frequency = np.linspace(1.0, 2.0, 7)
    phase = frequency[:, None, None] * TIME[:, None] - np.arange(4)
    runs = romkit.data.from_arrays(np.cos(phase), TIME, context={"frequency": frequency})
    with linear_laws_only():
        model = romkit.learn(runs, latent_dim=2)
    assert model.interpolated is None
    assert model.of_law() is model


def test_the_error_of_the_choice_is_that_of_runs_left_out():
    """Thin-plate splines of one parameter are exact for what is linear in it, and for no step."""
    sizes = np.linspace(0, 1, 6)
    base = np.sin(TIME)[:, None] * np.ones(2)
    linear = romkit.data.from_arrays(sizes[:, None, None] * base, TIME, context={"size": sizes})
    assert Interpolation().errors(linear, torch.tensor([3, 4])).max() < 1e-9
    step = linear.assign(state=linear.state.where(linear["size"] < 0.5, 1.0))
    assert Interpolation().errors(step, torch.tensor([3])).max() > 0.1


def test_runs_that_end_apart_or_have_inputs_are_not_interpolated():
    data = driven(np.linspace(1, 2, 5))
    assert not obstacle(data)
    short = data.copy(deep=True)
    short["state"].values[2, 60:] = np.nan
    assert obstacle(short)
    pushed = data.assign(control=(("trajectory", "time", "input"), np.zeros((5, 81, 1))))
    assert obstacle(pushed)
    moving = data.drop_vars("size").assign_coords(
        size=(("trajectory", "time"), np.ones((5, 1)) * TIME)
    )
    assert obstacle(moving)


@pytest.mark.parametrize("parameters", [2, 3])
def test_contexts_in_a_corner_without_runs_are_not_between_them(parameters):
    """Runs on a simplex, whose far corner no run is near."""
    known = np.vstack([np.zeros(parameters), np.eye(parameters), np.full((1, parameters), 0.2)])
    wanted = np.vstack([np.full((1, parameters), 0.9), np.full((1, parameters), 0.1), known[1]])
    assert are_interior(wanted, known).tolist() == [False, True, True]


def test_one_parameter_and_contexts_on_a_line_have_no_corners():
    line = np.linspace(0, 1, 5)[:, None]
    assert are_interior(np.array([[0.5], [2.0]]), line).all()
    assert are_interior(np.array([[0.2, 0.9]]), np.hstack([line, line])).all()


def test_a_forecast_in_a_corner_without_runs_is_warned_of():
    draw = np.array(
        [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.3], [0.5, 0.1], [0.1, 0.6]]
    )
    base = moved([1.0])[0]
    states = (1 + draw[:, 0] + draw[:, 1] ** 2)[:, None, None] * base
    data = romkit.data.from_arrays(states, TIME, context={"p": draw[:, 0], "q": draw[:, 1]})
    projection = romkit.fit("pod", data, latent_dim=2)
    between = InterpolatedRuns.fit(projection, data, with_bars=True)
    with pytest.warns(ExtrapolationWarning, match="corner"):
        between.forecast(duration=1, dt=0.1, p=0.9, q=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExtrapolationWarning)
        inside = between.forecast(duration=1, dt=0.1, p=0.25, q=0.25)
    assert deviations(inside.state.values - (1.25 + 0.25**2) * base[:11]) < 0.05


def test_a_nearest_run_that_is_not_shifted_is_said_to_be_the_same(learned):
    nearest = learned.errors["nearest run"]
    shifted = {"nearest run, shifted": nearest + 0.1}
    alike = {"nearest run, shifted": nearest}
    assert words.is_not_shifted(replace(learned, errors=learned.errors | alike))
    assert not words.is_not_shifted(replace(learned, errors=learned.errors | shifted))


def decays(rates, **options):
    states = np.exp(-np.asarray(rates)[:, None, None] * TIME[:, None]) * np.array([1.0, 0.5, -1.0])
    runs = romkit.data.from_arrays(states, TIME, context={"rate": np.asarray(rates)})
    with linear_laws_only():
        return romkit.learn(runs, "rate", latent_dim=1, seconds=0.1, **options)


RATES = np.linspace(0.2, 0.5, 6)


@pytest.mark.parametrize("kinds", [["sindy"], ["sindy", "interpolation"]])
def test_where_a_law_is_better_runs_are_not_interpolated(kinds):
    assert decays(RATES, kinds=kinds).interpolated is None


def test_runs_are_interpolated_where_this_alone_is_asked_for():
    model = decays(RATES, kinds=["interpolation"])
    forecast = model.forecast(duration=4.0, dt=0.5, rate=0.33)
    exact = np.exp(-0.33 * forecast.time.values)
    assert np.allclose(forecast.state[:, 0], exact, atol=2e-3)
    law = model.of_law().forecast(initial_state=[2.0, 1.0, -2.0], duration=4.0, dt=0.5, rate=0.33)
    assert np.allclose(law.state[:, 0], 2 * exact, rtol=0.05)


def test_runs_with_inputs_are_not_interpolated():
    runs = driven(np.linspace(1, 2, 6))
    runs = runs.assign(control=(("trajectory", "time", "input"), np.ones((6, len(TIME), 1))))
    with pytest.raises(InputError) as caught:
        romkit.learn(runs, "size", kinds=["interpolation"])
    assert caught.value.argument == "kinds"
