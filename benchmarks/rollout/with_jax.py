"""Contestants in JAX: a hand-written scan, and diffrax with fixed and with adaptive steps.

The Galerkin field has two layouts: XLA is faster with the one for batches and with the other for
one member. Both write φ(z) and the columns of its Jacobian in one pass, and solve the 2 x 2 system
by Cramer's rule. Of the ways tried, one vmap over members and one matrix of value and tangents per
member were slower.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array

from benchmarks.rollout.contestants import DIFFRAX, DT, SCAN, STEPS, Problem, Solve

Hyperbola = tuple[Array, Array, Array, Array, Array]


class Constants(NamedTuple):
    """Layer pairs: Φᵀ (r, k), β (C, k) and σ₊, five times (C, r). Scaling: shift, scale (n,).
    Forcing F (C, 1).
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    hyperbolas: tuple[Hyperbola, ...]
    shift: Array
    scale: Array
    forcing: Array


SHARED = Constants(weights=None, biases=0, hyperbolas=0, shift=None, scale=None, forcing=0)
"""Axes that vmap maps over members."""

JaxField = Callable[[Constants, Array], Array]


def constants(problem: Problem) -> Constants:
    """Return numbers of romkit's operator."""
    operator = problem.operator
    layers, frame = operator._maps.layers, operator._frame
    return Constants(
        weights=tuple(to_jax(layer.phi.mT) for layer in layers),
        biases=tuple(to_jax(layer.beta) for layer in layers),
        hyperbolas=tuple(tuple(map(to_jax, layer.plus)) for layer in layers),
        shift=to_jax(frame.state_shift),
        scale=to_jax(frame.state_scale),
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
    return jnp.stack(
        _solve(k.shift + x * k.scale, [t * k.scale for t in tangents], k.forcing, -1), -1
    )


def members_last(k: Constants, z: Array) -> Array:
    """ż (C, 2) at z (C, 2), computed on (2, C)."""
    x, tangents = (
        z.T,
        [jnp.broadcast_to(unit[:, None], z.T.shape) for unit in jnp.eye(2, dtype=z.dtype)],
    )
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


Run = Callable[[Constants, Array, Array], Array]
"""Constants, z0 (C, 2), times (T,) -> states (T - 1, C, 2)."""


class RK4(diffrax.AbstractERK):
    """Classical Runge-Kutta method of order four, which diffrax does not have."""

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.array([1 / 2]), np.array([0.0, 1 / 2]), np.array([0.0, 0.0, 1.0])),
        b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        b_error=np.zeros(4),
        c=np.array([1 / 2, 1 / 2, 1.0]),
    )
    interpolation_cls: ClassVar = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms: diffrax.AbstractTerm) -> int:
        return 4


def fixed_steps(problem: Problem) -> dict[str, Solve]:
    """Return steps of DT."""
    field = members_last if len(problem.z0) == 1 else members_first
    methods = {DIFFRAX: RK4(), "diffrax, Dopri5, fixed step": diffrax.Dopri5()}
    methods["diffrax, Tsit5, fixed step"] = diffrax.Tsit5()
    runs = {name: partial(_diffrax, field, method, None) for name, method in methods.items()}
    return {
        name: _solver(problem, run) for name, run in {SCAN: partial(_scan, field), **runs}.items()
    }


def adaptive_steps(problem: Problem, tolerance: float) -> Solve:
    """Dopri5 with a step size for each member, by vmap."""

    def run(k: Constants, z0: Array, times: Array) -> Array:
        one = partial(_diffrax, members_first, diffrax.Dopri5(), tolerance, times=times)
        return jax.vmap(one, in_axes=(SHARED, 0), out_axes=1)(k, z0)

    return _solver(problem, run)


def fields_once(problem: Problem) -> dict[str, torch.Tensor]:
    """ż (C, 2) at z0 in both layouts."""
    with jax.enable_x64(True):
        k, z0 = constants(problem), to_jax(problem.z0)
        return {
            field.__name__: torch.from_numpy(np.array(field(k, z0)))
            for field in (members_first, members_last)
        }


def _solver(problem: Problem, run: Run) -> Solve:
    compiled = jax.jit(run)
    with jax.enable_x64(True):
        k, z0 = constants(problem), to_jax(problem.z0)

    def solve(intervals: int) -> torch.Tensor:
        with jax.enable_x64(True):
            return torch.from_numpy(np.array(compiled(k, z0, to_jax(problem.times(intervals)))))

    return solve


def _scan(field: JaxField, k: Constants, z0: Array, times: Array) -> Array:
    def step(_: int, z: Array) -> Array:
        k1 = field(k, z)
        k2 = field(k, z + DT / 2 * k1)
        k3 = field(k, z + DT / 2 * k2)
        k4 = field(k, z + DT * k3)
        return z + DT / 6 * (k1 + 2 * (k2 + k3) + k4)

    def interval(z: Array, _: Array) -> tuple[Array, Array]:
        z = jax.lax.fori_loop(0, STEPS, step, z)
        return z, z

    return jax.lax.scan(interval, z0, times[1:])[1]


def _diffrax(
    field: JaxField,
    method: diffrax.AbstractERK,
    tolerance: float | None,
    k: Constants,
    z0: Array,
    times: Array,
) -> Array:
    """Return fixed steps, or with a tolerance steps of its own choice."""
    control = (
        diffrax.ConstantStepSize()
        if tolerance is None
        else diffrax.PIDController(rtol=tolerance, atol=tolerance)
    )
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, z, k: field(k, z)), method, times[0], times[-1], DT if tolerance is None else None,
        z0, args=k, saveat=diffrax.SaveAt(ts=times[1:]), stepsize_controller=control, max_steps=None, throw=False,
    ).ys  # fmt: skip
