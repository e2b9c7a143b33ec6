"""Optimizer steps of the NcAE by romkit, geoopt and JAX, timed in turns on one core."""

import json
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.harness import (
    Parts,
    Result,
    close,
    copy_rate,
    in_turns,
    median_seconds,
    peak_rate,
    summary,
    timed,
)
from benchmarks.ncae import Problem, generic_point, make_problem
from benchmarks.training.contestants import (
    CONTESTANTS,
    GEOOPT,
    SHORT,
    PlainNcAE,
    cold_seconds,
    romkit_step,
)
from romkit.projections import unstack
from romkit.projections.geometry import EuclideanMetric
from romkit.training.batches import Batch, FlatParameters

TOLERANCE = 1e-4
"""Largest difference, relative to the largest entry: float32 with some hundred additions per entry."""


PACKAGES = ("jax",)


def measure(config: SimpleNamespace, device: str, found: Result) -> Parts:
    """Milliseconds per seed and step on both systems, after all contestants have shown that they
    agree.
    """
    systems = found.setdefault("systems", {})
    for system in SHORT:
        if system not in systems:
            settings = SHORT[system] | config.settings
            problem = make_problem(
                system, range(config.seeds), batch_size=config.batch_size, settings=settings
            )
            systems[system] = measure_system(problem, config)
            print(system, json.dumps(systems[system], indent=1), flush=True)
            yield


def measure_system(problem: Problem, config: SimpleNamespace) -> Result:
    """Return times, agreement and floor of one system."""
    check_geoopt(problem)
    rivals = [name for name in config.contestants if name.startswith("JAX")]
    if rivals:
        check_jax(problem)
    for name in rivals:
        check_jax_step(problem, name.split(", ")[1])
    steps = {
        name: config.plain_steps if name == GEOOPT else config.steps for name in config.contestants
    }
    runs = {name: CONTESTANTS[name](problem, steps[name]) for name in config.contestants}
    starts = {name: timed(run)[1] for name, run in runs.items()}
    for name in starts:
        if name.endswith(("compiled", "jit(scan)")):
            starts[name] = cold_seconds(problem.system, config.seeds, config.batch_size, name)
    return {
        "rows": len(problem.rows.y),
        "layers": list(problem.models[0].config["layers"]),
        "parameters": sum(p.numel() for p in problem.models[0].parameters() if p.requires_grad),
        "contestants": {
            name: {"start_s": starts[name]}
            | summary(times, 1e3 / (steps[name] * config.seeds), "ms")
            for name, times in in_turns(runs, config.repeats).items()
        },
        "floor": floor(problem, config.repeats),
    }


class Products(TorchDispatchMode):
    """Record of the shapes of the matrix products that run inside it."""

    def __init__(self):
        super().__init__()
        self.shapes: list[tuple[torch.Size, torch.Size]] = []

    def __torch_dispatch__(
        self, function: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ):
        if function in (torch.ops.aten.bmm.default, torch.ops.aten.mm.default):
            self.shapes.append((args[0].shape, args[1].shape))
        return function(*args, **(kwargs or {}))


def floor(problem: Problem, repeats: int) -> dict[str, float]:
    """Cost of the arithmetic alone per seed and step: operations, bytes, and times at the rates of
    this core.

    `peak_ms` is the time of the matrix products at the rate of a large one, `replay_ms` that of the
    products at their own sizes with nothing between them, `memory_ms` that of moving each operand
    and each result once.
    """
    objective, flat = problem.objective(0.0)
    batch, theta = next(problem.batches()), flat.read().requires_grad_()
    with Products() as products:
        torch.autograd.grad(flat.function(objective)(theta, *batch).sum(), theta)
    triples = [
        (a, b, a @ b) for a, b in ((torch.randn(a), torch.randn(b)) for a, b in products.shapes)
    ]
    flops = sum(2 * result.numel() * a.shape[-1] for a, _, result in triples)
    size = sum(4 * x.numel() for triple in triples for x in triple)
    replay = median_seconds(
        lambda: [torch.matmul(a, b, out=result) for a, b, result in triples], repeats
    )
    peak, seeds, result = peak_rate(theta, repeats), len(problem.seeds), triples[0][2]
    return {
        "megaflop": flops / seeds / 1e6,
        "megabyte": size / seeds / 1e6,
        "peak_gflop_per_s": peak / 1e9,
        "replay_gflop_per_s": flops / replay / 1e9,
        "peak_ms": flops / peak / seeds * 1e3,
        "replay_ms": replay / seeds * 1e3,
        "memory_ms": size / copy_rate(result.numel(), result, repeats) / seeds * 1e3,
    }


