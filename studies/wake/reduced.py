"""Reduced models of the wake, drag and lift of their coordinates, and the quantities that are
measured of each.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis
from romkit.core.types import Field
from romkit.integrators import LatentField
from romkit.integrators.base import T0
from romkit.integrators.contracted import contracted
from romkit.projections import Path, Projection
from romkit.solvers import Adaptive, Solution
from romkit.systems import CylinderWake, System
from romkit.systems.cylinder_wake.elements import discretisation
from studies.wake.stability import reduced_growth

Found = dict[str, object]
STEP = 0.016
"""Distance of the samples in s, a twentieth of a period."""

LAST = 312
"""Samples in which drag, lift and period are measured: 5 s, some fifteen periods."""
LENGTH, TRANSIENT = 40.0, 3.0
"""Seconds on the orbit and of the transient towards it."""
STEPS = {"coarse": 0.001, "standard": 0.0005, "fine": 0.00025}
"""Step of the full model in s, by mesh."""
TIMINGS = 5
"""Number of times that a rollout is timed."""
SCALE = -20.0
"""Factor from a force per density to a coefficient, -2 / (U² D)."""


@dataclass(frozen=True)
class DragLift:
    """Coefficients of drag and lift as quadratic forms of coordinates in a basis, exact.

    Attributes:
        convective: (r + 1, r + 1, 2) of the products of (1, y).
        viscous: (r + 1, 2), at ν = 1.
    """

    convective: Tensor
    viscous: Tensor

    @classmethod
    def of(cls, basis: Basis, mesh: str = "standard") -> "DragLift":
        flow = discretisation(mesh)
        columns = np.column_stack([basis.mean.numpy(), basis.modes.numpy()])
        forces = flow.force_functionals  # (n, 2)
        of_pairs = [flow.convection(columns, column[:, None]).T @ forces for column in columns.T]
        convective = np.stack(of_pairs, axis=1)  # (r + 1, r + 1, 2)
        viscous = flow.force_functionals.T @ (flow.stiffness @ columns)
        return cls(
            torch.from_numpy(SCALE * convective),
            torch.from_numpy(SCALE * viscous.T),
        )

    def __call__(self, y: Tensor, reynolds: Tensor) -> Tensor:
        """(..., 2) of coordinates (..., r) at Reynolds numbers (..., 1)."""
        one = torch.cat([torch.ones_like(y[..., :1]), y], -1)
        return torch.einsum("...i,...j,ijk->...k", one, one, self.convective) + 0.1 / reynolds * (
            one @ self.viscous
        )


def at_hundred(mesh: str) -> Found:
    """Strouhal number, largest drag and lift over the last seconds of a run of the full model at Re
    = 100.
    """
    system = CylinderWake(mesh=mesh, step=STEPS[mesh], dt=STEP)
    began = time.process_time()
    run = system.dataset(Re=[100.0])
    strouhal, lift = cycle(run["lift"].values[0])
    found = {"mesh": mesh, "n": system.state_size, "step": system.step}
    found |= {
        "drag": float(run["drag"].values[0, -LAST:].max()),
        "lift": lift,
        "Strouhal": strouhal,
    }
    return found | {"CPU seconds": time.process_time() - began}


@dataclass(frozen=True)
class Bound:
    """Reduced model at contexts: its field, the map from coordinates (..., r) to latent states, and
    the way back.
    """

    field: Field
    start: Callable[[Tensor], Tensor]
    decode: Callable[[Tensor], Tensor]


Reduced = Callable[[Tensor], Bound]
"""Contexts (C, 1) -> the model there."""


def linear(through: System) -> Reduced:
    """POD-Galerkin: the coordinates themselves, by exact tensors."""
    return lambda c: Bound(through.field(c), lambda y: y, lambda z: z)


def behind(through: System, model: Projection, dynamics: LatentField) -> Reduced:
    """Return a projection of the coordinates with latent dynamics."""

    def at(c: Tensor) -> Bound:
        P = model(c)
        problem = through.problem(Path.constant(P), c)
        small = contracted(problem, dynamics, through.quadratic(c))
        return Bound(dynamics.field(small), lambda y: dynamics.start(problem, T0, (y,)), P.decode)

    return at


def cycle(lift: np.ndarray) -> tuple[float, float]:
    """Strouhal number and largest lift of samples (T,) in `STEP`; no number where the flow does not
    shed.
    """
    z = lift[-LAST:] - lift[-LAST:].mean()
    up = np.flatnonzero((z[:-1] < 0) & (z[1:] >= 0))
    if len(up) < 3 or not np.isfinite(z).all():
        return float("nan"), float(lift[-LAST:].max())
    crossings = up - z[up] / (z[up + 1] - z[up])
    return float(0.1 / (np.diff(crossings).mean() * STEP)), float(lift[-LAST:].max())


def follow(bound: Bound, y: Tensor, duration: float, rtol: float) -> Solution:
    """Latent states from coordinates y (C, r)."""
    times = torch.arange(round(duration / STEP) + 1, dtype=torch.float64) * STEP
    return Adaptive(rtol=rtol)(bound.field, bound.start(y), times, engine="compiled")


def measured(
    reduced: Reduced,
    truth: xr.Dataset,
    steady: Tensor,
    forces: DragLift,
    periods: float,
    rtol: float,
) -> Found:
    """Measured quantities at the contexts of runs, each as a list over these.

    Args:
        reduced: the model.
        truth: coordinates of the runs.
        steady: (C, r) coordinates of the steady flows.
        forces: drag and lift of coordinates.
        periods: of the long rollouts.
        rtol: of the rollouts that are judged; their cost is that of the default one.
    """
    y = torch.from_numpy(truth["state"].values).double()
    c = torch.from_numpy(truth["Re"].values).double().unsqueeze(-1)
    with torch.no_grad():
        bound = reduced(c)
        lift = lambda z: forces(bound.decode(z), c.unsqueeze(1))[..., 1].numpy()  # noqa: E731
        there = lambda part: bound.decode(torch.stack([bound.start(x) for x in part.unbind(1)], 1))  # noqa: E731
        some = y[:, ::10]
        found = {
            "projection error": (
                (there(some) - some).norm(dim=(1, 2)) / some.norm(dim=(1, 2))
            ).tolist()
        }
        orbit = follow(bound, y[:, -LAST], LENGTH, rtol)
        found["status"] = orbit.status.tolist()
        cycles = [cycle(run) for run in lift(orbit.states[:, -LAST:])]
        found["Strouhal"], found["lift"] = ([each[k] for each in cycles] for k in (0, 1))
        transient = follow(bound, y[:, 0], TRANSIENT, rtol)
        true = truth["lift"].values[:, : transient.states.shape[1]]
        found["transient"] = (
            np.sqrt(((lift(transient.states) - true) ** 2).mean(-1)) / np.abs(true).max(-1)
        ).tolist()
        found["status, long"] = follow(bound, y[:, -LAST], periods / 3.0, rtol=1e-6).status.tolist()
        alone = [reduced(each.unsqueeze(0)) for each in c]
        found["seconds"] = [
            follow(alone[0], y[:1, -LAST], LENGTH, rtol=1e-6).cost["seconds_computing"]
            for _ in range(TIMINGS)
        ]
        growth = [
            reduced_growth(lambda z, one=one: one.field(T0, z.unsqueeze(0))[0], one.start(x)[0])
            for one, x in zip(alone, steady.split(1), strict=True)
        ]
        found["growth"], found["frequency"] = (
            [g.real for g in growth],
            [abs(g.imag) for g in growth],
        )
    return found
