"""The path of a user's own data on the command line: check, fit, law, forecast, compare; and a
system in a file.
"""

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import romkit
from romkit.data import open_dataset, save_dataset
from romkit.projections import METHODS
from romkit.systems import SYSTEMS
from tests.unit.test_cli import ran, refusal, romkit_command

OWN = """
from dataclasses import dataclass
from romkit.systems import Lorenz96


@dataclass(frozen=True)
class Own(Lorenz96):
    n: int = 8
    transient: float = 0.0
    duration: float = 1.0
    horizon: float = 1.0
    name = "own-lorenz"


small = Own(duration=0.5)
"""


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch, blank_pictures):
    monkeypatch.chdir(tmp_path)
    known = [(table, dict(table)) for table in (SYSTEMS, METHODS)]
    yield
    for table, before in known:
        table.clear()
        table.update(before)


@pytest.fixture
def own():
    """my.nc: waves at nine speeds, with a label that is nobody's context."""
    time, speed = np.linspace(0, 3, 61), np.linspace(0.8, 1.2, 9)
    angle = 2 * speed[:, None] * time
    state = np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ np.random.default_rng(0).normal(
        size=(2, 5)
    )
    coords = {"time": time, "speed": ("trajectory", speed), "batch": ("trajectory", np.arange(9.0))}
    data = xr.Dataset({"state": (("trajectory", "time", "component"), state)}, coords)
    return str(save_dataset(data, "my.nc"))


@pytest.fixture
def fitted(own):
    """data.nc, the same with a declared context, and pod.safetensors and law.safetensors of it."""
    ran("check", own, "--context speed --out data.nc")
    data = open_dataset("data.nc")
    pod = romkit.fit("pod", data, latent_dim=2)
    law = romkit.laws.SINDy(degree=1, threshold=0.01, refine=False).fit(pod, data)
    romkit.save(pod, "pod.safetensors")
    romkit.save(law, "law.safetensors")
    return data, pod, law


FORECAST = "forecast pod.safetensors --dynamics law.safetensors --duration 1 --from"


def printed(message, category, filename, lineno, file=None, line=None):
    """What Python does with a warning, which pytest would record."""
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def test_the_path_from_a_file_to_a_forecast_with_a_band(own, monkeypatch):
    text = ran("check", own, "--context speed, --out data.nc")
    assert "speed 0.8 ... 1.2" in text
    assert "batch" in text.partition("ignored")[2]
    model = "runs/pod-data/projection.safetensors"
    assert f"wrote {model}" in ran("fit pod data.nc --set latent_dim=2")
    law = f"law sindy {model} data.nc --set threshold=0.01"
    text = ran(law, "--set degree=1")
    assert "z0' =" in text.partition("in physical latents")[2]
    chosen = ran(law, "--select degree=0,1 --set refine=false --out chosen.safetensors")
    assert re.search(r"degree=1\b.* chosen out of", chosen)
    assert "--select: expected one of" in refusal(law, "--select degre=0,1")
    first = "--from data.nc --trajectory 3 --duration 2"
    text = ran("forecast", model, "--dynamics runs/sindy-data/law.safetensors", first)
    assert "wrote runs/forecast-projection/forecast.nc" in text
    run = open_dataset("runs/forecast-projection/forecast.nc")
    assert np.abs(run.state.values - open_dataset("data.nc").state.values[3, :41]).max() < 0.05
    few = f"law sindy {model} data.nc --set degree=1 --set refine=false --members 2"
    text = ran(few, "--out ensemble.v2")
    assert "wrote an ensemble of 2 to ensemble.v2" in text
    monkeypatch.setattr(warnings, "showwarning", printed)
    result = romkit_command("forecast ensemble.v2", first, "--speed 1.6 --out far")
    assert result.exit_code == 0, result.stderr
    warning = "romkit: warning: the reduced model leaves what it was trained on: speed by up to 2 half widths"
    assert warning in result.stderr
    band = open_dataset("far/forecast.nc")
    assert bool((band.lower <= band.upper).all())
    assert Path("far/forecast.png").read_bytes().startswith(b"\x89PNG")


