"""Contexts and sensors: closed forms where the model is linear, SciPy where it is not, and
intervals that hold.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import xarray as xr
from scipy.linalg import qr
from scipy.optimize import least_squares

import romkit
from romkit.assimilation.prediction import Prediction
from romkit.broadcast import align, matmul
from romkit.data import ContextParameter
from romkit.integrators import Galerkin
from romkit.projections import EncoderDecoder, Frame, Projection
from romkit.solvers import RK4
from romkit.systems import MechanicalSystem, System
from romkit.types import Dual
from tests.refusals import refused

NOISE, SIZE = 0.05, 6


class Plane(EncoderDecoder):
    """φ(z) = V z + s(c)."""

    def __init__(self, modes, shift):
        self.modes, self.shift = modes, shift

    def encode(self, y):
        return matmul(y - align(self.shift, y), self.modes)

    def decode(self, z):
        y = matmul(z, self.modes.mT)
        return y + align(self.shift, y)

    def encode_jvp(self, y, v):
        return Dual(self.encode(y), matmul(v, self.modes))

    def decode_jvp(self, z, w):
        return Dual(self.decode(z), matmul(w, self.modes.mT))


class Moving(Projection):
    """A plane that moves with the context along a direction across it."""

    name, idempotent, latent_dim = "moving", True, 2

    def __init__(self, frame, generator=None):
        super().__init__(frame, {})
        basis = torch.linalg.qr(torch.randn(SIZE, 3, generator=torch.Generator().manual_seed(0))).Q
        self.modes, self.shift = (
            torch.nn.Parameter(part, requires_grad=False) for part in (basis[:, :2], basis[:, 2])
        )

    def at(self, c):
        return Plane(self.modes, c * self.shift)


@pytest.fixture(scope="module")
def plane():
    states = np.random.default_rng(0).normal(size=(2, 50, SIZE))
    return Moving(
        Frame.from_dataset(romkit.data.from_arrays(states, 1.0, context={"c": [1.0, 3.0]}))
    )


def snapshots(plane, contexts, *, times=5, bend=0.0, noise=0.0, seed=0):
    """States on the plane, and off it by `bend`, which is a smooth function of context and latent
    state.
    """
    rng, c = np.random.default_rng(seed), np.asarray(contexts, dtype=float)
    z = rng.uniform(-1, 1, (len(c), times, 2))
    operator = plane.double().operator(torch.from_numpy(c)[:, None])
    x = operator.decode(torch.from_numpy(z)).numpy()
    x = (
        x
        + bend * (np.sin(2 * c)[:, None, None] + z[..., :1]) * np.cos(np.arange(SIZE))
        + noise * rng.normal(size=x.shape)
    )
    return romkit.data.from_arrays(x, 1.0, context={"c": c})


TRAINING = np.linspace(1.0, 3.0, 15)


@pytest.mark.parametrize("prior", [None, {"c": (1.5, 0.05)}])
@pytest.mark.parametrize("sensors", [None, [0, 2, 3, 5]])
def test_a_linear_model_gives_the_least_squares_estimate(plane, sensors, prior):
    """With and without gaps, sensors and a prior: estimate and covariance of all snapshots of a
    trajectory together.
    """
    data = snapshots(plane, [1.3, 1.9, 2.6], noise=NOISE, seed=1)
    data.state.values[0, 1, :4] = np.nan
    found = romkit.infer(
        plane, data, training=snapshots(plane, TRAINING), sensors=sensors, noise=NOISE, prior=prior
    )
    frame, rows = plane.frame, sensors or list(range(SIZE))
    scale = frame.state_scale.double().numpy()[rows, None]
    modes, shift = (
        scale * part.double().numpy().reshape(SIZE, -1)[rows] for part in (plane.modes, plane.shift)
    )
    for k, x in enumerate(data.state.values[..., rows]):
        G, number = np.zeros((*x.shape, 11)), len(rows)
        for t in range(5):
            G[t, :, 0], G[t, :, 1 + 2 * t : 3 + 2 * t] = (
                shift[:, 0] / float(frame.context_scale),
                modes,
            )
        y = (
            x
            - frame.state_shift.double().numpy()[rows]
            + shift[:, 0] * float(frame.context_shift / frame.context_scale)
        )
        G, y = G.reshape(-1, 11) / NOISE, y.reshape(5 * number) / NOISE
        G, y = G[np.isfinite(y)], y[np.isfinite(y)]
        if prior:
            G, y = np.vstack([G, np.eye(11)[:1] / 0.05]), np.append(y, 1.5 / 0.05)
        inverse = np.linalg.pinv(G.T @ G)
        std = np.sqrt(inverse[0, 0])
        assert float(found.estimate[k, 0]) == pytest.approx((inverse @ G.T @ y)[0], abs=1e-3 * std)
        assert float(found["std"][k, 0]) == pytest.approx(std, rel=1e-4)


def test_the_error_of_the_model_is_corrected_and_covered(plane):
    """A model that is wrong by more than the noise: intervals hold, and noise alone would have been
    far off.
    """
    bend = 0.4
    contexts = np.random.default_rng(5).uniform(1.1, 2.9, 100)
    data = snapshots(plane, contexts, bend=bend, noise=NOISE, seed=3)
    found = romkit.infer(
        plane, data, training=snapshots(plane, TRAINING, times=10, bend=bend), noise=NOISE
    )
    error = found.estimate.values[:, 0] - contexts
    few = data.isel(trajectory=slice(30))
    plain = romkit.infer(plane, few, training=snapshots(plane, TRAINING), noise=NOISE)
    off = plain.estimate.values[:, 0] - contexts[:30]
    assert np.sqrt((error**2).mean()) < 2 * float(plain["std"].mean())  # twice that of noise alone
    assert np.sqrt((off**2).mean()) > 5 * float(plain["std"].mean())
    inside = (found.lower.values[:, 0] <= contexts) & (contexts <= found.upper.values[:, 0])
    assert abs(inside.mean() - 0.9) < 4 * np.sqrt(
        0.9 * 0.1 * (1 / 100 + 1 / 60)
    )  # 60 trials calibrate the interval
    assert found.explained.values.mean() > 0.99 - 4 * np.sqrt(0.01 / 60)
    assert not plain.explained.values.any()


def test_contexts_beyond_the_range_raise_the_alarm(plane):
    """Far beyond it, in standard errors of 0.03; estimates stay at the end of the range."""
    data = snapshots(plane, [0.5, 0.7, 2.0, 3.3, 3.5], noise=NOISE)
    found = romkit.infer(plane, data, training=snapshots(plane, TRAINING), noise=NOISE)
    assert found.explained.values.tolist() == [False, False, True, False, False]
    np.testing.assert_allclose(
        found.estimate.values[[0, 1, 3, 4], 0], [1.0, 1.0, 3.0, 3.0], rtol=1e-6
    )


def test_limits_have_a_vote_for_each_trajectory_and_one_for_the_new_one(plane):
    """Against the order statistic of a sample for each trajectory; few trajectories give a wide
    share of alarms.
    """
    data = snapshots(plane, [2.0], times=1, noise=NOISE)
    one = romkit.calibrate(
        plane, snapshots(plane, np.linspace(1.0, 3.0, 20), times=1), data, noise=NOISE
    )
    order = np.sort(one.strange.numpy(), axis=0)
    for level in (0.5, 0.9, 0.99):
        expected = order[min(int(np.ceil(level * 21)), 20) - 1]
        np.testing.assert_array_equal(one.quantile(one.strange, level).numpy(), expected)
    attrs = romkit.infer(one, data).attrs
    assert attrs["false_alarms"] == pytest.approx(2 / 21)
    assert "from 1 to 3" in attrs["false_alarms_hold_for"]
    several = romkit.calibrate(
        plane, snapshots(plane, np.linspace(1.0, 3.0, 20), times=3), data, noise=NOISE
    )
    assert float(several.votes.sum()) == pytest.approx(20)
    assert romkit.infer(several, data).attrs["false_alarms"] == pytest.approx(2 / 21)


def test_noise_is_estimated_where_it_is_not_known(plane):
    data = snapshots(plane, np.linspace(1.2, 2.8, 40), noise=NOISE)
    found = romkit.infer(plane, data, training=snapshots(plane, TRAINING))
    # residual of 40 · 5 · 6 numbers with 11 unknowns in 30 of them
    assert np.mean(found.attrs["noise"]) == pytest.approx(NOISE * np.sqrt(19 / 30), rel=0.15)


@pytest.mark.parametrize("dynamics", [None, Galerkin()])
def test_behind_a_basis_observed_components_are_those_of_full_states(lorenz_data, dynamics):
    system, rows = romkit.systems.system_of(lorenz_data), torch.tensor([3, 0, 20])
    behind = romkit.fit("ncae", lorenz_data, basis=6, latent_dim=2, epochs=2)
    times = torch.linspace(0, 0.2, 5, dtype=torch.float64)
    predict = Prediction(
        behind,
        times,
        rows,
        None,
        noise=torch.ones(3),
        dynamics=dynamics,
        system=system,
        solver=RK4(0.05),
        engine="torch",
    )
    start = romkit.forecast(
        behind,
        initial_state=[[0.1, 0.2]],
        dynamics=Galerkin(),
        system=system,
        duration=0.2,
        dt=0.05,
        solver=RK4(0.05),
        F=3.15,
    )
    d = (torch.tensor([[3.15]], dtype=torch.float64) - predict.shift) / predict.scale
    w = torch.from_numpy(start.latent.values[:1])
    expected = start.state.values[..., rows.numpy()][: 1 if dynamics is None else 5].ravel()
    np.testing.assert_allclose(predict(d, w).numpy().ravel(), expected, rtol=1e-10)


def test_a_trajectory_does_not_depend_on_its_neighbours(plane):
    data = snapshots(plane, [1.3, 1.9, 2.6], noise=NOISE, bend=0.2)
    calibration = romkit.calibrate(plane, snapshots(plane, TRAINING, bend=0.2), data, noise=NOISE)
    together = romkit.infer(calibration, data)
    for k in range(3):
        alone = romkit.infer(calibration, data.isel(trajectory=[k]))
        for name in ("estimate", "std", "latent", "residual"):
            np.testing.assert_allclose(
                alone[name].values[0], together[name].values[k], rtol=1e-8, atol=1e-8
            )


@pytest.fixture
def rough(monkeypatch):
    """Few trials of estimates and few sensitivities, where neither is the question."""
    monkeypatch.setattr("romkit.assimilation.calibration.FOLDS", 2)
    monkeypatch.setattr("romkit.assimilation.placement.SAMPLES", 8)


WAVE = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 2)))[0]


@dataclass(frozen=True)
class Rotation(System):
    """A rotation of angular frequency ω in a plane of R⁴."""

    dt: float = 0.1
    duration: float = 3.0
    transient: float = 0.0
    horizon: float = 3.0

    name, state_names = "rotation", ("a", "b", "c", "d")
    context = (ContextParameter("omega", "1", 0.5, 1.5, "frequency"),)

    def rhs(self, t, x, c):
        V = torch.as_tensor(WAVE, dtype=x.dtype)
        turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=x.dtype)
        return c * (x @ (V @ turn @ V.mT))

    def initial_state(self, contexts, rng):
        return torch.as_tensor(WAVE[:, 0]).expand(len(contexts), -1)


@dataclass(frozen=True)
class Springs(MechanicalSystem):
    """q̈ = -ω² q in a plane of R⁴, from rest."""

    dt: float = 0.1
    duration: float = 3.0
    transient: float = 0.0
    horizon: float = 3.0

    name, state_names = "springs", ("a", "b", "c", "d")
    context = (ContextParameter("omega", "1", 0.5, 1.5, "frequency"),)

    def acceleration(self, t, q, v, c):
        return -(c**2) * q

    def initial_state(self, contexts, rng):
        return torch.as_tensor(WAVE[:, 0] + 0.5 * WAVE[:, 1]).expand(len(contexts), -1)


def rotation(theta, times):
    omega, a, b = theta
    angle = omega * times
    z = np.stack(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1
    )
    return z @ WAVE.T


def springs(theta, times):
    omega, *z = theta
    q, v = np.array(z).reshape(2, 1, 2)
    return (
        q * np.cos(omega * times)[:, None] + v / omega * np.sin(omega * times)[:, None]
    ) @ WAVE.T


@pytest.mark.usefixtures("rough")
@pytest.mark.parametrize(("system", "exact"), [(Rotation(), rotation), (Springs(), springs)])
def test_dynamics_of_both_orders_agree_with_scipy_on_the_exact_solution(system, exact):
    data = system.dataset(omega=np.linspace(0.5, 1.5, 5))
    pod = romkit.fit(
        "pod",
        romkit.data.from_arrays(
            np.random.default_rng(1).normal(size=(2, 30, 2)) @ WAVE.T,
            1.0,
            context={"omega": [0.5, 1.5]},
            names=list(system.state_names),
        ),
        latent_dim=2,
    )
    truth = system.dataset(omega=[0.83, 1.21])
    noisy = truth.assign(
        state=truth.state + NOISE * np.random.default_rng(0).normal(size=truth.state.shape)
    )
    noisy.state.values[1, 5:10] = np.nan
    some, rows = noisy.isel(time=slice(0, None, 2)), [0, 1, 3]
    times = some.time.values
    found = romkit.infer(
        pod,
        some,
        training=data,
        dynamics=Galerkin(),
        system=system,
        sensors=rows,
        noise=NOISE,
        solver=RK4(0.2),
        engine="torch",
    )
    for k, x in enumerate(some.state.values[..., rows]):
        there = np.isfinite(x)
        miss = lambda theta, x=x, there=there: ((exact(theta, times)[:, rows] - x) / NOISE)[there]  # noqa: E731
        first = truth.state.values[k, 0] @ WAVE
        start = [float(truth.omega[k]), *first, *([0.0, 0.0] if exact is springs else [])]
        best = least_squares(miss, start, xtol=1e-12, ftol=1e-12)
        std = np.sqrt(np.linalg.inv(best.jac.T @ best.jac)[0, 0])
        assert float(found.estimate[k, 0]) == pytest.approx(best.x[0], abs=0.02 * std)
        assert float(found["std"][k, 0]) == pytest.approx(std, rel=0.02)
        assert (2 * best.cost / (there.sum() - len(start))) ** 0.5 == pytest.approx(
            float(found.residual[k]), rel=0.01
        )


@pytest.mark.parametrize(
    ("fact", "given"),
    [
        ("sensors", {"sensors": [0, 9]}),
        ("sensors", {"sensors": ["nowhere"]}),
        ("noise", {"noise": 0.0}),
        ("noise", {"noise": [0.1, 0.1]}),
        ("prior", {"prior": {"mu": (1.0, 0.1)}}),
        ("prior", {"prior": {"c": (1.0, 0.0)}}),
        ("level", {"level": 1.0}),
        ("training", {"training": None}),
    ],
)
def test_bad_arguments_are_refused(plane, fact, given):
    data = snapshots(plane, [2.0])
    refused(
        fact,
        romkit.infer,
        plane,
        data,
        **{"training": snapshots(plane, TRAINING), "noise": NOISE} | given,
    )


def test_bad_observations_are_refused(plane):
    data, training = snapshots(plane, [2.0], times=1), snapshots(plane, TRAINING)
    calibration = romkit.calibrate(plane, training, data, noise=NOISE)
    gone = data.assign(state=data.state * np.nan)
    refused(
        "observations",
        romkit.infer,
        calibration,
        gone,
    )
    two = data.assign(state=data.state.where(data.component.isin(data.component[:2])))
    refused("observations", romkit.infer, calibration, two)
    refused("training", romkit.infer, calibration, data, training=training)
    refused(
        "training",
        romkit.calibrate,
        plane,
        snapshots(plane, [1.0, 2.0]),
        data,
    )
    other = romkit.data.from_arrays(np.zeros((1, 1, SIZE)), 1.0, context={"mu": [1.0]})
    refused("context c", romkit.calibrate, plane, other, data)


@pytest.mark.usefixtures("rough")
def test_windows_at_other_times_are_refused():
    system = Rotation()
    data = system.dataset(omega=np.linspace(0.5, 1.5, 4))
    pod = romkit.fit("pod", data, latent_dim=2)
    given = {"dynamics": Galerkin(), "system": system, "noise": NOISE, "engine": "torch"}
    given["solver"] = RK4(0.2)
    late = data.assign_coords(time=2 * data.time)
    refused(
        "training",
        romkit.infer,
        pod,
        late,
        training=data,
        **given,
    )
    calibration = romkit.calibrate(pod, data, data.isel(time=slice(0, 5)), **given)
    refused("observations", romkit.infer, calibration, data)
    none = xr.Dataset(
        {"state": (("time", "component"), data.state.values[0])}, {"component": data.component}
    )
    refused(
        "observations",
        romkit.infer,
        pod,
        none,
        training=data,
        **given,
    )
    still = Springs().dataset(omega=np.linspace(0.5, 1.5, 4)).drop_vars("velocity")
    given["system"] = Springs()
    refused(
        "training",
        romkit.infer,
        romkit.fit("pod", still, latent_dim=2),
        still,
        training=still,
        **given,
    )


def sensitivities(plane, training):
    """J (SIZE, 3) of the plane by context and latent state, in standard deviations of training
    samples.
    """
    scale = plane.frame.state_scale.double()[:, None]
    c = torch.from_numpy(training["c"].values.repeat(training.sizes["time"]))
    z = (
        plane.double()
        .operator(c[:, None])
        .encode(torch.from_numpy(training.state.values).flatten(0, 1))
    )
    shift = scale * plane.shift[:, None] * c.std() / plane.frame.context_scale.double()
    return torch.cat([shift, scale * plane.modes * z.std(0)], dim=1).detach().numpy()


def test_first_sensors_are_pivots_and_later_ones_the_best_that_are_left(plane):
    """Without noise, as many pivots as there are unknowns (`pysensors` calls the same routine)."""
    training = snapshots(plane, TRAINING)
    J = sensitivities(plane, training)
    found = romkit.sensors(plane, SIZE, training=training, noise=1e-6)
    assert found.component.values[:3].tolist() == qr(J.T, pivoting=True)[2][:3].tolist()
    information = (
        np.eye(3) + J[found.component.values[:3]].T @ J[found.component.values[:3]] / 1e-12
    )
    rest = [np.linalg.slogdet(information + np.outer(j, j) / 1e-12)[1] for j in J]
    rest = [-np.inf if k in found.component.values[:3] else each for k, each in enumerate(rest)]
    assert found.component.values[3] == np.argmax(rest)
    assert bool((np.diff(found.criterion) > 0).all())


def test_the_bound_of_sensors_is_the_deviation_of_estimates(plane):
    training, data = snapshots(plane, TRAINING), snapshots(plane, [1.7], times=1)
    found = romkit.sensors(plane, 5, training=training, noise=1e-3)
    rows = found.component.values[:3].tolist()
    estimate = romkit.infer(plane, data, training=training, sensors=rows, noise=1e-3)
    assert float(estimate["std"][0, 0]) == pytest.approx(float(found.bound[2, 0]), rel=1e-3)
    every = romkit.infer(plane, data, training=training, noise=1e-3)
    assert float(every["std"][0, 0]) == pytest.approx(float(found.bound_of_all[0]), rel=1e-3)


def test_sensors_avoid_noise_and_errors_of_the_model(plane):
    training = snapshots(plane, TRAINING)
    first = romkit.sensors(plane, 4, training=training, noise=0.01).component.values.tolist()
    noise = np.where(np.arange(SIZE) == first[0], 100.0, 0.01)
    assert first[0] not in romkit.sensors(plane, 4, training=training, noise=noise).component.values
    wrong = training.assign(state=training.state + 0.0)
    wrong.state.values[..., first[0]] += np.random.default_rng(0).normal(size=wrong.state.shape[:2])
    assert first[0] not in romkit.sensors(plane, 2, training=wrong, noise=0.01).component.values
    some = romkit.sensors(plane, 2, training=training, noise=0.01, candidates=["x1", 2, 3])
    assert set(some.component.values) < {1, 2, 3}


@pytest.mark.usefixtures("rough")
def test_sensors_of_a_window_bound_the_estimates_from_it():
    system = Rotation()
    data = system.dataset(omega=np.linspace(0.5, 1.5, 5))
    pod = romkit.fit("pod", data, latent_dim=2)
    model = {
        "training": data,
        "dynamics": Galerkin(),
        "system": system,
        "noise": NOISE,
        "solver": RK4(0.2),
        "engine": "torch",
    }
    chosen = romkit.sensors(pod, 2, times=0.2 * np.arange(10), **model)
    rows, window = chosen.component.values.tolist(), data.isel(time=slice(0, 20, 2))
    found = romkit.infer(pod, window, sensors=rows, **model)
    deviation = float((found["std"] ** 2).mean() ** 0.5)
    assert float(chosen.bound[1, 0]) == pytest.approx(
        deviation, rel=0.3
    )  # other samples, and a prior


@pytest.mark.parametrize(
    ("fact", "given"),
    [
        ("count", {"count": 7}),
        ("count", {"count": 3, "candidates": [0, 1]}),
        ("candidates", {"candidates": ["nowhere"]}),
        ("candidates", {"candidates": []}),
        ("candidates", {"candidates": [0, 1, -6]}),
        ("noise", {"noise": [0.1, 0.1]}),
        ("times", {"times": [0.0, 1.0]}),
        ("training", {"training": [1.0, 2.0]}),
    ],
)
def test_bad_sensors_are_refused(plane, fact, given):
    training = snapshots(plane, given.pop("training", TRAINING))
    given = {"count": 2, "noise": NOISE} | given
    refused(fact, romkit.sensors, plane, given.pop("count"), training=training, **given)


class Fading(System):
    """x' = -a (1, 1/2, 1/5) x, by a call that has no compiled form."""

    name, state_names, dt, duration, horizon = "fading", list("xyz"), 0.1, 3.0, 3.0
    context = (ContextParameter("a", "1", 0.5, 2.0, "rate"),)

    def rhs(self, t, x, c):
        return -c * x * x.new_tensor([1.0, 0.5, 0.2])

    def initial_state(self, contexts, rng):
        return contexts.new_ones(len(contexts), 3)


def test_a_field_that_cannot_be_compiled_is_integrated_by_torch():
    system = Fading()
    training = system.dataset(a=np.linspace(0.5, 2, 6))
    seen = system.dataset(a=[1.23])[["state"]]
    projection = romkit.fit("pod", training, latent_dim=2, verbose=False)
    dynamics = {"training": training, "dynamics": Galerkin(), "system": system}
    found = romkit.infer(projection, seen, noise=0.01, **dynamics)
    assert float(found.estimate[0, 0]) == pytest.approx(1.23, abs=0.03)
