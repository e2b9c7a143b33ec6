"""Forecasts do not depend on the units of time, states and contexts."""

import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.laws import DMD, NeuralODE, OperatorInference, SINDy, WeakSINDy

TIMES, SPEED = np.linspace(0.0, 2.0, 41), np.array([0.8, 0.9, 1.0, 1.1, 1.2])
# so many steps that differences of rounding would grow to 1e-7 or 1e-5, if training saw them
LONG = NeuralODE(hidden=(8,), regression_steps=2000, shooting_steps=300)


def measured(time=1.0, u=1.0, v=1.0, speed=1.0):
    """A wave in two variables, in the given units."""
    place = np.linspace(0.0, 2 * np.pi, 6, endpoint=False)
    phase = place - 3 * SPEED[:, None, None] * TIMES[:, None]
    data = xr.Dataset(
        {
            "u": (("run", "t", "x"), u * (np.sin(phase) + 0.2 * np.sin(2 * phase))),
            "v": (("run", "t", "x"), v * np.cos(phase)),
        },
        coords={"t": time * TIMES, "speed": ("run", speed * SPEED)},
    )
    return romkit.data.describe(data, context=["speed"])


def forecast(method, law, epochs, **units):
    data = measured(**units)
    projection = romkit.fit(method, data, latent_dim=2, epochs=epochs, verbose=False)
    fitted = law.fit(projection, data)
    time, speed = units.get("time", 1.0), units.get("speed", 1.0)
    start = data.state.values[1, 0]
    run = romkit.forecast(
        projection,
        dynamics=fitted,
        initial_state=start,
        duration=3 * time,
        dt=0.05 * time,
        speed=0.95 * speed,
    )
    return np.stack([run[name].values / units.get(name, 1.0) for name in ("u", "v")])


@pytest.mark.parametrize(
    ("method", "law"),
    [
        ("pod", SINDy(degree=2)),
        ("pod", OperatorInference()),
        ("pod", WeakSINDy(degree=2, windows=40)),
        ("pod", DMD()),
        ("polynomial-manifold", SINDy(degree=2, refine=False)),
        ("flow", SINDy(degree=2, share=0.01, refine=False)),
        pytest.param("ncae", LONG, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_forecast_is_the_same_in_other_units(method, law):
    draw = np.random.default_rng(len(type(law).__name__))
    units = dict(
        zip(("time", "u", "v", "speed"), 10.0 ** draw.integers(-6, 7, size=4), strict=True)
    )
    plain = forecast(method, law, 3)
    assert np.isfinite(plain).all()
    assert np.abs(forecast(method, law, 3, **units) - plain).max() < 1e-6, units
