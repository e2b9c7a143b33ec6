"""Data of any habit: in, fit, forecast, and out in the form that came in."""

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

import romkit
from romkit.data import describe, fields, from_arrays
from romkit.laws import SINDy
from tests.refusals import refused
from tests.unit.data.own import POINTS, TIME

pytestmark = pytest.mark.filterwarnings("ignore:velocities are not in the data")

SPEEDS = np.array([1.0, 1.5, 2.0])
LAND = (POINTS > 1) & (POINTS < 2)
STEP = {"duration": 1.0, "dt": TIME[1]}


@pytest.fixture(scope="module")
def waves():
    """u and v (run, t, x) of a wave of each speed, in linear motion on a plane, with land between 1
    and 2.
    """
    phase = POINTS - SPEEDS[:, None, None] * TIME[:, None]
    data = xr.Dataset(
        {
            "u": (("run", "t", "x"), np.sin(phase), {"units": "m/s"}),
            "v": (("run", "t", "x"), np.cos(phase)),
        },
        coords={
            "run": [7, 8, 9],
            "t": ("t", TIME, {"units": "s"}),
            "x": ("x", POINTS, {"units": "m"}),
            "latitude": ("x", np.sin(POINTS)),
            "speed": ("run", SPEEDS, {"units": "m/s"}),
        },
    )
    return data.where(~xr.DataArray(LAND, dims="x"))


def fitted(data):
    """A plane and a linear law in it, which are exact but for the differences in time."""
    pod = romkit.fit("pod", data, latent_dim=2)
    return pod, SINDy(degree=1, threshold=0.01).fit(pod, data)


def ahead(data, start, **context):
    pod, law = fitted(data)
    return romkit.forecast(pod, dynamics=law, initial_state=start, **STEP, **context)


def table(waves):
    """Rows of run and time, columns of the components beside the parameter."""
    points = {f"u{k}": waves.u.isel(x=k, drop=True) for k in np.flatnonzero(~LAND)[:4]}
    return xr.Dataset(points).assign(speed=waves.speed).to_dataframe().reset_index()


def test_fields_come_back_in_own_variables_dimensions_units_and_with_their_land(waves, tmp_path):
    data = describe(waves, context=["speed"])
    assert data.sizes["component"] == 2 * (~LAND).sum()
    pod, law = (
        romkit.load(romkit.save(each, tmp_path / "model.safetensors")) for each in fitted(data)
    )
    forecast = romkit.forecast(
        pod, dynamics=law, initial_state=waves.isel(run=1, t=0), **STEP, speed=1.5
    )
    assert forecast.u.dims == ("t", "x")
    assert np.array_equal(np.isnan(forecast.v), np.broadcast_to(LAND, (41, 16)))
    assert np.abs(forecast.u - waves.u.isel(run=1, t=slice(41))).max() < 0.01
    assert [forecast[name].attrs["units"] for name in ("u", "t", "x", "speed")] == [
        "m/s",
        "s",
        "m",
        "m/s",
    ]
    assert np.array_equal(forecast.latitude, waves.latitude)
    run = romkit.data.open_dataset(
        romkit.data.save_dataset(romkit.rollout(data, pod, dynamics=law), tmp_path / "r.nc")
    )
    back = fields(run)
    assert back.truth_u.dims == ("run", "t", "x")
    assert np.array_equal(back.truth_u, waves.u, equal_nan=True)
    assert np.array_equal(back.run, waves.run)
    P = pod(speed=1.5)
    image = P.decode(P.encode(waves.isel(run=1)))
    assert image.u.dims == ("t", "x")
    assert np.array_equal(np.isnan(image.u), np.isnan(waves.u.isel(run=1)))
    for shown in (forecast, data):
        labels = [axes.get_ylabel() for axes in romkit.plotting.plot_space_time(shown).axes]
        assert any("x (m)" in label for label in labels)


