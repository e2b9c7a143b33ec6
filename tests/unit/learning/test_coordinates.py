"""Coordinates of context parameters that `romkit.learn` chooses."""

import numpy as np
import pytest
import torch
from romkit.learning.coordinates import Increments, better_coordinates
from romkit.learning.preference import way_that_helps

import romkit
from romkit.data.coordinates import coordinates_of, with_coordinates
from romkit.learning.clocks import between_phases
from romkit.learning.contexts import scaled, scaled_contexts
from romkit.learning.interpolation import InterpolatedRuns

TIMES = np.linspace(0, 6, 61)

RATES = {"c": lambda c: c, "1/c": lambda c: 1 / c, "log c": lambda c: 1 + 0.3 * np.log(c)}
"""Damping of an oscillator by its coordinate in a parameter."""


def oscillators(rate, c, noise=0.0):
    """Runs of ẍ = -x - 2 k(c) ẋ from (1, 0), below critical damping."""
    damping = 0.3 * rate(c)[:, None]
    pace = np.sqrt(1 - damping**2)
    phase = pace * TIMES
    faded = np.exp(-damping * TIMES)
    place = faded * (np.cos(phase) + damping / pace * np.sin(phase))
    velocity = -faded * np.sin(phase) / pace
    states = np.stack([place, velocity], axis=-1)
    draw = np.random.default_rng(0)
    states = states + noise * draw.normal(size=states.shape)
    return romkit.data.from_arrays(states, TIMES, context={"c": c})


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("name", RATES)
def test_equations_of_increments_tell_the_coordinate(name, noise):
    data = oscillators(RATES[name], np.linspace(0.6, 2.4, 8), noise)
    names = better_coordinates(data, Increments.of(data).error)
    if noise == 0.0 or name == "c":
        assert names == ({} if name == "c" else {"c": name})
    # with noise another one may be taken, and never one that is worse
    error = Increments.of(data).error
    assert error(with_coordinates(data, names)) <= error(data)


@pytest.fixture(scope="module")
def circuit():
    """Model of runs that depend on the inverse of a parameter."""
    data = oscillators(RATES["1/c"], np.linspace(0.6, 2.0, 8))
    return romkit.learn(data.rename(c="R"), "R", members=2, seconds=20)


@pytest.mark.usefixtures("blank_pictures")
def test_a_law_in_the_inverse_is_found_and_takes_the_parameter_itself(circuit, tmp_path):
    assert coordinates_of(circuit.train) == ("1/c",)
    assert circuit.error < 1e-4
    assert circuit.coordinates.error < 0.1 * circuit.coordinates.plain
    _, acceleration = circuit.law.to_sympy()
    terms = {str(term): value for term, value in acceleration.rhs.as_coefficients_dict().items()}
    # ẍ = -x - 0.6 ẋ / R
    assert terms["x1/R"] == pytest.approx(-0.6, abs=1e-4)
    R = np.array([1.1])
    truth = oscillators(RATES["1/c"], R).state.values[0]
    saved = romkit.Learned.load(circuit.save(tmp_path / "saved"))
    for model in (circuit, saved, circuit.refitted(members=2)):
        forecast = model.forecast(initial_state=[1.0, 0.0], duration=6, dt=0.1, R=1.1)
        assert np.abs(forecast.state.values - truth).max() < 1e-3
        assert "1/R" in str(model)
    assert saved.coordinates == circuit.coordinates
    assert "1/R" in circuit.report(tmp_path / "page").read_text(encoding="utf-8")


def test_coordinates_that_the_data_name_stay():
    data = oscillators(RATES["1/c"], np.linspace(0.6, 2.4, 8))
    assert better_coordinates(data, Increments.of(data).error) == {"c": "1/c"}
    named = with_coordinates(data, {"c": "c"})
    assert better_coordinates(named, Increments.of(named).error) == {}


def test_parameters_that_are_not_positive_or_hardly_vary_have_no_coordinates():
    for c in (np.linspace(-0.2, 1.0, 8), np.linspace(1.0, 1.1, 8)):
        data = oscillators(lambda c: 0.5 + 0.1 * np.abs(c), c)
        assert better_coordinates(data, lambda train: float(coordinates_of(train) == ("c",))) == {}


def test_runs_over_decades_are_interpolated_in_the_logarithm(tmp_path):
    c = np.geomspace(0.1, 30.0, 9)
    shape = np.exp(-((TIMES - 2) ** 2))
    states = (2 + 0.4 * np.log(c))[:, None, None] * shape[:, None]
    data = romkit.data.from_arrays(states, TIMES, context={"c": c})
    of_law = [(torch.tensor([2, 5]), torch.ones(2))]
    way = way_that_helps(data, of_law, with_clocks=False)
    assert coordinates_of(way.train) == ("log c",)
    assert way.errors_left_out(torch.tensor([2, 5])).max() < 1e-9
    projection = romkit.fit("identity", data)
    between = InterpolatedRuns.of(projection, way.train, None, with_bars=False)
    between.save(tmp_path)
    truth = (2 + 0.4 * np.log(3.0)) * shape
    for same in (between, InterpolatedRuns.load(tmp_path, projection)):
        run = same.forecast(duration=6, dt=0.1, c=3.0)
        assert np.abs(run["state"].values[:, 0] - truth).max() < 1e-6


def test_heat_at_several_diffusivities_has_clocks_in_the_logarithm():
    """A Gauss kernel at the time D t: one motion, whose clock is 1 / D."""
    places = np.linspace(-4, 4, 24)

    def heat(D):
        width = 0.5 + D[:, None, None] * TIMES[:, None]
        return np.exp(-(places**2) / (4 * width)) / np.sqrt(width)

    D = np.geomspace(0.1, 2.0, 8)
    data = romkit.data.from_arrays(heat(D), TIMES, context={"D": D})
    rows = torch.tensor([2, 4])
    way = way_that_helps(data, [(rows, torch.ones(2))], with_clocks=True)
    assert coordinates_of(way.train) == ("log c",)
    power = np.polyfit(np.log(D), way.clocks, 1)[0]
    assert power == pytest.approx(-1.0, abs=0.01)
    assert way.errors_left_out(rows).max() < 1e-3
    # slower than all runs
    known = torch.from_numpy(scaled_contexts(way.train, way.train))
    wanted = torch.from_numpy(scaled(np.array([[0.05]]), way.train))
    slower = between_phases(data.state.values, TIMES, way.clocks, known, wanted, TIMES)
    assert np.abs(slower - heat(np.array([0.05]))).max() < 1e-3


def test_each_of_two_parameters_has_a_coordinate_of_its_own():
    draw = np.random.default_rng(0)
    a, b = draw.uniform(0.5, 3.0, 16), draw.uniform(0.5, 3.0, 16)
    data = oscillators(lambda a: 0.5 / a + 0.4 * b, a).rename(c="a")
    data = data.assign_coords(b=("trajectory", b, data.a.attrs))
    assert better_coordinates(data, Increments.of(data).error) == {"a": "1/c"}
