"""Components of a state to look at, and their names on the axes of the data."""

import numpy as np
import scipy.linalg
import xarray as xr

from romkit.core import display
from romkit.data.layout import Layout, Variable, layout_of

SAMPLES = 500
"""Snapshots that components are chosen by; more change the choice little and cost time."""

RESOLVED = 1e-6
"""Singular value, relative to the largest, below which a direction is rounding."""


def telling_components(data: xr.Dataset, number: int) -> np.ndarray:
    """Numbers of the components that say most about the others, in the order of the state.

    A pivoted QR decomposition of the leading modes takes them one after the other, each the one that
    those before it determine worst. Variables are scaled to one size, so that units do not decide.

    Args:
        data: with `state` (..., time, component).
        number: of components.

    Source: Manohar, Brunton, Kutz, Brunton (2018), Data-driven sparse sensor placement.
    """
    states = data["state"].values
    n = states.shape[-1]
    rows = states.reshape(-1, n)
    rows = rows[np.isfinite(rows).all(-1)]
    if len(rows) == 0 or n <= number:
        return np.arange(min(number, n))
    every = max(1, len(rows) // SAMPLES)
    anomalies = rows[::every] - rows[::every].mean(0)  # (N, n)
    first = 0
    for variable in layout_of(data).variables:
        part = anomalies[:, first : first + variable.size]
        part /= part.std() or 1.0
        first += variable.size
    _, singular, modes = np.linalg.svd(anomalies, full_matrices=False)  # modes (r, n)
    rank = min(number, int((singular > RESOLVED * singular[0]).sum()))
    leading = singular[:rank, None] * modes[:rank]
    _, pivots = scipy.linalg.qr(leading, mode="r", pivoting=True)
    chosen = _with_each_variable(pivots[:number].tolist(), rank, anomalies, data)
    return np.sort(chosen)


def _with_each_variable(
    pivots: list[int], rank: int, anomalies: np.ndarray, data: xr.Dataset
) -> list[int]:
    """Pivots whose last ones make room for variables that have none: for their largest component."""
    first, largest = 0, []
    for variable in layout_of(data).variables:
        components = range(first, first + variable.size)
        if not any(pivot in components for pivot in pivots[:rank]):
            largest.append(first + int(anomalies[:, components].std(0).argmax()))
        first += variable.size
    number = len(pivots)
    return [*pivots[: max(1, number - len(largest))], *largest][:number]


def place(data: xr.Dataset, component: int) -> str:
    """Name of a component by its variable and coordinates, "u at x = 0.5 m, y = 2 m"."""
    layout = layout_of(data)
    fallback = str(data["component"].values[component])
    if layout.is_plain:
        return fallback
    first = 0
    for variable in layout.variables:
        if component < first + variable.size:
            where = _coordinates(layout, variable, component - first)
            return f"{variable.name} at {where}" if where else fallback
        first += variable.size
    return fallback


def _coordinates(layout: Layout, variable: Variable, number: int) -> str:
    """Coordinates of one component of a variable; "" where they are no numbers."""
    indices = np.unravel_index(variable.cells[number], variable.shape)
    words = []
    for dim, index in zip(variable.dims, indices, strict=True):
        coordinate = layout.coords.get(dim, {})
        values = np.asarray(coordinate.get("values", []))
        if values.dtype.kind not in "iuf" or len(values) <= index:
            return ""
        unit = display.with_unit(coordinate["attrs"].get("units", ""), " {}")
        words.append(f"{dim} = {values[index]:.3g}{unit}")
    return ", ".join(words)
