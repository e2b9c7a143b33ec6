"""Names with a unit behind them are found without it, where only one is meant."""

import numpy as np
import pandas as pd
import pytest
import torch

import romkit
from romkit.data import Contexts
from romkit.data.contexts import context_array
from romkit.data.names import split_unit
from romkit.data.spelling import strip_unit
from romkit.plotting import plot_phase
from tests.refusals import refused

TIMES = 0.1 * np.arange(12)
FEEDS = (330.0, 340.0, 350.0)


@pytest.fixture
def table() -> pd.DataFrame:
    """Runs of a reactor, each column with its unit."""
    runs = []
    for feed in FEEDS:
        run = {"t [min]": TIMES, "cA [mol/L]": np.exp(-TIMES), "T [K]": feed + np.sin(TIMES)}
        runs.append(pd.DataFrame(run | {"batch (-)": feed, "Tfeed [K]": feed}))
    return pd.concat(runs, ignore_index=True)


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("Tfeed [K]", "Tfeed"),
        ("u (m/s)", "u"),
        ("Re [-]", "Re"),
        ("x[0]", "x[0]"),
        ("x[1]", "x[1]"),
        ("mu [1]", "mu"),
        ("V(load)", "V(load)"),
        ("T", "T"),
    ],
)
def test_the_bare_name_lacks_a_unit_and_nothing_else(name, bare):
    assert strip_unit(name) == bare


@pytest.mark.parametrize("full", [False, True])
def test_every_role_is_found_by_its_name_with_the_unit_and_without(table, full, capsys):
    unit = ("[K]", "[min]", "(-)") if full else ("", "", "")
    temperature, time, batch = (
        f"{name} {text}".strip() for name, text in zip(("T", "t", "batch"), unit, strict=True)
    )
    names = {"context": [f"Tfeed {unit[0]}".strip()], "state": [temperature]}
    data = romkit.data.describe(table, **names, trajectory=batch, time=time)
    assert romkit.data.context_names(data) == ("Tfeed",)
    np.testing.assert_array_equal(data["Tfeed"], FEEDS)
    assert data["Tfeed"].attrs["units"] == "K"
    np.testing.assert_allclose(data["state"][..., 0], np.add.outer(FEEDS, np.sin(TIMES)))
    np.testing.assert_allclose(data["time"], TIMES)
    assert data["time"].attrs["units"] == "min"


def test_a_dataset_is_searched_as_a_table(table, capsys):
    grid = table.set_index(["Tfeed [K]", "t [min]"])[["cA [mol/L]"]].to_xarray()
    data = romkit.data.describe(grid, context=["Tfeed"], time="t")
    assert data.sizes["trajectory"] == len(FEEDS)


def test_columns_of_one_name_in_two_units_and_functions_keep_their_names():
    own = pd.DataFrame({"t": TIMES, "x(t)": np.sin(TIMES), "T [K]": TIMES, "T [degC]": TIMES})
    data = romkit.data.describe(own)
    assert list(data["component"].values) == ["x(t)", "T [K]", "T [degC]"]


def test_a_bare_name_of_two_columns_is_refused(table):
    twice = table.assign(**{"Tfeed [degC]": table["Tfeed [K]"] - 273.15})
    refused("context", romkit.data.describe, twice, context=["Tfeed"], trajectory="batch")


def test_values_of_parameters_are_given_by_bare_names():
    names = ["Tfeed [K]", "flow [1/min]"]
    values = {"flow": 0.8, "Tfeed": [340.0, 350.0]}
    np.testing.assert_array_equal(context_array(names, values), [[340.0, 0.8], [350.0, 0.8]])
    contexts = Contexts.build(names, values, torch.zeros(1))
    assert contexts.initial.tolist() == [[340.0, 0.8], [350.0, 0.8]]


def test_one_parameter_by_both_names_is_refused():
    values = {"Tfeed": 340.0, "Tfeed [K]": 341.0}
    refused("Tfeed", context_array, ["Tfeed [K]"], values)


def test_figures_know_bare_names(table, capsys):
    data = romkit.data.describe(table, context=["Tfeed"])
    figure = plot_phase(data, "cA", "T", colour="Tfeed")
    assert figure.axes[0].get_xlabel().startswith("cA")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("time / s", ("time", "s")),
        ("c / mol L-1", ("c", "mol L-1")),
        ("T [K]", ("T", "K")),
        ("u (m/s)", ("u", "m/s")),
        ("dx/dt", ("dx/dt", "")),
        ("x", ("x", "")),
    ],
)
def test_a_name_is_split_from_its_unit(name, parts):
    assert split_unit(name) == parts