def test_compare_prints_a_table_and_goes_on_where_it_ended(own, monkeypatch):
    monkeypatch.setattr(romkit.laws.SINDy, "DEGREES", (1,))
    words = f"compare {own} --methods pod --laws dmd,sindy --set latent_dim=2 --set epochs=1"
    text = ran(words)
    assert " ".join(text.split()).startswith(
        "combinations projection law nrmse nrmse projected valid time lost parameters seconds 0 pod dmd"
    )
    components = open_dataset(own).sizes["component"]
    numbers = text.splitlines()[2].split()
    assert numbers[-2] == str(2 * components)  # modes of POD
    assert open_dataset("runs/compare-my/comparison.nc").sizes["law"] == 2
    assert "--set: expected a setting, got 'seed'" in refusal(words, "--set seed=3")
    before = Path("runs/compare-my/pod+dmd.nc").stat().st_mtime_ns
    assert ran(words) == text
    assert Path("runs/compare-my/pod+dmd.nc").stat().st_mtime_ns == before


def test_a_forecast_takes_inputs_of_the_data_or_of_a_file(fitted):
    data, pod, _ = fitted
    shape = (data.sizes["trajectory"], data.sizes["time"], 1)
    data = data.assign(
        control=(("trajectory", "time", "input"), np.random.default_rng(0).normal(size=shape))
    )
    save_dataset(data, "driven.nc")
    law = romkit.laws.SINDy(degree=1, threshold=0.01, refine=False).fit(pod, data)
    romkit.save(law, "driven.safetensors")
    words = "forecast pod.safetensors --dynamics driven.safetensors --duration 1 --from driven.nc --trajectory 2 --at"
    ran(words, "3 --out own.nc")
    first, dt = data.isel(trajectory=2, time=slice(3, None)), float(data.time[1])
    start = {
        "initial_state": first.state[0],
        "duration": 1.0,
        "dt": dt,
        "dynamics": law,
        "speed": float(first.speed),
    }
    by_hand = romkit.forecast(pod, control=first.control[: round(1 / dt) + 1], **start)
    np.testing.assert_allclose(open_dataset("own.nc").state, by_hand.state, rtol=1e-6, atol=1e-9)
    save_dataset(
        first[["control"]].drop_vars("speed").assign_coords(time=first.time.values + 7.0),
        "inputs.nc",
    )
    ran(words, "3 --control inputs.nc --out file.nc")
    assert open_dataset("file.nc").state.equals(open_dataset("own.nc").state)
    columns = {
        "time / s": first.time.values - first.time.values[0],
        "u0": first.control[:, 0].values,
    }
    pd.DataFrame(columns).to_csv("inputs.csv", index=False)
    ran(words, "3 --control inputs.csv --out table.nc")
    np.testing.assert_allclose(open_dataset("table.nc").state, by_hand.state, rtol=1e-6, atol=1e-9)
    assert "--control: expected inputs up to 1 after the first state, got up to 0" in refusal(
        words, "-1"
    )
    assert "--control: expected control (time, input) of u0, got data" in refusal(
        words, "0 --control data.nc"
    )


def test_a_forecast_starts_from_data_of_any_kind_and_refuses_what_it_cannot_make(fitted):
    data, _, _ = fitted
    save_dataset(romkit.data.with_velocity(data), "moving.nc")
    for start in ("data.nc", "moving.nc"):
        ran(FORECAST, start, f"--out from-{start}")
    assert open_dataset("from-data.nc").state.equals(open_dataset("from-moving.nc").state)
    save_dataset(data.isel(time=[0]), "start.nc")
    ran(FORECAST, "start.nc --dt 0.05 --out F-3.15")
    assert Path("F-3.15/forecast.nc").is_file()  # a number behind a dot is no ending
    save_dataset(data.isel(component=slice(None, None, -1)), "turned.nc")
    for words, reason in {
        f"{FORECAST} turned.nc": "expected components in the order x0 ... x4, got x4 ... x0",
        f"{FORECAST} start.nc": "--dt: expected an interval for data of a single time",
        f"{FORECAST} data.nc --dt 0": "dt: expected a positive number",
        f"{FORECAST} data.nc --trajectory 9": "--trajectory: expected an index into 9",
        f"{FORECAST} data.nc --sped 1": "did you mean '--speed'?",
        "forecast pod.safetensors --from data.nc --duration 1": "--dynamics: expected a law",
    }.items():
        assert reason in refusal(words)


