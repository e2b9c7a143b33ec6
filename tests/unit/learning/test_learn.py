"""`romkit.learn`: a forecast of held-out runs that is better than what needs no model."""

import importlib
import io
import re
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

import romkit
from romkit.core import runtime
from romkit.core.errors import DataWarning, ExtrapolationWarning, FitWarning, InputError
from romkit.engine import trace
from romkit.laws import PolynomialLaw
from romkit.learning.advice import WITHOUT_A_MODEL
from romkit.learning.bars import FEW_CONTEXTS, NOT_ASKED
from romkit.learning.rhythm import rhythm, warn_of_another, waves

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
    return romkit.learn(oscillations(), "frequency", members=2)


def test_forecasts_of_held_out_runs_are_better_than_those_without_a_model(learned):
    errors = learned.errors
    assert errors["forecast"].max() < 0.02
    for name in (*WITHOUT_A_MODEL, "rest"):
        assert (errors["forecast"] < errors[name]).all()
    held_out = learned.test.frequency.values
    assert np.isin(learned.train.frequency.values, held_out).sum() == 0


def test_a_forecast_between_the_runs_is_right(learned):
    exact = oscillations(number=11).u.isel(run=5)  # of 1.5, between those of the training
    start = exact.isel(t=0).drop_vars(("t", "frequency")).to_dataset(name="u")
    band = learned.forecast(initial_state=start, duration=4, dt=0.1, frequency=1.5)
    assert float(abs(band.u.values[-1] - exact.values[40]).max()) < 0.05
    assert bool((band.lower_u <= band.upper_u).all())
    in_its_place = learned.forecast(start, duration=4, dt=0.1, frequency=1.5)
    assert in_its_place.u.equals(band.u)


def test_laws_for_bars_are_counted_on_one_line_that_is_cleared(learned, monkeypatch):
    at_once = {"disable": False, "delay": 0, "mininterval": 0, "leave": False}
    monkeypatch.setattr(runtime, "_bar", lambda label: {"desc": label, **at_once})
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    learned.refitted(members=2)
    *_, last = stream.getvalue().split("\r")
    assert "laws for bars" in stream.getvalue()
    assert not set("\n\x1b") & set(stream.getvalue())
    assert not last.strip()


@pytest.mark.parametrize(
    ("errors", "of_laws", "tried"),
    [
        ((1.0, 0.8, 0.6, 0.5), None, [2, 3, 4, 5]),
        ((1.0, 0.9, 0.7, 0.69), None, [2, 4]),  # half of a wave gains little
        ((1.0, 0.9, 0.86, 0.1), None, [2]),
        ((1.0, 0.8, 0.75, 0.6), None, [2, 3, 5]),
        ((1.0, 0.8, 0.6, 0.5), (0.5, 0.5, 0.5, 0.1), [2, 3, 4]),  # laws gain nothing
        ((1.0, 0.8, 0.6, 0.5), (0.5, 0.6, 0.4, 0.3), [2, 3, 4, 5]),
    ],
)
def test_two_latents_may_gain_where_one_does_not(monkeypatch, errors, of_laws, tried):
    """Manifolds of known errors, with laws of known ones, or half of them."""
    module = importlib.import_module("romkit.learning.manifolds")

    def fit(name, data, *, latent_dim, basis):
        error = errors[latent_dim - 2]
        of_law = error / 2 if of_laws is None else of_laws[latent_dim - 2]
        report = {"left_out_error": error}
        return SimpleNamespace(
            latent_dim=latent_dim, report=report, for_law=lambda data: (of_law, data)
        )

    class Laws:
        def __init__(self, error, *given):
            self.best, self.rows = SimpleNamespace(error=error), []

        def add(self, *kinds):
            pass

        def in_pieces(self, settings):
            return settings.error

    monkeypatch.setattr(module, "LATENT", (2, 3, 4, 5))
    monkeypatch.setattr(module, "COMPLETE", 0)
    monkeypatch.setattr(module, "fit", fit)
    monkeypatch.setattr(module, "Comparison", Laws)
    data = romkit.data.describe(oscillations(), context=["frequency"])
    found = module._candidates(data, None, 1e6, 0)
    with_law = [candidate for candidate in found if candidate.laws is not None]
    assert [candidate.projection.latent_dim for candidate in with_law] == tried


