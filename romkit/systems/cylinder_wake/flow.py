"""The flow in time, and its steady state."""

from collections.abc import Iterator

import numpy as np

from romkit.systems.cylinder_wake.discretisation import Discretisation

NEWTON = 20
"""Iterations at most; six are usual."""

REYNOLDS_STEP = 40.0
"""The steady state is continued in steps of this Reynolds number, which Newton's method follows."""


def rate(flow: Discretisation, u: np.ndarray, viscosity: float) -> np.ndarray:
    """u̇ (n, ...): the divergence-free part of -N(u, u) - ν K u."""
    return flow.solve(flow.leray, -flow.convection(u, u) - viscosity * (flow.stiffness @ u))


def stokes(flow: Discretisation) -> np.ndarray:
    """(n,) the flow without inertia."""
    u = flow.inflow
    return u + flow.solve(flow.saddle(flow.stiffness), -(flow.stiffness @ u), -(flow.divergence @ u))


def steady(flow: Discretisation, viscosity: float) -> np.ndarray:
    """(n,) the steady flow, stable or not, by Newton's method; continued from large viscosities where it is far."""
    u, targets = stokes(flow), np.arange(REYNOLDS_STEP, 0.1 / viscosity, REYNOLDS_STEP)
    for each in [*(0.1 / targets), viscosity]:
        for _ in range(NEWTON):
            residual = flow.convection(u, u) + each * (flow.stiffness @ u)
            factors = flow.saddle(flow.linearised_convection(u) + each * flow.stiffness)
            step = flow.solve(factors, -residual, -(flow.divergence @ u))
            u = u + step
            if np.abs(step).max() < 1e-11:
                break
    return u


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
