"""The flow on its finite elements: steady, and in time."""

from collections.abc import Iterator

import numpy as np

from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.systems.cylinder_wake.elements import Discretisation


def rate(flow: Discretisation, u: Array, viscosity: float) -> Array:
    """u̇ (n, ...): the divergence-free part of -N(u, u) - ν K u."""
    friction = viscosity * (flow.stiffness @ u)
    return flow.solve(flow.leray, -flow.convection(u, u) - friction)


def steady(
    flow: Discretisation,
    viscosity: float,
    *,
    reynolds_step: float = 40.0,
    smallest_step: float = 2.0,
) -> Array:
    """(n,) the steady flow, stable or not, by Newton's method; continued from large viscosities
    where it is far.

    `reynolds_step`: the steady state is continued in steps of this Reynolds number, which
    Newton's method follows, or in halves of it down to `smallest_step`.

    Raises:
        InputError: Newton's method does not find it.
    """
    # at Reynolds number zero
    u = flow.inflow
    creeping = flow.saddle(flow.stiffness)
    u = u + flow.solve(creeping, -(flow.stiffness @ u), -(flow.divergence @ u))
    target = 0.1 / viscosity
    reached = 0.0
    step = reynolds_step
    while reached < target:
        reynolds = min(reached + step, target)
        viscosity_there = 0.1 / reynolds
        if reynolds == target:
            # to the last bit
            viscosity_there = viscosity
        solution = _newton(flow, u, viscosity_there)
        if solution is not None:
            u, reached = solution, reynolds
            continue
        step /= 2
        if step < smallest_step:
            raise InputError(
                "Re",
                expected="a steady flow that Newton's method finds",
                got=f"none beyond Re = {reached:g}",
                fix="lower it, or take a finer mesh",
            )
    return u


def _newton(
    flow: Discretisation, u: Array, viscosity: float, *, iterations: int = 20, lost: float = 10.0
) -> Array | None:
    """(n,) the steady flow near u; None where it is not found: six iterations are usual, and from a
    change of velocities of `lost` m/s Newton's method does not come back.
    """
    friction = viscosity * flow.stiffness
    for _ in range(iterations):
        residual = flow.convection(u, u) + viscosity * (flow.stiffness @ u)
        factors = flow.saddle(flow.linearised_convection(u) + friction)
        step = flow.solve(factors, -residual, -(flow.divergence @ u))
        u = u + step
        size = np.abs(step).max()
        if size < 1e-11:
            return u
        if not size < lost:
            break
    return None


def integrate(
    flow: Discretisation, u: Array, viscosity: float, times: Array, step: float
) -> Iterator[Array]:
    """Yield velocities (n,) at each of `times`, from u at the first.

    Second order in time: implicit for pressure and viscosity (BDF2), extrapolated for convection,
    which limits the step. One factorisation serves all steps of one length.

    Args:
        flow: the finite elements.
        u: (n,) at `times[0]`.
        viscosity: ν.
        times: (T,).
        step: largest time step; output intervals are cut into equal ones.
    """
    yield u
    divergence = -(flow.divergence @ flow.inflow)
    length, before = 0.0, u
    for interval in np.diff(times):
        number = interval / step * (1 - 1e-9)  # intervals are rounded
        count = max(1, int(np.ceil(number)))
        h = interval / count
        if abs(h - length) > 1e-9 * h:
            length = h
            implicit = 1.5 / h * flow.mass + viscosity * flow.stiffness
            factors = flow.saddle(implicit)
            boundary = implicit @ flow.inflow
            # a two-step rule needs a state before the first: Euler's error of one step is of its order
            before = u - h * rate(flow, u, viscosity)
            convected = flow.convection(u, u)
            convected_before = flow.convection(before, before)
        for _ in range(count):
            inertia = flow.mass @ ((2 * u - 0.5 * before) / h)
            tested = inertia - (2 * convected - convected_before) - boundary
            before = u
            u = flow.inflow + flow.solve(factors, tested, divergence)
            convected_before = convected
            convected = flow.convection(u, u)
        yield u
