"""`romkit.learn`: a forecast of held-out runs that is better than what needs no model."""

import importlib
import time
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import romkit
from romkit.core.errors import DataWarning, ExtrapolationWarning, InputError
from romkit.laws import PolynomialLaw
from romkit.learning.advice import WITHOUT_A_MODEL

PLAIN = PolynomialLaw(degree=3, context_degree=1)
"""A law whose settings need no choice."""


def oscillations(number=6, noise=0.0):
    """Oscillations of frequencies of their own, seen at eight places; exact by construction."""
    time, frequency = np.linspace(0, 5, 51), np.linspace(1.0, 2.0, number)
    places = np.linspace(0, 3, 8)
    phase = frequency[:, None, None] * time[:, None] - places
    states = np.cos(phase) + 0.2 * np.cos(2 * phase)
    states = states + noise * np.random.default_rng(0).normal(size=states.shape)
    coords = {"t": ("t", time, {"units": "s"}), "frequency": ("run", frequency), "x": places}
    return xr.Dataset({"u": (("run", "t", "x"), states, {"units": "m"})}, coords)


@pytest.fixture(scope="module")
def learned():
    return romkit.learn(oscillations(), "frequency", seconds=6.0)


def test_forecasts_of_held_out_runs_are_better_than_those_without_a_model(learned):
    errors = learned.errors
    assert errors["forecast"].max() < 0.02
    for name in (*WITHOUT_A_MODEL, "rest"):
        assert (errors["forecast"] < errors[name]).all()


def test_held_out_runs_are_judged_by_the_model_that_the_user_gets():
    model = romkit.learn(
        oscillations(8), "frequency", held_out=0.25, latent_dim=2, kinds=[PLAIN], seconds=3.0
    )
    held_out = model.test.frequency.values
    assert np.isin(model.train.frequency.values, held_out).sum() == 0
    for run in range(model.test.sizes["trajectory"]):
        truth = model.test.isel(trajectory=run)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = model.forecast(
                truth.state.values[0], duration=5, dt=0.1, frequency=float(truth.frequency)
            )
        apart = (made.u.values - truth.state.values) / model.train.state.values.std((0, 1))
        error = np.sqrt(np.square(apart).mean(-1)).mean()
        assert model.errors["forecast"][run] == pytest.approx(error, rel=0.05, abs=1e-6)


def test_a_forecast_between_the_runs_is_right(learned):
    exact = oscillations(number=11).u.isel(run=5)  # of 1.5, between those of the training
    start = exact.isel(t=0).drop_vars(("t", "frequency")).to_dataset(name="u")
    band = learned.forecast(initial_state=start, duration=4, dt=0.1, frequency=1.5)
    assert float(abs(band.u.values[-1] - exact.values[40]).max()) < 0.05
    assert bool((band.lower_u <= band.upper_u).all())
    in_its_place = learned.forecast(start, duration=4, dt=0.1, frequency=1.5)
    assert in_its_place.u.equals(band.u)


def test_the_report_has_all_errors_and_pictures(learned, tmp_path, request):
    text = learned.report(tmp_path).read_text()
    for name in learned.errors:
        assert f"| {name} |" in text
    assert learned.advice in text
    assert '"frequency": 1.' in text  # no command, of a model that is not saved beside it
    for picture in ("rollout.png", "forecast.png"):
        assert (tmp_path / picture).stat().st_size > 1000
    request.getfixturevalue("blank_pictures")
    folder = learned.save(tmp_path / "saved")
    text = learned.report(folder).read_text()
    assert f"romkit forecast {folder} " in text
    assert "--frequency 1." in text
    again = romkit.load(folder / "projection.safetensors")
    assert again.latent_dim == learned.projection.latent_dim


@pytest.mark.parametrize(
    ("projection", "nearest", "inputs"),
    [(0.001, 0.1, True), (0.4, 0.1, False), (0.001, 0.9, False)],
)
def test_runs_on_the_manifold_that_follow_no_law_may_have_an_input(
    learned, projection, nearest, inputs
):
    values = {"forecast": 0.8, "projection": projection, "rest": 1.0}
    values |= dict.fromkeys(WITHOUT_A_MODEL, nearest)
    errors = {name: np.full(2, value) for name, value in values.items()}
    lost = replace(learned, errors=errors, errors_of_seen={"forecast": np.full(3, 0.7)})
    assert ("control=" in lost.advice) == inputs
    # a law that follows the runs that it has learned from needs other runs, and no input
    followed = replace(lost, errors_of_seen={"forecast": np.full(3, 0.01)})
    assert "control=" not in followed.advice


