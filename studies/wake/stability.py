"""Onset of instability of the steady flow: largest growth rate of small disturbances, full and
reduced.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigs, splu
from torch import Tensor

from romkit.systems.cylinder_wake.elements import discretisation
from romkit.systems.cylinder_wake.flow import steady

NEAR = 17.0j
"""Shift near which eigenvalues are sought, in 1/s: a Strouhal number of 0.27."""

NEWTON = 30
"""Largest number of iterations for a steady latent state."""

REYNOLDS = np.arange(44.0, 61.0)
"""Reynolds numbers among which the critical one is sought; in between the rate is interpolated."""


class Leading(NamedTuple):
    """Steady flow (n,) with its fastest growing disturbance: complex rate in 1/s and complex shape
    (n,).
    """

    flow: np.ndarray
    rate: complex
    shape: np.ndarray


def leading(reynolds: float, mesh: str = "standard") -> Leading:
    """Eigenvalue of largest real part of the flow linearised about its steady state.

    λ M u = -(N'(u) + ν K) u - Bᵀ p,  B u = 0, by shift and inversion.
    """
    flow, viscosity = discretisation(mesh), 0.1 / reynolds
    u = steady(flow, viscosity)
    linear = (flow.linearised_convection(u) + viscosity * flow.stiffness)[flow.free][:, flow.free]
    mass, B = flow.mass[flow.free][:, flow.free], flow.divergence[:, flow.free]
    factors = splu(
        sparse.block_array([[-linear - NEAR * mass, -B.T], [B, None]]).tocsc().astype(complex)
    )
    below, k = np.zeros(B.shape[0]), mass.shape[0]
    inverse = lambda u: factors.solve(np.concatenate([mass @ u.ravel(), below]).astype(complex))[:k]  # noqa: E731
    values, vectors = eigs(
        LinearOperator((k, k), inverse, dtype=complex), k=6, v0=np.ones(k, complex)
    )
    rates = NEAR + 1 / values
    first, shape = np.argmax(rates.real), np.zeros(flow.n, complex)
    shape[flow.free] = vectors[:, first]
    return Leading(u, complex(rates[first]), shape)


def full_growth(reynolds: float, mesh: str = "standard") -> complex:
    """Return rate of the disturbance of the steady flow that grows fastest, or decays slowest, in
    1/s.
    """
    return leading(reynolds, mesh).rate


def reduced_growth(field: Callable[[Tensor], Tensor], start: Tensor) -> complex:
    """Growth rate of a latent field (..., m) -> (..., m) about its steady state near `start` (m,);
    NaN without one.
    """
    z = start.clone()
    for _ in range(NEWTON):
        jacobian = torch.func.jacfwd(field)(z)
        step = torch.linalg.solve(jacobian, field(z))
        z = z - step
        if step.abs().max() < 1e-10:
            values = torch.linalg.eigvals(torch.func.jacfwd(field)(z))
            return complex(values[values.real.argmax()])
    return complex("nan")


def critical(growth: Callable[[float], complex], reynolds: np.ndarray = REYNOLDS) -> float:
    """Reynolds number at which the largest growth rate becomes positive; NaN where it does not."""
    rates = np.array([growth(float(each)).real for each in reynolds])
    crossings = np.flatnonzero((rates[:-1] < 0) & (rates[1:] >= 0))
    if not len(crossings):
        return float("nan")
    k = crossings[0]
    return float(
        reynolds[k] + (reynolds[k + 1] - reynolds[k]) * rates[k] / (rates[k] - rates[k + 1])
    )
