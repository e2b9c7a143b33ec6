"""Cost and error of reduced models on large states: python -m studies.large.run. Half an hour on a core.

The work is a list of pieces; each writes its numbers into results.json when it is done, and is skipped from then on.
Basis and coordinates, which are large, stay in runs/large.
"""

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from scipy.interpolate import CubicHermiteSpline
from torch import Tensor

import romkit
from romkit.bases import Basis
from romkit.engine.threads import one_thread
from romkit.folding import folded
from romkit.integrators import Galerkin
from romkit.problem import ConstantPath
from romkit.projections import Projection, unstack
from romkit.solvers import RK4
from romkit.systems import Burgers2D
from studies.large.published import newton_step
from studies.pieces import Numbers, complete

RESULTS, FOLDER = Path(__file__).with_name("results.json"), Path("runs/large")
RANK, LATENT, REPEATS = 160, 10, 5
SEEDS = (0, 1, 2)
BEHIND = 128
"""Modes in front of networks."""

FLOW = {"latent_dim": LATENT, "units": (64, 64, 64)}
LAYERS = (LATENT, 32, 64, BEHIND)
SIZES: dict[str, dict[str, object]] = {
    "flow": FLOW,
    "ncae": {"layers": LAYERS, "embedding": (2, 16, 8)},
    "film-ae": {"encoder": LAYERS[::-1], "decoder": LAYERS},
}
TRAINING = {"epochs": 500, "learning_rate": 0.003}
"""Otherwise the preset "quick"; the same for all methods, and none was chosen by errors at unseen contexts."""


def times_of(system: Burgers2D) -> Tensor:
    """The 501 times of a run."""
    return torch.arange(round(system.duration / system.dt) + 1, dtype=torch.float64) * system.dt


def seconds(call: Callable[[], object], repeats: int = REPEATS) -> float:
    """CPU seconds of the fastest call, so that other work on the machine does not count."""
    found = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


def training(cells: int = 100, every: int = 2) -> tuple[Basis, xr.Dataset]:
    """Basis of each `every`-th snapshot, and coordinates of all, of the nine training runs; made once."""
    files = (FOLDER / f"basis-{cells}.safetensors", FOLDER / f"coordinates-{cells}.nc")
    if not all(file.exists() for file in files):
        system = Burgers2D(cells=cells)
        contexts = system.train_contexts(np.random.default_rng(0))
        runs = lambda: (system.dataset(mu1=[a], mu2=[b]) for a, b in contexts)  # noqa: E731  # one in memory
        kept = slice(None, None, every)
        some = xr.concat([run[["state"]].isel(time=kept).copy(deep=True) for run in runs()], "trajectory")
        basis = romkit.basis(some, rank=RANK)
        romkit.save(basis, files[0])
        coordinates = xr.concat([basis.project(run) for run in runs()], "trajectory", combine_attrs="override")
        romkit.data.save_dataset(coordinates, files[1])
    return romkit.load(files[0]), romkit.data.open_dataset(files[1])


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


def evaluated(system: Burgers2D, basis: Basis, model: Callable, step: float = 0.05, number: int = 9) -> Numbers:
    """Errors relative to the norm of the truth at unseen contexts; seconds of one run, one context at a time.

    A model takes steps of its own; between them its coordinates are interpolated by their rates, so that errors are
    over all times of the truth.
    """
    errors, floors, times = [], [], times_of(system)
    own = times[:: round(step / system.dt)]
    for mu in system.test_contexts()[:number]:
        c = torch.from_numpy(mu[None])
        with torch.no_grad(), one_thread():
            truth = system._solve(system.field(c), system.start(c), c, times, "compiled", "full").states[0]
            y, norm = basis.encode(truth), truth.norm()
            floor = truth.sub_(basis.decode(y)).norm()  # in place, for these are gigabytes at n = 500 000
            field, start, decode = model(c, y[:1], own)
            states = RK4(step)(field, start, own, engine="compiled").states
            rates = torch.stack([field(t, z) for t, z in zip(own, states.unbind(-2), strict=True)], dim=-2)
            dense = torch.from_numpy(CubicHermiteSpline(own, states[0], rates[0])(times))
            found = dense if decode is None else decode(dense.unsqueeze(0))[0]
        errors.append((((found - y).norm() ** 2 + floor**2).sqrt() / norm).item())
        floors.append((floor / norm).item())
    with torch.no_grad(), one_thread():
        run, _ = RK4(step).prepare(field, start, own, "compiled", "reduced")
        cost = seconds(lambda: run(start, own))
        decoding = seconds(lambda: basis.decode(found[-1:]), 3)
    return {
        "errors": errors,
        "floors": floors,
        "step": step,
        "seconds": cost,
        "decoding one state, seconds": decoding,
    }


def network(method: str, cells: int = 100, every: int = 2, number: int = 9, step: float = 0.5) -> Numbers:
    """The same of a network behind the basis, three seeds, by Galerkin projection; errors are (seeds, contexts)."""
    system, (basis, coordinates) = Burgers2D(cells=cells), training(cells, every)
    basis, through = basis.truncated(BEHIND), system.through(basis.truncated(BEHIND))
    began = time.process_time()
    given = {"seeds": SEEDS, "engine": "torch", **TRAINING, **SIZES[method]}
    models = unstack(romkit.fit(method, coordinates.isel(component=slice(BEHIND)), **given))
    numbers = {"method": method, "training, seconds per seed": (time.process_time() - began) / len(SEEDS)}
    numbers |= {"parameters": sum(p.numel() for p in models[0].parameters()), "modes": BEHIND, "n": system.state_size}

    def reduced(model: Projection) -> Callable:
        def at(c: Tensor, y0: Tensor, times: Tensor) -> tuple:
            P = model.double()(c)
            problem = through.problem(ConstantPath(P), c)
            small = folded(problem, through.quadratic(c))
            return Galerkin().field(small), Galerkin().start(problem, times[0], (y0,)), P.decode

        return at

    found = [evaluated(system, basis, reduced(model), step, number) for model in models]
    return numbers | {name: [each[name] for each in found] for name in found[0]}


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
