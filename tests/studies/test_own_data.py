"""Data as users have them, with names, dimensions and holes of their own, each through the whole
path to a forecast.
"""

import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.data import fields
from romkit.laws import NeuralODE

QUICK = NeuralODE(hidden=(12,), regression_steps=150, shooting_steps=30, segment=4, batch_size=64)
PULSES = {
    "method": "flow",
    "latent_dim": 2,
    "basis": 20,
    "units": (64, 64, 64),
    "velocity_weight": 0.1,
}


def pulses(noise=0.0):
    """Pulses that travel on a ring at rates of their own: two variables over x."""
    rng, x, times = (
        np.random.default_rng(0),
        np.linspace(0, 60, 40, endpoint=False),
        np.arange(0, 20.1, 0.4),
    )
    rate = np.linspace(0.06, 0.1, 6)
    phase = 2 * np.pi / 60 * x - 5 * rate[:, None, None] * times[:, None]
    coords = {
        "t": ("t", times, {"units": "ms"}),
        "x": ("x", x, {"units": "mm"}),
        "rate": ("run", rate),
    }
    parts = {"v": np.exp(2 * np.cos(phase) - 2), "w": np.exp(np.cos(phase - 1) - 1)}
    noisy = {name: u + noise * u.std() * rng.normal(size=u.shape) for name, u in parts.items()}
    raw = xr.Dataset({name: (("run", "t", "x"), u) for name, u in noisy.items()}, coords)
    return romkit.data.describe(raw, context=["rate"])


def forced_array():
    """Masses that follow a recorded shaker; sensors fail for a while, and a column is no number."""
    rng, times, beta = (
        np.random.default_rng(0),
        np.arange(0, 10.01, 0.05),
        np.linspace(0.2, 1, 5).round(3),
    )
    turn, share = (1 + beta[:, None, None]) * times[:, None], np.linspace(0.5, 1, 5)
    q, v, shaker = (
        share * np.sin(turn),
        share * (1 + beta[:, None, None]) * np.cos(turn),
        np.cos(turn[..., 0]),
    )
    for k, (first, second) in enumerate(rng.integers(20, 140, size=(5, 2))):
        q[k, first : first + 45] = v[k, first : first + 45] = np.nan
        q[k, second : second + 45, k] = np.nan
    raw = xr.Dataset(
        {
            "q": (("test", "time", "mass"), q),
            "v": (("test", "time", "mass"), v),
            "shaker": (("test", "time"), shaker),
        },
        {"time": times, "beta": ("test", beta), "technician": ("test", np.array(list("ababa")))},
    )
    return romkit.data.describe(raw, context=["beta"], state=["q", "v"], control=["shaker"])


def plumes():
    """Arrays of unequal length: plumes that drift and spread up to the wall."""
    x, speeds = np.linspace(0, 1, 32), np.linspace(0.2, 0.5, 6).round(3)
    times = np.arange(0, 0.7 / speeds[0] + 1e-9, 0.02)
    own = [times[times <= 0.7 / speed][:, None] for speed in speeds]
    widths = [0.06**2 + 0.008 * t for t in own]
    arrays = [
        np.exp(-((x - 0.15 - u * t) ** 2) / w) for u, t, w in zip(speeds, own, widths, strict=True)
    ]
    return romkit.data.from_arrays(
        arrays, times[: max(map(len, arrays))], context={"speed": speeds.tolist()}
    )


def spirals():
    """Spiral waves over (y, x), with whole doses."""
    times, axis, doses = np.arange(0, 20.01, 0.1), np.linspace(-10, 10, 7), np.arange(1, 11)
    y, x = np.meshgrid(axis, axis, indexing="ij")
    radius, dose = np.hypot(x, y), doses[:, None, None, None]
    turn = (
        (0.5 + 0.1 * dose) * times[:, None, None] - (0.3 + 0.05 * dose) * radius + np.arctan2(y, x)
    )
    parts = {"u": np.tanh(radius) * np.cos(turn), "v": np.tanh(radius) * np.sin(turn)}
    coords = {"time": times, "y": axis, "x": axis, "dose": ("dish", doses)}
    raw = xr.Dataset({name: (("dish", "time", "y", "x"), p) for name, p in parts.items()}, coords)
    return romkit.data.describe(raw, context=["dose"])


SETS = {
    "pulses": (pulses, PULSES),
    "noisy-pulses": (lambda: pulses(0.05), PULSES),
    "forced-array": (forced_array, {"method": "pod", "latent_dim": 2}),
    "plumes": (plumes, {"method": "ncae", "latent_dim": 2, "basis": 20}),
    "spirals": (spirals, {"method": "flow", "latent_dim": 2, "basis": 10}),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")  # no set has velocities
@pytest.mark.parametrize("name", SETS)
def test_a_data_set_goes_the_whole_path(name, tmp_path, capsys):
    make, settings = SETS[name]
    train, held_out = romkit.data.split(make(), 0.2)
    projection = romkit.fit(data=train, epochs=6, **settings)
    law = QUICK.fit(projection, train)
    rollout = romkit.rollout(held_out, projection, dynamics=law)
    said = capsys.readouterr().out
    assert "trajectories" in said
    assert "estimated where needed" in said
    assert np.isfinite(rollout.rom.values[..., 0, :]).all()
    assert 0 < float(rollout.nrmse_projected.median()) < 10  # six epochs
    stored = romkit.load(romkit.save(law, tmp_path / "law.safetensors"))
    again = romkit.rollout(
        held_out,
        romkit.load(romkit.save(projection, tmp_path / "model.safetensors")),
        dynamics=stored,
    )
    assert np.array_equal(again.rom, rollout.rom, equal_nan=True)
    if name == "forced-array":
        assert law.control_names == ("shaker",)
        assert "missing" in said
        assert "technician" in said.splitlines()[-1]
        assert np.isnan(rollout.nrmse).any()
    if name == "plumes":
        assert "missing" in said
    if name == "spirals":
        assert "(whole numbers)" in said
        assert fields(rollout).rom_u.dims[-2:] == ("y", "x")
        assert np.array_equal(fields(rollout).x, np.linspace(-10, 10, 7))
