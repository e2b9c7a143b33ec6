"""Filtering and tracking against the exact Kalman filter and smoother, published scores, and the
truth.
"""

import importlib.util
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import xarray as xr
from scipy.linalg import expm

import romkit
from romkit.assimilation.noisy import Noisy
from romkit.data import ContextParameter
from romkit.errors import DataWarning, InputError
from romkit.integrators import LSPG, Galerkin, PetrovGalerkin
from romkit.models.fields import LatentModel
from romkit.systems import Lorenz96, System
from tests.refusals import refused


@dataclass(frozen=True)
class Pushed(System):
    """A damped oscillator under a constant force: linear in state and context together."""

    dt: float = 0.01
    duration: float = 4.0
    horizon: float = 4.0

    name = "pushed oscillator"
    state_names = ("x", "v")
    context = (ContextParameter("b", "1", -1.0, 1.0, "force"),)

    def rhs(self, t, x, c):
        return (x @ x.new_tensor([[0.0, -1.0], [1.0, -0.1]])) + c * x.new_tensor([0.0, 1.0])

    def initial_state(self, contexts, rng):
        return contexts.new_tensor([[1.0, 0.0]]).expand(len(contexts), -1)


EVERY, NOISE = 0.2, 0.1
FLOW = expm(EVERY * np.array([[0.0, 1.0, 0.0], [-1.0, -0.1, 1.0], [0.0, 0.0, 0.0]]))
SEES = np.array([[1.0, 0.0, 0.0]])


def observed(b=0.3, seed=0):
    """The position every fifth of a unit of time, with noise and a gap."""
    data = Pushed().dataset(b=b, duration=4.0).isel(time=slice(None, None, 20))
    noise = NOISE * np.random.default_rng(seed).standard_normal(data.state.shape)
    seen = (data.state + noise).astype(float)
    seen[:, 7:10] = np.nan
    return seen.to_dataset(name="state")


def kalman(values, mean, covariance, walk=0.0):
    """Means and covariances by the exact filter, and means by the Rauch-Tung-Striebel smoother,
    behind the first.
    """
    filtered, ahead = [(mean, covariance)], []
    for y in values[1:]:
        mean, covariance = FLOW @ mean, FLOW @ covariance @ FLOW.T
        covariance = covariance + np.diag([0.0, 0.0, walk**2 * EVERY])
        ahead.append((mean, covariance))
        if np.isfinite(y):
            gain = covariance @ SEES.T / (SEES @ covariance @ SEES.T + NOISE**2)
            mean, covariance = (
                mean + gain[:, 0] * (y - mean[0]),
                covariance - gain @ SEES @ covariance,
            )
        filtered.append((mean, covariance))
    smoothed = [filtered[-1][0]]
    for (mean, covariance), (before, spread) in zip(filtered[-2::-1], ahead[::-1], strict=True):
        smoothed.append(
            mean
            + covariance @ FLOW.T @ np.linalg.pinv(spread, rcond=1e-12) @ (smoothed[-1] - before)
        )
    return filtered, smoothed[::-1]


def started(training, seen, **settings):
    """Mean and covariance (3, 3) of the members after the first observation."""
    tracker = romkit.Tracker(
        Pushed(), noise=NOISE, training=training, sensors=["x"], false_alarms=None, **settings
    )
    tracker.update(0.0, seen.state.values[0, 0, :1])
    return tracker.members.mean(0), np.cov(tracker.members.T)


@pytest.fixture(scope="module")
def pushed():
    return Pushed().dataset(b=np.linspace(-1, 1, 7))


def test_a_linear_model_has_the_exact_filter_and_smoother(pushed):
    """Without noise of the model, members have the mean and the covariance of Kalman's filter to
    rounding.
    """
    seen = observed()
    mean, covariance = started(pushed, seen, members=8)
    filtered, smoothed = kalman(seen.state.values[0, :, 0], mean, covariance)
    given = {"noise": NOISE, "training": pushed, "sensors": ["x"], "members": 8}
    found = romkit.assimilate(Pushed(), seen, **given)
    later = romkit.assimilate(Pushed(), seen, smooth=True, **given)
    for one, exact in ((found, [mean for mean, _ in filtered]), (later, smoothed)):
        both = np.concatenate([one.state.values[0], one.estimate.values[0]], axis=-1)
        assert both == pytest.approx(np.array(exact), abs=1e-8)  # RK4 with steps of 0.01
    exact = np.array([covariance[2, 2] for _, covariance in filtered])
    assert found.covariance.values[0, :, 0, 0] == pytest.approx(exact, rel=1e-6)
    assert (found.upper - found.lower).values == pytest.approx(2 * 1.6448536 * found["std"].values)
    assert np.isnan(found.residual.values[0, 7:10]).all()


