"""Units of models and data: one unit has many names, others are converted or refused."""

import sys

import numpy as np
import pytest

import romkit
from romkit.core.errors import DataWarning
from romkit.data.conversions import convert_data
from romkit.data.units import Units, same_unit
from romkit.laws import SINDy
from tests.refusals import refused


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("m/s", "m s-1"),
        ("m s^-1", "m·s⁻¹"),
        ("kg m2 s-2", "m^2*kg/s**2"),
        ("meters", "m"),
        ("degC", "celsius"),
        ("", "km"),
        ("1", "dimensionless"),
        ("days since 1850-01-01", "d"),
        ("m s-1", "m.s-1"),
    ],
)
def test_names_of_one_unit(a, b):
    assert same_unit(a, b)
    assert same_unit(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [("m", "km"), ("m/s", "m s"), ("K", "degC"), ("s", "ms"), ("1", "m"), ("m2", "m"), ("N", "kN")],
)
def test_names_of_other_units(a, b):
    assert not same_unit(a, b)


def data(length="m", force="N", time="1", scales=(1.0, 1.0, 1.0)):
    own = romkit.systems.Lorenz96(n=8, transient=0.0).dataset(F=[3.14, 3.15, 3.2], duration=0.3)
    per_length, per_force, per_time = scales
    own = own.assign(
        {
            name: (
                own[name].dims,
                own[name].values * per_length / (1 if name == "state" else per_time),
                own[name].attrs | {"units": length},
            )
            for name in ("state", "velocity")
        }
    )
    about = own.F.attrs | {"units": force}
    about["training_range"] = [per_force * end for end in about["training_range"]]
    return own.assign_coords(
        F=("trajectory", own.F.values * per_force, about),
        time=("time", own.time.values * per_time, {"units": time}),
    )


@pytest.fixture(scope="module")
def model():
    pod = romkit.fit("pod", data(), latent_dim=2, verbose=False)
    return pod, SINDy(degree=1, threshold=0.0, refine=False).fit(pod, data())


@pytest.mark.filterwarnings("ignore")
def test_other_units_are_refused_where_nothing_converts(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pint", None)
    pod, law = model
    for wrong in (data(length="km"), data(force="kN")):
        refused("data", SINDy(degree=1).fit, pod, wrong)
        refused("data", romkit.follow, pod, wrong, dynamics=law)
    run = romkit.follow(pod, data(), dynamics=law)
    refused("reduced", romkit.score, data(length="km"), run)
    refused("reduced", romkit.score, data(force="kN"), run)
    refused(
        "reduced",
        romkit.score,
        data(time="ms"),
        run.assign_coords(time=("time", run.time.values, {"units": "s"})),
    )
    start = data(length="km").state[0, 0]
    given = {"dynamics": law, "duration": 0.1, "dt": 0.01, "F": 3.15}
    refused("initial_state", romkit.forecast, pod, initial_state=start, **given)
    assert romkit.forecast(pod, initial_state=start.drop_attrs(), **given).sizes["time"] == 11


@pytest.mark.filterwarnings("ignore::romkit.errors.ExtrapolationWarning")
def test_pint_converts_states_contexts_and_rates(model):
    pytest.importorskip("pint")
    pod, law = model
    right = romkit.follow(pod, data(), dynamics=law)
    with pytest.warns(DataWarning, match="converted"):
        other = romkit.follow(pod, data("km", "kN", scales=(1e-3, 1e-3, 1.0)), dynamics=law)
    assert np.allclose(other.state, right.state, rtol=1e-9)
    with pytest.warns(DataWarning, match="converted"):
        again = SINDy(degree=1, threshold=0.0, refine=False).fit(
            pod, data("km", "N", scales=(1e-3, 1.0, 1.0))
        )
    assert np.allclose(again.coefficients, law.coefficients, rtol=1e-6, atol=1e-9)


def test_pint_converts_temperatures_and_times():
    pytest.importorskip("pint")
    t = np.arange(20.0)
    x = 280 + np.stack([np.sin(t / 5), np.cos(t / 5)], -1)
    kelvin = romkit.data.from_arrays(x, t, velocity=np.gradient(x, t, axis=0))
    kelvin.state.attrs["units"], kelvin.time.attrs["units"] = "K", "s"
    celsius = kelvin.assign(state=(kelvin.state - 273.15).assign_attrs(units="degC"))
    celsius = celsius.assign_coords(time=("time", t / 60, {"units": "min"}))
    celsius = celsius.assign(velocity=(kelvin.velocity.dims, 60 * kelvin.velocity.values))
    with pytest.warns(DataWarning):
        back = convert_data("data", celsius, Units.read(kelvin, []), [])
    assert np.allclose(back.state, kelvin.state)
    assert np.allclose(back.time, t)
    assert np.allclose(back.velocity, kelvin.velocity)
