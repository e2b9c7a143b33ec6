"""Runs and samples far beyond all others, and data whose scales differ by right."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import romkit
from romkit.cli.inputs import read_data
from romkit.data import from_arrays
from romkit.data.habits import warn_habits
from romkit.learning.reading import described

TIME = np.linspace(0.0, 6.0, 121)
CONTEXT = np.array([55.0, 60.0, 66.0, 73.0, 80.0, 105.0])
PLACES = np.linspace(0.0, 1.0, 7)


def waves():
    """Waves of size 1 (C, T, n) around 5."""
    phase = CONTEXT[:, None, None] / 20 * TIME[:, None] - PLACES
    return 5.0 + np.sin(phase)


def runs(values, context=CONTEXT):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_arrays(values, TIME, context={"rate": context})


def blown():
    """Waves whose last run grows by 1e4 from time 5.5 on, from one sample to the next with the
    other sign.
    """
    values = waves()
    after = np.maximum(TIME - 5.5, 0.0)
    values[-1] += (np.expm1(20 * after) * np.cos(np.pi * np.arange(121)))[:, None] * (1 - PLACES)
    return values


def said(data):
    """The warnings of extremes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_habits(data, "extremes")
    return [str(warning.message) for warning in caught]


def test_a_run_that_blows_up_at_its_end_is_named_with_its_time_and_size():
    values = blown()
    (text,) = said(runs(values))
    largest = np.abs(values[-1] - 5.0).max()
    beyond = np.abs(values[-1] - 5.0).max(-1) > 1.1
    first = beyond.argmax()
    assert "run 5 (rate = 105)" in text
    assert f"{largest:.2g}"[:2] in text
    assert f"from time {TIME[first]:.4g} on" in text
    assert f"data.state[5, {first}:] = numpy.nan" in text


def test_the_fix_in_the_warning_ends_it():
    data = runs(blown())
    (text,) = said(data)
    _, cut = text.rsplit(" by ", 1)
    exec(cut, {"data": data, "numpy": np})
    assert said(data) == []
    assert np.nanmax(np.abs(data.state - 5.0)) < 1.5


def test_a_blow_up_that_ends_in_missing_samples_is_named():
    values = blown()
    values[-1, 118:] = np.nan
    values[1, 60:] = np.nan
    (text,) = said(runs(values))
    assert "run 5" in text


def test_several_runs_that_blow_up_are_named_in_one_line():
    values = blown()
    values[2, -1] = 1e9
    (text,) = said(runs(values))
    assert "run 2 (rate = 66)" in text
    assert "runs 5" in text


def test_a_single_sample_of_a_sensor_is_named():
    values = waves()
    values[3, 40, 2] *= 1000
    (text,) = said(runs(values))
    assert "run 3 (rate = 73)" in text
    assert f"at time {TIME[40]:.4g}," in text
    assert "data.state[3, 40] = numpy.nan" in text


def test_a_sample_of_a_small_column_is_named_beside_large_ones():
    pressure = xr.DataArray(1e5 * waves()[..., 0], dims=("run", "time"))
    flow = xr.DataArray(waves()[..., 1], dims=("run", "time")).copy()
    flow[1, 70] = 1e3
    data = xr.Dataset({"p": pressure, "q": flow}, {"time": TIME, "rate": ("run", CONTEXT)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (text,) = said(romkit.data.describe(data, context=["rate"]))
    assert "median of q at time 3.5," in text


def test_learning_says_it_once_and_before_runs_are_brought_to_common_times():
    columns = {"rate": np.repeat(CONTEXT, 121), "time": np.tile(TIME, 6)}
    table = pd.DataFrame(columns | {f"u{k}": blown()[..., k].ravel() for k in (6, 3, 0)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        described(table, "rate")
    texts = [str(warning.message) for warning in caught]
    (text,) = [text for text in texts if "run 5 (rate = 105)" in text]
    # the blow-up is largest where it comes in
    assert "median of u0 from" in text


def test_chunks_are_said_as_arrays_are():
    data = runs(blown())
    assert said(data.chunk(trajectory=1, time=50)) == said(data)


def of_size(sizes):
    return (waves() - 5.0) * np.asarray(sizes)[:, None, None]


def growing(rates):
    """Exponential courses, as before an ignition."""
    return np.exp(np.asarray(rates)[:, None, None] * TIME[:, None]) * np.ones(7)


def beyond_a_bifurcation():
    """Amplitudes of r' = mu r - r³ from 0.001, of which the last alone grows, to 2."""
    mu = np.array([-3.0, -2.5, -2.0, -1.5, -1.0, 4.0])[:, None, None]
    decay = np.exp(-2 * mu * TIME[:, None])
    r = np.sqrt(mu / (1 + (mu / 1e-6 - 1) * decay))
    return r * np.cos(5 * TIME[:, None] + PLACES)


def fired():
    """A pulse above a threshold, resolved in time, in one run alone."""
    values = of_size(np.full(6, 0.001))
    values[2] += np.exp(-(((TIME - 3.0) / 0.1) ** 2))[:, None]
    return values


def reaching():
    """Pulses, as columns, of which only the fastest gets to the last places."""
    front = CONTEXT[:, None, None] / 600 * TIME[:, None]
    return np.exp(-(((front - PLACES) / 0.03) ** 2))


@pytest.mark.parametrize(
    "values",
    [
        waves(),
        of_size(np.geomspace(1, 1e3, 6)),
        of_size([1, 1.1, 1.2, 1.3, 1.5, 1e3]),
        growing(np.linspace(1, 6, 6)),
        growing([1, 2, 3, 4, 5, 8]),
        beyond_a_bifurcation(),
        fired(),
        reaching(),
        np.random.default_rng(0).standard_cauchy((6, 121, 7)).clip(-50, 50),
        np.where(CONTEXT[:, None, None] == 105, TIME[:, None], 0.0) * np.ones(7),
    ],
    ids=[
        "waves",
        "three decades",
        "one large run",
        "ignition",
        "one faster ignition",
        "a larger limit cycle",
        "a pulse in one run",
        "a front that one run has",
        "heavy tails",
        "the others at rest",
    ],
)
def test_scales_that_differ_by_right_are_not_warned_of(values):
    assert said(runs(values)) == []
    columns = {f"u{k}": (("run", "time"), values[..., k]) for k in range(7)}
    data = xr.Dataset(columns, {"time": TIME, "rate": ("run", CONTEXT)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = romkit.data.describe(data, context=["rate"])
    assert said(table) == []


def test_runs_of_one_sample_have_no_end():
    assert said(runs(of_size([1, 1.1, 1.2, 1.3, 1.5, 1e3])).isel(time=[0])) == []


def test_describe_and_commands_say_what_learn_says(tmp_path, capsys):
    data = runs(blown())
    (text,) = said(data)
    with pytest.warns(romkit.errors.DataWarning) as caught:
        runs_again = romkit.data.describe(romkit.data.fields(data), context=["rate"])
    assert text in [str(warning.message) for warning in caught]
    path = romkit.data.save_dataset(runs_again, tmp_path / "runs.nc")
    with pytest.warns(romkit.errors.DataWarning) as caught:
        read_data(str(path))
    assert [str(warning.message) for warning in caught] == [text]
