"""Two hundred bad arguments at doors of every room: a result, or a refusal in one line."""

import random

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

import romkit
from romkit import data as datasets
from romkit.integrators import LSPG, Speed
from romkit.laws import SINDy
from romkit.projections import Frame, Path
from romkit.solvers import RK4, Adaptive
from romkit.systems import KuramotoSivashinsky, Lorenz96

CALLS = 200


class Unreadable:
    def __array__(self, *args, **named):
        raise ValueError("no array")

    def __len__(self):
        raise ValueError("no length")


JUNK = {
    "nothing": None,
    "not a number": float("nan"),
    "infinity": float("inf"),
    "zero": 0,
    "negative": -1.5,
    "huge": 1e308,
    "tiny": 1e-300,
    "huge integer": 10**30,
    "text": "junk",
    "no text": "",
    "bytes": b"x",
    "truth": True,
    "complex": 1j,
    "object": object(),
    "unreadable": Unreadable(),
    "class": Lorenz96,
    "function": lambda: 0,
    "empty list": [],
    "mixed list": [1, "a", None],
    "ragged list": [[1, 2], [3]],
    "names twice": ["a", "a"],
    "dict": {"a": 1},
    "set": {1, 2},
    "range": range(3),
    "date": np.datetime64("2020-01-01"),
    "array of NaN": np.array([np.nan, 1.0]),
    "array of objects": np.array([None, "a"], dtype=object),
    "array of text": np.array(["a", "b"]),
    "empty array": np.zeros((0, 3)),
    "array of many axes": np.ones((2, 3, 4, 5)),
    "number of NumPy": np.array(3),
    "tensor without values": torch.ones(3, device="meta"),
    "sparse tensor": torch.eye(3).to_sparse(),
    "complex tensor": torch.ones(3, dtype=torch.complex64),
    "half precision": torch.ones(3, dtype=torch.bfloat16),
    "empty dataset": xr.Dataset(),
    "dataset": xr.Dataset({"a": ("q", [1.0, 2.0])}),
    "table": pd.DataFrame({"a": [1]}),
}


@pytest.fixture(scope="module")
def doors():
    """Cheap calls that work, by what they test."""
    system = Lorenz96(n=8, transient=0.0)
    data = system.dataset(F=[3.14, 3.15, 3.16, 3.2], duration=0.3)
    pod = romkit.fit("pod", data, latent_dim=2, verbose=False)
    law = SINDy(degree=1, threshold=0.0).fit(pod, data)
    states = data.state.values
    start = {"initial_state": states[0, 0], "duration": 0.1, "dt": 0.05, "F": 3.15}
    arrays = {"states": states, "times": data.time.values, "context": {"F": data.F.values}}
    field = {"y0": torch.ones(2, 3), "times": torch.linspace(0, 1, 5), "engine": "torch"}
    ring = {"start": [0.5] * 4, "F": (0.5, 1.5), "points": 2, "kind": "equilibria", "period": None}
    return {
        romkit.fit: {"method": "pod", "data": data, "latent_dim": 2, "basis": None},
        romkit.basis: {"data": data, "rank": 2, "weight": None, "tolerance": None},
        romkit.simulate: {"system": system, "F": 3.15, "duration": 0.1},
        romkit.forecast: {"projection": pod, "dynamics": law, **start},
        romkit.follow: {"projection": pod, "data": data, "dynamics": law},
        romkit.law: {"projection": pod, "data": data, "kinds": ["dmd"]},
        romkit.load: {"path": "ncae-lorenz96"},
        romkit.save: {"model": pod, "path": "pod.safetensors"},
        lambda **given: romkit.continuation(Lorenz96(n=4), **given): ring,
        lambda **given: romkit.ProjectionTransformer("pod", 2, **given).fit(states[0]): {},
        datasets.from_arrays: arrays,
        datasets.describe: {"data": data, "context": ["F"], "time": "time"},
        datasets.with_velocity: {"data": data, "method": "auto"},
        datasets.resampled: {"data": data, "step": 0.02},
        datasets.delayed: {"data": data, "delays": 1},
        datasets.split: {"data": data, "share": 0.25},
        datasets.check_dataset: {"data": data},
        Frame.from_dataset: {"data": data},
        Path.constant: {"operator": pod(F=3.15)},
        Speed.fitted: {"contexts": [[1.0], [2.0], [3.0]], "speeds": [1.0, 1.0, 1.1]},
        Lorenz96: {"n": 8, "transient": 0.0, "dt": 0.01},
        KuramotoSivashinsky: {"n": 16, "dt": 0.05},
        system.dataset: {"split": None, "seed": 0, "duration": 0.1, "F": 3.15},
        system.field: {"context": torch.tensor([3.15])},
        system.through: {"basis": romkit.basis(data, rank=3), "tolerance": None},
        system.using: {"solver": RK4(0.01)},
        lambda **given: RK4(0.1)(lambda t, y: -y, **given): field,
        lambda **given: Adaptive(**given): {"rtol": 1e-6, "atol": 1e-9},
        LSPG: {"iterations": 2, "tolerance": 1e-3},
        romkit.metrics.valid_time: {"times": torch.arange(5.0), "errors": torch.ones(5)},
        romkit.plotting.plot_space_time: {"data": data, "variable": "state"},
        romkit.testing.check_projection: {"projection": pod, "spreads": (1.0,)},
        pod: {"F": 3.15},
        pod(F=3.15).encode: {"x": torch.ones(3, 8)},
    }


@pytest.mark.filterwarnings("ignore")
def test_bad_arguments_are_refused_in_one_line_or_work(doors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for door, valid in doors.items():
        door(**valid)
    draw, faults = random.Random(0), []
    arguments = [(door, name) for door, valid in doors.items() for name in valid]
    for _ in range(CALLS):
        (door, argument), kind = draw.choice(arguments), draw.choice([*JUNK])
        try:
            door(**doors[door] | {argument: JUNK[kind]})
        except romkit.errors.RomkitError as refusal:
            if "\n" in str(refusal):
                faults.append((door, argument, kind, str(refusal)))
        except Exception as error:
            faults.append((door, argument, kind, repr(error)))
    assert not faults
