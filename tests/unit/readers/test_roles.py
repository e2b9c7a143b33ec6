"""What is what: roles are found once, and all that is guessed or left out is warned of."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import romkit
from romkit.core.errors import DataWarning
from romkit.data import context_names, describe, fields, from_arrays
from tests.refusals import refused

TIME = 0.05 * np.arange(150)
POINTS = np.linspace(0, 2 * np.pi, 8, endpoint=False)
PRESSURE = np.sin(POINTS - TIME[:, None])
RATE = -np.cos(POINTS - TIME[:, None])


def field(**variables):
    grid = {name: (("time", "x"), values) for name, values in variables.items()}
    return xr.Dataset(grid, {"time": TIME, "x": POINTS})


def said(call, *given, **named):
    """What a call gives, and the warnings of data that it gives on the way, but for those of equal
    runs, which data of tests often are.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*given, **named)
    texts = [str(w.message) for w in caught if issubclass(w.category, DataWarning)]
    texts = [text for text in texts if "equal to the last bit" not in text]
    assert all("\n" not in text for text in texts)
    assert len(set(texts)) == len(texts)
    return result, texts


def test_plain_data_need_no_warning():
    data, texts = said(describe, field(u=PRESSURE))
    assert texts == []
    assert data.sizes["component"] == 8


# rates by their name


def test_a_velocity_beside_others_is_a_state():
    """An oscillator has its velocity as a variable: x alone has no law of first order."""
    for velocity in (RATE, 5 * np.cos(POINTS - TIME[:, None])):
        data, texts = said(describe, field(u=PRESSURE, velocity=velocity))
        assert (texts, "velocity" in data, data.sizes["component"]) == ([], False, 16)
    data, texts = said(
        describe, field(u=PRESSURE, velocity=RATE), state=["u"], velocity=["velocity"]
    )
    assert (texts, data.sizes["component"]) == ([], 8)
    assert np.array_equal(data.velocity[0], RATE)


def test_names_of_the_schema_are_rates():
    data, texts = said(describe, field(state=PRESSURE, velocity=RATE, acceleration=-PRESSURE))
    assert texts == []
    assert {"velocity", "acceleration"} <= set(data.data_vars)
    _, texts = said(describe, field(state=PRESSURE, acceleration=PRESSURE))
    assert any("acceleration" in text for text in texts)
    noise = 0.05 * np.random.default_rng(0).normal(size=PRESSURE.shape)
    _, texts = said(describe, field(state=PRESSURE + noise, velocity=RATE))
    assert texts == []
    coarse = field(state=PRESSURE, velocity=RATE).isel(time=slice(None, None, 25))  # 5 in a period
    _, texts = said(describe, coarse)
    assert texts == []


def test_a_declared_rate_that_disagrees_is_warned_of():
    data, texts = said(describe, field(u=PRESSURE, w=RATE), state=["u"], velocity=["w"])
    assert (texts, "velocity" in data) == ([], True)
    data, texts = said(describe, field(u=PRESSURE, w=60 * RATE), state=["u"], velocity=["w"])
    assert len(texts) == 1
    assert "0.0167 times" in texts[0]
    refused(
        "velocity",
        describe,
        field(u=PRESSURE, w=RATE).assign(w=("time", TIME)),
        state=["u"],
        velocity=["w"],
    )


def test_a_velocity_alone_is_the_state():
    data, _ = said(describe, field(velocity=PRESSURE))
    assert data.sizes["component"] == 8
    assert "velocity" not in data


def test_arrays_with_velocities_of_another_unit_are_warned_of():
    _, texts = said(from_arrays, PRESSURE, TIME, velocity=RATE)
    assert texts == []
    _, texts = said(from_arrays, PRESSURE, TIME, velocity=1e3 * RATE)
    assert len(texts) == 1


# variables that describe others


@pytest.mark.parametrize("key", ["bounds", "climatology"])
def test_bounds_are_no_state(key):
    edges = np.stack([TIME, TIME + 0.05], axis=-1)
    data = field(u=PRESSURE).assign(edges=(("time", "nv"), edges))
    data.time.attrs[key] = "edges"
    found, texts = said(describe, data)
    assert found.sizes["component"] == 8
    assert any("edges" in text for text in texts)


def test_flags_volumes_and_bounds_by_name_are_no_state():
    data = field(u=PRESSURE, u_err=PRESSURE, cell=PRESSURE)
    data.u.attrs |= {"ancillary_variables": "u_err", "cell_measures": "area: cell"}
    data = data.assign(time_bnds=(("time", "nv"), np.zeros((150, 2))))
    found, texts = said(describe, data)
    assert found.sizes["component"] == 8
    assert all(any(name in text for text in texts) for name in ("u_err", "cell", "time_bnds"))
    found, _ = said(describe, data, state=["u", "u_err"])  # unless somebody says so
    assert found.sizes["component"] == 16


