"""Branches as datasets: points with their stability, and special points."""

from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr

from romkit.branches.arclength import Point
from romkit.branches.line import Line
from romkit.core.types import Array


class Special(NamedTuple):
    """Special point of a branch.

    Attributes:
        after: index of the point of the branch before it.
        kind: its name.
        point: where it is.
    """

    after: int
    kind: str
    point: Point


def branch_dataset(
    kind: str, walked: list[Point], special: list[Special], line: Line
) -> xr.Dataset:
    u = np.array([point.u for point in walked])  # (K, k)
    at_special = np.array([event.point.u for event in special])
    at_special = at_special.reshape(len(special), u.shape[1])
    variables = line.variables(u, "point", kind)
    variables |= line.variables(at_special, "special", kind, "special_")
    variables |= _decoded(line, u, "point", "decoded")
    variables |= _decoded(line, at_special, "special", "special_decoded")
    variables |= _stability(kind, walked)
    variables |= _events(kind, special)
    coords = {"component": line.model.names, "part": ["real", "imaginary"]}
    return line.named(xr.Dataset(variables, coords, {"kind": kind}))


def _stability(kind: str, walked: list[Point]) -> dict[str, tuple[Any, ...]]:
    """Return variables of the spectra of the points of a branch."""
    spectrum = "eigenvalue"
    if kind == "orbits":
        spectrum = "multiplier"
    values = np.array([point.values for point in walked])  # (K, d)
    pairs = np.stack([values.real, values.imag], -1)
    stable = [point.unstable == 0 for point in walked]
    return {"stable": ("point", stable), spectrum: (("point", "mode", "part"), pairs)}


def _events(kind: str, special: list[Special]) -> dict[str, tuple[Any, ...]]:
    """Return variables of the special points of a branch."""
    kinds = np.array([event.kind for event in special], dtype=str)
    after = np.array([event.after for event in special], dtype=int)
    variables = {"special_kind": ("special", kinds), "special_after": ("special", after)}
    if kind == "equilibria":
        frequencies = np.array([_frequency(event) for event in special], dtype=float)
        variables["frequency"] = ("special", frequencies)
    return variables


def _decoded(line: Line, u: Array, dim: str, name: str) -> dict[str, tuple[Any, ...]]:
    """Return states of the full model behind unknowns (K, k), where there is another one."""
    w = torch.from_numpy(line.states(u))
    context = line.contexts(u[:, -1])
    with torch.no_grad():
        states = line.model.decode(context, w)
    if states is None:
        return {}
    return {name: ((dim, "full_component"), states.numpy())}


def _frequency(event: Special) -> float:
    """Angular frequency of the pair of eigenvalues that is nearest to the boundary of stability."""
    if event.kind != "Hopf":
        return np.nan
    values = event.point.values
    is_upper = values.imag > 0
    growth = event.point.growth[is_upper]
    nearest = np.argmin(abs(growth))
    return float(values.imag[is_upper][nearest])
