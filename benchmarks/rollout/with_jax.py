"""The contestants in JAX: a hand-written scan, and diffrax with fixed and with adaptive steps."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import diffrax
import jax
import numpy as np
import torch
from jax import Array

from benchmarks.rollout.jax_field import SHARED, Constants, JaxField, constants, members_first, members_last, to_jax
from benchmarks.rollout.problem import DT, STEPS, Problem
from benchmarks.rollout.with_torch import Solve

SCAN, DIFFRAX = "JAX, RK4 by lax.scan", "diffrax, RK4"
Run = Callable[[Constants, Array, Array], Array]
"""Constants, z0 (C, 2), times (T,) -> states (T - 1, C, 2)."""


class RK4(diffrax.AbstractERK):
    """The classical method, which diffrax does not have."""

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.array([1 / 2]), np.array([0.0, 1 / 2]), np.array([0.0, 0.0, 1.0])),
        b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        b_error=np.zeros(4),
        c=np.array([1 / 2, 1 / 2, 1.0]),
    )
    interpolation_cls: ClassVar = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms: diffrax.AbstractTerm) -> int:
        return 4


def fixed(problem: Problem) -> dict[str, Solve]:
    """Steps of DT."""
    field = members_last if len(problem.z0) == 1 else members_first
    return {
        SCAN: _solver(problem, partial(_scan, field)),
        DIFFRAX: _solver(problem, partial(_diffrax, field, RK4())),
        "diffrax, Dopri5, fixed step": _solver(problem, partial(_diffrax, field, diffrax.Dopri5())),
        "diffrax, Tsit5, fixed step": _solver(problem, partial(_diffrax, field, diffrax.Tsit5())),
    }


def diffrax_dopri5(problem: Problem, tolerance: float) -> Solve:
    """A step size for each member, by vmap."""
    return _solver(problem, partial(_diffrax_adaptive, tolerance))


def field_once(problem: Problem, field: JaxField) -> torch.Tensor:
    """ż (C, 2) at z0."""
    with jax.enable_x64(True):
        return torch.from_numpy(np.array(field(constants(problem), to_jax(problem.z0))))


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


def _diffrax(field: JaxField, method: diffrax.AbstractERK, k: Constants, z0: Array, times: Array) -> Array:
    term = diffrax.ODETerm(lambda t, z, k: field(k, z))
    return diffrax.diffeqsolve(
        term, method, times[0], times[-1], DT, z0, args=k,
        saveat=diffrax.SaveAt(ts=times[1:]), max_steps=None, throw=False,
    ).ys  # fmt: skip


def _diffrax_adaptive(tolerance: float, k: Constants, z0: Array, times: Array) -> Array:
    term = diffrax.ODETerm(lambda t, z, k: members_first(k, z))

    def one(k: Constants, z: Array) -> Array:
        return diffrax.diffeqsolve(
            term, diffrax.Dopri5(), times[0], times[-1], None, z, args=k,
            stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
            saveat=diffrax.SaveAt(ts=times[1:]), max_steps=None, throw=False,
        ).ys  # fmt: skip

    return jax.vmap(one, in_axes=(SHARED, 0), out_axes=1)(k, z0)