class OfLaws:
    """Laws of a manifold: error of the best settings, and of the law that they give when it is
    fitted to all runs, None where it is lost.
    """

    def __init__(self, by_held_out, by_all):
        self.best = SimpleNamespace(error=by_held_out)
        self.by_all, self.error = by_all, np.inf

    def chosen(self):
        if self.by_all is None:
            raise InputError("data", expected="a law that stays", got="none", fix="more runs")
        self.error = self.by_all
        return f"law of error {self.by_all}"


@pytest.mark.parametrize(
    ("error", "others", "expected"),
    [
        (0.005, [(0.0045, 0.0045)], None),  # within a fifth
        (0.008, [(0.005, 0.005), (0.004, 0.02)], "law of error 0.005"),  # lost in its turn
        (0.008, [(0.005, 0.005), (0.004, None)], "law of error 0.005"),
        (np.inf, [(0.3, 0.3), (0.1, 0.1)], "law of error 0.1"),
        (0.008, [(0.004, None)], None),
    ],
)
def test_latents_whose_laws_are_lost_give_way_to_others(error, others, expected):
    module = importlib.import_module("romkit.learning.manifolds")
    candidates = [module.Candidate(None, 0.0, OfLaws(*errors)) for errors in others]
    better = module._better(candidates, error)
    assert (better and better[1]) == expected


@pytest.mark.parametrize(
    ("whole", "in_pieces", "followed"),
    [
        ([0.12, 0.19, 0.2], [0.09, 0.04, 0.06], [1]),
        ([0.12, 0.19, 0.2], [0.09, 0.04, 0.042], [1, 2]),  # told apart by whole runs
        ([0.12, 0.07, 0.2], [0.09, 0.04, 0.06], [0, 1, 2]),  # keeps the phase
        ([0.3, np.inf], [0.05, np.inf], [0]),
        ([np.inf, np.inf], [np.inf, np.inf], [0, 1]),
    ],
)
def test_manifolds_whose_forecasts_lose_the_phase_compare_in_pieces(whole, in_pieces, followed):
    module = importlib.import_module("romkit.learning.manifolds")
    assert module.follow_the_motion(whole, in_pieces) == followed


@pytest.mark.parametrize(
    ("rows", "poorly"),
    [
        ([("limit-cycle", 0.019)], False),
        ([("limit-cycle", 0.021)], True),
        ([("limit-cycle", np.nan)], False),  # not needed
        ([("limit-cycle", np.inf)], True),
        ([("polynomial", 0.001)], True),  # left out for that
    ],
)
def test_closed_orbits_are_left_out_where_the_manifold_does_not_limit_them(rows, poorly):
    module = importlib.import_module("romkit.learning.manifolds")
    rows = [{"law": law, "error": error} for law, error in rows]
    candidate = module.Candidate(None, 0.01, SimpleNamespace(rows=rows))
    assert candidate.closes_poorly == poorly


@pytest.mark.parametrize(("n", "most"), [(1, 0), (2, 0), (4, 3), (6, 5), (12, 6), (60, 8)])
def test_latents_are_fewer_than_components_by_far(n, most):
    module = importlib.import_module("romkit.learning.manifolds")
    data = romkit.data.from_arrays(np.zeros((3, 5, n)), 0.1, context={"load": [1.0, 2.0, 3.0]})
    assert max(module._latent_dims(data, None), default=0) == most


@pytest.mark.parametrize("latents", [2, 3, 4])
def test_as_many_latents_as_components_take_gaps(latents):
    """Fewer components than latents are left of some snapshots, and determine no point."""
    time, frequency = np.linspace(0, 5, 51), np.linspace(1, 2, 4)
    phase = frequency[:, None, None] * time[:, None] - np.arange(4)
    states = np.cos(phase) + 0.2 * np.cos(2 * phase)
    states[np.random.default_rng(0).random(states.shape) < 0.2] = np.nan
    data = romkit.data.from_arrays(states, time, context={"frequency": frequency})
    model = romkit.fit("polynomial-manifold", data, latent_dim=latents)
    assert np.isfinite(model.report["left_out_error"])


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
        model = romkit.learn(table, "frequency", members=0, latent_dim=2, kinds=[PLAIN])
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


