"""What the study of the wake asks, of the model that ships: how often it sheds vortices, and how large lift becomes."""

from collections.abc import Iterator

import numpy as np
import torch
import xarray as xr

from romkit.integrators import Galerkin
from romkit.projections import Projection
from romkit.systems import CylinderWake
from studies.wake.drag_lift import DragLift
from studies.wake.reduced import LAST, LENGTH, behind, cycle, follow, linear

EVERY = 2
"""Samples of a run of which the study takes one."""


def shedding(projection: Projection, truths: Iterator[xr.Dataset]) -> dict[str, object]:
    """Errors of Strouhal number and largest lift at each Reynolds number, of the model and of its modes alone."""
    basis, runs = projection.basis, [_of(run, projection) for run in truths]
    reynolds, starts, true = (np.concatenate(part) for part in zip(*runs, strict=True))
    through, forces, c = CylinderWake().through(basis), DragLift.of(basis), torch.from_numpy(reynolds).unsqueeze(-1)
    network = behind(through, projection.of_coordinates().double(), Galerkin())
    found = {"Re": reynolds.tolist()}
    with torch.no_grad():
        for name, reduced in (("model", network), ("modes", linear(through))):
            bound = reduced(c)
            orbit = follow(bound, torch.from_numpy(starts), LENGTH)
            lift = forces(bound.decode(orbit.states[:, -LAST:]), c.unsqueeze(1))[..., 1].numpy()
            errors = np.abs(np.array([cycle(each) for each in lift]) / true - 1)
            found[name] = {"Strouhal": errors[:, 0].tolist(), "lift": errors[:, 1].tolist()}
    return {"shedding": found}


def _of(run: xr.Dataset, projection: Projection) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reynolds number, coordinates of a state on the orbit, Strouhal number and largest lift, each (1, ...)."""
    thin = run.isel(time=slice(None, None, EVERY))
    state = projection.basis.encode(torch.from_numpy(thin["state"].values[:, -LAST]))
    return run["Re"].values, state.numpy(), np.array([cycle(lift) for lift in thin["lift"].values])
