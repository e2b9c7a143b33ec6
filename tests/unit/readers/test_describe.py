"""Data of any shape in the schema: what is taken as what, what is named as ignored, and the way
back.
"""

import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.core.errors import DataWarning
from romkit.data import context_matrix, context_names, control_names, describe, fields, from_arrays
from tests.refusals import refused
from tests.unit.data.own import TIME, plane, waves


def test_variables_of_two_dimensions_go_in_and_come_back(tmp_path, capsys):
    own = plane()
    data = describe(own, context=["k"], control=["force"])
    said = capsys.readouterr().out
    assert "u (y 3, x 5) [m/s], v (y 3, x 5) [K]" in said
    assert "k 1 ... 4 (whole numbers)" in said
    assert "every 0.025 s" in said
    assert all(name in said.splitlines()[-1] for name in ("day", "name", "wall"))
    assert data.state.dims == ("trajectory", "time", "component")
    assert (data.sizes["component"], context_names(data), control_names(data)) == (
        30,
        ("k",),
        ("force",),
    )
    stored = romkit.data.open_dataset(romkit.data.save_dataset(data, tmp_path / "own.nc"))
    back = fields(stored)
    assert np.array_equal(back.u, own.u)
    assert np.array_equal(back.v, own.v)
    assert (back.v.dims, back.v.dtype) == (("run", "t", "y", "x"), np.float32)
    assert np.array_equal(back.x, own.x)
    assert back.x.attrs["units"] == "m"
    assert np.array_equal(stored.control[..., 0], own.force)


def test_the_context_may_be_dimensions_variables_attributes_or_vary(capsys):
    own = plane().drop_vars(["name", "day", "force", "wall"])
    grid = xr.concat(
        [own[["u"]], own[["u"]] + 1.0], xr.DataArray([10.0, 20.0], dims="Re", name="Re")
    )
    data = describe(grid.drop_vars("k"), context=["Re"], trajectory="run")
    assert (data.sizes["trajectory"], sorted(set(data.Re.values))) == (8, [10.0, 20.0])
    assert np.array_equal(fields(data).u.sel(Re=20.0), own.u + 1.0)
    assert fields(data.isel(trajectory=slice(3))).u.dims[0] == "trajectory"  # no longer a grid
    data = describe(grid.isel(run=0, drop=True), context=["Re"])
    assert np.array_equal(data.Re, [10.0, 20.0])
    data = describe(own.isel(run=0).assign_attrs(gap=3), context=["gap", "k"], state=["u"])
    assert np.array_equal(context_matrix(data), [[3, 1]])
    moving = own.assign(Re=(("run", "t"), np.ones((4, 81)) * TIME))
    data = describe(moving, context=["Re"], state=["u"])
    assert context_matrix(data).shape == (4, 81, 1)
    assert "along time" in capsys.readouterr().out
    single = own[["u"]].isel(run=0, drop=True)
    assert describe(single).sizes["trajectory"] == 1
    assert describe(own.u, trajectory="run", context=["k"]).sizes["component"] == 15


def test_whole_numbers_are_a_context_and_undeclared_ones_are_said():
    data = waves((1.0, 2.0, 3.0)).drop_vars("speed").assign_coords(k=("trajectory", [1, 2, 3]))
    assert context_names(data) == ("k",)
    with pytest.warns(DataWarning, match=r"context is taken to be k, .*declare it"):
        model = romkit.fit("ncae", data, latent_dim=2, epochs=1)
    assert model.frame.context_names == ("k",)
    described = describe(data.assign_coords(day=("trajectory", [0.1, 0.2, 0.3])), context=["k"])
    assert context_names(described) == ("k",)
    assert context_names(described.isel(time=slice(3))) == ("k",)


def test_lists_of_unequal_length_are_padded_with_nan():
    rng = np.random.default_rng(0)
    states = [rng.normal(size=(size, 3)).astype(np.float32) for size in (81, 40, 60)]
    data = from_arrays(states, TIME, context={"mu": [1, 2, 3]})
    assert data.state.dtype == np.float32
    assert np.isnan(data.state[1, 40:]).all()
    assert np.array_equal(data.state[1, :40], states[1])
    assert romkit.data.snapshots(data.assign(velocity=data.state)).state.shape == (181, 3)
    for given, argument in (
        (
            {"velocity": states[:1]},
            "velocity",
        ),
        ({"control": [np.ones((81, 1))] * 2}, "control"),
    ):
        refused(argument, from_arrays, states, TIME, **given)
    for name in ("trajectory", "control", "input", "time"):
        given = {"context": {name: [1, 2, 3]}}
        refused(
            "context",
            from_arrays,
            states,
            TIME,
            **given,
        )


def test_durations_become_seconds():
    own = plane().assign_coords(t=(TIME * 1e9).round().astype("timedelta64[ns]"))
    data = describe(own[["u", "k"]], context=["k"])
    assert np.allclose(data.time, TIME)
    assert data.time.attrs["units"] == "s"
    data = data.assign_coords(time=[object() for _ in TIME])
    refused("time", describe, data)


def test_what_cannot_be_used_is_refused():
    no_times = plane().isel(t=[]).assign_coords(t=np.array([], "M8[ns]"))
    for data, settings, argument in (
        (plane(), {"context": ["Re"]}, "context"),
        (
            plane(),
            {"context": ["run"]},
            "context",
        ),
        (plane(), {"trajectory": "case"}, "trajectory"),
        (plane().rename(t="step"), {}, "data"),
        (plane(), {"context": ["k"], "state": ["w"]}, "state"),
        (plane(), {"context": ["name"]}, "context"),
        (plane().drop_vars("t"), {"context": ["k"]}, "data"),
        (
            np.zeros((3, 4)),
            {},
            "data",
        ),
        (
            plane().isel(t=slice(None, None, -1)),
            {"context": ["k"]},
            "data",
        ),
        (waves() * np.inf, {}, "data"),
        (no_times, {"context": ["k"]}, "data"),
    ):
        refused(argument, describe, data, **settings)


def test_a_split_holds_out_whole_contexts_inside_the_range():
    data = waves((1.0, 1.5, 1.5, 2.0, 2.5, 3.0))
    train, held_out = romkit.data.split(data, 0.4, seed=1)
    assert set(train.speed.values) & set(held_out.speed.values) == set()
    assert train.sizes["trajectory"] + held_out.sizes["trajectory"] == 6
    assert {1.0, 3.0} <= set(train.speed.values)
    assert romkit.data.split(data, 0.4, seed=1)[1].equals(held_out)
    refused("data", romkit.data.split, data.isel(trajectory=[1, 2]), 0.5)
    refused("share", romkit.data.split, data, 1.5)


def test_inputs_of_several_units_keep_them(capsys):
    time = np.arange(5.0)
    data = xr.Dataset(
        {
            "x": ("time", time),
            "force": ("time", time, {"units": "N"}),
            "heater": ("time", time, {"units": "W"}),
        },
        {"time": time},
    )
    own = describe(data, control=["force", "heater"])
    assert list(own.input_units.values) == ["N", "W"]
    assert "force [N], heater [W]" in capsys.readouterr().out
