"""Training of the NcAE in JAX, with theta (S, P) in the order of romkit: chunks of steps in one
jitted scan.

Of the ways tried, the fastest are kept: seeds as an explicit batch axis instead of vmap (XLA's
matrix products come out of it in a better layout), value and tangent as one matrix product, a
Gauss-Jordan inverse without a call of LAPACK, whose derivative reuses the inverse.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise

import jax
import jax.numpy as jnp
import torch
from jax import Array

from benchmarks.ncae import Problem
from romkit.projections.geometry import DOUBLINGS
from romkit.projections.layers import SLOPE_RANGE
from romkit.training import Reconstruction
from romkit.training.batches import FlatParameters
from romkit.training.schedules import SCHEDULES, Plateaus

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
Gradient = Callable[[Array, Array, Array, Array], tuple[Array, Array]]
"""(theta (S, P), y, dy, c) -> losses (S,), gradient (S, P)."""


def parameters(theta: Array, flat: FlatParameters) -> dict[str, Array]:
    """Return parameters by name, each (S, ...)."""
    bounds = pairwise(accumulate(flat.sizes, initial=0))
    return {
        name: theta[:, low:high].reshape(-1, *shape[1:])
        for name, shape, (low, high) in zip(flat.names, flat.shapes, bounds, strict=True)
    }


@jax.custom_vjp
def inverse(a: Array) -> Array:
    """A⁻¹ (..., r, r) by Gauss-Jordan elimination; no pivots are needed near the identity."""
    r = a.shape[-1]
    both = jnp.concatenate([a, jnp.broadcast_to(jnp.eye(r, dtype=a.dtype), a.shape)], -1)
    for k in range(r):
        row = both[..., k : k + 1, :] / both[..., k : k + 1, k : k + 1]
        unit = jnp.zeros((r, 1), a.dtype).at[k].set(1)
        both = both - (both[..., :, k : k + 1] - unit) * row
    return both[..., r:]


def _inverse_forward(a: Array) -> tuple[Array, Array]:
    result = inverse(a)
    return result, result


def _inverse_backward(result: Array, cotangent: Array) -> tuple[Array]:
    return (-(result.mT @ cotangent @ result.mT),)


inverse.defvjp(_inverse_forward, _inverse_backward)


def losses(
    named: dict[str, Array],
    y: Array,
    dy: Array,
    c: Array,
    velocity_weight: float,
    penalty_weight: float,
) -> Array:
    """(S,) loss of `romkit.training.loss.Objective` of the presets: y and dy (S, B, n), c (S, B,
    p).
    """
    signal, pairs = _signal(named, c), range(_count(named, "slopes"))
    weights = [_weights(named[f"weights.{k}.phi"], named[f"weights.{k}.psi"]) for k in pairs]
    slopes = [_hyperbolas(signal @ named[f"slopes.{k}.weight"]) for k in pairs]
    biases = [
        signal @ named[f"biases.{k}.weight"] + named[f"biases.{k}.bias"][:, None, :] for k in pairs
    ]
    x, v = y, dy
    for (_, psi), (minus, _), beta in zip(weights[::-1], slopes[::-1], biases[::-1], strict=True):
        x, v = _activate(minus, *_products(x - beta, v, psi))
    for (phi, _), (_, plus), beta in zip(weights, slopes, biases, strict=True):
        x, v = _products(*_activate(plus, x, v), phi.mT)
        x = x + beta
    error = (y - x) ** 2 + velocity_weight * (dy - v) ** 2
    penalty = sum(((phi - psi) ** 2).sum((-1, -2)) for phi, psi in weights)
    return error.sum(-1).mean(-1) + penalty_weight * penalty


def _count(named: Iterable[str], start: str) -> int:
    return sum(name.startswith(start) and name.endswith("weight") for name in named)


def _signal(named: dict[str, Array], c: Array) -> Array:
    last = _count(named, "embedding.layers") - 1
    for k in range(last + 1):
        c = (
            c @ named[f"embedding.layers.{k}.weight"]
            + named[f"embedding.layers.{k}.bias"][:, None, :]
        )
        c = jax.nn.silu(c) if k < last else c
    return c


def _weights(phi: Array, psi: Array) -> tuple[Array, Array]:
    return phi @ inverse(psi.mT @ phi), psi


def _hyperbolas(drive: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """(gain, offset, bend, shift, floor) of σ₋ and σ₊, as `romkit.projections.activations.inverse_pair`."""
    low, high = SLOPE_RANGE
    alpha = low + (high - low) * jax.nn.sigmoid(drive)
    s, c, floor = jnp.sin(alpha), jnp.cos(alpha), 2 * jnp.cos(2 * alpha)
    gain = 2 / floor
    offset, bend, shift = 2**0.5 * s * c * c * gain, s * c * gain, 2**0.5 * s
    return (gain, offset, -bend, shift, floor), (gain, -offset, bend, -shift, floor)


def _activate(hyperbola: tuple[Array, ...], x: Array, v: Array) -> tuple[Array, Array]:
    gain, offset, bend, shift, floor = hyperbola
    u = 2 * x + shift
    root = jnp.sqrt(u * u + floor)
    return gain * x + offset + bend * root, (gain + 2 * bend * (u / root)) * v


def _products(x: Array, v: Array, weight: Array) -> tuple[Array, Array]:
    both = jnp.concatenate([x, v], -2) @ weight
    return both[:, : x.shape[1]], both[:, x.shape[1] :]


def riemannian_adam(gradient: Gradient, flat: FlatParameters) -> Callable[..., tuple]:
    """Body of a scan: (carry, rate, batch) -> (carry, losses (S,)), without clipping and weight
    decay.
    """

    def step(
        carry: tuple[Array, ...], rate: Array, batch: tuple[Array, ...]
    ) -> tuple[tuple[Array, ...], Array]:
        theta, first, second, count = carry
        each, slope = gradient(theta, *batch)
        points, plain = _split(theta, flat)
        slopes, rest = _split(slope, flat)
        momenta, plain_momentum = _split(first, flat)
        slopes = [_project(x, g) for x, g in zip(points, slopes, strict=True)]
        squares = [jnp.broadcast_to((g * g).sum((1, 2, 3), keepdims=True), g.shape) for g in slopes]
        first = _join(
            [_project(x, m) for x, m in zip(points, momenta, strict=True)], plain_momentum
        )
        first = first + (1 - BETA1) * (_join(slopes, rest) - first)
        second = second + (1 - BETA2) * (_join(squares, rest * rest) - second)
        steps, plain_step = _split(_adams(rate, first, second, count + 1), flat)
        points = [_restore(x + u) for x, u in zip(points, steps, strict=True)]
        return (_join(points, plain + plain_step), first, second, count + 1), each

    return step


def _split(theta: Array, flat: FlatParameters) -> tuple[list[Array], Array]:
    """Return pairs (S, 2, n, r), which come first in theta, and the rest (S, Q)."""
    shapes = [
        shape[1:]
        for name, shape in zip(flat.names, flat.shapes, strict=True)
        if name.endswith(".phi")
    ]
    bounds = list(accumulate((2 * n * r for n, r in shapes), initial=0))
    pairs = [
        theta[:, low:high].reshape(-1, 2, *shape)
        for (low, high), shape in zip(pairwise(bounds), shapes, strict=True)
    ]
    return pairs, theta[:, bounds[-1] :]


def _join(pairs: Sequence[Array], rest: Array) -> Array:
    return jnp.concatenate([*(pair.reshape(len(pair), -1) for pair in pairs), rest], 1)


def _swap(x: Array) -> Array:
    return x[:, ::-1]


def _constraint(x: Array, u: Array) -> Array:
    half = _swap(x).mT @ u
    return half + _swap(half).mT


def _restore(x: Array) -> Array:
    phi, psi = x[:, 0], x[:, 1]
    return jnp.stack([phi @ inverse(psi.mT @ phi), psi], 1)


def _project(x: Array, u: Array) -> Array:
    """Tangent vector at x nearest to u: see `romkit.projections.geometry.EuclideanMetric`."""
    a = _sylvester(_swap(x.mT @ x), _constraint(x, u)[:, 0])
    u = u - _swap(x) @ jnp.stack([a, a.mT], 1)
    return u - 0.5 * (x @ _constraint(x, u))


def _sylvester(grams: Array, c: Array) -> Array:
    """Solution S of A S + S B = C by doubling: see `romkit.projections.geometry.sylvester`."""
    eye = jnp.eye(c.shape[-1], dtype=c.dtype)
    inverted = inverse(grams + eye)
    factors = eye - 2 * inverted
    solution = 2 * (inverted[:, 0] @ c @ inverted[:, 1])
    for _ in range(DOUBLINGS):
        solution = solution + factors[:, 0] @ solution @ factors[:, 1]
        factors = factors @ factors
    return solution


def make_gradient(problem: Problem, flat: FlatParameters, penalty_weight: float) -> Gradient:
    """Return losses and their gradient, each seed's with respect to its own row."""
    velocity = next(
        term.velocity_weight for term in problem.plan.loss if isinstance(term, Reconstruction)
    )

    def total(theta: Array, y: Array, dy: Array, c: Array) -> tuple[Array, Array]:
        each = losses(parameters(theta, flat), y, dy, c, velocity, penalty_weight)
        return each.sum(), each

    def gradient(theta: Array, y: Array, dy: Array, c: Array) -> tuple[Array, Array]:
        (_, each), slope = jax.value_and_grad(total, has_aux=True)(theta, y, dy, c)
        return each, slope

    return gradient