def table_of_uneven_runs():
    """A table of runs with times of their own, a tenth of whose cells is empty."""
    rng = np.random.default_rng(3)
    tables = []
    for run, frequency in enumerate(np.linspace(1.0, 2.0, 7)):
        time = np.cumsum(rng.uniform(0.05, 0.15, size=80))
        phase = frequency * time[:, None] - np.linspace(0, 3, 4)
        states = np.cos(phase)
        states[rng.random(states.shape) < 0.1] = np.nan
        table = pd.DataFrame(states, columns=list("abcd"))
        tables.append(table.assign(run=run, frequency=frequency, time=time))
    return pd.concat(tables, ignore_index=True)


def test_a_table_of_runs_with_times_of_their_own_is_learned_from(tmp_path):
    table = table_of_uneven_runs()
    with pytest.warns(DataWarning, match="common"):
        model = romkit.learn(table, "frequency", latent_dim=2, kinds=[PLAIN], seconds=3.0)
    assert model.errors["forecast"].max() < 0.05
    # a gap in a training run is no lost forecast of it
    assert all(np.isfinite(errors).all() for errors in model.errors.values())
    table.to_csv(tmp_path / "runs.csv", sep=";", decimal=",", index=False)
    module = importlib.import_module("romkit.learning.reading")
    with pytest.warns(DataWarning, match="common"):
        of_file = module.described(tmp_path / "runs.csv", "frequency")
    is_train = np.isin(of_file.frequency, model.train.frequency)
    learned_from = of_file.isel(trajectory=is_train)
    assert np.allclose(learned_from.state, model.train.state, rtol=1e-6, equal_nan=True)


def test_empty_cells_at_common_times_are_gaps():
    data = oscillations(7)
    empty = np.random.default_rng(4).random(data.u.shape) < 0.15
    empty[:, 0] = False
    model = romkit.learn(data.where(~empty), "frequency", latent_dim=2, kinds=[PLAIN], seconds=3.0)
    assert model.errors["forecast"].max() < 0.05
    start = data.u.isel(run=3, t=0).drop_vars(("t", "frequency")).to_dataset(name="u")
    band = model.forecast(initial_state=start, duration=4, dt=0.1, frequency=1.5)
    assert float(abs(band.u.values - data.u.values[3, :41]).max()) < 0.1


def test_files_are_read_as_runs(tmp_path):
    data = oscillations()
    for run in range(data.sizes["run"]):
        one = data.isel(run=run)
        one.to_netcdf(tmp_path / f"run{run}.nc", engine="h5netcdf")
    model = romkit.learn(
        tmp_path / "run*.nc", "frequency", latent_dim=2, kinds=[PLAIN], seconds=3.0
    )
    assert model.errors["forecast"].max() < 0.02


@pytest.mark.parametrize("noise", [pytest.param(0.0, marks=pytest.mark.slow), 0.05])
def test_intervals_hold_at_contexts_between_the_runs(noise):
    model = romkit.learn(
        oscillations(10, noise), "frequency", latent_dim=2, kinds=[PLAIN], seconds=3.0
    )
    between = oscillations(19, noise).isel(run=slice(1, None, 2))
    data = romkit.data.describe(between, context=["frequency"])
    band = model.intervals.follow(data, level=0.9)
    truth = data.state.values
    held = (band.lower.values <= truth) & (truth <= band.upper.values)
    error = np.sqrt(np.square(band.state.values - truth).mean())
    width = np.sqrt(np.square((band.upper - band.lower).values).mean())
    assert 0.8 <= held.mean() <= 0.99
    assert width <= 4 * error
    if noise:
        clean = romkit.data.describe(
            oscillations(19).isel(run=slice(1, None, 2)), context=["frequency"]
        )
        assert np.sqrt(np.square(band.state - clean.state).mean()) < noise


