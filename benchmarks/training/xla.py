"""JAX: whole chunks of steps of all seeds in one jitted scan with donated buffers."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import torch
from jax import Array

from benchmarks.training.contestant import Contestant
from benchmarks.training.jax_ncae import Layout, losses
from benchmarks.training.jax_riemannian import riemannian_adam
from benchmarks.training.problem import Problem
from romkit.training.batches import FlatParameters
from romkit.training.schedules import SCHEDULES, Plateaus

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
Gradient = Callable[[Array, Array, Array, Array], tuple[Array, Array]]
"""(theta (S, P), y, dy, c) -> losses (S,), gradient (S, P)."""


def make_layout(problem: Problem, flat: FlatParameters) -> Layout:
    config = problem.models[0].config
    shapes = [tuple(shape[1:]) for shape in flat.shapes]
    return Layout(flat.names, shapes, flat.sizes, len(config["layers"]) - 1, len(config["embedding"]) - 1)


def make_gradient(problem: Problem, layout: Layout, penalty_weight: float) -> Gradient:
    """Losses and their gradient, each seed's with respect to its own row."""

    def total(theta: Array, y: Array, dy: Array, c: Array) -> tuple[Array, Array]:
        each = losses(theta, y, dy, c, layout, problem.velocity_weight, penalty_weight)
        return each.sum(), each

    def gradient(theta: Array, y: Array, dy: Array, c: Array) -> tuple[Array, Array]:
        (_, each), slope = jax.value_and_grad(total, has_aux=True)(theta, y, dy, c)
        return each, slope

    return gradient


def to_jax(tensor: torch.Tensor) -> Array:
    return jnp.asarray(tensor.numpy())


def adam(gradient: Gradient, clip: float) -> Callable[..., tuple]:
    """`romkit.training.optimizers.Adam` with clipping, as the body of a scan."""

    def step(carry: tuple[Array, ...], rate: Array, batch: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
        theta, first, second, count = carry
        each, slope = gradient(theta, *batch)
        slope = slope * jnp.minimum(clip / jnp.linalg.norm(slope, axis=1, keepdims=True), 1)
        count = count + 1
        first = first + (1 - BETA1) * (slope - first)
        second = second + (1 - BETA2) * (slope * slope - second)
        scale = jnp.sqrt(second / (1 - BETA2**count)) + EPSILON
        return (theta - rate * (first / (1 - BETA1**count)) / scale, first, second, count), each

    return step


def make_step(problem: Problem, flat: FlatParameters, optimizer: str) -> Callable[..., tuple]:
    """(carry, rate, batch) -> (carry, losses (S,)) with carry = (theta, first and second moment, count)."""
    layout = make_layout(problem, flat)
    if optimizer == "adam":
        return adam(make_gradient(problem, layout, problem.penalty_weight), problem.plan.snapshots.clip)
    return riemannian_adam(make_gradient(problem, layout, 0.0), layout)


class XLA(Contestant):
    """The steps of romkit's `adam` or `riemannian-adam`."""

    def __init__(self, problem: Problem, steps: int, *, optimizer: str):
        self.name = f"JAX, {optimizer}, jit(scan)"
        self.steps, self.plan = steps, problem.plan
        self.seeds, self.n = problem.seeds, len(problem.rows.y)
        _, flat = problem.objective(0.0)
        step = make_step(problem, flat, optimizer)
        rows = tuple(map(to_jax, problem.rows))

        @partial(jax.jit, donate_argnums=0)
        def chunk(carry: tuple[Array, ...], orders: Array, rates: Array) -> tuple[tuple[Array, ...], Array]:
            def body(carry: tuple[Array, ...], now: tuple[Array, Array]) -> tuple[tuple[Array, ...], Array]:
                order, rate = now
                return step(carry, rate, tuple(tensor[order] for tensor in rows))

            return jax.lax.scan(body, carry, (orders, rates))

        self.chunk = chunk
        theta = to_jax(flat.read())
        self.carry = (theta, jnp.zeros_like(theta), jnp.zeros_like(theta), jnp.zeros(()))
        self.plateaus = Plateaus.start(flat.read())

    def run(self) -> None:
        schedule = SCHEDULES[self.plan.snapshots.schedule]
        factors = [schedule.factors(k / self.steps, self.plateaus)[0, 0] for k in range(self.steps)]
        rates = self.plan.snapshots.learning_rate * torch.stack(factors)
        self.carry, each = self.chunk(self.carry, to_jax(self._orders()), to_jax(rates))
        each.block_until_ready()

    def _orders(self) -> torch.Tensor:
        """(steps, S, B) rows of each step: every seed has its own order, as in romkit's pipeline."""
        batch_size = self.plan.snapshots.batch_size
        orders = [torch.randperm(self.n)[: self.steps * batch_size] for _ in self.seeds]
        return torch.stack(orders).reshape(len(orders), self.steps, batch_size).transpose(0, 1).contiguous().int()
