"""Missing samples are left out and filled nowhere, velocities are estimated; data go by their
names, in any unit.
"""

import warnings

import numpy as np
import pysindy
import pytest
import torch
import xarray as xr

import romkit
from romkit.core.errors import DataWarning
from romkit.data import from_arrays, snapshots, with_velocity
from romkit.data.schema import complete
from romkit.laws import DMD, NeuralODE, OperatorInference, SINDy, WeakSINDy
from romkit.solvers import RK4
from tests.refusals import refused
from tests.unit.data.own import TIME, wave, waves

STEPS = RK4(0.05)
"""Solver of fields with inputs, of which the default one takes a hundred steps at least."""
QUICK = NeuralODE(hidden=(8,), regression_steps=60, shooting_steps=40, segment=4, batch_size=32)
SMALL = {"latent_dim": 2, "epochs": 2}


@pytest.fixture(scope="module")
def whole():
    return waves()


@pytest.fixture(scope="module")
def gappy(whole):
    """A gap inside, a short trajectory, and a component that fails for a while."""
    data = whole.copy(deep=True)
    for name in ("state", "velocity"):
        data[name][0, 20:30] = np.nan
        data[name][1, 60:] = np.nan
        data[name][2, 40:45, 3] = np.nan
    return data


def dropped(data):
    """The complete snapshots, trajectory by trajectory, as trajectories of their own: what training
    may see.
    """
    rows = complete(data, ("state", "velocity"))
    return {name: data[name].values[rows] for name in ("state", "velocity")}


def test_training_sees_the_complete_snapshots_and_no_others(whole, gappy):
    seen = snapshots(gappy)
    assert np.array_equal(seen.state, dropped(gappy)["state"])
    assert len(seen.context) == len(seen.state) == 4 * 81 - 10 - 21 - 5
    filled = gappy.fillna(1e3)
    for fit in (
        lambda data: romkit.fit("pod", data, latent_dim=2),
        lambda data: romkit.fit("ncae", data, **SMALL),
    ):
        model = fit(gappy)
        assert all(np.isfinite(p.detach()).all() for p in model.parameters())
        assert (
            np.abs(model.frame.state_std - whole.state.std(("trajectory", "time")).values).max()
            < 0.1
        )
        assert np.abs(fit(filled).frame.state_std - model.frame.state_std).max() > 1


LAWS = [
    SINDy(degree=1, threshold=0.01),
    WeakSINDy(degree=1, threshold=0.01, windows=40),
    OperatorInference(degree=1),
    DMD(),
]


@pytest.mark.parametrize("estimator", LAWS, ids=lambda estimator: type(estimator).__name__)
def test_every_law_leaves_out_what_is_missing(whole, gappy, estimator):
    """One speed, so that the motion is linear and every law can be exact."""
    whole, gappy = (data.isel(trajectory=[0, 0, 0]).drop_vars("speed") for data in (whole, gappy))
    pod = romkit.fit("pod", whole, latent_dim=2)
    z = torch.tensor([[0.3, -0.2], [1.0, 0.5]], dtype=torch.float64)
    laws = [estimator.fit(pod, data) for data in (whole, gappy)]
    assert torch.allclose(*(law.at(pod.double()())(z) for law in laws), rtol=1e-3, atol=1e-3)
    if isinstance(estimator, SINDy):
        assert laws[1].samples == len(dropped(gappy)["state"])


def test_a_network_never_sees_a_segment_with_a_gap(whole, gappy):
    """What is behind the gap can be anything: the fit is the same."""
    pod = romkit.fit("pod", whole, latent_dim=2)
    first = QUICK.fit(pod, gappy)
    assert first.samples == len(dropped(gappy)["state"])
    assert np.isfinite(float(first.trajectory_error))
    assert float(first.velocity_error) < 0.6
    other = gappy.copy(deep=True)
    other["velocity"][0, 20:30] = 77.0  # velocities of states that are missing
    again = QUICK.fit(pod, other)
    assert float(first.trajectory_error) == float(again.trajectory_error)
    holes = whole.copy(deep=True)
    holes["state"][:, ::4] = np.nan
    refused(
        "segment",
        QUICK.fit,
        pod,
        holes,
    )


def test_errors_count_what_was_measured(whole, gappy):
    pod = romkit.fit("pod", whole, latent_dim=2)
    law = SINDy(degree=1, threshold=0.01).fit(pod, whole)
    run, full = (romkit.rollout(data, pod, dynamics=law) for data in (gappy, whole))
    assert np.array_equal(run.rom, full.rom)
    assert np.isnan(run.nrmse[0, 20:30]).all()
    assert np.isnan(run.nrmse[1, 60:]).all()
    assert np.isfinite(run.nrmse[2]).all()
    there = np.isfinite(run.nrmse.values)
    there[2, 40:45] = False
    assert np.array_equal(run.nrmse.values[there], full.nrmse.values[there])
    assert run.valid_time[0] == full.valid_time[0] == TIME[-1]
    assert run.valid_time[1] == TIME[59]
    late = gappy.copy(deep=True)
    late["state"][3, 0] = np.nan
    refused("data", romkit.rollout, late, pod, dynamics=law)


