"""Reduced models of the wake, and what is measured of each of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.types import Field
from romkit.integrators import LatentField
from romkit.integrators.base import T0
from romkit.projections import Projection
from romkit.solvers import RK4, Solution
from romkit.systems import System
from romkit.systems.problem import ConstantPath
from romkit.verbs.reduced import folded
from studies.wake.drag_lift import DragLift
from studies.wake.stability import reduced_growth

STEP = 0.016
"""Of RK4 in s, a twentieth of a period."""

LAST = 312
"""Samples in which drag, lift and period are measured: 5 s, some fifteen periods."""

LENGTH, TRANSIENT, PERIODS = 40.0, 3.0, 1000
"""Seconds on the orbit and of the transient towards it, and periods of the long rollouts."""

Numbers = dict[str, list[float]]


@dataclass(frozen=True)
class Bound:
    """A reduced model at contexts: its field, the latent state of coordinates (..., r), and the way back."""

    field: Field
    start: Callable[[Tensor], Tensor]
    decode: Callable[[Tensor], Tensor]


Reduced = Callable[[Tensor], Bound]
"""Contexts (C, 1) -> the model there."""


def linear(through: System) -> Reduced:
    """POD-Galerkin: the coordinates themselves, by exact tensors."""
    return lambda c: Bound(through.field(c), lambda y: y, lambda z: z)


def behind(through: System, model: Projection, dynamics: LatentField) -> Reduced:
    """A projection of the coordinates with latent dynamics."""

    def at(c: Tensor) -> Bound:
        P = model(c)
        problem = through.problem(ConstantPath(P), c)
        small = folded(problem, through.quadratic(c)) if dynamics.decodes_only else problem
        return Bound(dynamics.field(small), lambda y: dynamics.start(problem, T0, (y,)), P.decode)

    return at


def cycle(lift: np.ndarray) -> tuple[float, float]:
    """Strouhal number and largest lift of samples (T,) in `STEP`; no number where the flow does not shed."""
    z = lift[-LAST:] - lift[-LAST:].mean()
    up = np.flatnonzero((z[:-1] < 0) & (z[1:] >= 0))
    if len(up) < 3 or not np.isfinite(z).all():
        return float("nan"), float(lift[-LAST:].max())
    crossings = up - z[up] / (z[up + 1] - z[up])
    return float(0.1 / (np.diff(crossings).mean() * STEP)), float(lift[-LAST:].max())


def follow(bound: Bound, y: Tensor, duration: float) -> Solution:
    """Latent states from coordinates y (C, r)."""
    times = torch.arange(round(duration / STEP) + 1, dtype=torch.float64) * STEP
    return RK4(STEP)(bound.field, bound.start(y), times, engine="compiled")


def measured(reduced: Reduced, truth: xr.Dataset, steady: Tensor, forces: DragLift) -> Numbers:
    """All that is measured at the contexts of runs, each as a list over these.

    Args:
        reduced: the model.
        truth: coordinates of the runs.
        steady: (C, r) coordinates of the steady flows.
        forces: drag and lift of coordinates.
    """
    y = torch.from_numpy(truth["state"].values).double()
    c = torch.from_numpy(truth["Re"].values).double().unsqueeze(-1)
    with torch.no_grad():
        bound = reduced(c)
        lift = lambda z: forces(bound.decode(z), c.unsqueeze(1))[..., 1].numpy()  # noqa: E731
        there = lambda part: bound.decode(torch.stack([bound.start(x) for x in part.unbind(1)], 1))  # noqa: E731
        some = y[:, ::10]
        found = {"projection error": ((there(some) - some).norm(dim=(1, 2)) / some.norm(dim=(1, 2))).tolist()}
        orbit = follow(bound, y[:, -LAST], LENGTH)
        found["status"] = orbit.status.tolist()
        cycles = [cycle(run) for run in lift(orbit.states[:, -LAST:])]
        found["Strouhal"], found["lift"] = ([each[k] for each in cycles] for k in (0, 1))
        transient = follow(bound, y[:, 0], TRANSIENT)
        true = truth["lift"].values[:, : transient.states.shape[1]]
        found["transient"] = (np.sqrt(((lift(transient.states) - true) ** 2).mean(-1)) / np.abs(true).max(-1)).tolist()
        found["status, long"] = follow(bound, y[:, -LAST], PERIODS / 3.0).status.tolist()
        alone = [reduced(each.unsqueeze(0)) for each in c]
        found["seconds"] = [follow(alone[0], y[:1, -LAST], LENGTH).cost["seconds_computing"] for _ in range(5)]
        growth = [
            reduced_growth(lambda z, one=one: one.field(T0, z.unsqueeze(0))[0], one.start(x)[0])
            for one, x in zip(alone, steady.split(1), strict=True)
        ]
        found["growth"], found["frequency"] = [g.real for g in growth], [abs(g.imag) for g in growth]
    return found
