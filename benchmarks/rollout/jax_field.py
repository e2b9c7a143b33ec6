"""The Galerkin field in JAX, in two layouts: XLA is faster with the one for batches and with the other for one member.

Both write φ(z) and the columns of its Jacobian in one pass, and solve the 2 x 2 system by Cramer's rule. Of the ways
tried, one vmap over members and one matrix of value and tangents per member were slower.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import torch
from jax import Array

from benchmarks.rollout.problem import Problem

Hyperbola = tuple[Array, Array, Array, Array, Array]


class Constants(NamedTuple):
    """Of layer pairs: Φᵀ (r, k), β (C, k) and σ₊, five times (C, r). Of the scaling: shift, scale (n,). F (C, 1)."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    hyperbolas: tuple[Hyperbola, ...]
    shift: Array
    scale: Array
    forcing: Array


SHARED = Constants(weights=None, biases=0, hyperbolas=0, shift=None, scale=None, forcing=0)
"""The axes that vmap maps over members."""

JaxField = Callable[[Constants, Array], Array]


def constants(problem: Problem) -> Constants:
    """Read off romkit's operator, so that both have the same numbers."""
    operator = problem.operator
    layers, normalization = operator._maps.decoder, operator._normalization
    return Constants(
        weights=tuple(to_jax(layer.phi_t) for layer in layers),
        biases=tuple(to_jax(layer.beta) for layer in layers),
        hyperbolas=tuple(tuple(map(to_jax, layer.activation)) for layer in layers),
        shift=to_jax(normalization.state_shift),
        scale=to_jax(normalization.state_scale),
        forcing=to_jax(operator.context),
    )


def to_jax(tensor: torch.Tensor) -> Array:
    return jnp.asarray(tensor.detach().cpu().numpy())


def members_first(k: Constants, z: Array) -> Array:
    """ż (..., 2) at z (..., 2)."""
    x, tangents = z, [jnp.broadcast_to(unit, z.shape) for unit in jnp.eye(2, dtype=z.dtype)]
    for weight, bias, hyperbola in zip(k.weights, k.biases, k.hyperbolas, strict=True):
        value, slope = _activate(hyperbola, x)
        x, *tangents = jnp.stack([value, *(slope * tangent for tangent in tangents)]) @ weight
        x = x + bias
    return jnp.stack(_solve(k.shift + x * k.scale, [t * k.scale for t in tangents], k.forcing, -1), -1)


def members_last(k: Constants, z: Array) -> Array:
    """ż (C, 2) at z (C, 2), computed on (2, C)."""
    x, tangents = z.T, [jnp.broadcast_to(unit[:, None], z.T.shape) for unit in jnp.eye(2, dtype=z.dtype)]
    for weight, bias, hyperbola in zip(k.weights, k.biases, k.hyperbolas, strict=True):
        value, slope = _activate(tuple(coefficient.T for coefficient in hyperbola), x)
        x, *tangents = [weight.T @ y for y in (value, *(slope * tangent for tangent in tangents))]
        x = x + bias.T
    shift, scale = k.shift[:, None], k.scale[:, None]
    return jnp.stack(_solve(shift + x * scale, [t * scale for t in tangents], k.forcing.T, 0), -1)


def _activate(hyperbola: Hyperbola, x: Array) -> tuple[Array, Array]:
    gain, offset, bend, shift, floor = hyperbola
    u = 2 * x + shift
    root = jnp.sqrt(u * u + floor)
    return gain * x + offset + bend * root, gain + 2 * bend * (u / root)


def _solve(x: Array, tangents: list[Array], forcing: Array, axis: int) -> tuple[Array, Array]:
    """(JᵀJ)⁻¹ Jᵀ f(x), components of the state along `axis`."""
    f = (jnp.roll(x, -1, axis) - jnp.roll(x, 2, axis)) * jnp.roll(x, 1, axis) - x + forcing
    first, second = tangents
    a, b, c = ((u * v).sum(axis) for u, v in ((first, first), (first, second), (second, second)))
    p, q = (first * f).sum(axis), (second * f).sum(axis)
    return (c * p - b * q) / (a * c - b * b), (a * q - b * p) / (a * c - b * b)