def test_gaps_that_leave_too_little_are_refused(whole, lorenz_data):
    data = lorenz_data.copy(deep=True)
    data["state"][0, 5] = np.nan
    refused("data", romkit.fit, "ncae", data, preset="dynamics", epochs=1)
    data = whole.copy(deep=True)
    data["state"][2] = np.nan
    refused("data", romkit.data.check_states, data)


def test_velocities_are_estimated_and_it_is_said(whole):
    data = whole.drop_vars("velocity")
    with pytest.warns(
        DataWarning, match=r"velocities are not in the data; estimated by savitzky-golay \(window"
    ):
        model = romkit.fit("cae", data, latent_dim=2, epochs=1, verbose=False)
    assert "savitzky-golay" in model.report["data"]["velocity"]
    estimated = with_velocity(data)
    assert np.abs(estimated.velocity - whole.velocity).max() < 1e-3
    assert with_velocity(data.astype(np.float32)).velocity.dtype == np.float32


def test_a_stretch_may_be_less_even_than_all_times(whole):
    """Nine of its steps are longer by 0.09 %, one is shorter; the others make up for that."""
    steps = 1 + 9e-4 * np.resize([1.0] * 9 + [-1.0] * 10 + [1.0], 80)
    data = whole.assign_coords(time=np.concatenate([[0.0], np.cumsum(steps)])).drop_vars("velocity")
    data = data.assign(state=data.state.where((data.time < 11) | (data.time > 12)))
    assert "savitzky-golay" in with_velocity(data).velocity.attrs["method"]


def test_noise_makes_the_window_longer_and_the_estimate_better(whole):
    noisy = whole.drop_vars("velocity")
    noisy["state"] = noisy.state + 0.05 * np.random.default_rng(0).normal(size=noisy.state.shape)
    found = with_velocity(noisy)
    window = lambda data: int(data.velocity.attrs["method"].split("window ")[1].split(",")[0])  # noqa: E731
    assert window(found) > window(with_velocity(whole.drop_vars("velocity")))
    error = lambda data: float(np.sqrt(((data.velocity - whole.velocity) ** 2).mean()))  # noqa: E731
    assert error(found) < 0.2 * error(with_velocity(noisy, method="gradient"))
    assert error(found) < 0.2 * float(whole.velocity.std())


def test_a_method_may_be_any_of_pysindy_and_whole_numbers_have_rates_that_are_none(whole):
    data, method = whole.drop_vars("velocity"), pysindy.SmoothedFiniteDifference()
    ours, theirs = with_velocity(data, method=method), method(data.state.values[0], TIME)
    assert np.array_equal(ours.velocity[0], theirs)
    assert ours.velocity.attrs["method"] == "SmoothedFiniteDifference"
    refused("method", with_velocity, data, method=lambda x, t: x[1:])
    counts = data.assign(state=(10 * data.state).astype(int))
    expected = with_velocity(
        counts.assign(state=counts.state.astype(float)), method="gradient"
    ).velocity
    assert np.array_equal(with_velocity(counts, method="gradient").velocity, expected)


def test_gaps_and_uneven_times_are_no_neighbours(whole, gappy):
    estimated = with_velocity(gappy.drop_vars("velocity"))
    assert np.isnan(estimated.velocity[0, 20:30]).all()
    rows = complete(estimated, ("velocity",))
    assert np.abs((estimated.velocity - whole.velocity).values[rows]).max() < 2e-2
    uneven = whole.drop_vars("velocity").isel(time=np.flatnonzero(np.arange(81) % 7 != 3))
    estimated = with_velocity(uneven)
    assert estimated.velocity.attrs["method"].startswith("gradient")
    refused(
        "method",
        with_velocity,
        uneven,
        method="savitzky-golay",
    )
    refused("method", with_velocity, uneven, method="gradiend")


def forced(count=6):
    """ż = -z + u of one component in two, driven by random steps."""
    rng, dt = np.random.default_rng(0), TIME[1]
    u = rng.normal(size=(count, len(TIME), 1))
    x = np.zeros((count, len(TIME), 2))
    x[:, 0] = rng.normal(size=(count, 1)) * [1.0, 2.0]
    for k in range(80):  # exact between samples for straight lines of u
        a, b = u[:, k], (u[:, k + 1] - u[:, k]) / dt
        e = np.exp(-dt)
        x[:, k + 1] = x[:, k] * e + ((1 - e) * a + (dt - 1 + e) * b) * [1.0, 2.0]
    return xr.Dataset(
        {
            "state": (("trajectory", "time", "component"), x),
            "velocity": (("trajectory", "time", "component"), -x + u * [1.0, 2.0]),
            "control": (("trajectory", "time", "input"), u),
        },
        coords={"time": TIME, "input": ["force"]},
    )