def check_geoopt(problem: Problem) -> None:
    """Compare geoopt's loss and gradient with romkit's, without penalty. Raises `Disagreement`.

    Free matrices and points of the manifold have different gradients, but both losses are the same
    function on the manifold, so their gradients in its metric must agree.
    """
    losses, gradient, flat, batch = _reference(problem, penalty_weight=0.0)
    theirs = [
        _plain(model, Batch(*(t[k] for t in batch)))
        for k, model in enumerate(unstack(flat.stacked))
    ]
    close(
        "loss of geoopt's contestant", torch.stack([loss for loss, _ in theirs]), losses, TOLERANCE
    )
    points, _ = flat.split(flat.read())

    def riemannian(gradient: Tensor) -> Tensor:
        slopes, rest = flat.split(gradient)
        return flat.join(
            [EuclideanMetric().gradient(x, g) for x, g in zip(points, slopes, strict=True)], rest
        )

    slope = torch.stack([slope for _, slope in theirs])
    close("gradient of geoopt's contestant", riemannian(slope), riemannian(gradient), TOLERANCE)


def check_jax(problem: Problem) -> None:
    """Compare JAX's loss and gradient with romkit's, with the penalty. Raises `Disagreement`."""
    import jax

    from benchmarks.training import jax_ncae

    losses, gradient, flat, batch = _reference(problem, problem.penalty_weight)
    function = jax.jit(jax_ncae.make_gradient(problem, flat, problem.penalty_weight))
    theirs = function(jax_ncae.to_jax(flat.read()), *map(jax_ncae.to_jax, batch))
    for what, found, expected in zip(("loss", "gradient"), theirs, (losses, gradient), strict=True):
        close(f"{what} of JAX", torch.from_numpy(np.array(found)), expected, TOLERANCE)


def check_jax_step(problem: Problem, optimizer: str) -> None:
    """Compare a step of JAX with one of romkit. Raises `Disagreement`.

    It starts with a second moment of one: at zero a step is the sign of the gradient, which is
    noise where the gradient vanishes.
    """
    import jax

    from benchmarks.training import jax_ncae

    _, gradient, flat, batch = _reference(problem, problem.penalty_weight)
    step, state = romkit_step(problem, optimizer)
    moments = (0.1 * gradient, torch.ones_like(gradient))
    start = state._replace(theta=flat.read(), moments=moments, count=torch.tensor(9.0))
    state, _ = step(start, torch.full((len(problem.seeds), 1), 1e-2), *batch)
    carry = tuple(map(jax_ncae.to_jax, (start.theta, *moments, start.count)))
    run = jax.jit(jax_ncae.make_step(problem, flat, optimizer))
    theta = torch.from_numpy(np.array(run(carry, 1e-2, tuple(map(jax_ncae.to_jax, batch)))[0][0]))
    close(f"a step of JAX's {optimizer}", theta - start.theta, state.theta - start.theta, TOLERANCE)


def _reference(
    problem: Problem, penalty_weight: float
) -> tuple[Tensor, Tensor, FlatParameters, Batch]:
    """romkit's losses (S,) and gradient (S, P) at a generic point, which the stack then holds, and
    the batch.
    """
    objective, flat = problem.objective(penalty_weight)
    flat.write(generic_point(flat))
    batch, theta = next(problem.batches()), flat.read().requires_grad_()
    losses = flat.function(objective)(theta, *batch)
    return losses.detach(), torch.autograd.grad(losses.sum(), theta)[0], flat, batch


def _plain(model: torch.nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return loss and gradient (P,) of geoopt's contestant in the order of theta."""
    plain = PlainNcAE(model)
    loss = plain(*batch)
    loss.backward()
    named = {f"weights.{k}": pair.grad.flatten() for k, pair in enumerate(plain.pairs)}
    named |= {
        name: p.grad.flatten()
        for name, p in plain.named_parameters()
        if not name.startswith("pairs")
    }
    names = (n.removesuffix(".phi") for n, _ in model.named_parameters() if not n.endswith(".psi"))
    return loss.detach(), torch.cat([named[name] for name in names])
