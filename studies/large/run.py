"""Cost and error of full and reduced models on large states.

What was measured once is kept in full.json; the README says at which commits its code last stood.
"""

import time
from collections.abc import Sequence
from functools import partial

import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.data import Contexts, times_of, trajectories
from romkit.engine.threads import one_thread
from romkit.integrators import LSPG, Galerkin
from romkit.integrators.contracted import precontracted
from romkit.models import ReducedModel
from romkit.projections import Frame, Path, Projection, unstack
from romkit.solvers import RK4
from romkit.systems import Burgers2D
from studies.large.measuring import MU, Found, evaluated, grid, seconds, solved, training
from studies.runner import Settings

PROJECTED_DT = 0.5
"""Step of methods of few latents."""
LSPG_DT, LSPG_STEPS = 0.1, 10
"""Step of LSPG, and number of steps on all rows that are timed."""


def full_models(cells: int) -> Found:
    """CPU seconds of one run by the full models on one thread, and distance of the explicit from
    the implicit one.
    """
    system, times = Burgers2D(cells=cells), grid(Burgers2D(cells=cells))
    (start,), ends = system.start(MU), times[[0, -1]]
    truth = solved(system, MU, times)[-1]
    numbers = {
        "n": system.state_size,
        "implicit, one sweep": seconds(lambda: solved(system, MU, times), 3),
    }
    for dt in (12.5 / cells, 10 / cells, 5 / cells):
        explicit = RK4(dt)(system.field(MU), start, ends)
        if not bool(explicit.status.any()):
            break
    apart = ((explicit.states[..., -1, :] - truth).norm() / truth.norm()).item()
    numbers |= {"explicit step": dt, "explicit against implicit, at the end": apart}
    return numbers | {"explicit RK4": seconds(lambda: RK4(dt)(system.field(MU), start, ends), 2)}


def reduced_models(rank: int, cells: int = 100, every: int = 2, number: int = 9) -> Found:
    """Return errors at unseen contexts, and CPU seconds of a run, of POD-Galerkin."""
    system, basis = Burgers2D(cells=cells), training(cells, every)[0].truncated(rank)
    began = time.process_time()
    through = system.through(basis)
    numbers = {"rank": rank, "tensors, seconds": time.process_time() - began}
    return numbers | evaluated(
        system, basis, lambda c, y0, times: (through.field(c), y0, None), number=number
    )


def projected(
    method: str,
    sizes: Settings,
    modes: int,
    seeds: Sequence[int],
    cells: int = 100,
    number: int = 9,
) -> Found:
    """Return errors and costs of a method of few latents behind the basis, by Galerkin projection,
    each as a list over seeds.

    Networks are trained with the preset "quick" but for epochs and rate, as all methods are.
    """
    system, (basis, coordinates) = Burgers2D(cells=cells), training(cells)
    basis, coordinates = basis.truncated(modes), coordinates.isel(component=slice(modes))
    through = system.through(basis)
    began = time.process_time()
    models = unstack(romkit.fit(method, coordinates, seeds=seeds, engine="torch", **dict(sizes)))
    numbers = {
        "method": method,
        "training, seconds per seed": (time.process_time() - began) / len(seeds),
    }
    numbers |= {
        "parameters": sum(p.numel() for p in models[0].parameters()),
        "modes": modes,
        "n": system.state_size,
    }

    def reduced(model: Projection, c: Tensor, y0: Tensor, times: Tensor) -> tuple:
        P = model.double()(c)
        problem = through.problem(Path.constant(P), c)
        small = precontracted(problem, through.quadratic(c))
        return Galerkin().field(small), Galerkin().start(problem, times[0], (y0,)), P.decode

    found = [
        evaluated(system, basis, partial(reduced, model), PROJECTED_DT, number) for model in models
    ]
    return numbers | {name: [each[name] for each in found] for name in found[0]}


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
    return {
        "n": system.state_size,
        "step, seconds": cost,
        "decoding, seconds": decoding,
        "tensors, seconds": tensors,
    }


def on_mesh(
    method: str,
    latent_dim: int,
    modes: int,
    tolerance: float = 0.01,
    cells: int = 100,
    number: int = 9,
) -> Found:
    """LSPG on a reduced mesh: errors at unseen contexts over the times of its steps, and CPU
    seconds of a run.

    Beside it CPU seconds of a step on all rows.
    """
    system, (basis, coordinates) = Burgers2D(cells=cells), training(cells)
    basis, coordinates = basis.truncated(modes), coordinates.isel(component=slice(modes))
    contexts = system.test_contexts()[:number]
    quadratic = {}
    if method == "polynomial-manifold":
        quadratic = {"degree": 2, "context_degree": 0}
    model = romkit.fit(method, coordinates, latent_dim=latent_dim, **quadratic)
    states = system.dataset(mu1=[contexts[0, 0]], mu2=[contexts[0, 1]], duration=system.dt)
    model.frame = Frame.from_dataset(states, basis, model.frame)
    began = time.process_time()
    mesh = romkit.reduced_mesh(system, model, coordinates, dt=LSPG_DT, tolerance=tolerance)
    numbers = {
        "choosing, seconds": time.process_time() - began,
        "tolerance": tolerance,
        "modes": modes,
    }
    numbers |= {"rows": len(mesh.rows), "components seen": len(mesh.points), "n": system.state_size}
    errors, costs = [], []
    for mu1, mu2 in contexts:
        truth = system.dataset(mu1=[mu1], mu2=[mu2]).isel(
            time=slice(None, None, round(LSPG_DT / system.dt))
        )
        run = romkit.follow(model, truth, dynamics=LSPG(dt=LSPG_DT, mesh=mesh))
        error = float(
            (((run["state"] - truth["state"]) ** 2).sum() / (truth["state"] ** 2).sum()) ** 0.5
        )
        errors.append(error if error < 1 and not run["status"].any() else 1.0)
        costs.append(_stepping(system, model, truth, LSPG(dt=LSPG_DT, mesh=mesh)))
    all_rows = (
        _stepping(system, model, truth.isel(time=slice(LSPG_STEPS + 1)), LSPG(dt=LSPG_DT))
        / LSPG_STEPS
    )
    numbers |= {"steps": round(system.duration / LSPG_DT), "errors": errors}
    return numbers | {"seconds": min(costs), "all rows, seconds of a step": all_rows}


def _stepping(system: Burgers2D, model: Projection, truth: xr.Dataset, dynamics: LSPG) -> float:
    """CPU seconds of the time steps alone, without decoding."""
    times, reduced = (
        times_of(truth),
        ReducedModel.build(model, dynamics, system).at(Contexts.read(truth)),
    )
    start = reduced.start(times[0], (trajectories(truth, "state")[:, 0],))
    with torch.no_grad():
        return seconds(lambda: dynamics.solve(reduced.problem, start, times), 1)