# whole numbers, complex fields, packed and masked values


def test_whole_numbers_are_states_where_declared_or_alone():
    counts = (100 * PRESSURE).astype(int)
    data, texts = said(describe, field(u=PRESSURE, hare=counts))
    assert data.sizes["component"] == 8
    assert any("hare" in text for text in texts)
    data, texts = said(describe, field(u=PRESSURE, hare=counts), state=["u", "hare"])
    assert (data.sizes["component"], texts) == (16, [])
    data, texts = said(describe, field(hare=counts, lynx=counts))
    assert (data.sizes["component"], len(texts)) == (16, 1)


def test_complex_fields_are_split():
    wave = PRESSURE + 1j * RATE
    data, texts = said(describe, field(psi=wave))
    assert data.sizes["component"] == 16
    assert len(texts) == 1
    back = fields(data)
    assert np.array_equal(back.psi_real + 1j * back.psi_imag, wave)
    refused("state", describe, field(psi=wave), state=["psi"])


@pytest.mark.parametrize("kind", ["i2", "u1", "f4"])
def test_packed_values_are_unpacked(kind):
    low, high = (0, 200) if kind == "u1" else (-300, 300)
    raw = np.linspace(low, high, PRESSURE.size).reshape(PRESSURE.shape).astype(kind)
    raw[3, 2] = 255 if kind == "u1" else -999
    fill = raw[3, 2]
    about = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": fill, "units": "K"}
    data = field(u=raw)
    data.u.attrs |= about
    found, _ = said(describe, data)
    right = raw * 0.5 + 10.0
    right[3, 2] = np.nan
    assert np.allclose(found.state[0], right, equal_nan=True, rtol=1e-6)


def test_values_outside_their_valid_range_are_missing():
    data = field(u=np.where(PRESSURE > 0.999, 1e20, PRESSURE))
    data.u.attrs["valid_max"] = 10.0
    found, texts = said(describe, data)
    assert float(found.state.max()) < 1
    assert len(texts) == 1


@pytest.mark.parametrize("kind", [float, int])
def test_masked_arrays_are_missing_at_every_door(kind):
    values = np.ma.masked_greater((10 * PRESSURE).astype(kind), 9.5)
    missing = int(values.mask.sum())
    assert missing
    arrays = [
        from_arrays(values, TIME),
        from_arrays([values], [TIME]),
        said(describe, xr.DataArray(values, dims=("time", "x"), coords={"time": TIME}))[0],
    ]
    for data in arrays:
        assert int(data.state.isnull().sum()) == missing
    pod = romkit.fit("pod", field_of(PRESSURE), latent_dim=2, verbose=False)
    start = np.ma.masked_less(PRESSURE[0], 0)
    refused("initial_state", romkit.forecast, pod, initial_state=start, duration=1.0, dt=0.1)
    refused(
        "finite ",
        from_arrays,
        [PRESSURE] * 2,
        TIME,
        context={"a": np.ma.array([1.0, 2.0], mask=[0, 1])},
    )


def field_of(values):
    return from_arrays(values, TIME)


# contexts


def runs(**coords):
    u = np.stack([PRESSURE, 2 * PRESSURE, 3 * PRESSURE])
    given = {name: ("run", values) for name, values in coords.items()}
    return xr.Dataset({"u": (("run", "time", "x"), u)}, {"time": TIME, **given})


def test_a_context_with_one_value_in_several_runs_is_refused():
    data = runs(Re=[50.0, 60.0, 70.0], gap=[1, 1, 1]).assign_attrs(Ma=0.1)
    refused("context", describe, data, context=["gap"])
    refused("context", describe, data, context=["Re", "Ma"])
    refused("context", describe, data.assign_coords(Pr=0.7), context=["Re", "Pr"])
    assert len(said(describe, data, context=["Re", "gap"])[1]) == 1
    refused("context", from_arrays, [PRESSURE] * 2, TIME, context={"Pr": [7, 7]})
    found, texts = said(describe, data)
    assert context_names(found) == ("Re",)
    assert any("gap" in text for text in texts)
    assert context_names(describe(data.isel(run=[0]), context=["Re"])) == ("Re",)


def test_a_guessed_context_is_said():
    _, texts = said(describe, runs(Re=[50.0, 60.0, 70.0]))
    assert len(texts) == 1
    assert "Re" in texts[0]
    assert said(describe, runs(Re=[50.0, 60.0, 70.0]), context=["Re"])[1] == []


