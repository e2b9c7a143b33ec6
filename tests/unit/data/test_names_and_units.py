"""Data by their names, in any unit and precision."""

import numpy as np
import pytest
import xarray as xr

import romkit
from tests.refusals import refused
from tests.unit.data.test_missing import forced

TIMES = 0.1 * np.arange(50)


@pytest.fixture
def data():
    u = np.random.default_rng(0).normal(size=(2, 50, 4))
    dims, coords = ("trajectory", "time", "x"), {"time": TIMES, "x": [0.0, 1.0, 2.0, 3.0]}
    return romkit.data.describe(xr.DataArray(u, dims=dims, coords=coords, name="u"))


def test_components_in_another_order_are_not_put_into_places_of_others(data):
    assert romkit.data.fields(data).u.sel(x=3.0).equals(romkit.data.fields(data).u.isel(x=3))
    turned = romkit.data.fields(data.isel(component=slice(None, None, -1)))
    assert "u" not in turned
    assert turned.state.sel(component="u[3]").equals(data.state.sel(component="u[3]"))
    assert "time          0, a single one" in romkit.data.summary(data.isel(time=[0]))


def test_a_grid_that_runs_the_other_way_is_refused(data):
    pod = romkit.fit("pod", data, latent_dim=2)
    turned = romkit.data.fields(data).isel(x=slice(None, None, -1))
    described = romkit.data.describe(turned)
    law = romkit.integrators.SINDy(degree=1, threshold=0.0)
    fitted = law.fit(pod, data)
    start = {"initial_state": turned.isel(time=0), "duration": 1.0, "dt": 0.1}
    for attempt, given, more in (
        (pod(data).encode, (turned,), {}),
        (pod(data).encode, (described,), {}),
        (law.fit, (pod, described), {}),
        (romkit.follow, (pod, described), {"dynamics": fitted}),
        (romkit.forecast, (pod,), {"dynamics": fitted, **start}),
        (romkit.forecast, (pod,), {"dynamics": fitted, **start, "initial_state": described.isel(time=0)}),
    ):
        message = r"data: expected x from 0\.0 to 3\.0, got 3\.0 \.\.\. 0\.0; sort it: .*'x'"
        refused(message, attempt, *given, **more)
    assert romkit.follow(pod, romkit.data.describe(turned.sortby("x")), dynamics=fitted).sizes["component"] == 4


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
def test_even_times_that_were_in_single_precision_once_are_even(data, scale):
    rounded = data.assign_coords(time=(scale * data.time).astype("f4"))
    assert romkit.data.even_step(rounded.time.values) == pytest.approx(0.1 * scale, rel=1e-5)
    assert romkit.data.with_velocity(rounded, method="savitzky-golay").velocity.notnull().all()
    jittered = data.time.values + 1e-3 * np.random.default_rng(0).normal(size=50)
    assert romkit.data.even_step(scale * jittered) is None


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e9])
def test_scores_tell_times_and_contexts_apart_in_any_unit(unit):
    system, model = romkit.systems.Lorenz96(transient=0.0), romkit.load("ncae-lorenz96")
    truth = system.dataset(F=[3.14, 3.18], duration=0.1)
    reduced = romkit.follow(model, truth)
    truth, reduced = (each.assign_coords(time=unit * each.time, F=unit * each.F) for each in (truth, reduced))
    assert romkit.score(truth, reduced.assign_coords(time=reduced.time.astype("f4"))).nrmse.notnull().all()
    late = reduced.assign_coords(time=reduced.time + 0.01 * unit)
    refused("the times of the truth", romkit.score, truth, late)
    turned = reduced.assign_coords(F=("trajectory", reduced.F.values[::-1]))
    refused("the F of the truth", romkit.score, truth, turned)


def test_inputs_go_by_their_names():
    data = forced()
    other = data.control.assign_coords(input=["brake"]) * 0.5 + 1.0
    data = xr.merge([data.drop_vars("control").drop_vars("input"), xr.concat([data.control, other], "input")])
    turned = data.isel(input=[1, 0])
    pod = romkit.fit("pod", data, latent_dim=1)
    law = romkit.integrators.SINDy(degree=1, threshold=0.01).fit(pod, data)
    assert law.control_names == ("force", "brake")
    assert romkit.follow(pod, turned, dynamics=law).state.equals(romkit.follow(pod, data, dynamics=law).state)
    start = {"initial_state": data.state[0, 0], "duration": 2.0, "dt": float(data.time[1]), "dynamics": law}
    given = [each.control.isel(trajectory=0) for each in (data, turned.transpose("input", ...))]
    one, two = (romkit.forecast(pod, control=control, **start) for control in given)
    assert one.state.equals(two.state)
    others = data.assign_coords(input=["force", "torque"])
    message = "control: expected inputs force, brake, got force, torque"
    refused(f"{message}; rename them", romkit.follow, pod, others, dynamics=law)
    refused(message, romkit.forecast, pod, control=others.control.isel(trajectory=0), **start)
    start["dynamics"] = romkit.integrators.DMD().fit(pod, data.drop_vars(["control", "input"]))
    refused("control: expected none for dynamics without inputs", romkit.forecast, pod, control=given[0], **start)
