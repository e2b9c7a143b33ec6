"""A basis of right-hand sides, of training data as a basis of their states sees them."""

import functools
from collections.abc import Iterator

import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis, check_size
from romkit.bases.summary import Summary
from romkit.data import times_of, trajectories
from romkit.data.context import context_columns
from romkit.data.layout import component_names
from romkit.data.matching import check_components, check_context
from romkit.errors import InputError
from romkit.systems.base import System

SNAPSHOTS, BLOCK, MOST = 1000, 100, 256
"""Snapshots that are taken, evenly out of all; in memory at a time; and modes of them, at most."""


TrainingData = tuple[Tensor, Tensor, Tensor]

UNKNOWN, SMALLEST = 1e-6, 1e-14
"""Shares of energy that may be left out: where the basis knows none, and at least."""


def basis_of_rates(system: System, basis: Basis, data: TrainingData, tolerance: float | None = None) -> Basis:
    """The modes of f(t, x̄ + V y; c) at the coordinates y of training data.

    What a reduced model asks for is f on the subspace and not at the states themselves: in as many modes of these the
    error of sampling is three to nine times larger (studies/large/SAMPLED.md).

    Args:
        system: whose right-hand side f is.
        basis: x̄ and V.
        data: times (N,), coordinates (N, r) and contexts (N, p), see `training_data`.
        tolerance: share of the energy that may be left out; by default what the basis leaves out of that of the states,
            if `MOST` modes are enough for it.

    Raises:
        InputError: a right-hand side that is the same at all data, or not finite; a tolerance that `MOST` modes do not
            reach.
    """
    parts = (Summary.of(x, min(MOST, len(x)), _same) for x in _blocks(system, basis, *data))
    whole = functools.reduce(lambda a, b: a.merged(b, MOST, _same), parts)
    sigma = whole.factor.norm(dim=0)
    if not len(sigma):
        expected, fix = "snapshots at which the right-hand side differs", "give more of them, or roll out in full space"
        raise InputError("data", expected=expected, got="the same at all of them", fix=fix)
    share = (sigma**2).cumsum(0) / whole.energy
    rank = int((1 - share > (_left_out(basis) if tolerance is None else tolerance)).sum()) + 1
    if rank > len(share) and tolerance is not None:
        got = f"{1 - share[-1].item():.1e} left by {len(share)} modes"
        raise InputError("tolerance", expected=f"one that {len(share)} modes reach", got=got, fix="raise it")
    return Basis(whole.factor[:, :rank] / sigma[:rank], whole.mean, singular_values=sigma[:rank], energy=share[:rank])


def _left_out(basis: Basis) -> float:
    """The share of the energy of the states that a basis leaves out, if it is more than rounding."""
    return UNKNOWN if basis.energy is None else max(1 - basis.energy[-1].item(), SMALLEST)


def training_data(system: System, basis: Basis, data: xr.Dataset) -> TrainingData:
    """Times (N,), coordinates (N, r) and contexts (N, p) of up to `SNAPSHOTS` snapshots.

    Args:
        system: of the data.
        basis: in which the coordinates are.
        data: of states, or of coordinates (`basis.project`).

    Raises:
        InputError: data of another system or grid.
    """
    t, y, c = coordinates_of(system, basis, data)
    t, y, c = t.expand(len(y), -1).flatten(), y.flatten(0, 1), c.expand(-1, y.shape[1], -1).flatten(0, 1)
    there = y.isfinite().all(-1).nonzero().flatten()
    taken = there[torch.linspace(0, len(there) - 1, min(SNAPSHOTS, len(there))).round().long()]
    return t[taken], y[taken], c[taken]


def coordinates_of(system: System, basis: Basis, data: xr.Dataset) -> TrainingData:
    """Times (T,), coordinates (C, T, r) and contexts (C, T or 1, p) of data, which are those of `training_data`."""
    check_context("data", data, system.context_names)
    names = tuple(f"y{k}" for k in range(basis.rank))  # not the number, which states have too in a whole basis
    if "component" not in data.dims or component_names(data) != names:
        check_size(basis, data)
        check_components("data", data, system.state_names)
        data = basis.project(data[["state"]])
    y, c = trajectories(data, "state"), torch.from_numpy(context_columns(data, system.context_names))
    return times_of(data), y, c if c.ndim == 3 else c.unsqueeze(1)


def _blocks(system: System, basis: Basis, t: Tensor, y: Tensor, c: Tensor) -> Iterator[Tensor]:
    """Right-hand sides (k, n)."""
    for rows in torch.arange(len(y)).split(BLOCK):
        rates = torch.stack([system.field(c[i])(t[i], basis.decode(y[i])) for i in rows])
        if not bool(rates.isfinite().all()):
            expected, fix = "snapshots at which the right-hand side is finite, behind the basis", "take more modes"
            raise InputError("data", expected=expected, got="NaN or infinity", fix=fix)
        yield rates


def _same(u: Tensor) -> Tensor:
    return u