@pytest.mark.parametrize(("number", "has_bars"), [(3, False), (4, True)])
def test_bars_need_two_runs_that_a_law_has_not_seen(number, has_bars):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model = romkit.learn(
            oscillations(number),
            "frequency",
            members=2,
            latent_dim=2,
            kinds=[PLAIN],
        )
    assert (model.ensemble is not None) == has_bars
    assert (model.without_bars == FEW_CONTEXTS) == (not has_bars)
    # the only gaps are on either side of the middle
    assert ("1.25 and 1.75" in repr(model)) == (not has_bars)


def test_empty_cells_at_common_times_are_gaps():
    data = oscillations(7)
    empty = np.random.default_rng(4).random(data.u.shape) < 0.15
    empty[:, 0] = False
    model = romkit.learn(data.where(~empty), "frequency", members=2, latent_dim=2, kinds=[PLAIN])
    assert model.errors["forecast"].max() < 0.05
    start = data.u.isel(run=3, t=0).drop_vars(("t", "frequency")).to_dataset(name="u")
    band = model.forecast(initial_state=start, duration=4, dt=0.1, frequency=1.5)
    assert float(abs(band.u.values - data.u.values[3, :41]).max()) < 0.1


def test_files_are_read_as_runs(tmp_path):
    data = oscillations()
    for run in range(data.sizes["run"]):
        one = data.isel(run=run)
        one.to_netcdf(tmp_path / f"run{run}.nc", engine="h5netcdf")
    model = romkit.learn(tmp_path / "run*.nc", "frequency", members=0, latent_dim=2, kinds=[PLAIN])
    assert model.errors["forecast"].max() < 0.02


@pytest.mark.parametrize("noise", [pytest.param(0.0, marks=pytest.mark.slow), 0.05])
def test_intervals_hold_at_contexts_between_the_runs(noise):
    model = romkit.learn(
        oscillations(10, noise), "frequency", members=3, latent_dim=2, kinds=[PLAIN]
    )
    between = oscillations(19, noise).isel(run=slice(1, None, 2))
    data = romkit.data.describe(between, context=["frequency"])
    band = model.ensemble.follow(data, level=0.9)
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


def test_the_middle_of_the_interval_is_the_law_of_all_runs(learned, tmp_path):
    band = learned.ensemble.follow(learned.test)
    run = romkit.follow(learned.projection, learned.test, dynamics=learned.law)
    assert np.allclose(band.state.values, run.state.values, atol=1e-9)
    learned.ensemble.save(tmp_path / "saved")
    again = romkit.Ensemble.load(tmp_path / "saved")
    assert again.centred
    assert np.allclose(again.follow(learned.test).upper, band.upper, atol=1e-9)


def test_files_in_the_schema_are_joined_along_their_trajectories(tmp_path):
    data = romkit.data.describe(oscillations(), context=["frequency"])
    data = data.transpose("component", "time", "trajectory")  # the order does not matter
    for number in range(2):
        runs = data.isel(trajectory=slice(3 * number, 3 * number + 3))
        romkit.data.save_dataset(runs, tmp_path / f"runs{number}.nc")
    files = [tmp_path / "runs0.nc", tmp_path / "runs1.nc"]
    model = romkit.learn(files, members=0, latent_dim=2, kinds=[PLAIN])
    assert model.train.sizes["trajectory"] + model.test.sizes["trajectory"] == 6
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
    model = romkit.learn(runs, members=0, seconds=4.0)
    assert model.projection.latent_dim == n
    assert model.errors["forecast"].max() < 1e-3
    assert model.without_bars == NOT_ASKED


def test_a_fit_to_all_runs_has_learned_from_the_held_out_ones(learned):
    final = learned.refitted(members=2)
    assert final.train.sizes["trajectory"] == 6
    assert set(learned.test.frequency.values) <= set(final.train.frequency.values)
    again = romkit.follow(final.projection, learned.test, dynamics=final.law)
    assert abs(again.state.values - learned.test.state.values).max() < 1e-2
    assert final.bars.runs == 2
    assert learned.bars.runs == 4
    assert "before" in repr(final)
    assert "before" not in repr(learned)