def test_files_in_the_schema_are_joined_along_their_trajectories(tmp_path):
    data = romkit.data.describe(oscillations(), context=["frequency"])
    data = data.transpose("component", "time", "trajectory")  # the order does not matter
    for number in range(2):
        runs = data.isel(trajectory=slice(3 * number, 3 * number + 3))
        romkit.data.save_dataset(runs, tmp_path / f"runs{number}.nc")
    files = [tmp_path / "runs0.nc", tmp_path / "runs1.nc"]
    model = romkit.learn(files, latent_dim=2, kinds=[PLAIN], seconds=3.0)
    assert model.train.sizes["trajectory"] == 6
    assert model.errors["forecast"].max() < 0.02


@pytest.mark.parametrize("number", [1, 2])
def test_few_contexts_are_refused(number):
    with pytest.raises(InputError) as caught:
        romkit.learn(oscillations(number), "frequency")
    assert caught.value.argument == "context"


@pytest.mark.parametrize("n", [1, 2])
def test_states_of_few_components_are_their_own_latents(n):
    t, rates = np.linspace(0, 3, 31), np.linspace(0.5, 1.5, 6)
    decay = np.exp(-rates[:, None] * t)  # ẋ = -c x, ẏ = -2 c y
    states = np.stack([decay, decay**2], axis=-1)[..., :n]
    runs = romkit.data.from_arrays(states, t, context={"rate": rates})
    model = romkit.learn(runs, seconds=4.0)
    assert model.projection.latent_dim == n
    assert model.errors["forecast"].max() < 1e-3


def test_advice_asks_for_more_runs_where_unseen_ones_are_worse(learned):
    errors = {name: np.full(2, 0.3) for name in learned.errors}
    errors |= {"forecast": np.array([0.1, 0.2]), "projection": np.full(2, 0.01)}
    better = replace(learned, errors=errors, errors_of_seen={"forecast": np.full(3, 0.02)})
    assert "more runs beside" in better.advice
    as_good = replace(learned, errors=errors, errors_of_seen={"forecast": np.full(3, 0.15)})
    assert "would not help" in as_good.advice


def test_repeats_are_told():
    """Individuals at one parameter: whole contexts are held out, and their differences are told."""
    rng = np.random.default_rng(1)
    time, dose = np.linspace(0, 4, 41), np.repeat(np.linspace(1.0, 2.0, 5), 2)
    rates = 1 + 0.3 * rng.standard_normal(10)
    decay = dose[:, None] * np.exp(-rates[:, None] * time)
    runs = romkit.data.from_arrays(decay[..., None], time, context={"dose": dose})
    model = romkit.learn(runs, "dose", kinds=[PLAIN], seconds=3.0)
    assert "10 runs at 5 contexts" in repr(model)
    assert "differ by" in model.advice
    assert set(model.test.dose.values) == {1.25, 1.5, 1.75}


def test_a_variable_that_turns_has_no_law_of_its_own():
    time, dose = np.linspace(0, 6, 61), np.linspace(1.0, 2.0, 6)
    course = dose[:, None] * (np.exp(-time) - np.exp(-3 * time))
    runs = romkit.data.from_arrays(course[..., None], time, context={"dose": dose})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = romkit.learn(runs, "dose", kinds=[PLAIN], seconds=3.0)
    assert "one variable alone" in model.advice


def test_runs_with_a_rhythm_are_forecast_from_any_time_of_it():
    """A state that follows a drive nobody recorded: ẋ = size sin(2πt/3) - x, ẏ = x - y."""
    time, size = np.linspace(0, 6, 61), np.linspace(1, 2, 6)
    pace = 2 * np.pi / 3
    x = (np.sin(pace * time) - pace * np.cos(pace * time)) / (1 + pace**2)
    y_of = np.exp(1j * pace * time) / (1 + 1j * pace) ** 2
    states = size[:, None, None] * np.stack([x, y_of.imag], axis=-1)
    runs = romkit.data.from_arrays(states, time, context={"size": size})
    linear = PolynomialLaw(degree=1, context_degree=1)
    with_bars = romkit.learn(runs, "size", period=3.0, latent_dim=2, kinds=[linear], seconds=3.0)
    assert with_bars.errors["forecast"].max() < 0.05
    begin = 7
    for model in (with_bars, replace(with_bars, calibration=None)):
        forecast = model.forecast(
            initial_state=1.5 * states[0, begin], duration=3, dt=0.1, size=1.5, start=time[begin]
        )
        state = forecast["state"].values
        assert abs(state - 1.5 * states[0, begin : begin + 31]).max() < 0.05


