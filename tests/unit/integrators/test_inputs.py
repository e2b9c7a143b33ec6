"""Inputs between samples: held or linear, as the data declare, in fits, rollouts and forecasts."""

import numpy as np
import pytest
import torch
import xarray as xr
from scipy.signal import lsim

import romkit
from romkit.data.controls import course, is_held
from romkit.errors import DataWarning, FitWarning
from romkit.laws import DMD, OperatorInference, SINDy
from tests.refusals import refused

A = np.array([[-0.3, 1.0], [-2.0, -0.4]])
B = np.array([[0.0], [1.5]])
STEP, TIMES = 0.2, 0.2 * np.arange(80)


def driven(between, declared=True, seed=0):
    """Runs of ż = A z + B u by SciPy, with inputs that are drawn anew at each sample."""
    draw = np.random.default_rng(seed)
    inputs = draw.normal(size=(3, len(TIMES), 1))
    states = []
    for u, start in zip(inputs, draw.normal(size=(3, 2)), strict=True):
        system = (A, B, np.eye(2), np.zeros((2, 1)))
        path = lsim(system, u, TIMES, X0=start, interp=between == "linear")[2]
        states.append(path)
    data = romkit.data.from_arrays(np.stack(states), TIMES, control=inputs)
    if declared:
        data.control.attrs["between"] = between
    return data