def test_a_table_goes_in_and_a_forecast_has_its_columns(own):
    data = open_dataset(own)
    columns = xr.Dataset({f"a{k}": data.state.isel(component=k) for k in range(5)})
    columns.assign(speed=data.speed).to_dataframe().reset_index().to_csv("my.csv", index=False)
    assert "a0, a1, a2, a3, a4" in ran(
        "check my.csv --context speed --state a0,a1,a2,a3,a4 --out data.nc"
    )
    ran("fit pod data.nc --set latent_dim=2 --out pod.safetensors")
    ran(
        "law sindy pod.safetensors data.nc --set degree=1 --set threshold=0.01 --out law.safetensors"
    )
    ran(FORECAST, "data.nc --trajectory 2 --out ahead.nc")
    ahead = open_dataset("ahead.nc")
    assert np.allclose(
        ahead.a3, columns.a3.isel(trajectory=2, time=slice(ahead.sizes["time"])), atol=1e-2
    )
    Path("bad.csv").write_bytes(b"\xff\xfe\x00")
    Path("empty.csv").touch()
    for name, message in (
        ("none", "no such file"),
        ("bad", "is no text"),
        ("empty", "holds no table"),
    ):
        assert message in refusal(f"check {name}.csv")


def test_an_earlier_run_is_not_overwritten_without_force(own):
    words = f"fit pod {own} --set latent_dim"
    ran(f"{words}=2")
    file = Path("runs/pod-my/projection.safetensors")
    content = file.read_bytes()
    assert refusal(f"{words}=2 --seed 1").endswith("choose another --out, or add --force")
    assert file.read_bytes() == content
    ran(f"{words}=3 --force")
    assert romkit.load(file).latent_dim == 3
    assert "is there, from an earlier run" in refusal("check", own, "--out", own)


def test_a_system_in_a_file():
    for name, text in {
        "my_system": OWN,
        "signal": OWN,
        "mine": OWN.replace("own-lorenz", "lorenz96"),
        "broken": "import nothing_of_the_kind",
    }.items():
        Path(f"{name}.py").write_text(text)
    before = sys.modules["signal"]
    for file in ("my_system", "signal"):
        assert "F  3.133  3.193" in ran(f"info {file}.py:Own")
    assert sys.modules["signal"] is before
    ran("fit pod my_system.py:Own --set latent_dim=3 --out pod.safetensors")
    assert "own-lorenz at F = 3.15" in ran(
        "rollout my_system.py:Own --F 3.15 --model pod.safetensors"
    )
    assert Path("runs/rollout-Own/rollout.png").exists()
    ran("dataset my_system.py:small --F 3.14,3.15")
    assert open_dataset("runs/small-contexts/data.nc").sizes["time"] == 50
    ran("dataset mine.py:Own --F 3.14,3.15 --out own.nc")
    data = open_dataset("own.nc")
    assert data.system == "lorenz96 (Own)"  # called like one of romkit, and another one
    assert romkit.systems.system_of(data).state_size == 8
    assert romkit.systems.SYSTEMS["lorenz96"] is romkit.systems.Lorenz96
    for words, reason in {
        "info my_system.py:Ow": "did you mean 'Own'?",
        "rollout my_system.py:Own --F 3.15": "--model: expected a model",
        "info broken.py:Own": "broken.py: cannot be imported",
    }.items():
        assert reason in refusal(words)


