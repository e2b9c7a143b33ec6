"""Probes of OpenFOAM."""

import numpy as np
import pytest

import romkit
from romkit.data import describe, fields
from romkit.errors import DataWarning, FileError
from tests.refusals import refused

PLACES = np.array([[0.1, 0.2, 0.0], [0.3, 0.2, 0.0], [0.5, 0.4, 0.1], [1e-3, 0.0, 0.0]])
TIME = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
RANDOM = np.random.default_rng(0)


def text_of(times, values):
    lines = [f"# Probe {k} ({' '.join(f'{x:g}' for x in place)})" for k, place in enumerate(PLACES)]
    lines += [
        "#       Probe             0             1             2             3",
        "#        Time",
    ]
    for time, row in zip(times, values, strict=True):
        words = []
        for value in row:
            words.append(
                f"({' '.join(map(repr, value.tolist()))})" if value.ndim else repr(value.item())
            )
        lines.append(f"{time:>13g} {'   '.join(words)}")
    return "\n".join(lines) + "\n"


def write(case, start, fields_of, times):
    folder = case / "postProcessing/probes" / start
    folder.mkdir(parents=True)
    for name, values in fields_of.items():
        (folder / name).write_text(text_of(times, values))


def drawn():
    return {
        "p": RANDOM.normal(size=(6, 4)),
        "U": RANDOM.normal(size=(6, 4, 3)),
        "R": RANDOM.normal(size=(6, 4, 6)),
    }


def test_scalars_vectors_and_tensors_of_a_case(tmp_path):
    known = drawn()
    write(tmp_path / "case", "0", known, TIME)
    case = tmp_path / "case"
    for path in (
        case,
        case / "postProcessing",
        case / "postProcessing/probes",
        case / "postProcessing/probes/0",
    ):
        data = romkit.open(path)
        for name, values in known.items():
            assert np.array_equal(data[name].values, values)
        assert np.array_equal(np.stack([data.x, data.y, data.z], -1), PLACES)
        assert np.array_equal(data.time, TIME)
    one = romkit.open(case / "postProcessing/probes/0/U")
    assert list(one.data_vars) == ["U"]
    assert one.U.dims == ("time", "probe", "direction")


def test_a_restart_replaces_what_it_computed_again(tmp_path):
    known, again = drawn(), drawn()
    write(tmp_path / "case", "0", known, TIME)
    write(tmp_path / "case", "0.35", {n: v[3:] for n, v in again.items()}, TIME[3:])
    write(tmp_path / "case", "10", {n: v[:2] for n, v in again.items()}, [10.1, 10.2])
    with pytest.warns(DataWarning, match="restarted"):
        data = romkit.open(tmp_path / "case")
    wanted = np.concatenate([known["U"][:3], again["U"][3:], again["U"][:2]])
    assert np.array_equal(data.U.values, wanted)
    assert np.array_equal(data.time, [*TIME, 10.1, 10.2])


def test_cases_are_runs_with_the_parameter_of_their_folders(tmp_path):
    known = {speed: drawn() for speed in (0.5, 1.0, 12.0)}
    for speed, values in known.items():
        write(tmp_path / f"U_{speed}", "0", values, TIME)
    data = describe(romkit.open(str(tmp_path / "U_{speed}")))
    assert np.array_equal(data.speed, [0.5, 1.0, 12.0])
    assert np.array_equal(fields(data).p.values, np.stack([known[s]["p"] for s in known]))
    refused("other name in braces", romkit.open, str(tmp_path / "U_{U}"), error=FileError)


def test_probes_outside_of_the_mesh_are_never_there(tmp_path):
    known = {"p": RANDOM.normal(size=(6, 4))}
    known["p"][:, 2] = -1e300
    write(tmp_path / "case", "0", known, TIME)
    with pytest.warns(DataWarning, match="1 probes"):
        data = romkit.open(tmp_path / "case")
    assert describe(data).sizes["component"] == 3


def test_files_that_were_cut_off_and_probes_that_changed_are_refused(tmp_path):
    write(tmp_path / "case", "0", drawn(), TIME)
    file = tmp_path / "case/postProcessing/probes/0/U"
    whole = file.read_text()
    file.write_text(whole[: int(0.9 * len(whole))])
    refused("to its end", romkit.open, tmp_path / "case", error=FileError)
    file.write_text(whole.replace("(0.3 0.2 0)", "(0.35 0.2 0)"))
    refused("other times, probes or places", romkit.open, tmp_path / "case", error=FileError)
    file.write_text(whole)
    write(tmp_path / "case", "0.6", {"p": np.ones((1, 4))}, [0.7])
    refused("after a restart", romkit.open, tmp_path / "case", error=FileError)