def test_runs_along_several_levels(capsys):
    index = pd.MultiIndex.from_product([[0.5, 1.5], [1, 2]], names=["load", "rep"])
    u = np.random.default_rng(0).random((4, 20))
    data = xr.Dataset({"u": (("case", "time"), u)}, {"time": np.arange(20.0)})
    data = data.assign_coords(xr.Coordinates.from_pandas_multiindex(index, "case"))
    found = describe(data, context=["load"])
    assert found["load"].values.tolist() == [0.5, 0.5, 1.5, 1.5]
    stacked = data.reset_index("case").drop_vars(["load", "rep"]).stack(sample=["case", "time"])
    found = describe(stacked.rename(case="run") if "case" in stacked.dims else stacked)
    assert np.array_equal(found.state[..., 0], u)


def test_a_label_of_the_runs_may_name_them():
    data = runs(number=[4, 5, 6]).rename(run="sample")
    found, _ = said(describe, data, trajectory="number")
    assert found.sizes["trajectory"] == 3


def driven(**about):
    t = 0.1 * np.arange(20)
    draw = np.random.default_rng(0)
    data = xr.Dataset({"u": ("time", np.sin(t))}, {"time": t})
    for name, attributes in about.items():
        data[name] = ("time", draw.normal(size=20), attributes)
    return data


@pytest.mark.parametrize("between", ["held", "linear"])
def test_inputs_keep_what_is_declared_of_them(between):
    about = {"between": between, "units": "N"}
    data, _ = said(romkit.data.describe, driven(p=about, q=about), control=["p", "q"])
    assert data.control.attrs == about
    assert romkit.data.inputs_held(data) == (between == "held")
    again, _ = said(romkit.data.describe, data)  # in the schema, with `control`
    assert again.control.attrs == about


@pytest.mark.parametrize(
    ("p", "q", "argument"),
    [
        ({"between": "held"}, {"between": "linear"}, "control"),
        ({"between": "held"}, {}, "control"),
        ({"between": "zoh"}, {"between": "zoh"}, "between"),
    ],
)
def test_inputs_of_two_rules_or_of_none_are_refused(p, q, argument):
    refused(argument, romkit.data.describe, driven(p=p, q=q), control=["p", "q"])


def test_units_of_inputs_that_differ_are_no_unit_of_all():
    data, _ = said(
        romkit.data.describe, driven(p={"units": "N"}, q={"units": "V"}), control=["p", "q"]
    )
    assert data.control.attrs == {}


@pytest.mark.parametrize("modifier", ["standard_error", "status_flag", "number_of_observations"])
def test_variables_about_others_by_their_standard_name_are_no_states(modifier):
    data = driven(extra={"standard_name": f"wind_speed {modifier}"})
    found, texts = said(romkit.data.describe, data)
    assert found.component.values.tolist() == ["u"]
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["component", "trajectory"])
@pytest.mark.parametrize("kind", ["variable", "label", "column"])
def test_names_of_dimensions_of_the_schema_are_refused_as_variables(name, kind):
    t = 0.1 * np.arange(20)
    u = np.sin(np.array([1.0, 2.0])[:, None] * t)
    data = xr.Dataset({"u": (("case", "t"), u), name: (("case", "t"), 2 * u)}, {"t": t})
    if kind == "label" and name == "trajectory":
        data = data.assign(trajectory=("case", ["a", "b"]))
    if kind == "column":
        data = data.assign_coords(case=[0, 1]).to_dataframe().reset_index()
    refused("data", describe, data, context=[], trajectory="case")


@pytest.mark.parametrize(
    "names", [("latent", "u"), ("u", "status"), ("u", "lower_u"), ("spread_u", "u"), ("state", "u")]
)
@pytest.mark.parametrize("as_table", [False, True])
def test_variables_that_a_forecast_would_replace_are_refused(names, as_table):
    t = 0.1 * np.arange(20)
    waves = {
        name: (("run", "t"), np.sin(np.array([[1.0 + k], [2.0]]) * t))
        for k, name in enumerate(names)
    }
    data = xr.Dataset(waves, {"t": t, "run": [0, 1]})
    if as_table:
        data = data.to_dataframe().reset_index()
    refused("data", describe, data, context=[], state=list(names))
    renamed = {name: f"v{k}" for k, name in enumerate(names)}
    data = data.rename(columns=renamed) if as_table else data.rename(renamed)
    assert describe(data, context=[], state=list(renamed.values())).sizes["component"] == 2


def test_names_beside_those_of_forecasts_are_taken():
    t = 0.1 * np.arange(20)
    data = xr.Dataset({name: ("t", np.sin(t)) for name in ("u", "velocity_u", "lower_v")}, {"t": t})
    assert describe(data, state=["u", "velocity_u", "lower_v"]).sizes["component"] == 3