def test_settings_are_chosen_again_by_all_runs(learned):
    final = learned.chosen_anew(members=0, latent_dim=3)
    assert final.projection.latent_dim == 3
    assert [trial.latent_dim for trial in final.trials] == [3]
    assert final.train.sizes["trajectory"] == 6
    again = romkit.follow(final.projection, learned.test, dynamics=final.law)
    assert abs(again.state.values - learned.test.state.values).max() < 1e-2


def test_bars_beside_the_last_run_are_as_narrow_as_elsewhere(learned):
    """Draws of few runs miss the last one at times, and extrapolate to what is beside it."""
    between = oscillations(number=41)  # of 1, 1.025, 1.05 ..., 2
    data = romkit.data.describe(between, context=["frequency"])
    band = learned.ensemble.follow(data.isel(trajectory=[1, 14, 39]))
    widths = (band.upper - band.lower).mean(("time", "component")).values
    assert widths.max() < 2.5 * np.median(widths)


def test_advice_asks_for_more_runs_where_unseen_ones_are_worse(learned):
    errors = {name: np.full(2, 0.3) for name in learned.errors}
    errors |= {"forecast": np.array([0.1, 0.2]), "projection": np.full(2, 0.01)}
    better = replace(learned, errors=errors, errors_of_seen={"forecast": np.full(3, 0.02)})
    assert "more runs beside" in better.advice
    as_good = replace(learned, errors=errors, errors_of_seen={"forecast": np.full(3, 0.15)})
    assert "would not help" in as_good.advice


@pytest.mark.parametrize("period", [3.0, 5.0, 7.5])
def test_runs_that_swing_in_step_have_a_rhythm(period):
    time, size = np.linspace(0, 15, 61), np.linspace(1, 3, 7)
    drive = np.sin(2 * np.pi * time / period)
    states = size[:, None, None] * np.stack([drive, drive**2, -drive], axis=-1)
    runs = romkit.data.from_arrays(states, time, context={"size": size})
    assert rhythm(runs) == pytest.approx(period, rel=0.03)


@pytest.mark.parametrize(
    ("given", "is_another"), [(3.0, False), (6.0, False), (3.2, True), (2.0, True)]
)
def test_a_period_that_the_runs_do_not_show_is_warned_of(given, is_another):
    time, size = np.linspace(0, 15, 121), np.linspace(1, 3, 7)
    drive = np.sin(2 * np.pi * time / 3)
    lag = np.cos(2 * np.pi * time / 3) + np.exp(-time)
    states = size[:, None, None] * np.stack([drive, lag], axis=-1)
    runs = romkit.data.from_arrays(states, time, context={"size": size})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_another(runs, given)
    assert len(caught) == is_another
    if is_another:
        (stated,) = re.findall(r"all swing with ([\d.]+)", str(caught[0].message))
        assert float(stated) == pytest.approx(3, rel=0.01)


def test_runs_with_periods_of_their_own_have_none():
    data = romkit.data.describe(oscillations(), context=["frequency"])
    assert rhythm(data) is None


def test_repeats_are_told():
    """Individuals at one parameter: whole contexts are held out, and their differences are told."""
    rng = np.random.default_rng(1)
    time, dose = np.linspace(0, 4, 41), np.repeat(np.linspace(1.0, 2.0, 5), 2)
    rates = 1 + 0.3 * rng.standard_normal(10)
    decay = dose[:, None] * np.exp(-rates[:, None] * time)
    runs = romkit.data.from_arrays(decay[..., None], time, context={"dose": dose})
    model = romkit.learn(runs, "dose", members=2, kinds=[PLAIN])
    assert "10 runs at 5 contexts" in repr(model)
    assert "differ by" in model.advice
    assert not set(model.train.dose.values) & set(model.test.dose.values)


