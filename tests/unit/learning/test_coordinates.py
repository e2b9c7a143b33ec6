"""Coordinates of context parameters that `romkit.learn` chooses."""

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import FitWarning
from romkit.data.context import contexts_of
from romkit.data.coordinates import assign_coordinates, coordinates_of
from romkit.laws import PolynomialLaw
from romkit.learning.candidates import Spaces, interpolations, list_coordinates
from romkit.learning.clocks import interpolate_phases
from romkit.learning.contexts import scaled, scaled_contexts
from romkit.learning.interpolation import InterpolatedRuns
from romkit.numerics import folds
from romkit.select import Policy, preferred, search

LINEAR = PolynomialLaw(degree=1, context_degree=1)

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
def test_a_linear_law_tells_the_coordinate(name, noise):
    data = oscillators(RATES[name], np.linspace(0.6, 2.4, 8), noise)
    model = romkit.learn(data, kinds=[LINEAR], seconds=3.0)
    (taken,) = coordinates_of(model.train)
    # with noise another one may be as good, and the parameter as it is has no neighbour then
    if noise == 0.0 or name == "c":
        assert taken == ("c" if name == "c" else name)
    # noise in deviations of the data, which are 0.35 to 0.5
    assert model.error < (1e-3 if noise == 0.0 else noise / 0.3)


@pytest.fixture(scope="module")
def circuit():
    """Model of runs that depend on the inverse of a parameter."""
    data = oscillators(RATES["1/c"], np.linspace(0.6, 2.0, 8))
    return romkit.learn(data.rename(c="R"), "R", kinds=[LINEAR], seconds=3.0)


@pytest.mark.usefixtures("blank_pictures")
def test_a_law_in_the_inverse_is_found_and_takes_the_parameter_itself(circuit, tmp_path):
    assert coordinates_of(circuit.train) == ("1/c",)
    assert circuit.error < 1e-4
    (taken,) = [row for row in circuit.law.report if row["chosen"]]
    plain = [row for row in circuit.law.report if row["settings"].startswith("complete")]
    assert taken["error"] < 0.1 * min(row["error"] for row in plain)
    _, acceleration = circuit.law.to_sympy()
    terms = {str(term): value for term, value in acceleration.rhs.as_coefficients_dict().items()}
    # ẍ = -x - 0.6 ẋ / R
    assert terms["x1/R"] == pytest.approx(-0.6, abs=1e-4)
    R = np.array([1.1])
    truth = oscillators(RATES["1/c"], R).state.values[0]
    saved = romkit.Learned.load(circuit.save(tmp_path / "saved"))
    for model in (circuit, saved):
        forecast = model.forecast(initial_state=[1.0, 0.0], duration=6, dt=0.1, R=1.1)
        assert np.abs(forecast.state.values - truth).max() < 1e-3
        assert "1/R" in str(model)
    assert "1/R" in circuit.report(tmp_path / "page").read_text(encoding="utf-8")


def names_of(changes):
    return [name for name, _ in changes]


def test_coordinates_that_the_data_name_stay():
    data = oscillators(RATES["1/c"], np.linspace(0.6, 2.4, 8))
    assert names_of(list_coordinates(data)) == ["1/c", "log c"]
    assert list_coordinates(assign_coordinates(data, {"c": "c"})) == []


def test_parameters_that_are_not_positive_or_hardly_vary_have_no_coordinates():
    for c in (np.linspace(-0.2, 1.0, 8), np.linspace(1.0, 1.1, 8)):
        data = oscillators(lambda c: 0.5 + 0.1 * np.abs(c), c)
        assert list_coordinates(data) == []


def best_interpolation(data):
    """Interpolation that is preferred on runs that are left out."""
    spaces = Spaces(data, [torch.from_numpy(rows) for rows in folds(contexts_of(data), 5)])
    policy = Policy()
    trials = search([], len(spaces.folds), policy, others=interpolations(spaces))
    return preferred(trials, policy)[0].candidate


def test_runs_over_decades_are_interpolated_in_the_logarithm(tmp_path):
    c = np.geomspace(0.1, 30.0, 9)
    shape = np.exp(-((TIMES - 2) ** 2))
    states = (2 + 0.4 * np.log(c))[:, None, None] * shape[:, None]
    data = romkit.data.from_arrays(states, TIMES, context={"c": c})
    best = best_interpolation(data)
    assert coordinates_of(best.spaces.data) == ("log c",)
    assert best.interpolation.errors(best.spaces.data, best.spaces.folds[0]).max() < 1e-9
    projection = romkit.fit("identity", data)
    between = best.interpolation.fitted(projection, best.spaces.data, with_bars=False)
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
    best = best_interpolation(data)
    train = best.spaces.data
    assert best.interpolation.by_clocks
    assert coordinates_of(train) == ("log c",)
    clocks = best.interpolation.fitted(romkit.fit("identity", data), train, with_bars=False).clocks
    power = np.polyfit(np.log(D), clocks, 1)[0]
    assert power == pytest.approx(-1.0, abs=0.01)
    assert best.errors(0).max() < 1e-3
    # slower than all runs
    known = torch.from_numpy(scaled_contexts(train, train))
    wanted = torch.from_numpy(scaled(np.array([[0.05]]), train))
    slower = interpolate_phases(data.state.values, TIMES, clocks, known, wanted, TIMES)
    assert np.abs(slower - heat(np.array([0.05]))).max() < 1e-3


def test_each_of_two_parameters_has_coordinates_of_its_own():
    draw = np.random.default_rng(0)
    a, b = draw.uniform(0.5, 3.0, 16), draw.uniform(0.5, 3.0, 16)
    data = oscillators(lambda a: 0.5 / a + 0.4 * b, a).rename(c="a")
    data = data.assign_coords(b=("trajectory", b, data.a.attrs))
    assert names_of(list_coordinates(data)) == ["1/a", "log a", "1/b", "log b"]
    model = romkit.learn(data, kinds=[LINEAR], seconds=3.0)
    assert coordinates_of(model.train) == ("1/c", "c")
    assert model.error < 1e-3


def test_what_a_basis_of_many_modes_leaves_out_is_said():
    """White noise of a third of the wave's amplitude is in all 1 100 directions alike."""
    x, times = np.linspace(0, 1, 1100), np.linspace(0, 1, 300)
    speed = np.linspace(1, 2, 5)
    wave = np.sin(2 * np.pi * (x - speed[:, None, None] * times[:, None]))
    noise = 0.3 * np.random.default_rng(0).standard_normal(wave.shape)
    data = romkit.data.from_arrays(wave + noise, times, context={"speed": speed})
    with pytest.warns(FitWarning, match="modes"):
        Spaces(data, [torch.tensor([2])]).warn_basis()
