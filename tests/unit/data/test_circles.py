"""Angles that wrap, and parameters that go round a circle."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import romkit
from romkit.data.habits import warn_habits

T = np.arange(0, 12, 0.05)


def pendulum(damping):
    """Course (2, T) of a pendulum that goes over the top."""

    def rate(t, y):
        return [y[1], -np.sin(y[0]) - damping * y[1]]

    return solve_ivp(rate, (0, 12), [0.3, 3.2], t_eval=T, rtol=1e-8).y.T


def runs(states, name="b", values=(0.05, 0.1, 0.2)):
    return romkit.data.from_arrays(np.stack(states), T, context={name: np.array(values)})


def words(data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_habits(data, "jumps", "circles")
    return " ".join(str(w.message) for w in caught)


@pytest.mark.parametrize(("turn", "said"), [(2 * np.pi, "2π"), (360.0, "360")])
@pytest.mark.parametrize("begin", [0.0, -0.5])
def test_an_angle_that_wraps_is_named(turn, said, begin):
    states = [pendulum(b) for b in (0.05, 0.1, 0.2)]
    wrapped = [x * [turn / (2 * np.pi), 1] for x in states]
    for x in wrapped:
        x[:, 0] = (x[:, 0] - begin * turn) % turn + begin * turn
    assert f"jumps by {said}" in words(runs(wrapped))


def test_what_does_not_wrap_is_silent():
    states = [pendulum(b) for b in (0.05, 0.1, 0.2)]
    circle = [np.c_[np.cos(x[:, 0]), np.sin(x[:, 0]), x[:, 1]] for x in states]
    # a wave of the amplitude of a turn, sampled coarsely
    coarse = [np.c_[np.pi * np.sin(k * np.arange(len(T)))] for k in (1.1, 1.7, 2.3)]
    for several in (states, circle, coarse):
        assert words(runs(several)) == ""


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.arange(0, 360, 60.0), "360"),
        (np.arange(-180, 180, 90.0), "360"),
        (np.linspace(0, 2 * np.pi, 8, endpoint=False), "2π"),
        (np.linspace(0, 180, 5), ""),
        (np.linspace(0, 359, 6), ""),
    ],
)
def test_a_parameter_that_closes_a_turn_is_named(values, said):
    data = runs([pendulum(0.1)] * len(values), "direction", values)
    assert said in words(data)
    assert bool(words(data)) == bool(said)
