"""Cost of sampled rows, and their distance from the whole right-hand side."""

import math
import time
from collections.abc import Sequence

import numpy as np
import torch
from scipy.fft import dstn, idstn
from torch import Tensor

import romkit
from romkit.bases import Basis
from romkit.core.types import Field
from romkit.engine.threads import one_thread
from romkit.solvers import RK4
from romkit.systems import Burgers2D, System
from romkit.systems.base import SystemThroughBasis
from romkit.systems.sampled import Sampled, rate_basis, training_data
from studies.large.measuring import MU, Found, grid, seconds, solved, training
from studies.large.reaction import Reaction, exponential

TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
SHARES = (1.0, 1.5, 2.0, 3.0)
"""Rows for each mode of the right-hand sides."""

STEP = 2.5e-4
"""Step of reduced models of the reaction."""

CONTEXTS = (
    (0.02, 0.02), (0.1, 1.0), (1.0, 1.0), (3.0, 5.0), (7.0, 7.0), (10.0, 10.0),
    (12.0, 12.0), (20.0, 10.0), (10.0, 20.0), (100.0, 10.0), (30.0, 30.0), (10.0, -5.0),
)  # fmt: skip
"""Contexts inside of the training range, and outside."""

RANK, RATES, EVERY = 12, 24, 8
"""Modes of states and of right-hand sides, and snapshots that are taken, where the cost against n
is measured.
"""


