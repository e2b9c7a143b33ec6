"""The flow in time, and its steady state."""

from collections.abc import Iterator

import numpy as np

from romkit.core.errors import InputError
from romkit.systems.cylinder_wake.discretisation import Discretisation

NEWTON = 20
"""Iterations at most; six are usual."""

REYNOLDS_STEP = 40.0
"""The steady state is continued in steps of this Reynolds number, which Newton's method follows, or in halves of it."""

SMALLEST_STEP, LOST = 2.0, 10.0
"""Steps that are no longer halved, and a change of velocities in m/s from which Newton's method does not come back."""


def rate(flow: Discretisation, u: np.ndarray, viscosity: float) -> np.ndarray:
    """u̇ (n, ...): the divergence-free part of -N(u, u) - ν K u."""
    return flow.solve(flow.leray, -flow.convection(u, u) - viscosity * (flow.stiffness @ u))


def stokes(flow: Discretisation) -> np.ndarray:
    """(n,) the flow without inertia."""
    u = flow.inflow
    return u + flow.solve(flow.saddle(flow.stiffness), -(flow.stiffness @ u), -(flow.divergence @ u))


def steady(flow: Discretisation, viscosity: float) -> np.ndarray:
    """(n,) the steady flow, stable or not, by Newton's method; continued from large viscosities where it is far.

    Raises:
        InputError: Newton's method does not find it.
    """
    u, reached, step, target = stokes(flow), 0.0, REYNOLDS_STEP, 0.1 / viscosity
    while reached < target:
        reynolds = min(reached + step, target)
        found = _newton(flow, u, viscosity if reynolds == target else 0.1 / reynolds)
        if found is not None:
            u, reached = found, reynolds
        elif (step := step / 2) < SMALLEST_STEP:
            expected, fix = "a steady flow that Newton's method finds", "lower it, or take a finer mesh"
            raise InputError("Re", expected=expected, got=f"none beyond Re = {reached:g}", fix=fix)
    return u


def _newton(flow: Discretisation, u: np.ndarray, viscosity: float) -> np.ndarray | None:
    """(n,) the steady flow near u; None where it is not found."""
    for _ in range(NEWTON):
        residual = flow.convection(u, u) + viscosity * (flow.stiffness @ u)
        factors = flow.saddle(flow.linearised_convection(u) + viscosity * flow.stiffness)
        step = flow.solve(factors, -residual, -(flow.divergence @ u))
        u = u + step
        size = np.abs(step).max()
        if size < 1e-11:
            return u
        if not size < LOST:
            break
    return None


def integrate(
    flow: Discretisation, u: np.ndarray, viscosity: float, times: np.ndarray, step: float
) -> Iterator[np.ndarray]:
    """Velocities (n,) at each of `times`, from u at the first.

    Second order in time: implicit for pressure and viscosity (BDF2), extrapolated for convection, which limits the
    step. One factorisation serves all steps of one length.

    Args:
        flow: the finite elements.
        u: (n,) at `times[0]`.
        viscosity: ν.
        times: (T,).
        step: largest time step; output intervals are cut into equal ones.
    """
    yield u
    length, before = 0.0, None
    for interval in np.diff(times):
        count = max(1, int(np.ceil(interval / step * (1 - 1e-9))))
        h = interval / count
        if abs(h - length) > 1e-9 * h:
            length = h
            factors = flow.saddle(1.5 / h * flow.mass + viscosity * flow.stiffness)
            boundary = (1.5 / h * flow.mass + viscosity * flow.stiffness) @ flow.inflow
            below = -(flow.divergence @ flow.inflow)
            before = u - h * rate(flow, u, viscosity)
            convected, convected_before = flow.convection(u, u), flow.convection(before, before)
        for _ in range(count):
            known = flow.mass @ ((2 * u - 0.5 * before) / h) - (2 * convected - convected_before)
            before, u = u, flow.inflow + flow.solve(factors, known - boundary, below)
            convected, convected_before = flow.convection(u, u), convected
        yield u