@pytest.mark.parametrize("estimator", [SINDy(degree=1, threshold=0.01), QUICK])
def test_inputs_enter_laws_and_forecasts(estimator, tmp_path):
    data = forced(count=3)
    pod = romkit.fit("pod", data, latent_dim=1)
    law = estimator.fit(pod, data)
    assert (law.control_names, law.context_names) == (("force",), ())
    law = romkit.load(romkit.save(law, tmp_path / "law.safetensors"))
    run = romkit.rollout(data, pod, dynamics=law, solver=STEPS)
    u = data.control[0]
    given = {"initial_state": data.state[0, 0], "duration": 2.0, "dt": TIME[1]}
    given |= {"dynamics": law, "solver": STEPS}
    for control in (u, lambda t: np.interp(t, TIME, u.values[:, 0])):
        again = romkit.forecast(pod, **given, control=control)
        assert np.allclose(again.state, run.rom[0], atol=1e-9)
    if isinstance(estimator, SINDy):
        assert float(run.nrmse.max()) < 1e-4
        assert "force" in law.equations()[0]
    refused("control", romkit.forecast, pod, **given)
    refused("control", romkit.rollout, data.drop_vars("control"), pod, dynamics=law)
    refused("control", romkit.forecast, pod, **given, control=u[:7])


def test_inputs_must_be_known_while_a_trajectory_lasts():
    states = [wave(1.0)[0], wave(2.0)[0][:50]]
    inputs = [np.ones((81, 1)), np.ones((50, 1))]
    data = from_arrays(states, TIME, context={"speed": [1.0, 2.0]}, control=inputs)
    pod = romkit.fit("pod", with_velocity(data), latent_dim=2)
    law = SINDy(degree=1, refine=False).fit(pod, data)
    assert "control       u0" in romkit.data.summary(
        data.drop_vars("input")
    )  # which laws call so as well
    assert np.isfinite(romkit.rollout(data, pod, dynamics=law, solver=STEPS).rom).all()
    inputs[1][20] = np.nan
    given = {"context": {"speed": [1.0, 2.0]}, "control": inputs}
    refused("data", from_arrays, states, TIME, **given)


def test_gaps_are_left_out_of_scattered_samples_and_refuse_a_law_without_neighbours():
    system = romkit.systems.Lorenz96(n=8, transient=0.0)
    data = system.dataset(F=[3.14, 3.18], duration=1.0)
    pod, gaps, every_second = (
        romkit.fit("pod", data, latent_dim=2),
        data.copy(deep=True),
        data.copy(deep=True),
    )
    gaps["state"][0, 5:8], every_second["state"][:, 1::2] = np.nan, np.nan
    assert (
        len(romkit.laws.galerkin_samples(pod, gaps, system.problem)) == 2 * data.sizes["time"] - 3
    )
    refused(
        "data",
        DMD().fit,
        pod,
        every_second,
    )


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
    law = romkit.laws.SINDy(degree=1, threshold=0.0)
    fitted = law.fit(pod, data)
    start = {"initial_state": turned.isel(time=0), "duration": 1.0, "dt": 0.1}
    for attempt, given, more in (
        (pod(data).encode, (turned,), {}),
        (pod(data).encode, (described,), {}),
        (law.fit, (pod, described), {}),
        (romkit.follow, (pod, described), {"dynamics": fitted}),
        (romkit.forecast, (pod,), {"dynamics": fitted, **start}),
        (
            romkit.forecast,
            (pod,),
            {"dynamics": fitted, **start, "initial_state": described.isel(time=0)},
        ),
    ):
        refused("data", attempt, *given, **more)
    assert (
        romkit.follow(pod, romkit.data.describe(turned.sortby("x")), dynamics=fitted).sizes[
            "component"
        ]
        == 4
    )


