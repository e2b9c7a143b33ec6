"""Cost and error of full and reduced models on large states.

The full model by Newton's method and a general sparse solver, as it was published, and the basis of data larger than
memory last stood at commit 5370ed9 (published.py, out_of_core.py); their numbers are kept.
"""

import resource
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import xarray as xr
from scipy.stats import spearmanr
from torch import Tensor

import romkit
from romkit.data import Contexts, times_of, trajectories
from romkit.engine.threads import one_thread
from romkit.integrators import LSPG
from romkit.projections import Frame, Projection
from romkit.solvers import RK4
from romkit.systems import Burgers2D
from romkit.verbs.reduced import ReducedModel
from studies.large.measuring import MU, Found, evaluated, grid, seconds, solved, training

LSPG_DT, LSPG_STEPS = 0.1, 10
"""Step of LSPG, and number of steps on all rows that are timed."""
OUTSIDE = ((4.0, 0.012), (5.8, 0.034), (6.2, 0.02), (4.6, 0.036), (3.5, 0.025))
"""Contexts out of the training range."""


def full_models(cells: int) -> Found:
    """CPU seconds of one run by the full models on one thread, and distance of the explicit from the implicit one."""
    system, times = Burgers2D(cells=cells), grid(Burgers2D(cells=cells))
    (start,), ends = system.start(MU), times[[0, -1]]
    truth = solved(system, MU, times)[-1]
    numbers = {"n": system.state_size, "implicit, one sweep": seconds(lambda: solved(system, MU, times), 3)}
    for dt in (12.5 / cells, 10 / cells, 5 / cells):
        explicit = RK4(dt)(system.field(MU), start, ends)
        if not bool(explicit.status.any()):
            break
    apart = ((explicit.states[..., -1, :] - truth).norm() / truth.norm()).item()
    numbers |= {"explicit step": dt, "explicit against implicit, at the end": apart}
    return numbers | {"explicit RK4": seconds(lambda: RK4(dt)(system.field(MU), start, ends), 2)}


def reduced_models(rank: int, cells: int = 100, every: int = 2, number: int = 9) -> Found:
    """Errors at unseen contexts, and CPU seconds of a run, of POD-Galerkin."""
    system, basis = Burgers2D(cells=cells), training(cells, every)[0].truncated(rank)
    began = time.process_time()
    through = system.through(basis)
    numbers = {"rank": rank, "tensors, seconds": time.process_time() - began}
    return numbers | evaluated(system, basis, lambda c, y0, times: (through.field(c), y0, None), number=number)


def step_against_n(cells: int, rank: int = 32) -> Found:
    """CPU seconds per step of a reduced model at this n, and of decoding one state."""
    system = Burgers2D(cells=cells)
    with torch.no_grad(), one_thread():
        states = solved(system, MU, torch.linspace(0, 25, 41, dtype=torch.float64))
        basis = romkit.basis(states, rank=rank)
        began = time.process_time()
        through = system.through(basis)
        tensors = time.process_time() - began
        times, start = grid(system), basis.encode(states[:1])
        run, _ = RK4(system.dt).prepare(through.field(MU), start, times, "compiled", "reduced")
        cost = seconds(lambda: run(start, times), 9) / (len(times) - 1)
        decoding = seconds(lambda: basis.decode(start), 3)
    return {"n": system.state_size, "step, seconds": cost, "decoding, seconds": decoding, "tensors, seconds": tensors}


