"""LSPG on reduced meshes, beside LSPG on all rows."""

import time

import torch
import xarray as xr

import romkit
from romkit.data import Contexts, times_of, trajectories
from romkit.integrators import LSPG
from romkit.projections import BasisNormalization, Projection
from romkit.projections.frame import signature_of
from romkit.systems import Burgers2D
from romkit.verbs.reduced import ReducedModel
from studies.large.measuring import training
from studies.pieces import Numbers

DT, STEPS = 0.1, 10
"""Step of LSPG, and how many of them on all rows are timed."""


def on_mesh(method: str, latent_dim: int, modes: int, tolerance: float, number: int = 9) -> Numbers:
    """Errors at unseen contexts and CPU seconds of a run, on a reduced mesh; CPU seconds of a step on all rows.

    Errors are over the times of the steps.
    """
    system, (basis, coordinates) = Burgers2D(cells=100), training()
    basis, coordinates = basis.truncated(modes), coordinates.isel(component=slice(modes))
    contexts = system.test_contexts()[:number]
    model = romkit.fit(method, coordinates, latent_dim=latent_dim)
    states = system.dataset(mu1=[contexts[0, 0]], mu2=[contexts[0, 1]], duration=system.dt)
    model.normalization = BasisNormalization(signature_of(states), basis, model.normalization)
    began = time.process_time()
    mesh = romkit.reduced_mesh(system, model, coordinates, dt=DT, tolerance=tolerance)
    numbers = {"choosing, seconds": time.process_time() - began, "tolerance": tolerance, "modes": modes}
    numbers |= {"rows": len(mesh.rows), "components seen": len(mesh.points), "n": system.state_size}
    numbers["steps"] = round(system.duration / DT)
    errors, costs = [], []
    for mu1, mu2 in contexts:
        truth = system.dataset(mu1=[mu1], mu2=[mu2]).isel(time=slice(None, None, round(DT / system.dt)))
        run = romkit.follow(model, truth, dynamics=LSPG(dt=DT, mesh=mesh))
        error = float((((run["state"] - truth["state"]) ** 2).sum() / (truth["state"] ** 2).sum()) ** 0.5)
        errors.append(error if error < 1 and not run["status"].any() else 1.0)
        costs.append(stepping(model, truth, LSPG(dt=DT, mesh=mesh)))
    all_rows = stepping(model, truth.isel(time=slice(STEPS + 1)), LSPG(dt=DT)) / STEPS
    return numbers | {"errors": errors, "seconds": min(costs), "all rows, seconds of a step": all_rows}


def stepping(model: Projection, truth: xr.Dataset, dynamics: LSPG) -> float:
    """CPU seconds of the time steps alone, without decoding."""
    times, reduced = times_of(truth), ReducedModel(model, dynamics, Contexts.of_dataset(truth), Burgers2D())
    start = reduced.start(times[0], (trajectories(truth, "state")[:, 0],))
    began = time.process_time()
    with torch.no_grad():
        dynamics.solve(reduced.problem, start, times)
    return time.process_time() - began