def test_a_first_state_has_the_places_of_the_training_up_to_digits(data):
    pod = romkit.fit("pod", data, latent_dim=2)
    law = romkit.laws.SINDy(degree=1, threshold=0.0).fit(pod, data)
    start = romkit.data.fields(data).u.isel(trajectory=0, time=0)
    options = {"dynamics": law, "duration": 1.0, "dt": 0.1}
    wanted = romkit.forecast(pod, initial_state=start, **options)
    rounded = start.assign_coords(x=start.x + np.array([0.0, 1e-4, -1e-4, 0.0]))
    assert romkit.forecast(pod, initial_state=rounded, **options).equals(wanted)
    elsewhere = start.assign_coords(x=start.x + 0.1)
    refused("data.interp(x=...)", romkit.forecast, pod, initial_state=elsewhere, **options)
    # turned round, and rounded: the labels are those of no component exactly
    refused("data.sortby('x')", romkit.forecast, pod, initial_state=rounded[::-1], **options)


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
    truth, reduced = (
        each.assign_coords(time=unit * each.time, F=unit * each.F) for each in (truth, reduced)
    )
    assert (
        romkit.score(truth, reduced.assign_coords(time=reduced.time.astype("f4")))
        .nrmse.notnull()
        .all()
    )
    late = reduced.assign_coords(time=reduced.time + 0.01 * unit)
    refused("the times of the truth", romkit.score, truth, late)
    turned = reduced.assign_coords(F=("trajectory", reduced.F.values[::-1]))
    refused("the F of the truth", romkit.score, truth, turned)


def test_inputs_go_by_their_names():
    data = forced(count=2).isel(time=slice(11))
    other = data.control.assign_coords(input=["brake"]) * 0.5 + 1.0
    data = xr.merge(
        [data.drop_vars("control").drop_vars("input"), xr.concat([data.control, other], "input")]
    )
    turned = data.isel(input=[1, 0])
    pod = romkit.fit("pod", data, latent_dim=1)
    law = romkit.laws.SINDy(degree=1, threshold=0.01, refine=False).fit(pod, data)
    assert law.control_names == ("force", "brake")
    assert romkit.follow(pod, turned, dynamics=law, solver=STEPS).state.equals(
        romkit.follow(pod, data, dynamics=law, solver=STEPS).state
    )
    start = {
        "initial_state": data.state[0, 0],
        "duration": 0.25,
        "dt": float(data.time[1]),
        "dynamics": law,
        "solver": STEPS,
    }
    given = [each.control.isel(trajectory=0) for each in (data, turned.transpose("input", ...))]
    one, two = (romkit.forecast(pod, control=control, **start) for control in given)
    assert one.state.equals(two.state)
    table = given[0].to_pandas()
    for labelled in (
        table,
        table[["brake", "force"]],
        table.reset_index(drop=True),
        data[["control"]],
    ):
        run = romkit.forecast(pod, control=labelled, **start | {"initial_state": data.state[0, 0]})
        run = run.isel(trajectory=0) if "trajectory" in run.dims else run
        assert run.state.equals(one.state)
    late = one.time * 2.0
    for times in (late, late.values.astype("timedelta64[s]"), late + 5.0):
        other = given[0].assign_coords(time=("time", np.asarray(times)))
        refused("control", romkit.forecast, pod, control=other, **start)
    later = given[0].assign_coords(time=given[0].time + 5.0)  # since the first state
    assert romkit.forecast(pod, control=later, **start).state.equals(one.state)
    refused("control", romkit.forecast, pod, control=data[["state"]], **start)
    refused("control", romkit.forecast, pod, control=table.rename(columns=str.upper), **start)
    others = data.assign_coords(input=["force", "torque"])
    refused("control", romkit.follow, pod, others, dynamics=law)
    refused("control", romkit.forecast, pod, control=others.control.isel(trajectory=0), **start)
    start["dynamics"] = romkit.laws.DMD().fit(pod, data.drop_vars(["control", "input"]))
    refused(
        "control",
        romkit.forecast,
        pod,
        control=given[0],
        **start,
    )


@pytest.mark.parametrize("steps", [(0.1, 0.15), (0.1, 0.13, 0.17), (0.07, 0.11, 0.13, 0.19)])
def test_runs_with_times_of_their_own_miss_nothing(steps):
    times = [step * np.arange(40) for step in steps]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = romkit.data.from_arrays([np.sin(t)[:, None] for t in times], times)
    (line,) = [line for line in romkit.data.summary(runs).splitlines() if "missing" in line]
    assert "about 40 of" in line
    assert "%" not in line


@pytest.mark.parametrize("kind", ["gaps", "short runs", "a single run"])
def test_gaps_at_common_times_are_told_as_gaps(kind):
    states = np.ones((4, 50, 1))
    match kind:
        case "gaps":
            states[np.random.default_rng(0).random(states.shape) < 0.3] = np.nan
        case "short runs":
            states[1:, 10:] = np.nan
        case "a single run":
            states = states[:1]
            states[0, 3:40] = np.nan
    runs = romkit.data.from_arrays(states, 0.1)
    (line,) = [line for line in romkit.data.summary(runs).splitlines() if "missing" in line]
    share = np.isnan(states).mean()
    assert f"{share:.1%}" in line