def test_a_plane_with_land_is_drawn_with_a_hole():
    values = np.random.default_rng(0).normal(size=(5, 3, 4))
    values[:, 1, 2] = np.nan
    flow = describe(
        xr.DataArray(values, dims=("time", "y", "x"), coords={"time": np.arange(5.0)}, name="u")
    )
    image = romkit.plotting.plot_frames(flow, frames=2).axes[0].collections[0]
    assert np.array_equal(
        np.argwhere(np.ma.getmaskarray(image.get_array()).reshape(3, 4)), [[1, 2]]
    )


def test_dates_come_back_as_dates_and_a_forecast_counts_from_its_start(waves):
    days = np.datetime64("2001-02-03") + np.arange(81) * np.timedelta64(6, "h")
    data = describe(waves.assign_coords(t=days), context=["speed"])
    pod, law = fitted(data)
    back = fields(romkit.rollout(data, pod, dynamics=law))
    assert np.array_equal(back.t, days)
    start = waves.isel(run=0, t=0)
    forecast = romkit.forecast(
        pod, dynamics=law, initial_state=start, duration=86400.0, dt=21600.0, speed=1.0
    )
    assert forecast.t.values.tolist() == [0.0, 21600.0, 43200.0, 64800.0, 86400.0]


def test_a_grid_of_parameters_comes_back_as_a_grid(waves):
    grid = xr.concat(
        [waves, 2 * waves], xr.DataArray([1.0, 2.0], dims="height", name="height")
    ).drop_vars("speed")
    data = describe(grid.u, context=["height"])
    pod, law = fitted(data)
    back = fields(romkit.rollout(data, pod, dynamics=law))
    assert back.rom_u.transpose(*grid.u.dims).shape == grid.u.shape
    assert np.array_equal(back.height, grid.height)
    assert np.array_equal(fields(data).u.transpose(*grid.u.dims), grid.u, equal_nan=True)


def test_a_table_and_csv_come_back_as_a_table(waves, tmp_path):
    own = table(waves)
    own.to_csv(tmp_path / "own.csv", index=False)
    read = pd.read_csv(tmp_path / "own.csv", float_precision="round_trip")
    columns = [name for name in own if name.startswith("u")]
    data = describe(read, context=["speed"])
    assert np.array_equal(data.speed, SPEEDS)
    assert np.array_equal(
        fields(data)[columns].to_dataframe().reset_index()[["run", *columns]],
        own[["run", *columns]],
    )
    row = own[own.run == 8].iloc[0]
    forecast = ahead(data, row, speed=1.5)[columns].to_dataframe().reset_index()
    assert list(forecast.columns) == ["t", *columns, "speed"]
    assert np.abs(forecast[columns].values - own[own.run == 8][columns].values[:41]).max() < 0.01
    two = ahead(data, own.groupby("run").first().loc[[7, 9]], speed=[1.0, 2.0])
    assert two[columns[0]].dims == ("run", "t")
    assert np.array_equal(describe(own.drop(columns="run"), context=["speed"]).state, data.state)
    shuffled = own.sample(frac=1, random_state=0)
    assert describe(shuffled, context=["speed"]).state.equals(data.state)


def test_a_long_table_has_its_space_in_the_index(waves):
    rows = waves.drop_vars("latitude").to_dataframe()
    data = describe(rows, context=["speed"])
    assert np.array_equal(data.state, describe(waves, context=["speed"]).state)
    forecast = ahead(data, rows.loc[8].loc[TIME[0]], speed=1.5)
    back = forecast[["u", "v"]].to_dataframe(["t", "x"])
    assert np.array_equal(back.index, rows.loc[8].index[: len(back)])
    assert np.allclose(back.u, rows.loc[8].u[: len(back)], atol=0.01, equal_nan=True)


def test_runs_of_a_table_share_times_that_differ_by_rounding(waves):
    own = table(waves)
    own["t"] *= 1 + 1e-12 * (own.run - 8)
    assert describe(own, context=["speed"]).sizes["time"] == 81