@pytest.mark.parametrize("between", ["held", "linear"])
def test_dmd_is_exact_for_inputs_as_they_are_declared(between):
    data = driven(between)
    pod = romkit.fit("identity", data)
    law = DMD().fit(pod, data)
    assert float(law.residual.max()) < 1e-9
    z = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u = torch.randn(6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    exact = z @ torch.from_numpy(A).mT + u @ torch.from_numpy(B).mT
    assert torch.allclose(law.predict(z, u), exact, atol=1e-6)
    run = romkit.rollout(data, pod, dynamics=law)
    assert float(run.nrmse.max()) < 1e-4


@pytest.mark.parametrize("between", ["held", "linear"])
def test_a_forecast_sees_inputs_as_its_array_declares_them(between):
    data = driven(between)
    pod = romkit.fit("identity", data)
    law = DMD().fit(pod, data)
    run = romkit.forecast(
        pod,
        dynamics=law,
        initial_state=data.state.values[1, 0],
        duration=float(TIMES[-1]),
        dt=STEP,
        control=data.control.isel(trajectory=1),
    )
    assert np.abs(run.state.values - data.state.values[1]).max() < 1e-3


def test_lines_that_are_declared_to_be_held_have_no_exact_law():
    data = driven("linear")
    data.control.attrs["between"] = "held"
    assert float(DMD().fit(romkit.fit("identity", data), data).residual.max()) > 0.01


def test_a_staircase_is_held_and_others_are_lines():
    draw = np.random.default_rng(0)
    staircase = np.repeat(draw.normal(size=12), 10)[None, :, None]
    assert is_held(staircase)
    ended = staircase.copy()
    ended[:, 70:] = np.nan  # behind the end of a run
    assert is_held(ended)
    assert not is_held(draw.normal(size=(2, 60, 1)))
    assert not is_held(np.sin(TIMES)[None, :, None])
    ramp = np.clip(np.linspace(-3, 1, 60), 0, None)[None, :, None]
    assert not is_held(ramp)  # at rest for most of the time, and then moving
    assert not is_held(np.ones((1, 60, 1)))
    assert not is_held(staircase, "linear")
    refused("between", is_held, staircase, "step")


def test_values_over_time_are_held_or_linear_by_column():
    times = torch.tensor([0.0, 1.0, 2.0])
    values = torch.tensor([[0.0, 0.0], [2.0, 4.0], [4.0, 8.0]])
    at = course(times, values, held=1)
    assert at(torch.tensor(0.5)).tolist() == [1.0, 0.0]
    assert at(torch.tensor(1.0)).tolist() == [2.0, 4.0]
    assert at(torch.tensor(1.9)).tolist() == pytest.approx([3.8, 4.0])
    assert at(torch.tensor(5.0)).tolist() == [4.0, 8.0]


def test_a_law_of_delay_coordinates_of_one_sensor_is_exact():
    """z(t) and z(t - τ) of a sine span its plane."""
    t = 0.05 * np.arange(200)
    data = romkit.data.from_arrays(np.stack([np.sin(2 * t + k) for k in (0.0, 1.0)])[..., None], t)
    delayed = romkit.data.delayed(data, 1, every=10)
    pod = romkit.fit("pod", delayed, latent_dim=2)
    for settings in (DMD(), SINDy(degree=1, threshold=0.01, refine=False)):
        law = settings.fit(pod, delayed)
        run = romkit.rollout(delayed, pod, dynamics=law)
        assert float(run.nrmse.max()) < 0.01
    assert isinstance(delayed, xr.Dataset)


@pytest.mark.parametrize("between", ["held", "linear"])
def test_a_linear_motion_that_is_driven_has_a_linear_law(between):
    data = driven(between)
    pod = romkit.fit("identity", data)
    law = romkit.law(pod, data, kinds=["polynomial"])
    assert law.basis.library.degree == 1
    run = romkit.rollout(data, pod, dynamics=law)
    assert float(run.nrmse.max()) < 1e-3


def staircase(hold, seed=0):
    """Runs of ẋ = -k x + u, exact, with an input that is held for so many samples."""
    draw = np.random.default_rng(seed)
    rate = np.array([0.5, 1.0, 1.5])[:, None]
    steps = draw.normal(size=(3, len(TIMES) // hold + 1))
    u = np.repeat(steps, hold, axis=1)[:, : len(TIMES)]
    decay = np.exp(-rate[:, 0] * STEP)
    x = np.ones(u.shape)
    for n in range(len(TIMES) - 1):
        rest = u[:, n] / rate[:, 0]
        x[:, n + 1] = rest + (x[:, n] - rest) * decay
    context = {"k": rate[:, 0]}
    data = romkit.data.from_arrays(x[..., None], TIMES, context=context, control=u[..., None])
    data.control.attrs["between"] = "held"
    return data


def test_rates_are_not_taken_across_jumps_of_held_inputs():
    data = staircase(16)
    with_rates = romkit.data.with_velocity(data)
    exact = data.control.values - data.k.values[:, None, None] * data.state.values
    assert np.abs(with_rates.velocity.values - exact).max() < 0.02
    identity = romkit.fit("identity", data)
    law = OperatorInference(degree=2).fit(identity, data)
    run = romkit.rollout(staircase(16, seed=1), identity, dynamics=law)
    assert float(run.nrmse.max()) < 0.02


def test_inputs_that_jump_all_the_time_leave_no_rates():
    data = staircase(2)
    identity = romkit.fit("identity", data)
    with pytest.warns(DataWarning, match="jump"), pytest.warns(FitWarning):
        OperatorInference(degree=2).fit(identity, data)


def test_inputs_in_another_unit_are_converted_or_refused(tmp_path):
    pytest.importorskip("pint")
    data = driven("linear").isel(time=slice(16))
    data.control.attrs["units"] = "m/s"
    identity = romkit.fit("identity", data)
    fitted = SINDy(degree=1, threshold=0.01, refine=False).fit(identity, data)
    romkit.save(fitted, tmp_path / "law.safetensors")
    law = romkit.load(tmp_path / "law.safetensors")
    reference = romkit.rollout(data, identity, dynamics=law).rom.values
    other = data.assign(control=(data.control * 3.6).assign_attrs(data.control.attrs))
    other.control.attrs["units"] = "km/h"
    with pytest.warns(DataWarning, match="km/h"):
        run = romkit.rollout(other, identity, dynamics=law)
    assert np.allclose(run.rom.values, reference, atol=1e-9)
    with pytest.warns(DataWarning, match="km/h"):
        forecast = romkit.forecast(
            identity,
            dynamics=law,
            initial_state=data.state.values[1, 0],
            duration=float(data.time[-1]),
            dt=STEP,
            control=other.control.isel(trajectory=1),
        )
    assert np.allclose(forecast.state.values, reference[1], atol=1e-6)
    other.control.attrs["units"] = "K"
    refused("data", romkit.rollout, other, identity, dynamics=law)


def test_each_of_several_inputs_is_in_its_unit(tmp_path, capsys):
    """A force [N] and a speed [m/s] that drive z' = -z + F + 2 v, given in kN and km/h and turned."""
    pytest.importorskip("pint")
    force, speed = np.random.default_rng(0).normal(size=(2, 3, 30))
    system = ([[-1.0]], [[1.0, 2.0]], [[1.0]], [[0.0, 0.0]])
    states = []
    for inputs in np.stack([force, speed], axis=-1):
        _, _, path = lsim(system, inputs, TIMES[:30])
        states.append(path.reshape(-1, 1))
    dims = ("trajectory", "time")

    def recorded(force, speed, units):
        between = {"between": "linear"}
        variables = {
            "z": (dims, np.squeeze(states, -1)),
            "force": (dims, force, {"units": units[0]} | between),
            "speed": (dims, speed, {"units": units[1]} | between),
        }
        return xr.Dataset(variables, {"time": TIMES[:30]})

    names = {"state": ["z"], "context": []}
    data = romkit.data.describe(
        recorded(force, speed, ("N", "m/s")), control=["force", "speed"], **names
    )
    identity = romkit.fit("identity", data)
    romkit.save(DMD().fit(identity, data), tmp_path / "law.safetensors")
    law = romkit.load(tmp_path / "law.safetensors")
    reference = romkit.rollout(data, identity, dynamics=law).rom.values
    scaled = recorded(force / 1e3, speed * 3.6, ("kN", "km/h"))
    turned = romkit.data.describe(scaled, control=["speed", "force"], **names)
    with pytest.warns(DataWarning, match="kN"):
        run = romkit.rollout(turned, identity, dynamics=law)
    np.testing.assert_allclose(run.rom.values, reference, atol=1e-9)
    start = {"initial_state": data.state.values[1, 0], "duration": float(TIMES[29]), "dt": STEP}
    control = turned.control.isel(trajectory=1)
    with pytest.warns(DataWarning, match="km/h"):
        ahead = romkit.forecast(identity, dynamics=law, control=control, **start)
    np.testing.assert_allclose(ahead["z"].values, reference[1, :, 0], atol=1e-6)
    wrong = romkit.data.describe(
        recorded(force, speed, ("K", "m/s")), control=["force", "speed"], **names
    )
    refused("data", romkit.rollout, wrong, identity, dynamics=law)
