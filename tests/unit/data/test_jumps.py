"""Impacts and resets: states that jump between two samples, by formulas."""

import numpy as np
import pytest

import romkit
from romkit.data.habits import jumps

GRAVITY = 9.81


def falling(height, t, restitution=0.8):
    """Height and velocity (T, 2) of a ball that is dropped, and bounces."""
    impact = np.sqrt(2 * height / GRAVITY)
    speed = restitution * GRAVITY * impact
    since = t - impact
    before = np.c_[height - GRAVITY * t**2 / 2, -GRAVITY * t]
    behind = np.c_[speed * since - GRAVITY * since**2 / 2, speed - GRAVITY * since]
    return np.where((t < impact)[:, None], before, behind)


def firing(current, t):
    """Voltage (T, 1) of a neuron that leaks and integrates: reset to 0 where it reaches 1."""
    period = np.log(current / (current - 1))
    return np.c_[current * (1 - np.exp(-(t % period)))]


def dosed(rate, t, every=3.0):
    """Concentration (T, 1) that decays, and rises by 1 at each dose."""
    since = t[:, None] - every * np.arange(4)  # (T, doses)
    return np.c_[np.where(since >= 0, np.exp(-rate * np.maximum(since, 0)), 0.0).sum(1)]


def runs(course, values, t, names):
    return romkit.data.from_arrays(
        np.stack([course(value, t) for value in values]), t, names=names, context={"k": values}
    )


IMPACT = np.sqrt(2 / GRAVITY)
KINDS = {
    # first jump of the first run: its time, and by how much
    "bounces": (falling, [1.0, 1.2, 1.5], ["h", "v"], IMPACT, 1.8 * GRAVITY * IMPACT),
    "resets": (firing, [1.5, 1.8, 2.0], ["v"], np.log(3), -1.0),
    "doses": (dosed, [0.3, 0.5, 0.8], ["v"], 3.0, 1.0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_jump_is_named_with_its_size_and_time(kind):
    course, values, names, time, size = KINDS[kind]
    t = np.arange(0, 1.1 if kind == "bounces" else 8, 0.005)
    (said,) = jumps(runs(course, np.array(values), t, names))
    words = said.split()
    assert words[0] == "v"
    assert float(words[3].strip(",")) == pytest.approx(size, rel=0.01)
    assert 0 <= float(words[6]) - time < 0.0051
    assert words[9] == "0"  # of run 0


T = np.arange(0, 20, 0.05)
NOISE = np.random.default_rng(0).normal(size=(3, len(T), 1))
PLACES = np.linspace(1, 2, 3)[:, None, None]
SMOOTH = {
    "noise": NOISE,
    "noisy motion": np.sin(PLACES * T[:, None]) + 0.1 * NOISE,
    "spikes of a sensor": np.sin(PLACES * T[:, None])
    + 3.0 * (np.arange(len(T)) % 97 == 50)[:, None],
    "counts": np.round(20 * np.sin(PLACES * T[:, None])),
    "fast switch": np.tanh((T[:, None] - 9 * PLACES) / 0.05),
}


@pytest.mark.parametrize("kind", SMOOTH)
def test_what_does_not_jump_is_silent(kind):
    data = romkit.data.from_arrays(SMOOTH[kind], T, context={"k": PLACES[:, 0, 0]})
    assert not list(jumps(data))


def test_learn_and_its_advice_name_the_jump():
    t = np.arange(0, 1.1, 0.01)
    data = runs(falling, np.linspace(1, 2, 5), t, ["h", "v"])
    with pytest.warns(romkit.errors.DataWarning, match="v jumps by"):
        model = romkit.learn(data, kinds=["dmd"], variants=())
    assert "v jumps by" in model.advice
    assert "a load or a heater" not in model.advice


def test_pieces_between_jumps_have_the_exact_law():
    pieces, times, heights = [], [], []
    for height in np.linspace(1, 2, 5):
        impact = np.sqrt(2 * height / GRAVITY)
        for begin, end in ((0.0, 0.99), (1.01, 2.5)):
            t = np.arange(begin * impact, end * impact, 0.01)
            pieces.append(falling(height, t))
            times.append(t - t[0])
            heights.append(height)
    data = romkit.data.from_arrays(pieces, times, names=["h", "v"], context={"height": heights})
    assert romkit.learn(data, seconds=4).error < 1e-6
