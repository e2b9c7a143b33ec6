"""`romkit.compare`: all combinations on one split, resumed, and failures that harm nobody."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from safetensors.torch import load_file

import romkit
from romkit.laws import DMD, SINDy
from tests.refusals import refused

TIMES = np.linspace(0, 6, 61)


@pytest.fixture(scope="module")
def data():
    speed = np.linspace(0.8, 1.2, 9)
    angle = 2 * speed[:, None] * TIMES
    flat = np.stack([np.cos(angle), np.sin(angle)], axis=-1) * np.exp(-0.05 * TIMES)[:, None]
    state = flat @ np.random.default_rng(0).normal(size=(2, 5))
    coords = {"time": TIMES, "speed": ("trajectory", speed)}
    own = xr.Dataset({"state": (("trajectory", "time", "component"), state)}, coords)
    return romkit.data.with_velocity(own)


METHODS = {"pod": {}, "narrow": {"method": "pod", "latent_dim": 1}}


def compared(data, folder, laws, methods=METHODS, **more):
    return romkit.compare(data, methods, laws, folder=folder, latent_dim=2, **more)


def test_all_combinations_are_scored_on_what_is_held_out(data, tmp_path):
    found = compared(data, tmp_path, [SINDy(degree=2, threshold=0.01), DMD()])
    assert found.nrmse.dims == ("projection", "law", "trajectory", "time")
    assert list(found.projection.values) == ["pod", "narrow"]
    assert list(found.law.values) == ["sindy", "dmd"]
    assert found.sizes["trajectory"] == 2
    best = found.sel(projection="pod")
    assert float(best.nrmse_projected.max()) < 1e-6
    assert float(best.sel(law="sindy").nrmse.max()) < 0.05  # the speed is a parameter of its terms
    assert (
        0.1 < float(best.sel(law="dmd").nrmse.max()) < 1.5
    )  # and an input of this one, which cannot turn faster
    assert float(found.sel(projection="narrow").nrmse_projected.median()) > 0.1
    assert "δz0' =" in str(best.sel(law="sindy").equations.values)
    train, test = romkit.data.split(data, 0.25, seed=0)
    pod = romkit.fit("pod", train, latent_dim=2)
    by_hand = romkit.rollout(test, pod, dynamics=SINDy(degree=2, threshold=0.01).fit(pod, train))
    assert np.allclose(best.sel(law="sindy").nrmse, by_hand.nrmse, atol=1e-10)


def test_parameters_are_the_stored_numbers_of_each_projection(data, tmp_path):
    methods = {
        "pod": {},  # (5, 2) modes
        "behind": {"method": "pod", "basis": 2},  # (2, 2) modes of coordinates, (5, 2) in front
        "ncae": {"epochs": 1, "verbose": False},
        "stack": {"method": "ncae", "epochs": 1, "verbose": False, "seeds": [0, 1]},
        "none": {"method": "identity", "latent_dim": 5},
        "failing": {"method": "pod", "latent_dim": 9},
    }
    found = romkit.compare(data, methods, ["dmd"], folder=tmp_path, latent_dim=2)
    assert found.parameters.dims == ("projection",)
    count = dict(zip(methods, found.parameters.values.tolist(), strict=True))
    assert (count["pod"], count["behind"], count["none"]) == (10, 4 + 10, 0)
    assert np.isnan(count["failing"])
    files = (tmp_path / "projections").glob("ncae-*.safetensors")
    tensors = load_file(min(files, key=lambda file: file.stat().st_size))  # not of the stack
    maps = [tensor.numel() for name, tensor in tensors.items() if not name.startswith("frame.")]
    assert count["ncae"] == sum(maps)
    assert count["stack"] == 2 * count["ncae"]


def test_what_is_complete_is_not_computed_again(data, tmp_path, monkeypatch):
    linear = SINDy(degree=1, threshold=0.0, refine=False)
    first = compared(data, tmp_path, ["dmd"])
    times = {
        file: file.stat().st_mtime_ns
        for file in tmp_path.rglob("*.*")
        if file.suffix in (".nc", ".safetensors")
    }
    both = compared(data, tmp_path, ["dmd", linear])
    assert np.array_equal(both.sel(law="dmd").nrmse, first.sel(law="dmd").nrmse)
    assert {file: file.stat().st_mtime_ns for file in times} == times
    assert len(list((tmp_path / "projections").glob("*.safetensors"))) == 2  # laws share them
    other = compared(data.assign(state=1.1 * data.state), tmp_path, ["dmd"], ["pod"])
    assert not np.array_equal(other.nrmse, first.sel(projection=["pod"]).nrmse)
    placed = data.assign_coords(
        place=("trajectory", np.arange(9.0) ** 2)
    )  # the same numbers at another context
    placed = romkit.data.describe(placed, context=["speed", "place"])
    assert "place" in compared(placed, tmp_path, [linear], ["pod"]).equations.values.flat[0]


def test_a_failure_is_named_and_the_others_are_there(data, tmp_path):
    found = compared(data, tmp_path, {"good": DMD(), "bad": SINDy(degree=30)}, ["pod"])
    assert np.isnan(found.sel(law="bad", projection="pod").nrmse).all()
    assert np.isfinite(found.sel(law="good", projection="pod").nrmse).all()
    failed = json.loads(found.attrs["failed"])
    assert set(failed) == {"pod+bad"}
    assert "at least" in Path(failed["pod+bad"]).read_text()


@pytest.mark.parametrize(
    ("methods", "laws", "argument"),
    [
        (["pood"], ["dmd"], "methods"),
        (["pod"], ["dmc"], "laws"),
        (["pod"], [], "laws"),
        ({}, ["dmd"], "methods"),
        (
            ["pod"],
            [SINDy(degree=1), SINDy(degree=2)],
            "laws",
        ),
        (
            ["pod"],
            [romkit.integrators.Galerkin()],
            "laws[0]",
        ),
        (
            {"pod": {"latent_dim": np.arange(3)}},
            ["dmd"],
            "methods.latent_dim",
        ),
    ],
)
def test_what_cannot_be_compared(data, tmp_path, methods, laws, argument):
    refused(argument, romkit.compare, data, methods, laws, folder=tmp_path)