def test_a_variable_that_turns_has_no_law_of_its_own():
    time, dose = np.linspace(0, 6, 61), np.linspace(1.0, 2.0, 6)
    course = dose[:, None] * (np.exp(-time) - np.exp(-3 * time))
    runs = romkit.data.from_arrays(course[..., None], time, context={"dose": dose})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = romkit.learn(runs, "dose", members=0, kinds=[PLAIN])
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
    with_bars = romkit.learn(runs, "size", period=3.0, members=2, latent_dim=2, kinds=[linear])
    assert with_bars.errors["forecast"].max() < 0.05
    begin = 7
    for model in (with_bars, replace(with_bars, ensemble=None)):
        forecast = model.forecast(
            initial_state=1.5 * states[0, begin], duration=3, dt=0.1, size=1.5, start=time[begin]
        )
        state = forecast["state"].values
        assert abs(state - 1.5 * states[0, begin : begin + 31]).max() < 0.05


@pytest.mark.parametrize("start", [0.0, 1.7])
def test_the_rhythm_of_a_forecast_is_that_of_the_runs(learned, start):
    inputs = replace(learned, period=3.0)._rhythm_from(start)
    times = torch.linspace(0, 7, 15, dtype=torch.float64)
    expected = waves(times.numpy() + start, 3.0)
    found = torch.stack([inputs(t) for t in times])
    assert np.allclose(found, expected, rtol=0, atol=1e-14)
    # an engine can record it
    trace(inputs, torch.zeros((), dtype=torch.float64))


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
    assert model.test.sizes["trajectory"] == 1
    assert model.without_bars == FEW_CONTEXTS


def test_bars_say_how_many_lost_forecasts_they_leave_out(learned):
    """A law that is lost at one of the held-out runs, since its growth depends on the context."""
    bars = learned.bars
    assert bars.lost == 0
    calibration = replace(learned.ensemble.calibration, lost=2)
    ensemble = replace(learned.ensemble, calibration=calibration)
    lossy = replace(learned, ensemble=ensemble)
    assert lossy.bars.lost == 2
    assert "2 further forecasts are lost" in repr(lossy)
    assert "further" not in repr(learned)


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
        model = romkit.learn(pd.concat(tables), "dose", members=0, seconds=4.0)
    assert float(np.diff(model.train.time).max()) <= 1.0
    # one line for what has been done, and none that asks for it
    assert sum("times of their own" in str(warning.message) for warning in caught) == 1


def test_the_spread_of_members_is_the_standard_error_of_the_jackknife(learned):
    """A run that a member misses is spread by the others, and its own distance is its error."""
    ensemble = learned.ensemble
    number = romkit.data.context_matrix(learned.train).shape[0]
    assert ensemble.parts == number
    run = romkit.follow(ensemble.projection, learned.test, dynamics=ensemble.law)
    states = run.state.transpose("seed", "trajectory", "time", "component").values
    distance = np.sqrt(np.square(states[1:] - states[0]).mean(0))
    band = ensemble.follow(learned.test)
    assert np.allclose(band.spread, np.sqrt(number - 1) * distance, rtol=1e-6, atol=1e-12)
    plain = replace(ensemble, parts=0).follow(learned.test)
    assert np.allclose(plain.spread, distance, rtol=1e-6, atol=1e-12)


def test_a_saved_ensemble_keeps_its_parts(learned, tmp_path):
    folder = learned.ensemble.save(tmp_path / "ensemble")
    assert romkit.Ensemble.load(folder).parts == learned.ensemble.parts > 0


@pytest.mark.parametrize("frequency", [1.05, 1.5, 1.9])
def test_bars_of_a_single_forecast_are_those_of_several(learned, frequency):
    """A single context has no axis."""
    sizes = replace(learned.ensemble.calibration.sizes, of_runs=np.array([1.0, 0.1, 0.1, 1e-3]))
    calibration = replace(learned.ensemble.calibration, sizes=sizes)
    ensemble = replace(learned.ensemble, calibration=calibration)
    start = learned.test.state[0, 0].values
    options = {"duration": 1.0, "dt": 0.1}
    single = ensemble.forecast(initial_state=start, frequency=frequency, **options)
    several = ensemble.forecast(
        initial_state=np.stack([start] * 2), frequency=np.array([frequency, 1.3]), **options
    )
    assert single.upper.values == pytest.approx(several.upper.values[0], rel=1e-9)
