"""Habits of text files: rows of names and units, comments, exponents, commas, compression."""

import gzip
import zipfile

import numpy as np
import pandas as pd
import pytest

import romkit
from romkit.data import describe
from romkit.errors import FileError
from romkit.readers import read
from tests.refusals import refused
from tests.unit.readers.test_roles import said

TIME = 0.25 * np.arange(12)
A, B = np.sin(TIME).round(6), (2e3 * np.cos(TIME)).round(3)


def rows(separator=",", form="{:.6f}", decimal="."):
    lines = []
    for values in zip(TIME, A, B, strict=True):
        line = separator.join(form.format(value) for value in values)
        lines.append(line.replace(".", decimal) if decimal != "." else line)
    return "\n".join(lines) + "\n"


def values_of(path):
    data = describe(read(path))
    return data.state.values.reshape(len(TIME), -1)


WANTED = np.stack([A, B], -1)

TEXTS = {
    "names": "time,a,b\n" + rows(),
    "blanks": " time   a   b\n" + rows("   "),
    "tabs": "time\ta\tb\n" + rows("\t"),
    "semicolons with decimal commas": "time;a;b\n" + rows(";", decimal=","),
    "tabs with decimal commas": "time\ta\tb\n" + rows("\t", decimal=","),
    "blanks with decimal commas": "time a b\n" + rows("  ", decimal=","),
    "percent": "% run 3\ntime a b\n" + rows(" "),
    "names in the comment": "# run 3\n# time a b\n" + rows(" "),
    "names in the comment, with commas": "% time, a, b\n" + rows(),
    "names in the comment, with tabs": "# time\ta\tb\n" + rows("\t"),
    "coefficients of OpenFOAM": "# Force\n# dragDir     : (1 0 0)\n# Time       \ta        \tb       \n" + rows("\t"),
    "comments between": "time,a,b\n" + rows().replace("1.000000,", "# restart\n1.000000,", 1),
    "empty lines": "\n\ntime,a,b\n\n" + rows().replace("1.000000,", "\n1.000000,", 1),
    "quoted": '"time","a","b"\n' + rows(),
    "separator at the end": "time,a,b,\n" + rows().replace("\n", ",\n"),
    "units below": "time,a,b\ns,m,m/s\n" + rows(),
    "no units below": "time,a,b\n-,-,-\n" + rows(),
    "Windows": ("time,a,b\n" + rows()).replace("\n", "\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("habit", TEXTS)
@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")
def test_a_table_is_read_whatever_its_habit(habit, tmp_path):
    path = tmp_path / "own.txt"
    path.write_text(TEXTS[habit], newline="")
    assert np.array_equal(values_of(path), WANTED)


def test_compressed_tables_are_read(tmp_path):
    text = TEXTS["names"]
    with gzip.open(tmp_path / "own.csv.gz", "wt") as stream:
        stream.write(text)
    with zipfile.ZipFile(tmp_path / "own.csv.zip", "w") as archive:
        archive.writestr("inner.csv", text)
    for name in ("own.csv.gz", "own.csv.zip"):
        assert np.array_equal(values_of(tmp_path / name), WANTED)
    with zipfile.ZipFile(tmp_path / "two.csv.zip", "w") as archive:
        archive.writestr("a.csv", text)
        archive.writestr("b.csv", text)
    refused("cannot be read", read, tmp_path / "two.csv.zip", error=FileError)
    (tmp_path / "broken.csv.gz").write_bytes(b"no gzip at all")
    refused("cannot be read", read, tmp_path / "broken.csv.gz", error=FileError)


REFUSED = {
    "numbers alone": (rows(), "0 names above 3 columns"),
    "lines about it": ("Logger 3\n\ntime,a,b\n" + rows(), "names above"),
    "two rows of names": ("tip,,elbow\ntime,x,y,x,y\n0,1,2,3,4\n", "names above"),
    "names of rows": ("time a b\n1 0 1 2\n2 1 2 3\n", "names above"),
    "two names": ("time,a\n" + rows(), "names above 3 columns"),
    "the same name": ("time,a,a\n" + rows(), "Duplicate names"),
    "nothing": ("", "no table"),
    "an empty cell between blanks": ("time  a  b\n0.0  1.0  2.0\n1.0       2.0\n2.0  1.0  2.0\n", "3 names above 2 columns"),
    "comments alone": ("# time a b\n", "no table"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_nobody_can_tell_is_refused(kind, tmp_path):
    text, said_text = REFUSED[kind]
    (tmp_path / "own.csv").write_text(text)
    refused(said_text, read, tmp_path / "own.csv", error=FileError)


def test_a_second_table_is_refused(tmp_path):
    (tmp_path / "own.csv").write_text("time,a,b\n" + rows() + "\nDevices\n\ntime,c\n" + rows())
    refused("time", describe, read(tmp_path / "own.csv"))


def test_a_first_row_that_lacks_numbers_is_data_and_no_names(tmp_path):
    text = "date,label,a,b\n2020-01-01,first,NA,\n2020-01-02,second,1.5,2\n2020-01-03,third,2,3\n"
    (tmp_path / "own.csv").write_text(text)
    table = read(tmp_path / "own.csv")
    expected = pd.read_csv(tmp_path / "own.csv")
    pd.testing.assert_frame_equal(table, expected)


def test_tables_of_several_files_keep_their_units(tmp_path):
    for k in range(3):
        (tmp_path / f"run_{k}.csv").write_text("time,a,b\ns,m,m/s\n" + rows())
    data, texts = said(describe, romkit.open(str(tmp_path / "run_{k}.csv")), context=["k"])
    assert data.component_units.values.tolist() == ["m", "m/s"]
    assert np.array_equal(data.state.values, np.stack([WANTED] * 3))
    assert texts == []
    (tmp_path / "run_1.csv").write_text("time,a,b\ns,mm,m/s\n" + rows())
    refused("a in mm", romkit.open, str(tmp_path / "run_{k}.csv"), error=FileError)


def test_endings_of_text(tmp_path):
    for name in ("own.log", "OWN.CSV", "own.tsv"):
        (tmp_path / name).write_text(TEXTS["names"])
        assert np.array_equal(describe(romkit.open(tmp_path / name)).state[0], WANTED)
