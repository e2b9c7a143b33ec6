"""Coordinates of context parameters."""

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import InputError
from romkit.data.coordinates import (
    COORDINATES,
    NEAREST,
    assign_coordinates,
    coordinates_of,
    transform_contexts,
)
from romkit.laws import PolynomialLaw, SINDy

TIMES = np.linspace(0, 4, 81)


def _decaying(rates, parameter):
    """Runs of ẋ = -rate x from 1."""
    states = np.exp(-np.asarray(rates)[:, None, None] * TIMES[:, None])
    return romkit.data.from_arrays(states, TIMES, context=parameter)


@pytest.fixture(scope="module")
def resistances():
    """Runs of ẋ = -x / R."""
    R = np.linspace(1.0, 3.3, 6)
    return assign_coordinates(_decaying(1 / R, {"R": R}), {"R": "1/c"})


def test_each_coordinate_has_its_inverse_and_words():
    values = torch.tensor([0.01, 1.0, 300.0], dtype=torch.float64)
    for coordinate in COORDINATES.values():
        torch.testing.assert_close(coordinate.inverse(coordinate.forward(values)), values)
    assert [coordinate.of("R") for coordinate in COORDINATES.values()] == ["R", "1/R", "log R"]


def test_coordinates_end_above_zero():
    lowest = torch.tensor([2.0, 2.0], dtype=torch.float64)
    below = torch.tensor([[-1.0, 0.0]], dtype=torch.float64)
    values = transform_contexts(below, ("1/c", "log c"), lowest)
    end = torch.tensor(NEAREST * 2.0, dtype=torch.float64)
    torch.testing.assert_close(values, torch.stack([1 / end, end.log()])[None])


def test_a_coordinate_is_refused_where_it_is_unknown_or_the_parameter_is_not_positive(resistances):
    for name, lowest in (("1/R", 1.0), ("log c", -1.0)):
        values = ("trajectory", np.linspace(lowest, 3.3, 6), {"role": "context"})
        data = assign_coordinates(resistances.assign_coords(R=values), {"R": name})
        with pytest.raises(InputError):
            coordinates_of(data)


def test_a_sparse_law_in_the_inverse_is_exact(resistances):
    identity = romkit.fit("identity", resistances)
    law = SINDy(degree=1).fit(identity, resistances)
    (equation,) = law.to_sympy()
    terms = {str(term): value for term, value in equation.rhs.as_coefficients_dict().items()}
    assert terms["x0/R"] == pytest.approx(-1.0, abs=1e-6)
    others = [abs(value) for term, value in terms.items() if term != "x0/R"]
    assert max(others, default=0.0) < 1e-6


def test_a_law_in_the_logarithm_takes_the_parameter_as_it_is(tmp_path):
    c = np.geomspace(0.01, 10.0, 6)
    rates = 1 + 0.1 * np.log(c)
    data = assign_coordinates(_decaying(rates, {"c": c}), {"c": "log c"})
    identity = romkit.fit("identity", data)
    law = PolynomialLaw(degree=1, context_degree=1).fit(identity, data)
    romkit.save(law, tmp_path / "law.safetensors")
    for same in (law, romkit.load(tmp_path / "law.safetensors")):
        forecast = romkit.forecast(
            identity, dynamics=same, initial_state=[1.0], duration=4, dt=0.05, c=0.3
        )
        truth = np.exp(-(1 + 0.1 * np.log(0.3)) * TIMES)
        np.testing.assert_allclose(forecast.state.values[:, 0], truth, atol=1e-5)