def coarser_grids(cells: int = 500, others: tuple[int, ...] = (100, 250)) -> Found:
    """Errors of the full model on coarser grids against a fine one, at each tenth time, cells of one value each."""

    def states(number: int) -> Tensor:
        system = Burgers2D(cells=number)
        return solved(system, MU, grid(system))[::10].unflatten(-1, (2, number, number)).clone()

    truth, errors = states(cells), {}
    for number in others:
        fine = states(number).repeat_interleave(cells // number, -1).repeat_interleave(cells // number, -2)
        errors[f"{2 * number**2}"] = ((fine - truth).norm() / truth.norm()).item()
    return {"n": 2 * cells**2, "errors by n": errors}


def hundred_thousand(cells: int = 224, epochs: int = 100) -> Found:
    """`fit("pod")`, `fit("ncae", basis=64)` and a rollout with 500 snapshots at n = 10^5: seconds and memory."""
    system = Burgers2D(cells=cells, duration=25.0, dt=0.05)
    data = system.dataset(mu1=[4.3, 5.2], mu2=[0.017, 0.028], duration=12.5)
    found = {"n": system.state_size, "snapshots": data.sizes["trajectory"] * data.sizes["time"]}
    short, settings = data.isel(trajectory=[0], time=slice(0, 100)), {"latent_dim": 3, "epochs": epochs}
    ncae = partial(romkit.fit, "ncae", data, basis=64, engine="torch", **settings)
    found["fit pod"], _ = _spent(partial(romkit.fit, "pod", data, latent_dim=10))
    found["fit ncae behind 64 modes"], model = _spent(ncae)
    found["follow 100 times"], _ = _spent(partial(romkit.follow, model, short, system=system))
    return found | {"largest memory, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def _spent(call: Callable[[], object]) -> tuple[Found, object]:
    began, wall = time.process_time(), time.perf_counter()
    result = call()
    return {"CPU seconds": time.process_time() - began, "seconds": time.perf_counter() - wall}, result


def on_mesh(
    method: str, latent_dim: int, modes: int, tolerance: float = 0.01, cells: int = 100, number: int = 9
) -> Found:
    """LSPG on a reduced mesh: errors at unseen contexts over the times of its steps, and CPU seconds of a run.

    Beside it CPU seconds of a step on all rows.
    """
    system, (basis, coordinates) = Burgers2D(cells=cells), training(cells)
    basis, coordinates = basis.truncated(modes), coordinates.isel(component=slice(modes))
    contexts = system.test_contexts()[:number]
    model = romkit.fit(method, coordinates, latent_dim=latent_dim)
    states = system.dataset(mu1=[contexts[0, 0]], mu2=[contexts[0, 1]], duration=system.dt)
    model.frame = Frame.from_dataset(states, basis, model.frame)
    began = time.process_time()
    mesh = romkit.reduced_mesh(system, model, coordinates, dt=LSPG_DT, tolerance=tolerance)
    numbers = {"choosing, seconds": time.process_time() - began, "tolerance": tolerance, "modes": modes}
    numbers |= {"rows": len(mesh.rows), "components seen": len(mesh.points), "n": system.state_size}
    errors, costs = [], []
    for mu1, mu2 in contexts:
        truth = system.dataset(mu1=[mu1], mu2=[mu2]).isel(time=slice(None, None, round(LSPG_DT / system.dt)))
        run = romkit.follow(model, truth, dynamics=LSPG(dt=LSPG_DT, mesh=mesh))
        error = float((((run["state"] - truth["state"]) ** 2).sum() / (truth["state"] ** 2).sum()) ** 0.5)
        errors.append(error if error < 1 and not run["status"].any() else 1.0)
        costs.append(_stepping(system, model, truth, LSPG(dt=LSPG_DT, mesh=mesh)))
    all_rows = _stepping(system, model, truth.isel(time=slice(LSPG_STEPS + 1)), LSPG(dt=LSPG_DT)) / LSPG_STEPS
    numbers |= {"steps": round(system.duration / LSPG_DT), "errors": errors}
    return numbers | {"seconds": min(costs), "all rows, seconds of a step": all_rows}


def _stepping(system: Burgers2D, model: Projection, truth: xr.Dataset, dynamics: LSPG) -> float:
    """CPU seconds of the time steps alone, without decoding."""
    times, reduced = times_of(truth), ReducedModel(model, dynamics, Contexts.of_dataset(truth), system)
    start = reduced.start(times[0], (trajectories(truth, "state")[:, 0],))
    with torch.no_grad():
        return seconds(lambda: dynamics.solve(reduced.problem, start, times), 1)


def shares(rank: int, cells: int = 100) -> Found:
    """Error of POD-Galerkin and mean unresolved share of the velocity, at unseen contexts; seconds of the share."""
    system, basis = Burgers2D(cells=cells), training(cells)[0].truncated(rank)
    through, inside = system.through(basis), system.test_contexts()
    errors, found, costs = [], [], []
    for mu1, mu2 in (*inside, *OUTSIDE):
        truth, context = system.dataset(mu1=[mu1], mu2=[mu2]), {"mu1": [mu1], "mu2": [mu2]}
        start = basis.project(truth.isel(time=[0]))["state"].values[:, 0]
        run = romkit.simulate(through, initial_state=start, **context, duration=system.duration, dt=system.dt)
        run = run.isel(time=slice(truth.sizes["time"]))
        began = time.process_time()
        found.append(float(through.unresolved(run).mean()))
        costs.append(time.process_time() - began)
        x, decoded = truth["state"].values[0], basis.decode(torch.from_numpy(run["state"].values[0])).numpy()
        errors.append(float(np.linalg.norm(decoded - x) / np.linalg.norm(x)))
    return {
        "modes": rank,
        "errors inside": errors[: len(inside)],
        "errors outside": errors[len(inside) :],
        "shares inside": found[: len(inside)],
        "shares outside": found[len(inside) :],
        "rank correlation": float(spearmanr(errors, found).statistic),
        "first call, seconds": costs[0],
        "one state, seconds": float(np.median(costs[1:])) / run.sizes["time"],
    }