BOTH = np.eye(2, 3)


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.95])
def test_sensors_that_err_together_have_the_exact_filter(pushed, correlation):
    """Position and speed are seen with the covariance R, the speed not always."""
    R = NOISE**2 * np.array([[1.0, 2 * correlation], [2 * correlation, 4.0]])
    truth = Pushed().dataset(b=0.3, duration=4.0).isel(time=slice(None, None, 20))
    noise = np.random.default_rng(0).multivariate_normal([0, 0], R, truth.sizes["time"])
    values = truth.state.values[0] + noise
    values[5:8, 1] = np.nan
    tracker = romkit.Tracker(Pushed(), noise=R, training=pushed, members=8, false_alarms=None)
    tracker.update(0.0, values[0])
    mean, covariance = tracker.members.mean(0), np.cov(tracker.members.T)
    for k in range(1, len(values)):
        mean, covariance = FLOW @ mean, FLOW @ covariance @ FLOW.T
        seen = np.isfinite(values[k])
        H = BOTH[seen]
        gain = covariance @ H.T @ np.linalg.inv(H @ covariance @ H.T + R[np.ix_(seen, seen)])
        mean = mean + gain @ (values[k, seen] - H @ mean)
        covariance = covariance - gain @ H @ covariance
        tracker.update(EVERY * k, values[k])
        assert tracker.members.mean(0) == pytest.approx(mean, abs=1e-7)
        assert np.cov(tracker.members.T) == pytest.approx(covariance, abs=1e-7)


def test_what_is_no_covariance_of_the_sensors_is_refused(pushed):
    for wrong in (np.eye(3), [[1.0, 0.5], [0.2, 1.0]], [[1.0, 2.0], [2.0, 1.0]]):
        refused("noise", romkit.Tracker, Pushed(), noise=np.array(wrong), training=pushed)


def test_a_context_that_walks_has_the_exact_uncertainty(pushed):
    """With noise, means and variances are those of Kalman's filter up to the scatter of 300
    members.
    """
    seen, settings = observed(), {"members": 300, "drift": 0.2}
    filtered, _ = kalman(seen.state.values[0, :, 0], *started(pushed, seen, **settings), walk=0.2)
    found = romkit.assimilate(
        Pushed(), seen, noise=NOISE, training=pushed, sensors=["x"], **settings
    )
    exact = np.sqrt([covariance[2, 2] for _, covariance in filtered])
    assert found["std"].values[0, :, 0] == pytest.approx(exact, rel=5 / np.sqrt(2 * 300))
    mean = np.array([mean[2] for mean, _ in filtered])
    assert np.abs(found.estimate.values[0, :, 0] - mean).max() < 5 / np.sqrt(300) * exact.max()


@pytest.mark.parametrize("every", [5, 20, 100, 200])
def test_intervals_of_training_and_observations_do_not_decide_accuracy(pushed, every):
    """Both modes of a linear model are exact, so that errors of its forecasts are those of steps."""
    pod = romkit.fit("pod", pushed, latent_dim=2)
    model = Noisy(LatentModel(pod, Galerkin(), Pushed()), torch.tensor([0, 1]))
    data = pushed.isel(time=slice(None, None, every))
    c, states = data.b.values[:, None], torch.from_numpy(data.state.values)
    latent = model.encode([states.flatten(0, 1)], c.repeat(data.sizes["time"], axis=0))
    model.calibrate(latent.reshape(len(c), -1, 2), c, data.time.values)
    assert model.step <= 0.01 * every * (1 + 1e-9)
    assert np.abs(model.noise).max() < 1e-4
    for span in (0.3, 1.0, 3.0):
        starts = latent.reshape(len(c), -1, 2)[:, 0]
        seen, _ = model.forecast(starts, c, c, 0.0, span, np.random.default_rng(0))
        exact = expm(span * np.array([[0.0, 1.0, 0.0], [-1.0, -0.1, 1.0], [0.0, 0.0, 0.0]]))
        both = np.column_stack([states[:, 0], c])
        assert seen == pytest.approx((both @ exact.T)[:, :2], abs=2e-4)


