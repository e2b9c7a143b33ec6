"""Contestants of the training benchmark, and their cold starts in fresh processes.

python -m benchmarks.training.contestants lorenz96 10 128 "romkit, adam, compiled"
"""

import copy
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial

import torch
from geoopt import ManifoldParameter
from geoopt.optim import RiemannianAdam
from torch import Tensor, nn

from benchmarks.harness import timed
from benchmarks.ncae import Problem, make_problem
from romkit.engine.captured import accelerate
from romkit.engine.threads import one_thread
from romkit.projections import NcAE
from romkit.projections.layers import layer_pairs
from romkit.projections.manifold import BiorthogonalManifold
from romkit.training.optimizers import OPTIMIZERS, State, Step
from romkit.training.schedules import SCHEDULES, Plateaus
from romkit.verbs.presets import PRESETS

GEOOPT = "geoopt, eager, one seed after the other"
SHORT = {"lorenz96": {"transient": 5.0}, "pendulum": {}}
"""Settings of the systems: speed does not depend on the length of the transient."""


class PlainNcAE(nn.Module):
    """NcAE of one seed with the loss of the paper; `pairs` are points (2n, r) of the manifold, Φ
    above Ψ.
    """

    def __init__(self, model: NcAE):
        super().__init__()
        model, manifold = copy.deepcopy(model), BiorthogonalManifold()
        points = (manifold.projx(torch.cat([w.phi, w.psi]).detach()) for w in model.weights)
        self.pairs = nn.ParameterList(
            ManifoldParameter(point, manifold=manifold) for point in points
        )
        self.slopes, self.biases, self.embedding = model.slopes, model.biases, model.embedding

    def forward(self, y: Tensor, dy: Tensor, c: Tensor) -> Tensor:
        """Return loss on a batch: y and dy (B, n), c (B, p)."""
        weights = (pair.chunk(2) for pair in self.pairs)
        maps = layer_pairs(weights, self.slopes, self.biases, self.embedding(c))
        reconstruction, velocity = maps.decode_jvp(*maps.encode_jvp(y, dy))
        return ((y - reconstruction).square().sum(-1) + (dy - velocity).square().sum(-1)).mean()


def geoopt_loop(problem: Problem, steps: int) -> Callable[[], None]:
    """Training of the paper as written for a single model: eager PyTorch, geoopt's optimizer, a
    loop over seeds.

    Layers and tangents are romkit's, which favours geoopt: automatic tangents are several times
    slower here.
    """
    plan = PRESETS["paper"](problem.system, "ncae").snapshots
    models = [PlainNcAE(model) for model in problem.models]
    settings = {"lr": plan.learning_rate, "weight_decay": plan.weight_decay}
    pairs = [(model, RiemannianAdam(model.parameters(), **settings)) for model in models]
    batch_size = problem.plan.snapshots.batch_size

    def run() -> None:
        for model, optimizer in pairs:
            order = torch.randperm(len(problem.rows.y))[: steps * batch_size]
            for batch in order.split(batch_size):
                optimizer.zero_grad()
                model(*(tensor[batch] for tensor in problem.rows)).backward()
                optimizer.step()

    return run


def romkit_step(problem: Problem, optimizer: str) -> tuple[Step, State]:
    """Stacked step of `romkit.fit` with this optimizer, eager, and the state before it."""
    preset = PRESETS["quick" if optimizer == "adam" else "paper"](problem.system, "ncae")
    objective, flat = problem.objective(problem.penalty_weight if optimizer == "adam" else 0.0)
    method = OPTIMIZERS[optimizer](clip=preset.snapshots.clip)
    return method.make_step(flat.function(objective), flat), method.start(flat.read(), flat)


def romkit(problem: Problem, steps: int, optimizer: str, compiled: bool) -> Callable[[], None]:
    """Return steps of `romkit.fit` with their data and their schedule."""
    step, state = romkit_step(problem, optimizer)
    step = accelerate(step, torch.device("cpu")) if compiled else step
    batches, plan = problem.batches(), problem.plan.snapshots
    plateaus, schedule = Plateaus.start(state.theta), SCHEDULES[plan.schedule]

    def run() -> None:
        nonlocal state
        total = torch.zeros(len(state.theta))
        for index in range(steps):
            rates = plan.learning_rate * schedule.factors(index / steps, plateaus)
            state, loss = step(state, rates, *next(batches))
            total = total + loss

    return run


def jax_scan(problem: Problem, steps: int, optimizer: str) -> Callable[[], None]:
    """JAX, which is imported only where it races."""
    from benchmarks.training import jax_ncae

    return jax_ncae.scan(problem, steps, optimizer)


CONTESTANTS: dict[str, Callable[[Problem, int], Callable[[], None]]] = {
    GEOOPT: geoopt_loop,
    "romkit, adam, eager": partial(romkit, optimizer="adam", compiled=False),
    "romkit, adam, compiled": partial(romkit, optimizer="adam", compiled=True),
    "romkit, riemannian-adam, eager": partial(romkit, optimizer="riemannian-adam", compiled=False),
    "romkit, riemannian-adam, compiled": partial(
        romkit, optimizer="riemannian-adam", compiled=True
    ),
    "JAX, adam, jit(scan)": partial(jax_scan, optimizer="adam"),
    "JAX, riemannian-adam, jit(scan)": partial(jax_scan, optimizer="riemannian-adam"),
}
"""(problem, steps) -> function that trains every seed for so many more steps, with the choice of
the data.
"""


def cold_seconds(system: str, seeds: int, batch_size: int, contestant: str) -> float:
    """Wall time of the first step in a fresh process with empty caches, on all cores; imports and
    data excluded.
    """
    with tempfile.TemporaryDirectory() as empty:
        command = [
            sys.executable,
            "-m",
            "benchmarks.training.contestants",
            system,
            str(seeds),
            str(batch_size),
        ]
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": empty}
        run = subprocess.run(
            [*command, contestant], env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
    return float(run.stdout.split()[-1])


def main(system: str, seeds: str, batch_size: str, contestant: str) -> None:
    """Print the seconds of the first step."""
    if hasattr(os, "sched_setaffinity"):  # the parent process may have kept to one core
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    settings = SHORT[system] | {
        "duration": 0.2
    }  # a start does not depend on the number of snapshots
    problem = make_problem(system, range(int(seeds)), batch_size=int(batch_size), settings=settings)
    with one_thread():
        print(timed(CONTESTANTS[contestant](problem, 1))[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
