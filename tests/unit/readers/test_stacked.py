"""Columns called by numbers are one variable at places; units behind strokes are units."""

import numpy as np
import pandas as pd
import pytest

import romkit
from romkit.data.names import split_unit
from romkit.readers.stacked import PLACE, VARIABLE, places_in_names

TIMES = np.arange(5.0)
LENGTHS = np.array([300.0, 303.0, 306.0, 309.0])


def spectrum(temperature):
    """Absorbances (T, places) that decay faster where it is warm."""
    decay = np.exp(-temperature * TIMES[:, None] / 300) * np.sin(LENGTHS / 50)
    decay[:, 1] = 0.5  # a place that never changes is one of the variable, too
    return decay


def table(temperature):
    columns = [f"{length:g} nm" for length in LENGTHS]
    frame = pd.DataFrame(spectrum(temperature), columns=columns)
    frame.insert(0, "time / s", TIMES)
    return frame


def test_spectra_of_files_are_one_variable_along_the_places_of_their_columns(tmp_path):
    temperatures = (290.0, 300.0, 310.0)
    for temperature in temperatures:
        table(temperature).to_csv(tmp_path / f"run_{temperature:g}K.csv", index=False)
    runs = romkit.open(str(tmp_path / "run_{T}K.csv"))
    data = romkit.data.fields(romkit.data.describe(runs, context=["T"]))
    assert data[PLACE].values.tolist() == LENGTHS.tolist()
    assert data[PLACE].attrs["units"] == "nm"
    assert data["time / s"].attrs["units"] == "s"
    by_run = data[VARIABLE].transpose("run", "time / s", PLACE)
    for run, temperature in enumerate(data["T"].values):
        assert np.allclose(by_run[run], spectrum(temperature))


@pytest.mark.parametrize(
    ("names", "are_places"),
    [
        (("300 nm", "303 nm", "306 nm", "309 nm"), True),
        (("1 m", "2 m", "3 m", "4 m"), True),
        (("0.0", "0.1", "0.2", "0.3"), True),
        (("4", "3", "2", "0"), True),
        (("1", "2", "3", "4"), False),  # numbers of sensors, say
        (("300 nm", "303 nm", "306 nm"), False),
        (("300 nm", "303 m", "306 nm", "309 nm"), False),
        (("300 nm", "309 nm", "306 nm", "303 nm"), False),
        (("1st", "2nd", "3rd", "4th"), False),
    ],
)
def test_names_of_columns_are_places_where_they_are_numbers_in_order(names, are_places):
    frame = pd.DataFrame(np.ones((2, len(names))), columns=list(names)).assign(time=[0.0, 1.0])
    places, _ = places_in_names(frame, {"time"})
    assert bool(places) == are_places


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