def test_one_run_without_a_context(waves):
    own = table(waves)
    own = own[own.run == 7].drop(columns=["run", "speed"])
    for data, start in (
        (describe(own), own.iloc[0]),
        (describe(waves.isel(run=0, drop=True)), waves.isel(run=0, t=0)),
    ):
        assert romkit.data.context_names(data) == ()
        forecast = ahead(data, start)
        assert set(forecast.coords) >= {"t"}
        assert "run" not in fields(data).dims
        assert "trajectory" not in fields(data).dims


def test_a_number_of_the_run_is_no_context(waves):
    data = describe(waves.drop_vars("speed"))
    assert romkit.data.context_names(data) == ()


@pytest.mark.parametrize(
    "kind", [np.asarray, torch.as_tensor, lambda x: torch.tensor(x, requires_grad=True)]
)
def test_lists_of_unequal_length_with_inputs_as_pysindy_takes_them(kind):
    times = [TIME, TIME[:50]]
    inputs = [np.sin(3 * t) for t in times]
    states = [np.stack([np.cos(t), 2 * np.sin(t)], axis=-1) for t in times]
    given = [kind(x) for x in states]
    data = from_arrays(given, times, control=inputs, names=["q", "p"])
    same = from_arrays(given, TIME[1], control=[u[:, None] for u in inputs], names=["q", "p"])
    assert data.control.equals(same.control)
    assert np.allclose(data.state, same.state, equal_nan=True)
    pod, law = fitted(data)
    start, control = given[1][0], inputs[0][:41, None]
    forecast = romkit.forecast(pod, dynamics=law, initial_state=start, control=control, **STEP)
    assert (forecast.state.dtype, forecast.state.shape) == (np.float64, (41, 2))
    assert np.abs(forecast.state.values - states[1][:41]).max() < 0.01
    assert forecast.component.values.tolist() == ["q", "p"]


def test_single_precision_comes_back_in_single_precision(waves):
    data = describe(waves.astype(np.float32), context=["speed"])
    forecast = ahead(data, waves.isel(run=1, t=0), speed=1.5)
    assert (
        forecast.u.dtype,
        ahead(describe(waves, context=["speed"]), waves.isel(run=1, t=0), speed=1.5).u.dtype,
    ) == (
        np.float32,
        np.float64,
    )


def test_one_run_is_an_array_of_two_axes():
    x = np.stack([np.cos(TIME), np.sin(TIME)], axis=-1)
    data = from_arrays(x, TIME[1])
    forecast = ahead(data, x[0])
    assert np.abs(forecast.state.values - x[:41]).max() < 0.01


REFUSALS = [
    (lambda own: describe(own.drop(columns="t")), "data"),
    (
        lambda own: describe(own.drop(columns=["run", "speed"]).sample(frac=1, random_state=0)),
        "data",
    ),
    (lambda own: describe(own, context=["Re"]), "context"),
    (lambda own: describe(own, trajectory="case"), "trajectory"),
    (lambda own: describe(own, state=["w"]), "state"),
    (lambda own: describe(own.iloc[:0]), "data"),
    (
        lambda own: describe(own.assign(t="noon").drop_duplicates("run")),
        "time",
    ),
    (lambda own: from_arrays(np.zeros(5), 0.1), "states"),
    (lambda own: from_arrays([], 0.1), "states"),
    (
        lambda own: from_arrays(np.zeros((5, 2)), 0.0),
        "times",
    ),
    (
        lambda own: from_arrays([np.zeros((5, 2))] * 2, [TIME[:5]]),
        "times",
    ),
    (
        lambda own: from_arrays(np.zeros((5, 2)), 0.1, names=["q"]),
        "names",
    ),
    (
        lambda own: from_arrays(np.zeros((5, 2)), 0.1, context={"a": [1, 2]}),
        "a",
    ),
]


