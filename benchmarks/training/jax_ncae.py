"""The loss of the NcAE in JAX: the same parameters, in the same order, as in romkit's theta (S, P).

Of the ways tried, the fastest are kept: seeds as an explicit batch axis instead of vmap (XLA's matrix products come out
of it in a better layout), value and tangent as one matrix product, a Gauss-Jordan inverse without a call of LAPACK,
whose derivative reuses the inverse.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from romkit.projections.layers import SLOPE_RANGE


class Layout(NamedTuple):
    """Where the parameters lie in theta: names and shapes without seeds, number of layer pairs and of embeddings."""

    names: Sequence[str]
    shapes: Sequence[tuple[int, ...]]
    sizes: Sequence[int]
    pairs: int
    embeddings: int

    def cut(self, theta: Array) -> dict[str, Array]:
        """The parameters by name, each (S, ...)."""
        bounds = pairwise(accumulate(self.sizes, initial=0))
        return {
            name: theta[:, low:high].reshape(-1, *shape)
            for name, shape, (low, high) in zip(self.names, self.shapes, bounds, strict=True)
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
    theta: Array, y: Array, dy: Array, c: Array, layout: Layout, velocity_weight: float, penalty_weight: float
) -> Array:
    """(S,) loss of `romkit.training.loss.Objective` of the presets: y and dy (S, B, n), c (S, B, p)."""
    named = layout.cut(theta)
    signal = _signal(named, c, layout.embeddings)
    weights = [_weights(named[f"weights.{k}.phi"], named[f"weights.{k}.psi"]) for k in range(layout.pairs)]
    slopes = [_hyperbolas(signal @ named[f"slopes.{k}.weight"]) for k in range(layout.pairs)]
    biases = [signal @ named[f"biases.{k}.weight"] + named[f"biases.{k}.bias"][:, None, :] for k in range(layout.pairs)]
    x, v = y, dy
    for (_, psi), (minus, _), beta in zip(weights[::-1], slopes[::-1], biases[::-1], strict=True):
        x, v = _activate(minus, *_products(x - beta, v, psi))
    for (phi, _), (_, plus), beta in zip(weights, slopes, biases, strict=True):
        x, v = _products(*_activate(plus, x, v), phi.mT)
        x = x + beta
    error = (y - x) ** 2 + velocity_weight * (dy - v) ** 2
    penalty = sum(((phi - psi) ** 2).sum((-1, -2)) for phi, psi in weights)
    return error.sum(-1).mean(-1) + penalty_weight * penalty


def _signal(named: dict[str, Array], c: Array, embeddings: int) -> Array:
    for k in range(embeddings):
        c = c @ named[f"embedding.layers.{k}.weight"] + named[f"embedding.layers.{k}.bias"][:, None, :]
        c = jax.nn.silu(c) if k < embeddings - 1 else c
    return c


def _weights(phi: Array, psi: Array) -> tuple[Array, Array]:
    return phi @ inverse(psi.mT @ phi), psi


def _hyperbolas(drive: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """(gain, offset, bend, shift, floor) of σ₋ and σ₊, as `romkit.projections.layers.inverse_pair`."""
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
