"""Do the contestants compute the same loss and the same gradient? Checked before anything is timed."""

import numpy as np
import torch
from torch import Tensor

from benchmarks.training.engine import Engine
from benchmarks.training.plain import PlainNcAE
from benchmarks.training.problem import Problem, generic_point
from romkit.projections import unstack
from romkit.projections.geometry import EuclideanMetric
from romkit.training.batches import Batch, FlatParameters

TOLERANCE = 1e-4
"""Largest difference, relative to the largest entry: float32 with some hundred additions per entry."""


class Disagreement(AssertionError):
    """Two contestants do not compute the same thing."""


def check_plain(problem: Problem) -> None:
    """(a) against (b), without penalty. Raises `Disagreement`.

    Free matrices and points of the manifold have different gradients, but both losses are the same function on the
    manifold, so their gradients in its metric must agree.
    """
    losses, gradient, flat, batch = _reference(problem, penalty_weight=0.0)
    theirs = [_plain(model, Batch(*(t[k] for t in batch))) for k, model in enumerate(unstack(flat.stacked))]
    _compare("loss of geoopt's contestant", torch.stack([loss for loss, _ in theirs]), losses)
    theta = flat.read()
    slope = torch.stack([slope for _, slope in theirs])
    _compare("gradient of geoopt's contestant", _riemannian(flat, theta, slope), _riemannian(flat, theta, gradient))


def check_jax(problem: Problem) -> None:
    """(c) against (b), with the penalty. Raises `Disagreement`."""
    import jax

    from benchmarks.training import xla

    losses, gradient, flat, batch = _reference(problem, problem.penalty_weight)
    function = jax.jit(xla.make_gradient(problem, xla.make_layout(problem, flat), problem.penalty_weight))
    theirs = [_to_torch(array) for array in function(xla.to_jax(flat.read()), *map(xla.to_jax, batch))]
    _compare("loss of JAX", theirs[0], losses)
    _compare("gradient of JAX", theirs[1], gradient)


def check_jax_step(problem: Problem, optimizer: str) -> None:
    """A step of (c) against one of (b). Raises `Disagreement`.

    It starts with a second moment of one: at zero a step is the sign of the gradient, which is noise where the
    gradient vanishes.
    """
    import jax

    from benchmarks.training import xla

    _, gradient, flat, batch = _reference(problem, problem.penalty_weight)
    engine = Engine(problem, 1, optimizer=optimizer, compiled=False)
    moments = (0.1 * gradient, torch.ones_like(gradient))
    start = engine.state._replace(theta=flat.read(), moments=moments, count=torch.tensor(9.0))
    state, _ = engine.step(start, torch.full((len(problem.seeds), 1), 1e-2), *batch)
    carry = tuple(map(xla.to_jax, (start.theta, *moments, start.count)))
    (theta, *_), _ = jax.jit(xla.make_step(problem, flat, optimizer))(carry, 1e-2, tuple(map(xla.to_jax, batch)))
    _compare(f"a step of JAX's {optimizer}", _to_torch(theta) - start.theta, state.theta - start.theta)


def _to_torch(array: object) -> Tensor:
    return torch.from_numpy(np.array(array))


def _reference(problem: Problem, penalty_weight: float) -> tuple[Tensor, Tensor, FlatParameters, Batch]:
    """romkit's losses (S,) and gradient (S, P) at a generic point, which the stack then holds, and the batch."""
    objective, flat = problem.objective(penalty_weight)
    flat.write(generic_point(flat))
    batch = next(problem.batches(problem.seeds))
    theta = flat.read().requires_grad_()
    losses = flat.function(objective)(theta, *batch)
    return losses.detach(), torch.autograd.grad(losses.sum(), theta)[0], flat, batch


def _plain(model: torch.nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Loss and gradient (P,) in the order of theta."""
    plain = PlainNcAE(model)
    loss = plain(*batch)
    loss.backward()
    named = {f"weights.{k}": pair.grad.flatten() for k, pair in enumerate(plain.pairs)}
    parts = ("slopes", "biases", "embedding")
    named |= {n: p.grad.flatten() for n, p in plain.named_parameters() if n.split(".")[0] in parts}
    names = (n.removesuffix(".phi") for n, _ in model.named_parameters() if not n.endswith(".psi"))
    return loss.detach(), torch.cat([named[name] for name in names])


def _riemannian(flat: FlatParameters, theta: Tensor, gradient: Tensor) -> Tensor:
    points, _ = flat.split(theta)
    slopes, rest = flat.split(gradient)
    return flat.join([EuclideanMetric().gradient(x, g) for x, g in zip(points, slopes, strict=True)], rest)


def _compare(what: str, theirs: Tensor, ours: Tensor) -> None:
    error = ((theirs - ours).abs().max() / ours.abs().max()).item()
    if not error <= TOLERANCE:
        raise Disagreement(f"{what} differs from romkit's by {error:.1e} of its largest entry, over {TOLERANCE:.0e}")
