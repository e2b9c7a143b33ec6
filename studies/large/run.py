"""Cost and error of reduced models on large states: python -m studies.large.run. An hour on a core.

The work is a list of pieces; each writes its numbers into results.json when it is done, and is skipped from then on.
Basis and coordinates, which are large, stay in runs/large.
"""

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import romkit
from romkit.engine.threads import one_thread
from romkit.solvers import RK4
from romkit.systems import Burgers2D
from studies.large.behind import CURVED, in_coordinates, in_flow, network, quadratic_manifold
from studies.large.measuring import FOLDER, evaluated, seconds, times_of, training
from studies.large.meshes import on_mesh
from studies.large.published import newton_step
from studies.large.unresolved import shares
from studies.pieces import Numbers, complete

RESULTS = Path(__file__).with_name("results.json")


def full_models(cells: int) -> Numbers:
    """CPU seconds of one run by the full models, on one thread, and how far the explicit one is from the implicit."""
    system = Burgers2D(cells=cells)
    c, times = torch.tensor([[4.56, 0.019]], dtype=torch.float64), times_of(system)
    start, ends = system.start(c), times[[0, -1]]
    solver = lambda: system._solve(system.field(c), start, c, times, "compiled", "full")  # noqa: E731  # states, not velocities
    solver()
    numbers = {"n": system.state_size, "implicit, one sweep": seconds(solver, 3)}
    if cells <= 100:
        steps = 5
        began = time.process_time()
        newton_step(cells, (4.56, 0.019), system.dt, steps)
        numbers["implicit, general sparse solver"] = (time.process_time() - began) / steps * (len(times) - 1)
    for dt in (12.5 / cells, 10 / cells, 5 / cells):
        explicit = RK4(dt)(system.field(c), *start, ends)
        if not bool(explicit.status.any()):
            break
    truth = solver().states[..., -1, :]
    numbers["explicit step"] = dt
    numbers["explicit RK4"] = seconds(lambda: RK4(dt)(system.field(c), *start, ends), 2)
    numbers["explicit against implicit, at the end"] = (
        (explicit.states[..., -1, :] - truth).norm() / truth.norm()
    ).item()
    return numbers


def reduced_models(rank: int, cells: int = 100, every: int = 2, number: int = 9) -> Numbers:
    """Errors at unseen contexts, and CPU seconds of a run, of POD-Galerkin."""
    system, basis = Burgers2D(cells=cells), training(cells, every)[0].truncated(rank)
    began = time.process_time()
    through = system.through(basis)
    numbers = {"rank": rank, "tensors, seconds": time.process_time() - began}
    return numbers | evaluated(system, basis, lambda c, y0, times: (through.field(c), y0, None), number=number)


def step_against_n(cells: int, rank: int = 32) -> Numbers:
    """CPU seconds per step of a reduced model at this n, and of decoding one state."""
    system = Burgers2D(cells=cells)
    c, times = torch.tensor([[4.56, 0.019]], dtype=torch.float64), torch.linspace(0, 25, 41, dtype=torch.float64)
    with torch.no_grad(), one_thread():
        states = system._solve(system.field(c), system.start(c), c, times, "compiled", "full").states[0]
        basis = romkit.basis(states, rank=rank)
        began = time.process_time()
        through = system.through(basis)
        tensors = time.process_time() - began
        grid, start = times_of(system), basis.encode(states[:1])
        run, _ = RK4(system.dt).prepare(through.field(c), start, grid, "compiled", "reduced")
        cost = seconds(lambda: run(start, grid), 9) / (len(grid) - 1)
        decoding = seconds(lambda: basis.decode(start), 3)
    return {"n": system.state_size, "step, seconds": cost, "decoding, seconds": decoding, "tensors, seconds": tensors}


def coarser_grids(cells: int = 500, others: tuple[int, ...] = (100, 250)) -> Numbers:
    """Errors of the full model on coarser grids against a fine one, at each tenth time, cells of one value each."""

    def states(number: int) -> Tensor:
        system, c = Burgers2D(cells=number), torch.tensor([[4.56, 0.019]], dtype=torch.float64)
        found = system._solve(system.field(c), system.start(c), c, times_of(system), "compiled", "full").states
        return found[0, ::10].unflatten(-1, (2, number, number)).clone()

    truth = states(cells)
    errors = {}
    for number in others:
        factor = cells // number
        fine = states(number).repeat_interleave(factor, -1).repeat_interleave(factor, -2)
        errors[f"{2 * number**2}"] = ((fine - truth).norm() / truth.norm()).item()
    return {"n": 2 * cells**2, "errors by n": errors}


