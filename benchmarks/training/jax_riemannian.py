"""Riemannian Adam in JAX: `romkit.training.optimizers.RiemannianAdam`, Euclidean metric, fractional retraction."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import jax.numpy as jnp
from jax import Array

from benchmarks.training.jax_ncae import Layout, inverse
from romkit.projections.geometry import DOUBLINGS

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def riemannian_adam(gradient: Callable[..., tuple[Array, Array]], layout: Layout) -> Callable[..., tuple]:
    """The body of a scan: (carry, rate, batch) -> (carry, losses (S,)), without clipping and weight decay."""

    def step(carry: tuple[Array, ...], rate: Array, batch: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
        theta, first, second, count = carry
        each, slope = gradient(theta, *batch)
        count = count + 1
        points, plain = _split(theta, layout)
        slopes, rest = _split(slope, layout)
        momenta, plain_momentum = _split(first, layout)
        slopes = [_project(x, g) for x, g in zip(points, slopes, strict=True)]
        squares = [jnp.broadcast_to((g * g).sum((1, 2, 3), keepdims=True), g.shape) for g in slopes]
        first = _join([_project(x, m) for x, m in zip(points, momenta, strict=True)], plain_momentum)
        first = first + (1 - BETA1) * (_join(slopes, rest) - first)
        second = second + (1 - BETA2) * (_join(squares, rest * rest) - second)
        scale = jnp.sqrt(second / (1 - BETA2**count)) + EPSILON
        steps, plain_step = _split(-rate * (first / (1 - BETA1**count)) / scale, layout)
        points = [_restore(x + u) for x, u in zip(points, steps, strict=True)]
        return (_join(points, plain + plain_step), first, second, count), each

    return step


def _split(theta: Array, layout: Layout) -> tuple[list[Array], Array]:
    """Pairs (S, 2, n, r), which come first in theta, and the rest (S, Q)."""
    shapes = layout.shapes[: 2 * layout.pairs : 2]
    bounds = list(accumulate((2 * n * r for n, r in shapes), initial=0))
    pairs = [
        theta[:, low:high].reshape(-1, 2, *shape) for (low, high), shape in zip(pairwise(bounds), shapes, strict=True)
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
    """The tangent vector at x nearest to u: see `romkit.projections.geometry.EuclideanMetric`."""
    a = _sylvester(_swap(x.mT @ x), _constraint(x, u)[:, 0])
    u = u - _swap(x) @ jnp.stack([a, a.mT], 1)
    return u - 0.5 * (x @ _constraint(x, u))


def _sylvester(grams: Array, c: Array) -> Array:
    """The solution S of A S + S B = C by doubling: see `romkit.projections.geometry.sylvester`."""
    eye = jnp.eye(c.shape[-1], dtype=c.dtype)
    inverted = inverse(grams + eye)
    factors = eye - 2 * inverted
    solution = 2 * (inverted[:, 0] @ c @ inverted[:, 1])
    for _ in range(DOUBLINGS):
        solution = solution + factors[:, 0] @ solution @ factors[:, 1]
        factors = factors @ factors
    return solution