@pytest.mark.parametrize(
    ("call", "argument"), REFUSALS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_bad_input_is_one_line(waves, call, argument):
    refused(argument, call, table(waves))


def test_a_row_without_the_state_is_refused(waves):
    own = table(waves)
    pod, law = fitted(describe(own, context=["speed"]))
    given = {"dynamics": law, "speed": 1.5, **STEP}
    refused(
        "data",
        romkit.forecast,
        pod,
        initial_state=own.iloc[0].drop("u0"),
        **given,
    )


@pytest.mark.parametrize("start", [lambda own: own.isel(run=1), lambda own: own.u.isel(run=1)])
def test_a_start_with_all_its_times_is_refused(waves, start):
    refused("initial_state", ahead, describe(waves, context=["speed"]), start(waves), speed=1.5)


def test_a_variable_without_values_is_refused(waves):
    refused(
        "data",
        describe,
        waves.assign(u=np.nan * waves.u)[["u", "speed"]],
        context=["speed"],
    )


@pytest.mark.parametrize(
    "dims", [("time", "x"), ("run", "time"), ("time", "run", "x"), ("x", "time", "run")]
)
def test_arrays_with_names_in_another_order_are_no_runs(dims):
    """Oracle: `describe`, which goes by the names."""
    sizes = {"time": 30, "x": 4, "run": 3}
    t = 0.1 * np.arange(30)
    values = xr.DataArray(np.sin(t), dims="time")
    for dim in dims:
        if dim != "time":
            values = values * xr.DataArray(1.0 + np.arange(sizes[dim]), dims=dim)
    named = values.transpose(*dims)
    if dims == ("time", "x"):
        assert romkit.data.from_arrays(named, 0.1).sizes["component"] == 4
        return
    refused("states", romkit.data.from_arrays, named, 0.1)
    ordered = [dim for dim in ("run", "time", "x") if dim in dims]
    if len(dims) == 3:
        own = romkit.data.from_arrays(named.transpose(*ordered), 0.1)
        by_name = romkit.data.describe(named.assign_coords(time=t).to_dataset(name="u"))
        assert np.array_equal(own.state.values, by_name.state.values)


@pytest.mark.parametrize("is_described", [True, False])
def test_numbers_in_the_byte_order_of_other_machines(is_described):
    """As in files of netCDF-3."""
    values = np.sin(SPEEDS[:, None, None] * TIME[:, None] + np.arange(4))
    if is_described:
        big = xr.Dataset(
            {"u": (("run", "t", "x"), values.astype(">f8"))},
            {"t": TIME.astype(">f8"), "speed": ("run", SPEEDS.astype(">f8"))},
        )
        data = describe(big, context=["speed"])
        assert data.state.dtype.isnative
    else:
        data = from_arrays(values, TIME, context={"speed": SPEEDS})
        data = data.assign(state=data.state.astype(">f8"))
    native = from_arrays(values, TIME, context={"speed": SPEEDS})
    images = []
    for runs in (data, native):
        model = romkit.fit("polynomial-manifold", runs, latent_dim=2)
        images.append(model(speed=1.2).decode(np.ones(2)))
    assert np.allclose(*images)


@pytest.mark.parametrize("rounding", [1e-15, 6e-8])
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_repeats_whose_context_was_rounded_are_one_context(rounding, scale):
    speeds = scale * np.repeat([0.1, 0.3, 0.7, 1.1], 3) * (1 + rounding * np.tile([0, 1, -1], 4))
    values = np.sin(np.arange(12)[:, None, None] + TIME[:, None] + np.arange(2))
    data = from_arrays(values, TIME, context={"speed": speeds})
    assert len(np.unique(data.speed)) == 4
    assert np.allclose(data.speed, speeds, rtol=3 * rounding, atol=0.0)
    by_hand = data.assign_coords(speed=("trajectory", speeds, data.speed.attrs))
    for runs in (data, by_hand):
        known, unseen = romkit.data.split(runs, 0.3)
        distance = np.abs(known.speed.values[:, None] - unseen.speed.values)
        assert distance.min() > 0.1 * scale


@pytest.mark.parametrize("speeds", [10.0 ** np.arange(-6, 6), 1 + 1e-12 * np.arange(12)])
def test_contexts_over_decades_or_close_together_stay_apart(speeds):
    values = np.sin(np.arange(12)[:, None, None] + TIME[:, None] + np.arange(2))
    data = from_arrays(values, TIME, context={"speed": speeds})
    assert np.array_equal(data.speed, speeds)