def test_inputs_beside_a_rhythm_are_refused(learned):
    start, control = learned.test.state[0, 0], np.zeros((11, 2))
    options = {"initial_state": start, "duration": 1, "dt": 0.1, "frequency": 1.5}
    with pytest.raises(InputError) as refusal:
        replace(learned, period=3.0).forecast(**options, control=control)
    assert refusal.value.argument == "control"


def test_the_distance_of_a_result_is_that_of_its_warning(learned):
    far = 1.3 * learned.test.state[0, 0]
    with pytest.warns(ExtrapolationWarning) as caught:
        forecast = learned.forecast(initial_state=far, duration=0.5, dt=0.1, frequency=1.5)
    largest = float(forecast.state_distance.max())
    (said,) = [str(w.message) for w in caught if "distance up to" in str(w.message)]
    assert f"distance up to {largest:.3g}," in said


def test_three_runs_warn_of_no_latents_that_nobody_asked_for():
    """Waves of two directions, of which three latents are tried."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model = romkit.learn(oscillations(3).isel(x=[0, 1]), "frequency", kinds=[PLAIN])
    assert model.test.sizes["trajectory"] == 3


def test_common_times_are_as_dense_as_the_dense_samples():
    """Samples of a dose are dense at first, and rare later: the rise must not fall between them."""
    tables = []
    for run, dose in enumerate([1.0, 1.2, 1.4, 1.6, 1.8]):
        time = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 9.0, 24.0]) * (1 + 0.02 * run)
        depot = dose * np.exp(-1.5 * time)
        blood = 2 * dose * (np.exp(-0.1 * time) - np.exp(-1.5 * time))
        columns = {"depot": depot, "blood": blood, "run": run, "dose": dose, "time": time}
        tables.append(pd.DataFrame(columns))
    with pytest.warns(DataWarning, match="lie in gaps") as caught:
        model = romkit.learn(pd.concat(tables), "dose", seconds=4.0)
    assert float(np.diff(model.train.time).max()) <= 1.0
    # one line for what has been done, and none that asks for it
    assert sum("times of their own" in str(warning.message) for warning in caught) == 1


@pytest.mark.parametrize("frequency", [1.05, 1.5, 1.9])
def test_bars_of_a_single_forecast_are_those_of_several(learned, frequency):
    """A single context has no axis."""
    sizes = replace(learned.calibration.sizes, of_runs=np.array([1.0, 0.1, 0.1, 0.1, 0.1, 1e-3]))
    bars = replace(learned, calibration=replace(learned.calibration, sizes=sizes)).intervals
    start = learned.test.state[0, 0].values
    options = {"duration": 1.0, "dt": 0.1}
    single = bars.forecast(initial_state=start, frequency=frequency, **options)
    several = bars.forecast(
        initial_state=np.stack([start] * 2), frequency=np.array([frequency, 1.3]), **options
    )
    assert single.upper.values == pytest.approx(several.upper.values[0], rel=1e-9)


def test_seconds_bound_fits_to_whole_runs_too():
    chain = romkit.systems.Lorenz96(n=8, transient=5.0, dt=0.1, duration=15.0)
    runs = chain.dataset(F=np.linspace(1.5, 2.5, 8).tolist())
    began = time.process_time()
    model = romkit.learn(runs, latent_dim=4, kinds=[PLAIN], seconds=1.0)
    # 6 seconds without a bound, of which 3 are for fits; what is no fit takes one or two
    assert time.process_time() - began < 4
    assert np.isfinite(model.error)


def test_the_law_of_a_learned_model_knows_its_samples_however_short_the_search():
    """So that a forecast from a foreign start says that it is one."""
    time, rates = np.linspace(0, 3, 40), np.linspace(0.5, 1.0, 5)
    runs = romkit.data.from_arrays(
        np.exp(-rates[:, None, None] * time[:, None]) * [1.0, 0.5], time, context={"rate": rates}
    )
    model = romkit.learn(runs, "rate", latent_dim=1, kinds=["polynomial"], seconds=0.01)
    assert model.law.domain is not None
