"""What a model that ships is chosen and measured by."""

import copy
import functools
from collections.abc import Iterator

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis
from romkit.integrators import Galerkin
from romkit.metrics import nrmse
from romkit.projections import Projection
from romkit.systems import CylinderWake, System
from studies.wake.reduced import LAST, LENGTH, DragLift, Reduced, behind, cycle, follow, linear

EVERY = 2
"""Samples of a run of which the study of the wake takes one."""


def projection_nrmse(projection: Projection, data: xr.Dataset) -> Tensor:
    """(trajectories,) NRMSE of P(x) over each trajectory."""
    double = copy.deepcopy(projection).double()
    x = torch.from_numpy(data["state"].values)
    with torch.no_grad():
        return nrmse(x, double(data)(x), double.normalization.state_std).square().mean(-1).sqrt()


def snapshots_error(projection: Projection, data: xr.Dataset) -> float:
    """NRMSE of P(x) over all trajectories."""
    return projection_nrmse(projection, data).square().mean().sqrt().item()


def shedding_error(projection: Projection, data: xr.Dataset) -> float:
    """Mean of the relative errors of Strouhal number and largest lift; infinite where a run does not shed."""
    errors = _errors(_network(projection), projection.basis, data)
    return float(np.nan_to_num(errors, nan=np.inf).mean())


def shedding(projection: Projection, truths: Iterator[xr.Dataset]) -> dict[str, object]:
    """Both errors at each Reynolds number, of a model and of its modes alone."""
    thin = (run.isel(time=slice(None, None, EVERY)) for run in truths)
    data = xr.concat([run.isel(time=slice(-LAST, None)) for run in thin], "trajectory")
    found: dict[str, object] = {"Re": data["Re"].values.tolist()}
    for name, reduced in (("model", _network(projection)), ("modes", linear(_through(projection.basis)[0]))):
        strouhal, lift = _errors(reduced, projection.basis, data).T.tolist()
        found[name] = {"Strouhal": strouhal, "lift": lift}
    return {"shedding": found}


@functools.lru_cache(maxsize=1)
def _through(basis: Basis) -> tuple[System, DragLift]:
    return CylinderWake().through(basis), DragLift.of(basis)


def _network(projection: Projection) -> Reduced:
    inner = copy.deepcopy(projection.of_coordinates()).double()
    return behind(_through(projection.basis)[0], inner, Galerkin())


def _errors(reduced: Reduced, basis: Basis, data: xr.Dataset) -> np.ndarray:
    """(C, 2) relative errors of Strouhal number and largest lift, from the first of `LAST` samples on the orbit."""
    forces, c = _through(basis)[1], torch.from_numpy(data["Re"].values).unsqueeze(-1)
    with torch.no_grad():
        bound = reduced(c)
        orbit = follow(bound, basis.encode(torch.from_numpy(data["state"].values[:, 0])), LENGTH)
        lift = forces(bound.decode(orbit.states[:, -LAST:]), c.unsqueeze(1))[..., 1].numpy()
    found, true = (np.array([cycle(each) for each in lifts]) for lifts in (lift, data["lift"].values))
    return np.abs(found / true - 1)