def to_jax(tensor: torch.Tensor) -> Array:
    return jnp.asarray(tensor.numpy())


def adam(gradient: Gradient, clip: float) -> Callable[..., tuple]:
    """`romkit.training.optimizers.Adam` with clipping, as the body of a scan."""

    def step(
        carry: tuple[Array, ...], rate: Array, batch: tuple[Array, ...]
    ) -> tuple[tuple[Array, ...], Array]:
        theta, first, second, count = carry
        each, slope = gradient(theta, *batch)
        slope = slope * jnp.minimum(clip / jnp.linalg.norm(slope, axis=1, keepdims=True), 1)
        first, second = (
            first + (1 - BETA1) * (slope - first),
            second + (1 - BETA2) * (slope * slope - second),
        )
        return (theta + _adams(rate, first, second, count + 1), first, second, count + 1), each

    return step


def _adams(rate: Array, first: Array, second: Array, count: Array) -> Array:
    scale = jnp.sqrt(second / (1 - BETA2**count)) + EPSILON
    return -rate * (first / (1 - BETA1**count)) / scale


def make_step(problem: Problem, flat: FlatParameters, optimizer: str) -> Callable[..., tuple]:
    """(carry, rate, batch) -> (carry, losses (S,)) with carry = (theta, first and second moment,
    count).
    """
    if optimizer == "adam":
        return adam(
            make_gradient(problem, flat, problem.penalty_weight), problem.plan.snapshots.clip
        )
    return riemannian_adam(make_gradient(problem, flat, 0.0), flat)


