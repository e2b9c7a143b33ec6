"""The share of a velocity that a subspace does not hold: a residual that needs no full run."""

from typing import Any

import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis
from romkit.bases.base import root_of
from romkit.systems.equation import EvolutionEquation
from romkit.systems.sampled import Sampled, coordinates_of
from romkit.systems.terms import Projected

ThroughBasis = Any
"""A `SystemThroughBasis`, whose module imports this one."""


def unresolved(system: ThroughBasis, data: xr.Dataset) -> xr.DataArray:
    """‖f - V Vᵀ W f‖ / ‖f‖ at x̄ + V y, (trajectory, time), or (time,) of a run without
    trajectories.

    Args:
        system: through a basis.
        data: a run, of states or of coordinates.
    """
    if "trajectory" not in data.dims:
        return unresolved(system, _lone_trajectory(system, data)).isel(trajectory=0)
    times, y, c = coordinates_of(system.full, system.basis, data)
    with torch.no_grad():
        if isinstance(system.image, Sampled):
            shares = _evaluate_rows(system.image, times, y, c)
        else:
            shares = _evaluate_terms(system, y, c)
    coords = {name: data[name] for name in ("time", *system.context_names)}
    attrs = {"units": "1", "long_name": "share of the velocity outside of the subspace"}
    return xr.DataArray(shares.numpy(), coords, ("trajectory", "time"), attrs=attrs)


def sketch(full: EvolutionEquation, basis: Basis, *, sketch: int = 32) -> Projected:
    """Ωᵀ f with E[Ω Ωᵀ] = W on what is orthogonal to the subspace, and zero on that.

    `sketch`: random combinations of what lies outside of the subspace: its length is known to
    an eighth (1/√64).
    """
    V = basis.modes  # (n, r)
    n = len(V)
    draw = torch.Generator().manual_seed(0)
    normal = torch.randn(n, sketch, generator=draw, dtype=V.dtype)
    tests = root_of(full.weight, n)(normal)
    tests = tests - basis.dual @ (V.mT @ tests)
    return Projected(full.terms(), basis, torch.device("cpu"), tests)


def _lone_trajectory(system: ThroughBasis, data: xr.Dataset) -> xr.Dataset:
    """Return a run without trajectories, with its context as that of one."""
    contexts = {}
    for name in system.context_names:
        if name in data:
            parameter = data[name]
            contexts[name] = (("trajectory", *parameter.dims), parameter.values[None])
    return data.expand_dims("trajectory").assign_coords(contexts)


def _evaluate_rows(image: Sampled, times: Tensor, y: Tensor, c: Tensor) -> Tensor:
    """(C, T) at times (T,), of coordinates (C, T, r) and contexts (C, T or 1, p)."""
    contexts = c.expand(-1, len(times), -1)
    shares = []
    for k, t in enumerate(times):
        share = image.unresolved(t, y[:, k], contexts[:, k])  # (C,)
        shares.append(share)
    return torch.stack(shares, dim=1)


def _evaluate_terms(system: ThroughBasis, y: Tensor, c: Tensor) -> Tensor:
    """(C, T) of coordinates (C, T, r) and contexts (C, T or 1, p)."""
    velocity_outside = system.sketch.at(c)(y)
    velocity_inside = system.image.at(c)(y)
    outside = velocity_outside.square().mean(-1)
    inside = velocity_inside.square().sum(-1)
    return (outside / (outside + inside)).sqrt()