def test_a_projection_in_a_file():
    Path("mine.py").write_text(
        "from romkit.projections import METHODS\n"
        "from romkit.projections.linear import POD\n"
        "class Mine(POD):\n    name = 'my-modes'\n"
        "METHODS[Mine.name] = Mine\n"
    )
    Path("my_system.py").write_text(OWN)
    Path("broken.py").write_text("import nothing_of_the_kind")
    ran("--import mine.py fit my-modes my_system.py:Own --set latent_dim=3 --out mine.safetensors")
    del METHODS["my-modes"]
    words = "rollout my_system.py:Own --F 3.15 --model mine.safetensors"
    assert "own-lorenz at F = 3.15" in ran(f"--import mine.py {words}")
    assert "cannot be imported" in refusal("--import broken.py info")


def test_a_context_that_moves_is_shown_with_the_others(own):
    F = ("trajectory", "time"), np.linspace(1, 2, 9 * 61).reshape(9, 61)
    save_dataset(open_dataset(own).assign_coords(F=F), "moving.nc")
    assert "F      1 ... 2 (549 values)" in ran("info moving.nc")


@pytest.mark.parametrize(
    ("variable", "unit", "factor"),
    [("speed", "mm/s", 1e3), ("time", "ms", 1e3), ("state", "km", 1e-3)],
)
def test_a_forecast_converts_the_units_of_its_data(fitted, variable, unit, factor):
    pytest.importorskip("pint")
    data, _, _ = fitted
    for name, of_model in (("speed", "m/s"), ("time", "s"), ("state", "m")):
        data[name].attrs["units"] = of_model
    pod = romkit.fit("pod", data, latent_dim=2)
    law = romkit.laws.SINDy(degree=1, threshold=0.01, refine=False).fit(pod, data)
    romkit.save(pod, "pod.safetensors")
    romkit.save(law, "law.safetensors")
    about = data[variable].attrs | {"units": unit}
    other = data.assign({variable: (data[variable] * factor).assign_attrs(about)})
    for name, source in (("same", data), ("other", other.set_coords(set(data.coords)))):
        save_dataset(source, f"{name}.nc")
        words = f"--from {name}.nc --trajectory 2 --duration 1 --out {name}"
        ran("forecast", "pod.safetensors --dynamics law.safetensors", words)
    same, again = (open_dataset(f"{name}/forecast.nc") for name in ("same", "other"))
    assert np.allclose(again.time, same.time)
    assert np.allclose(again.state, same.state, atol=1e-6)
    run = romkit.rollout(open_dataset("other.nc"), pod, dynamics=law)
    assert float(run.nrmse.max()) < 0.05


def test_a_forecast_needs_a_value_for_a_parameter_that_moves_in_its_data(fitted):
    data, _, _ = fitted
    speed = data.speed * (1 + 0.1 * data.time)
    save_dataset(data.assign_coords(speed=speed.assign_attrs(data.speed.attrs)), "moves.nc")
    words = "pod.safetensors --dynamics law.safetensors --from moves.nc --duration 1 --out"
    assert "speed" in refusal("forecast", words, "none")
    ran("forecast", words, "typed --speed 1.0")


def test_components_of_fields_are_named_with_their_commas():
    split = romkit.cli.options.names
    assert split("u[0, 1],u[1,2], p") == ["u[0, 1]", "u[1,2]", "p"]
    assert split("Re (a, b),x,") == ["Re (a, b)", "x"]
    assert split("a,b") == ["a", "b"]


@pytest.mark.parametrize(
    "words", ["lorenz96 3.16 --F 3.15", "run.nc lorenz96", "lorenz96 lorenz96"]
)
def test_a_system_stands_alone(words):
    assert "3.14,3.15" in refusal("rollout", f"{words} --model ncae-lorenz96")


@pytest.mark.parametrize("ending", [".csv", ".zarr", ".safetensors"])
def test_a_dataset_is_not_called_like_another_format(ending):
    assert ".nc" in refusal("dataset lorenz96 --F 3.15 --duration 0.1 --out", f"data{ending}")
    assert not Path(f"data{ending}").exists()
