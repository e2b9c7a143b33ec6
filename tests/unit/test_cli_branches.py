"""`romkit branches`: from a system to its special points, and on from one of them."""

from typer.testing import CliRunner

import romkit
from romkit.cli.main import app
from romkit.cli.runs import _branch_start


def called(*words):
    return CliRunner().invoke(app, ["branches", "ring.py:Ring", *words])


RING = """
from romkit.systems import Lorenz96

Ring = Lorenz96(n=4, transient=20.0)
"""


def test_a_branch_is_written_and_left_at_its_special_point(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring.py").write_text(RING)
    result = called("--F", "0.5,1.5", "--verify", "--out", "rest")
    assert result.exit_code == 0, result.output
    assert "Hopf" in result.output
    branch = romkit.data.open_dataset("rest/branches.nc")
    assert abs(float(branch["special_parameter"][0]) - 1) < 1e-6
    assert (tmp_path / "rest" / "verified.nc").exists()
    assert (tmp_path / "rest" / "branches.png").exists()
    result = called(
        "--F",
        "0.5,1.5",
        "--from",
        "rest/branches.nc",
        "--leave",
        "0",
        "--points",
        "2",
        "--out",
        "waves",
    )
    assert result.exit_code == 0, result.output
    assert romkit.data.open_dataset("waves/branches.nc").attrs["kind"] == "orbits"


def test_of_several_runs_the_one_nearest_to_the_first_end_is_the_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ring = romkit.systems.Lorenz96(n=4, transient=0.0)
    last = {}
    for k, forcing in enumerate((0.9, 0.5, 0.7)):
        run = ring.dataset(F=forcing, duration=1.0)
        romkit.data.save_dataset(run, f"run{k}.nc")
        last[forcing] = run["state"].values[0, -1].tolist()
    for first_end, nearest in ((0.72, 0.7), (0.1, 0.5), (2.0, 0.9)):
        start = _branch_start(["run0.nc", "run1.nc", "run2.nc"], ring, {"F": [first_end, 1.5]})
        assert start == last[nearest]
    assert _branch_start(["run*.nc"], ring, {"F": [0.5, 1.0]}) == last[0.5]


def test_bad_input_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring.py").write_text(RING)
    for words, argument in ((("--F", "0.5"), "context"), (("--F", "0.5,1", "--leave", "0"), "at")):
        result = called(*words, "--out", argument)
        assert result.exit_code == 2
        assert f"romkit: {argument}: " in result.output
