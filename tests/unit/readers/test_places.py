"""Long tables whose index says at which place a row is."""

import itertools

import numpy as np
import pandas as pd
import pytest

import romkit
from romkit.data import context_names, fields
from tests.refusals import refused

SPEEDS = (0.5, 1.5, 2.5)
TIMES = 0.25 * np.arange(5)


def height(speed, t, x, y=0.0):
    return np.sin(x - speed * t) + y


def long_table(places: dict[str, tuple], order: tuple[str, ...]) -> pd.DataFrame:
    """A row for each speed, time and place; the last of `order` varies fastest."""
    axes = {"speed": SPEEDS, "t": TIMES, **places}
    rows = itertools.product(*(axes[name] for name in order))
    table = pd.DataFrame(rows, columns=order)
    x = table[next(iter(places))]
    y = table.get("y", 0.0)
    return table.assign(h=height(table["speed"], table["t"], x, y))


@pytest.mark.parametrize("order", [("speed", "t", "x"), ("speed", "x", "t"), ("t", "x", "speed")])
def test_places_are_named_by_the_index_in_any_order_of_the_rows(order, capsys):
    x = (0.1, 0.4, 0.9, 1.6)
    table = long_table({"x": x}, order)
    refused(r"set_index\(", romkit.data.describe, table, context=["speed"])
    data = romkit.data.describe(table.set_index(["speed", "t", "x"]), context=["speed"])
    assert context_names(data) == ("speed",)
    wave = fields(data)["h"].transpose("speed", "t", "x")
    np.testing.assert_allclose(wave["x"], x)
    np.testing.assert_allclose(wave, height(*np.ix_(SPEEDS, TIMES, x)))


def test_two_coordinates_are_a_grid(capsys):
    x, y = (0.0, 1.0, 2.0), (5.0, 6.0)
    table = long_table({"x": x, "y": y}, ("speed", "t", "x", "y")).set_index(["t", "x", "y"])
    wave = fields(romkit.data.describe(table, context=["speed"]))["h"]
    np.testing.assert_allclose(
        wave.transpose("speed", "t", "x", "y"), height(*np.ix_(SPEEDS, TIMES, x, y))
    )


def test_what_stays_at_each_place_is_no_state(capsys):
    table = long_table({"cell": (1, 2, 3, 4)}, ("speed", "t", "cell"))
    table = table.assign(area=1.0 / table["cell"]).set_index(["t", "cell"])
    data = romkit.data.describe(table, context=["speed"])
    assert data.sizes["component"] == 4
    np.testing.assert_allclose(fields(data)["area"], [1.0, 1 / 2, 1 / 3, 1 / 4])


def test_beside_a_parameter_that_moves_nothing_is_a_place(capsys):
    table = long_table({"x": (0.1,)}, ("speed", "t", "x")).drop(columns="x")
    moving = table.assign(flow=2 * table["t"])
    refused("data", romkit.data.describe, moving, context=["flow"])


def test_a_place_that_is_there_twice_is_refused():
    table = long_table({"x": (0.1, 0.4, 0.9)}, ("speed", "t", "x")).set_index(["t", "x"])
    twice = pd.concat([table, table.iloc[[4]]])
    refused("data", romkit.data.describe, twice, context=["speed"])
