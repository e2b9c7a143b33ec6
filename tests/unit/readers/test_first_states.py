"""First states in tables without a time, of rows that are runs or places."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import romkit
from romkit.cli import app
from romkit.data import describe

X, Y = np.meshgrid(np.linspace(0, 1, 3), np.linspace(0, 2, 4), indexing="ij")
TIMES = np.linspace(0, 2, 41)


def places(amplitude):
    """A snapshot of a wave that decays, as rows of places."""
    u = amplitude * (np.sin(X + Y) + 0.2)
    return pd.DataFrame({"x": X.ravel(), "y": Y.ravel(), "u": u.ravel()})


@pytest.fixture(scope="module")
def field():
    """A linear law of a field over x and y, whose decay is k."""
    pieces = []
    for k in (0.5, 1.0, 1.5):
        for t in TIMES:
            pieces.append(places(np.exp(-k * t)).assign(time=t, k=k))
    table = pd.concat(pieces).set_index(["k", "time", "x", "y"])
    return model(describe(table, context=["k"]))


@pytest.fixture(scope="module")
def levels():
    """The same of two plain components."""
    rows = [
        {"k": k, "time": t, "a": np.exp(-k * t), "b": 1 - np.exp(-k * t)}
        for k in (0.5, 1.0, 1.5)
        for t in TIMES
    ]
    return model(describe(pd.DataFrame(rows), context=["k"]))


def model(data):
    pod = romkit.fit("pod", data, latent_dim=1)
    return pod, romkit.laws.SINDy(degree=1, context_degree=1).fit(pod, data)


def test_rows_of_places_are_a_state(field):
    pod, law = field
    ahead = romkit.forecast(
        pod, dynamics=law, initial_state=places(0.8), duration=1.0, dt=0.5, k=1.0
    )
    expected = 0.8 * np.exp(-1.0) * (np.sin(X + Y) + 0.2)
    assert np.allclose(ahead["u"].isel(time=-1).squeeze(), expected, atol=2e-3)


def forecast(folder, model, table, *options):
    """The forecast that the command writes from a table."""
    pod, law = model
    romkit.save(pod, folder / "pod.safetensors")
    romkit.save(law, folder / "law.safetensors")
    table.to_csv(folder / "start.csv", index=False)
    words = ["forecast", folder / "pod.safetensors", "--dynamics", folder / "law.safetensors"]
    words += ["--from", folder / "start.csv", "--duration", 1, "--dt", 0.5, "--out", folder / "out"]
    result = CliRunner().invoke(
        app, [*map(str, words), *options, "--force"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return romkit.open(folder / "out/forecast.nc")


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")
def test_a_file_of_places_without_a_time_is_a_first_state(field, tmp_path):
    ahead = forecast(tmp_path, field, places(0.8), "--k", "1.0")
    expected = 0.8 * np.exp(-1.0) * (np.sin(X + Y) + 0.2)
    assert np.allclose(ahead["u"].isel(time=-1).squeeze(), expected, atol=2e-3)


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")
def test_rows_without_a_time_are_runs(levels, tmp_path):
    starts = pd.DataFrame({"k": [0.6, 1.2], "a": [1.0, 1.0], "b": [0.0, 0.0]})
    ahead = forecast(tmp_path, levels, starts, "--trajectory", "1")
    a = float(ahead["a"].isel(time=-1).squeeze())
    assert abs(a - np.exp(-1.2)) < 0.02
