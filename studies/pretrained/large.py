"""Data of the shipped models that have modes in front: one run of the full model is in memory at a time."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.systems import System
from studies.pretrained.judging import EVERY
from studies.wake import data as wake
from studies.wake.reduced import LAST

HELD_OUT = ((4.5, 0.026), (5.2, 0.018))
"""Contexts of Burgers' equation by which a seed is chosen, neither of training nor of test."""

HELD_OUT_RE, UNSEEN_RE = wake.UNSEEN[1::3], tuple(re for re in wake.UNSEEN if re not in wake.UNSEEN[1::3])
"""Of the Reynolds numbers at which the study of the wake does not train: by which a seed is chosen, and the others."""


def front_runs(system: System, contexts: Sequence[Sequence[float]], every: int = 2) -> xr.Dataset:
    """Each `every`-th state of runs."""
    runs = (system.dataset(mu1=[a], mu2=[b]) for a, b in contexts)
    return xr.concat([run.isel(time=slice(None, None, every)).astype(np.float32) for run in runs], "trajectory")


def fronts(system: System) -> xr.Dataset:
    """The published training contexts."""
    runs = front_runs(system, system.train_contexts(np.random.default_rng(0)))
    return runs.assign_attrs(split="train, each second state")


def unseen_fronts(system: System) -> Iterator[xr.Dataset]:
    """The published unseen contexts."""
    return (romkit.simulate(system, mu1=a, mu2=b) for a, b in system.test_contexts())


def wakes(system: System) -> xr.Dataset:
    """States and rates of the training runs of studies/wake, from their 64 coordinates."""
    basis, coordinates = romkit.load(wake.BASIS), romkit.data.open_dataset(wake.COORDINATES)
    runs = coordinates.isel(trajectory=np.isin(coordinates["Re"].values, wake.TRAIN))
    state = basis.decode(torch.from_numpy(runs["state"].values).double()).numpy()
    velocity = basis.decode_tangent(torch.from_numpy(runs["velocity"].values).double()).numpy()
    data = romkit.data.make_dataset(
        {"state": state, "velocity": velocity},
        times=runs["time"].values,
        time_units=system.time_units,
        state_names=system.state_names,
        state_units=system.state_units,
        contexts=runs["Re"].values[:, None],
        context=system.context,
        attrs=system.provenance() | {"split": "training runs of studies/wake"},
    )
    data["Re"].attrs["training_range"] = [min(wake.TRAIN), max(wake.TRAIN)]
    return data


def held_out_wakes(system: System) -> xr.Dataset:
    """Runs at the Reynolds numbers by which a seed is chosen, on their orbits."""
    runs = (_run(re).isel(time=slice(None, None, EVERY)) for re in HELD_OUT_RE)
    return xr.concat([run.isel(time=slice(-LAST, None)) for run in runs], "trajectory")


def unseen_wakes(system: System) -> Iterator[xr.Dataset]:
    """Runs at the rest of them."""
    return (_run(re) for re in UNSEEN_RE)


def _run(reynolds: float) -> xr.Dataset:
    """States of a run, made and kept in runs/wake by the study of the wake."""
    if not wake.stored(reynolds).exists():
        wake.FOLDER.mkdir(parents=True, exist_ok=True)
        wake.compute(reynolds)
    return wake.opened(reynolds).load().astype(np.float64)
