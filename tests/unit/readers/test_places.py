"""Long tables whose columns say at which place a row is."""

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
def test_places_are_a_dimension_in_any_order_of_the_rows(order, capsys):
    x = (0.1, 0.4, 0.9, 1.6)
    data = romkit.data.describe(long_table({"x": x}, order), context=["speed"])
    assert context_names(data) == ("speed",)
    wave = fields(data)["h"].transpose("speed", "t", "x")
    np.testing.assert_allclose(wave["x"], x)
    np.testing.assert_allclose(wave, height(*np.ix_(SPEEDS, TIMES, x)))


def test_two_coordinates_are_a_grid(capsys):
    x, y = (0.0, 1.0, 2.0), (5.0, 6.0)
    table = long_table({"x": x, "y": y}, ("speed", "t", "x", "y"))
    wave = fields(romkit.data.describe(table, context=["speed"]))["h"]
    np.testing.assert_allclose(
        wave.transpose("speed", "t", "x", "y"), height(*np.ix_(SPEEDS, TIMES, x, y))
    )


def test_labels_and_coordinates_are_dimensions_together(capsys):
    left = long_table({"x": (0.1, 0.4)}, ("speed", "t", "x"))
    right = left.assign(h=2 * left["h"])
    table = pd.concat([left.assign(side="L"), right.assign(side="R")])
    wave = fields(romkit.data.describe(table, context=["speed"]))["h"]
    exact = height(*np.ix_(SPEEDS, TIMES, (0.1, 0.4)))
    np.testing.assert_allclose(wave.sel(side="R").transpose("speed", "t", "x"), 2 * exact)


def test_what_stays_at_each_place_is_no_state(capsys):
    table = long_table({"cell": (1, 2, 3, 4)}, ("speed", "t", "cell"))
    table = table.assign(area=1.0 / table["cell"])
    data = romkit.data.describe(table, context=["speed"])
    assert data.sizes["component"] == 4
    np.testing.assert_allclose(fields(data)["area"], [1.0, 1 / 2, 1 / 3, 1 / 4])


def test_scattered_places_are_numbered(capsys):
    places = np.random.default_rng(0).permutation(12)
    xy = pd.DataFrame({"x": [0.0, *range(10), 9.0], "y": places // 1.1})
    xy.loc[11, "y"] = xy.loc[0, "y"]
    keys = pd.DataFrame(itertools.product(SPEEDS, TIMES), columns=["speed", "t"])
    table = keys.merge(xy, how="cross")
    table = table.assign(h=height(table["speed"], table["t"], table["x"], table["y"]))
    with pytest.warns(romkit.errors.DataWarning, match="12 scattered places"):
        data = romkit.data.describe(table, context=["speed"])
    wave = fields(data)
    assert data.sizes["component"] == 12
    expected = height(wave["speed"], wave["t"], wave["x"], wave["y"])
    np.testing.assert_allclose(wave["h"], expected.transpose(*wave["h"].dims))


def test_repeats_are_runs_and_no_places(capsys):
    table = long_table({"repeat": (1, 2)}, ("speed", "repeat", "t"))
    data = romkit.data.describe(table, context=["speed"])
    assert (data.sizes["trajectory"], data.sizes["component"]) == (6, 1)


def test_beside_a_parameter_that_moves_nothing_is_a_place(capsys):
    table = long_table({"x": (0.1,)}, ("speed", "t", "x")).drop(columns="x")
    moving = table.assign(flow=2 * table["t"])
    refused("data", romkit.data.describe, moving, context=["flow"])
    with pytest.warns(romkit.errors.DataWarning, match="15 runs of one"):
        romkit.data.describe(moving, context=["flow", "speed"])


def test_a_parameter_that_nobody_named_is_no_dimension(capsys):
    table = long_table({"x": (0.1, 0.4)}, ("t", "speed", "x"))
    refused("data", romkit.data.describe, table)


def test_a_place_that_is_missing_is_refused():
    table = long_table({"x": (0.1, 0.4, 0.9)}, ("speed", "t", "x"))
    twice = pd.concat([table, table.iloc[[4]]])
    refused("data", romkit.data.describe, twice, context=["speed"])
    refused("data", romkit.data.describe, table.drop(index=4), context=["speed"])


@pytest.mark.parametrize("order", [["y", "x"], ["x", "y"]])
def test_the_state_has_the_order_of_the_rows(order):
    x, y, t = np.arange(3.0), np.arange(4.0), np.arange(5.0)
    sizes = {"t": t, "x": x, "y": y}
    index = pd.MultiIndex.from_product([sizes[name] for name in ["t", *order]], names=["t", *order])
    table = index.to_frame(index=False)[["t", "x", "y"]].assign(u=np.arange(60.0))
    data = romkit.data.describe(table)
    assert np.array_equal(data["state"].values.reshape(5, 12), np.arange(60.0).reshape(5, 12))