def hundred_thousand() -> Numbers:
    """`fit("pod")`, `fit("ncae", basis=64)` and a rollout with 500 snapshots at n = 10^5: seconds and memory."""
    system = Burgers2D(cells=224, duration=25.0, dt=0.05)
    data = system.dataset(mu1=[4.3, 5.2], mu2=[0.017, 0.028], duration=12.5)
    settings = {"latent_dim": 3, "epochs": 100, "engine": "torch"}
    clock = {"n": system.state_size, "snapshots": data.sizes["trajectory"] * data.sizes["time"]}
    for name, call in (
        ("fit pod", lambda: romkit.fit("pod", data, latent_dim=10)),
        ("fit ncae behind 64 modes", lambda: romkit.fit("ncae", data, basis=64, **settings)),
    ):
        began, wall = time.process_time(), time.perf_counter()
        model = call()
        clock[name] = {"CPU seconds": time.process_time() - began, "seconds": time.perf_counter() - wall}
    began, wall = time.process_time(), time.perf_counter()
    romkit.follow(model, data.isel(trajectory=[0], time=slice(0, 100)), system=system)
    clock["follow 100 times"] = {"CPU seconds": time.process_time() - began, "seconds": time.perf_counter() - wall}
    clock["largest memory, GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return clock


PIECES: dict[str, Callable[[], Numbers]] = {
    "n = 100 000": hundred_thousand,  # first, since it reads the largest memory of the process
    "full models, n = 20 000": lambda: full_models(100),
    "full models, n = 125 000": lambda: full_models(250),
    "POD-Galerkin, 64 modes": lambda: reduced_models(64),
    "POD-Galerkin, 80 modes": lambda: reduced_models(80),
    "POD-Galerkin, 100 modes": lambda: reduced_models(100),
    "step, n = 10 000": lambda: step_against_n(71),
    "step, n = 100 000": lambda: step_against_n(224),
    "full models, n = 500 000": lambda: full_models(500),
    "flow, 10 latents": lambda: network("flow"),
    "NcAE, 10 latents": lambda: network("ncae"),
    "FiLM+AE, 10 latents": lambda: network("film-ae"),
    "quadratic manifold, 10 latents": lambda: quadratic_manifold(10),
    "quadratic manifold, 17 latents": lambda: quadratic_manifold(17),
    "quadratic manifold, 20 latents": lambda: quadratic_manifold(20),
    "SINDy, the flow's 10 latents": lambda: in_flow("SINDy"),
    "SINDy, 10 latents of the quadratic manifold": lambda: in_coordinates("SINDy", 10),
    "SINDy, 20 latents of the quadratic manifold": lambda: in_coordinates("SINDy", 20),
    "neural ODE, the flow's 10 latents": lambda: in_flow("neural ODE"),
    "neural ODE, 10 latents of the quadratic manifold": lambda: in_coordinates("neural ODE", 10),
    "neural ODE, 20 latents of the quadratic manifold": lambda: in_coordinates("neural ODE", 20),
    "POD-LSPG on a reduced mesh, 64 modes": lambda: on_mesh("pod", 64, 64, 0.01),
    "quadratic manifold on a reduced mesh, 17 latents": lambda: on_mesh("quadratic-manifold", 17, CURVED, 0.01),
    "unresolved share, 64 modes": lambda: shares(64),
    "POD-Galerkin, 80 modes, n = 500 000": lambda: reduced_models(80, cells=500, every=8, number=3),
    "coarser grids, n = 500 000": coarser_grids,
    "POD-Galerkin, 110 modes, n = 500 000": lambda: reduced_models(110, cells=500, every=8, number=3),
    "flow, 10 latents, n = 500 000": lambda: network("flow", cells=500, every=8, number=1),
    "step, n = 1 000 000": lambda: step_against_n(707),
}


def main(only: str = "") -> None:
    """Computes what is missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    complete(PIECES, RESULTS, only)


if __name__ == "__main__":
    main(*sys.argv[1:])