def scan(problem: Problem, steps: int, optimizer: str) -> Callable[[], None]:
    """Return steps of romkit's `adam` or `riemannian-adam`: chunks of them in one jitted scan with
    donated buffers.
    """
    _, flat = problem.objective(0.0)
    step, rows = make_step(problem, flat, optimizer), tuple(map(to_jax, problem.rows))
    plan, theta = problem.plan.snapshots, to_jax(flat.read())
    carry = (theta, jnp.zeros_like(theta), jnp.zeros_like(theta), jnp.zeros(()))
    plateaus, schedule = Plateaus.start(flat.read()), SCHEDULES[plan.schedule]

    @partial(jax.jit, donate_argnums=0)
    def chunk(
        carry: tuple[Array, ...], orders: Array, rates: Array
    ) -> tuple[tuple[Array, ...], Array]:
        def body(
            carry: tuple[Array, ...], now: tuple[Array, Array]
        ) -> tuple[tuple[Array, ...], Array]:
            order, rate = now
            return step(carry, rate, tuple(tensor[order] for tensor in rows))

        return jax.lax.scan(body, carry, (orders, rates))

    def orders() -> torch.Tensor:
        """Return (steps, S, B) rows of each step: every seed has its own order, as in romkit's
        pipeline.
        """
        each = [
            torch.randperm(len(problem.rows.y))[: steps * plan.batch_size] for _ in problem.seeds
        ]
        return torch.stack(each).reshape(len(each), steps, -1).transpose(0, 1).contiguous().int()

    def run() -> None:
        nonlocal carry
        factors = [schedule.factors(k / steps, plateaus)[0, 0] for k in range(steps)]
        carry, each = chunk(
            carry, to_jax(orders()), to_jax(plan.learning_rate * torch.stack(factors))
        )
        each.block_until_ready()

    return run