def test_lorenz96_has_the_published_score():
    """0.18 with 24 members and inflation 1.013, started near the truth (Sakov & Oke 2008; DAPPER's
    reference).
    """
    system, rng = Lorenz96(n=40, dt=0.05, transient=20.0), np.random.default_rng(0)
    truth = system.dataset(F=8.0, duration=50.0)
    start = truth.state.values[0, 0] + np.sqrt(0.001) * rng.standard_normal((24, 40))
    near = romkit.simulate(system, initial_state=start, duration=0.05, F=8.0)
    seen = (truth.state + rng.standard_normal(truth.state.shape)).to_dataset(name="state")
    found = romkit.assimilate(system, seen, noise=1.0, training=near, inflation=1.013, F=8.0)
    error = np.sqrt(
        ((found.state - truth.state).isel(time=slice(200, None)) ** 2).mean("component")
    )
    assert float(error.mean()) == pytest.approx(
        0.18, abs=0.05 * 0.18 + 4 * 0.002
    )  # the last: scatter of so short runs


@pytest.fixture(scope="module")
def waves():
    return (
        Lorenz96()
        .dataset(F=np.linspace(3.133, 3.193, 13), duration=3.0)
        .isel(time=slice(None, None, 5))
    )


@pytest.fixture(scope="module")
def tracker(waves):
    """A tracker of Lorenz96's forcing by the shipped flow, from six sensors of 36; a run of each
    training trajectory gives its limits.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("romkit.assimilation.filter.RUNS", 1)
        return romkit.Tracker(
            romkit.load("flow-lorenz96"), noise=0.075, training=waves, dynamics=PetrovGalerkin(), system=Lorenz96(),
            sensors=[0, 7, 11, 16, 26, 31], drift=5e-4,
        )  # fmt: skip


def tracks(tracker, states, start=0.0, seed=0):
    """Tracks of observations (T, 36) every 0.05 with noise."""
    rng = np.random.default_rng(seed)
    rows = [0, 7, 11, 16, 26, 31]
    return [
        tracker.update(start + 0.05 * k, x[rows] + 0.075 * rng.standard_normal(6))
        for k, x in enumerate(states)
    ]


def test_a_tracker_finds_the_forcing_and_notices_its_jump(tracker):
    """On Lorenz96's wave of number eight, and within two units of time after the forcing has
    jumped.
    """
    system = Lorenz96()
    tracker.restart()
    before = system.dataset(F=3.137, duration=10.0).state.values[0]
    after = romkit.simulate(system, initial_state=before[-1], F=3.157, duration=10.0).state.values[
        0
    ]
    first = tracks(tracker, before[::5])
    assert not any(track.alarm or track.jump for track in first)
    assert abs(first[-1].estimate[0] - 3.137) < 4 * first[-1].std[0] < 0.015
    second = tracks(tracker, after[5::5], start=10.0, seed=1)
    assert any(track.jump for track in second[:40])
    assert abs(second[-1].estimate[0] - 3.157) < 4 * second[-1].std[0] < 0.015


@pytest.mark.parametrize("forcing", [3.23, 3.26])
def test_a_forcing_out_of_range_raises_the_alarm(tracker, forcing):
    states = Lorenz96().dataset(F=forcing, duration=15.0).state.values[0, ::5]
    tracker.restart()
    assert any(track.alarm for track in tracks(tracker, states))


@pytest.mark.parametrize(("off", "anew"), [(0.0, False), (5.0, True)])
def test_members_start_anew_only_where_a_training_state_is_nearer(waves, off, anew):
    system, rng = Lorenz96(), np.random.default_rng(0)
    start = (
        3.15 + np.sin(2 * np.pi * 5 * np.arange(36) / 36) + 0.3 * rng.standard_normal(36)
    )  # no wave of the training
    states = romkit.simulate(
        system, initial_state=start, F=3.15, duration=0.2, dt=0.05
    ).state.values[0]
    tracker = romkit.Tracker(system, noise=0.075, training=waves, false_alarms=None, window=2)
    tracker.limits["residual"] = -np.inf
    for k, x in enumerate(states[:4]):
        if k == 3:  # the first time that the test looks
            tracker.members[:, :36] = states[2] + off + 0.05 * rng.standard_normal((24, 36))
        track = tracker.update(0.05 * k, x + 0.075 * rng.standard_normal(36))
    assert track.jump
    assert (tracker.map is None) == anew


def test_a_tracker_is_the_filter_one_observation_at_a_time(waves):
    given = {
        "noise": 0.1,
        "training": waves.isel(trajectory=slice(None, None, 4)),
        "dynamics": PetrovGalerkin(),
        "system": Lorenz96(),
        "seed": 3,
    }
    flow, seen = romkit.load("flow-lorenz96"), waves.isel(trajectory=[4], time=slice(0, 10))
    found = romkit.assimilate(flow, seen, **given)
    tracker = romkit.Tracker(flow, false_alarms=None, **given)
    one = [
        tracker.update(float(t), x) for t, x in zip(seen.time, seen.state.values[0], strict=True)
    ]
    assert found.estimate.values[0] == pytest.approx(np.array([track.estimate for track in one]))
    assert found.latent.sizes == {"trajectory": 1, "time": 10, "latent_component": 2}


WAVE = xr.Dataset(
    {"state": (("trajectory", "time", "component"), np.ones((1, 3, 36)))}, {"time": [0.0, 0.1, 0.2]}
)

BAD = [
    ({"noise": 0.0}, "noise: "),
    ({"noise": [0.1, 0.1]}, "noise: "),
    ({"drift": [0.1, 0.1]}, "drift: "),
    ({"members": 3}, "members: "),
    ({"inflation": 0.9}, "inflation: "),
    ({"sensors": [36]}, "sensors: "),
    ({"sensors": ["y"]}, "sensors: "),
    ({"sensors": []}, "sensors: "),
    ({"sensors": [3, "x3"]}, "sensors: "),
    ({"sensors": [0, -36]}, "sensors: "),
    ({"sensors": np.ones((2, 3, 4, 5))}, "sensors: "),
    ({"sensors": np.zeros((0, 3))}, "sensors: "),
    ({"sensors": [1.5]}, "sensors: "),
    ({"sensors": [True]}, "sensors: "),
    ({"G": 3.1}, "context: "),
    ({"F": np.nan}, "F: "),
    ({"false_alarms": 1.0}, "false_alarms: "),
    ({"interval": 0.0}, "interval: "),
    ({"dynamics": LSPG()}, "dynamics: "),
    ({"training": WAVE}, "the context F"),
    ({"observations": WAVE * np.nan}, "observations: "),
    ({"observations": WAVE.isel(component=slice(0, 5))}, "observations"),
    ({"observations": WAVE.rename(state="x")}, "observations: "),
]


@pytest.mark.parametrize(("given", "fact"), BAD)
def test_bad_input_is_refused_in_one_line(waves, given, fact):
    settings = {"observations": WAVE, "noise": 0.1, "training": waves, "system": Lorenz96()} | given
    refused(fact, romkit.assimilate, romkit.load("flow-lorenz96"), **settings)


@pytest.mark.parametrize(
    ("t", "values", "argument"),
    [
        (0.0, np.zeros(6), "t"),
        (-1.0, np.zeros(6), "t"),
        (np.nan, np.zeros(6), "t"),
        (np.inf, np.zeros(6), "t"),
        ("0.1", np.zeros(6), "t"),
        (0.1 + 1j, np.zeros(6), "t"),
        (np.datetime64("2020-01-01"), np.zeros(6), "t"),
        (0.1, np.zeros(7), "values"),
        (0.1, np.full(6, np.inf), "values"),
        (0.1, np.full(6, 1e300), "values"),
        (0.1, np.zeros(6) + 0j, "values"),
        (0.1, ["a"] * 6, "values"),
    ],
)
def test_bad_observations_are_refused_by_a_tracker(tracker, t, values, argument):
    tracker.restart()
    tracker.update(0.0, np.zeros(6))
    with pytest.raises(InputError) as caught:
        tracker.update(t, values)
    assert caught.value.argument == argument


def test_a_sensor_that_starts_late_is_waited_for(pushed):
    """Before the first number the estimate is that of the training; then the filter is the one that
    began there.
    """
    seen = observed()
    late = seen.copy(deep=True)
    late["state"][:, :4] = np.nan
    given = {"noise": NOISE, "training": pushed, "sensors": ["x"], "members": 8}
    found = romkit.assimilate(Pushed(), late, smooth=True, **given)
    last = found.isel(trajectory=0, time=-1)
    assert abs(float(last.estimate[0]) - 0.3) < 3 * float(last["std"][0]) + 0.05
    wide = romkit.assimilate(Pushed(), late, **given | {"members": 400})
    prior = np.linspace(-1, 1, 7)
    assert float(wide["std"][0, 0, 0]) == pytest.approx(prior.std(), rel=0.2)
    assert np.isnan(wide.residual.values[0, :4]).all()


def test_a_sensor_that_is_silent_tells_what_training_does(tracker):
    tracker.restart()
    for k in range(3):
        track = tracker.update(0.05 * k, [np.nan] * 6)
    assert 3.133 <= track.estimate[0] <= 3.193
    assert not track.alarm


WRONG = {
    "NaN": lambda seen: seen.assign_coords(time=seen.time.where(seen.time != seen.time[3])),
    "complex": lambda seen: seen.assign_coords(time=seen.time + 5j),
    "text": lambda seen: seen.assign_coords(time=seen.time.astype(str)),
    "dates": lambda seen: seen.assign_coords(
        time=np.datetime64("2020-01-01", "ns") + np.arange(seen.sizes["time"])
    ),
    "durations": lambda seen: seen.assign_coords(time=(seen.time * 1e9).astype("timedelta64[ns]")),
    "reversed": lambda seen: seen.isel(time=slice(None, None, -1)),
    "twice": lambda seen: seen.isel(time=[0, 1, 1, 2]),
    "without times": lambda seen: seen.drop_vars("time"),
    "infinite": lambda seen: seen.where(seen.time != seen.time[2], np.inf),
    "complex values": lambda seen: seen + 1j,
    "nothing": lambda seen: seen * np.nan,
    "of one name": lambda seen: xr.concat([seen, seen], "component"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_observations_pass_the_checks_of_data(pushed, fault):
    seen = observed().isel(component=[0])
    with pytest.raises(InputError) as caught:
        romkit.assimilate(Pushed(), WRONG[fault](seen), noise=NOISE, training=pushed, sensors=["x"])
    assert caught.value.argument == "observations"


class Metres(Pushed):
    state_units = ("m", "m/s")


@pytest.mark.parametrize(("unit", "factor"), [("mm", 1000.0), ("km", 1e-3), ("s", 1.0)])
def test_observations_in_other_units_are_converted_or_refused(unit, factor):
    training = Metres().dataset(b=np.linspace(-1, 1, 7))
    seen = training.isel(trajectory=[3], component=[0], time=slice(None, None, 20))[["state"]]
    given = {"noise": NOISE, "training": training, "sensors": ["x"], "members": 8}
    exact = romkit.assimilate(Metres(), seen, **given)
    other = (seen * factor).assign_coords(component_units=("component", [unit]))
    if unit == "s" or importlib.util.find_spec("pint") is None:
        refused("observations", romkit.assimilate, Metres(), other, **given)
        return
    found = romkit.assimilate(Metres(), other, **given)
    assert found.estimate.values == pytest.approx(exact.estimate.values, abs=1e-9)


@pytest.mark.parametrize(("unit", "factor"), [("mm", 1000.0), ("km", 1e-3), ("s", 1.0)])
def test_training_in_other_units_is_converted_or_refused(unit, factor):
    training = Metres().dataset(b=np.linspace(-1, 1, 7))
    seen = training.isel(trajectory=[3], time=slice(None, None, 20))[["state"]]
    given = {"noise": NOISE, "sensors": ["x"], "members": 8}
    exact = romkit.assimilate(Metres(), seen, training=training, **given)
    scaled = training[["state", "velocity"]] * xr.DataArray([factor, 1.0], dims="component")
    other = training.assign(scaled).assign_coords(component_units=("component", [unit, "m/s"]))
    if unit == "s" or importlib.util.find_spec("pint") is None:
        with pytest.raises(InputError) as caught:
            romkit.assimilate(Metres(), seen, training=other, **given)
        assert caught.value.argument == "data"
        return
    found = romkit.assimilate(Metres(), seen, training=other, **given)
    assert found.estimate.values == pytest.approx(exact.estimate.values, abs=1e-9)


def test_a_masked_value_is_missing(tracker):
    tracker.restart()
    silent = tracker.update(0.0, np.ma.masked_all(6))
    assert silent.estimate[0] == pytest.approx(3.163, abs=0.01)
    seen = np.linspace(0.0, 1.0, 6)
    tracks = []
    for values in (np.where(np.arange(6) == 2, np.nan, seen), np.ma.masked_equal(seen, seen[2])):
        tracker.restart()
        tracks.append(tracker.update(0.0, values))
    assert tracks[0].estimate == pytest.approx(tracks[1].estimate, abs=0.0)


@pytest.mark.parametrize("order", [[5, 4, 3, 2, 1, 0], [2, 0, 1, 5, 3, 4], None])
def test_a_labelled_observation_goes_by_its_names(tracker, order):
    rows = [0, 7, 11, 16, 26, 31]
    state = xr.DataArray(
        np.sin(np.arange(36.0)), {"component": [f"x{k}" for k in range(36)]}, ["component"]
    )
    labelled = state if order is None else state.isel(component=[rows[k] for k in order])
    estimates = []
    for values in (state.values[rows], labelled, labelled.assign_attrs(units="1")):
        tracker.restart()
        estimates.append(tracker.update(0.0, values).estimate)
    assert estimates[1] == pytest.approx(estimates[0], abs=0.0)
    assert estimates[2] == pytest.approx(estimates[0], abs=0.0)
    refused("observations", tracker.update, 0.1, state.isel(component=rows[1:]))


def test_the_share_of_false_alarms_says_for_which_runs_it_holds(pushed, monkeypatch):
    monkeypatch.setattr("romkit.assimilation.filter.RUNS", 1)  # limits are not the question
    seen, few = observed(), pushed.isel(trajectory=[0, 2, 4, 6])
    given = {"noise": NOISE, "training": few, "sensors": ["x"], "members": 8, "window": 5}
    tests = {"false_alarms": 0.05, "interval": EVERY}
    found = romkit.assimilate(Pushed(), seen, **given, **tests)
    assert found.attrs["false_alarms_interval"] == pytest.approx(EVERY)
    assert found.attrs["false_alarms_of_run"] == pytest.approx(0.05, rel=0.1)
    twice = seen.assign_coords(time=2 * seen.time)
    with pytest.warns(DataWarning, match="false_alarms"):
        longer = romkit.assimilate(Pushed(), twice, **given, **tests)
    assert longer.attrs["false_alarms_of_run"] == pytest.approx(1 - 0.95**2, rel=0.1)


def test_members_that_diverge_do_not_harm_the_others(tracker):
    states = Lorenz96().dataset(F=3.15, duration=0.2).state.values[0, ::5]
    for lost in (slice(0, 3), slice(None)):
        tracker.restart()
        tracks(tracker, states[:2])
        tracker.members[lost] = np.inf
        (found,) = tracks(tracker, states[2:3], start=0.1)
        assert np.isfinite(tracker.members).all()
        assert abs(found.estimate[0] - 3.15) < 0.1


def test_training_off_the_manifold_of_a_projection_is_named(pushed):
    """The oscillator is seen in its first component alone, which is at rest in the first run."""
    line = romkit.fit("pod", pushed.assign(state=pushed.state * [1.0, 0.0]), latent_dim=1)
    states = pushed.state.values * [1.0, 0.1]
    states[0] = states[0] * [0.0, 100.0]
    given = {"noise": NOISE, "system": Pushed(), "false_alarms": None, "dynamics": Galerkin()}
    with pytest.warns(DataWarning, match=r"training: .* 1 of 7 .* at \[-1.0\]"):
        romkit.Tracker(line, training=pushed.assign(state=(pushed.state.dims, states)), **given)


def test_training_with_gaps_is_refused(waves):
    refused(
        "training: ", romkit.Tracker, Lorenz96(), noise=0.1, training=waves.where(waves.time > 0.2)
    )