def burgers(rank: int = 64, cells: int = 100) -> Found:
    """Galerkin by sampled rows against Galerkin by exact tensors, on an unseen run."""
    system, (basis, data) = Burgers2D(cells=cells), training(cells)
    basis, data = basis.truncated(rank), data.isel(component=slice(rank))
    c, times = MU, grid(system)
    truth = solved(system, c, times)
    exact, step = _run(system.through(basis), c, times, system.dt), system.dt

    def measured(rates: Basis, share: float = 2.0) -> Found:
        sampled = SystemThroughBasis(
            system, basis, Sampled.choose(system, basis, rates, round(share * rates.rank))
        )
        y = _run(sampled, c, times, step)
        apart = ((y - exact).norm() / exact.norm()).item()
        found = {"modes": rates.rank, "rows": len(sampled.image.rows), "from exact": apart}
        return found | {"error": _error(basis, y, truth), "seconds": _cost(sampled, c, times, step)}

    numbers = {
        "n": system.state_size,
        "rank": rank,
        "exact": {"error": _error(basis, exact, truth)},
    }
    numbers["exact"]["seconds"] = _cost(system.through(basis), c, times, step)
    began = time.process_time()
    through = system.through(basis, data)
    numbers["sampling, seconds"] = time.process_time() - began
    numbers["rows by default"] = len(through.image.rows)
    finest = rate_basis(system, basis, training_data(system, basis, data), TOLERANCES[-1])
    found = [
        finest.truncated(int((1 - finest.energy > tolerance).sum()) + 1)
        for tolerance in TOLERANCES[:-1]
    ]
    found.append(finest)
    numbers["by tolerance"] = [
        {"tolerance": t} | measured(rates) for t, rates in zip(TOLERANCES, found, strict=True)
    ]
    chosen = finest.truncated(len(through.image.rows) // 2)
    numbers["by rows"] = [measured(chosen, share) for share in SHARES]
    velocities = romkit.basis(_velocities(system), rank=found[-1].rank)
    numbers["right-hand sides of the truth"] = [
        measured(velocities.truncated(k.rank)) for k in found
    ]
    return numbers


def reaction(
    cells: int = 100, ranks: Sequence[int] = (5, 10, 20, 30), number: int | None = None
) -> Found:
    """Return errors and seconds of runs at unseen contexts, and of full models on the same thread."""
    system = Reaction(cells=cells)
    data = system.dataset("train")
    unseen = system.dataset("test").isel(trajectory=slice(number))
    contexts = torch.from_numpy(
        np.stack([unseen[name].values for name in system.context_names], axis=-1)
    )
    truth, times = (torch.tensor(unseen[name].values) for name in ("state", "time"))
    numbers = {
        "n": system.state_size,
        "full": _full_models(system, contexts, times, truth),
        "reduced": [],
    }
    for rank in ranks:
        basis = romkit.basis(data, rank=rank)
        floor, whole = (
            _error(basis, basis.encode(truth), truth),
            _whole(system, basis, contexts, times),
        )
        found = {"rank": rank, "floor": floor, "whole right-hand side": _error(basis, whole, truth)}
        left = 1 - basis.energy[-1].item()
        for factor in (100.0, 1.0, 0.01):
            began = time.process_time()
            sampled = system.through(basis, data, tolerance=factor * left)
            offline = time.process_time() - began
            y = torch.stack([_run(sampled, c[None], times, STEP) for c in contexts])
            found[f"{factor:g} of the energy left"] = {
                "tolerance": factor * left,
                "rows": len(sampled.image.rows),
                "error": _error(basis, y, truth),
                "from whole": ((y - whole).norm() / whole.norm()).item(),
                "seconds": _cost(sampled, contexts[:1], times, STEP),
                "sampling, seconds": offline,
            }
        numbers["reduced"].append(found)
    return numbers


def distances(cells: int = 30) -> Found:
    """Return errors at contexts inside of the training range and far from it, beside the distance
    that a run reports.
    """
    system = Reaction(cells=cells)
    data = system.dataset("train")
    basis = romkit.basis(data, rank=10)
    sampled, times = system.through(basis, data), torch.tensor(data["time"].values)
    found = []
    for mu in CONTEXTS:
        c = torch.tensor([mu], dtype=torch.float64)
        truth, y = (
            system.simulate(system.start(c), c, times).state[0],
            _run(sampled, c, times, STEP),
        )
        distance = max(
            sampled.image.distance(t, z, c[0]).item() for t, z in zip(times, y, strict=True)
        )
        found.append({"mu": mu, "distance": distance, "error": _error(basis, y, truth)})
        found[-1] |= {"floor": _error(basis, basis.encode(truth), truth)}
    return {
        "n": system.state_size,
        "rank": basis.rank,
        "rows": len(sampled.image.rows),
        "runs": found,
    }


def step_against_n(cells: int, solved_on: int = 100) -> Found:
    """CPU seconds per step at this n; the states are those of `solved_on`² points, as sums of their
    sine waves.
    """
    system = Reaction(cells=cells)
    coarse = Reaction(cells=solved_on)
    data = coarse.dataset(mu1=[0.1, 1.0, 10.0], mu2=[1.0, 10.0, 5.0])
    states = data["state"].values.reshape(-1, coarse.state_size)[::EVERY]
    states = torch.from_numpy(np.stack([_refined(x, cells) for x in states]))
    c = torch.tensor([[10.0, 5.0]], dtype=torch.float64)
    with torch.no_grad(), one_thread():
        basis = romkit.basis(states, rank=RANK)
        y = basis.encode(states)
        del states
        field = system.field(c[0])
        rates = romkit.basis(
            torch.stack([field(torch.zeros(()), basis.decode(each)) for each in y]), rank=RATES
        )
        began = time.process_time()
        sampled = SystemThroughBasis(system, basis, Sampled.choose(system, basis, rates, 2 * RATES))
        offline = time.process_time() - began
        times = torch.linspace(0, 0.5, 11, dtype=torch.float64)
        run, _ = RK4(STEP).prepare(sampled.field(c), y[1:2], times, "compiled", "reduced")
        cost = seconds(lambda: run(y[1:2], times), 25) / 2000
        decoding = seconds(lambda: basis.decode(y[:1]), 3)
    return {
        "n": system.state_size,
        "rank": RANK,
        "rows": len(sampled.image.rows),
        "step, seconds": cost,
        "choosing rows, seconds": offline,
        "decoding, seconds": decoding,
    }


def _full_models(system: Reaction, contexts: Tensor, times: Tensor, truth: Tensor) -> Found:
    c = contexts[:1]
    solved(system, c, times)
    numbers = {"explicit, seconds": seconds(lambda: solved(system, c, times), 3)}
    for steps in (1, 2):
        states = torch.stack([exponential(system, each, times, steps) for each in contexts])
        error = ((states - truth).norm() / truth.norm()).item()
        cost = seconds(lambda: exponential(system, contexts[0], times, steps), 3)  # noqa: B023
        numbers[f"exponential, {steps} steps"] = {"error": error, "seconds": cost}
    return numbers


def _whole(system: System, basis: Basis, contexts: Tensor, times: Tensor) -> Tensor:
    """Return coordinates (C, T, r) of Galerkin projection without sampling."""
    field = system.field(contexts)
    rate: Field = lambda t, y: basis.encode_tangent(field(t, basis.decode(y)))  # noqa: E731
    start = basis.encode(*system.start(contexts))
    with torch.no_grad():
        return RK4(STEP)(rate, start, times, engine="torch").states


def _velocities(system: Burgers2D, every: int = 4) -> Tensor:
    """Right-hand sides (N, n) at the states of the training runs."""
    contexts = system.train_contexts(np.random.default_rng(0))
    runs = (system.dataset(mu1=[a], mu2=[b]) for a, b in contexts)  # one in memory
    return torch.cat([torch.tensor(run["velocity"].values[0, ::every]) for run in runs])


def _run(through: System, c: Tensor, times: Tensor, step: float) -> Tensor:
    """Return coordinates (T, r)."""
    with torch.no_grad(), one_thread():
        return RK4(step)(through.field(c), *through.start(c), times, engine="compiled").states[0]


def _cost(through: System, c: Tensor, times: Tensor, step: float) -> float:
    """CPU seconds of a run, without starting and compiling."""
    with torch.no_grad(), one_thread():
        (start,) = through.start(c)
        run, _ = RK4(step).prepare(through.field(c), start, times, "compiled", "reduced")
        return seconds(lambda: run(start, times), 9)


def _error(basis: Basis, y: Tensor, truth: Tensor) -> float:
    """Relative to the norm of the truth, over all times and contexts."""
    return ((basis.decode(y) - truth).norm() / truth.norm()).item()


def _refined(state: np.ndarray, cells: int) -> np.ndarray:
    """(cells²,) of a state on fewer points: the same sine waves."""
    before = math.isqrt(state.size)
    waves = dstn(state.reshape(before, before), type=1)
    # more waves, of which the new ones are absent
    finer = np.pad(waves, (0, cells - before)) * ((cells + 1) / (before + 1)) ** 2
    return idstn(finer, type=1).reshape(-1)
