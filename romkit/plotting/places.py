"""Components of a state to look at, and their names on the axes of the data."""

import textwrap

import numpy as np
import scipy.linalg
import xarray as xr

from romkit.core import display
from romkit.core.types import Array
from romkit.data.layout import Layout, Variable, layout_of
from romkit.plotting import style

SAMPLES = 500
"""Snapshots that components are chosen by; more change the choice little and cost time."""


ROUNDING = 100.0
"""Deviation of a variable [last digits of its mean], below which it is constant."""

OPPOSITE = {"°N": "°S", "°E": "°W"}
"""Directions of negative degrees."""


def telling_components(data: xr.Dataset, number: int) -> Array:
    """Return numbers of the components that say most about the others, in the order of the state.

    A pivoted QR decomposition of the leading modes takes them one after the other, each the one that
    those before it determine worst. Variables are scaled to one size, so that units do not decide.

    Args:
        data: with `state` (..., time, component).
        number: of components.

    Source: Manohar, Brunton, Kutz, Brunton (2018), Data-driven sparse sensor placement.
    """
    # singular value, relative to the largest, below which a direction is rounding
    resolved_from = 1e-6
    states = data["state"].values
    n = states.shape[-1]
    rows = states.reshape(-1, n)  # (N, n)
    complete = np.isfinite(rows).all(-1)
    rows = rows[complete]
    if len(rows) == 0 or n <= number:
        return np.arange(min(number, n))
    every = max(1, len(rows) // SAMPLES)
    snapshots = rows[::every]
    mean = snapshots.mean(0)
    anomalies = snapshots - mean
    variables = layout_of(data).slices
    for components in variables:
        deviation = anomalies[:, components].std()
        rounding = ROUNDING * np.finfo(anomalies.dtype).eps * np.abs(mean[components]).max()
        if deviation > rounding:
            anomalies[:, components] /= deviation
        else:
            anomalies[:, components] = 0.0
    _, singular, modes = np.linalg.svd(anomalies, full_matrices=False)  # modes (r, n)
    # beyond the rank, pivots are rounding
    resolved = singular > resolved_from * singular[0]
    rank = min(number, int(resolved.sum()))
    # modes weighted by their size, so that those that hardly move choose no component
    sizes = singular[:rank, None]
    leading = sizes * modes[:rank]
    moving = _moving(anomalies)
    _, order = scipy.linalg.qr(leading[:, moving], mode="r", pivoting=True)
    pivots = moving[order]
    rank = min(rank, len(pivots))
    remaining = np.setdiff1d(moving, pivots[:rank])
    places = np.linspace(0, len(remaining) - 1, min(number - rank, len(remaining)))
    further = remaining[places.round().astype(int)]
    chosen = _cover_variables(np.append(pivots[:rank], further), rank, anomalies, variables)
    return np.sort(chosen)


def _moving(anomalies: Array, *, moves: float = 0.1) -> Array:
    """Return numbers of the components that move; of all, where none does.

    `moves`: deviation of a component, in the largest of all, from which on it moves: others
    show noise.
    """
    deviations = anomalies.std(0)
    moving = np.flatnonzero(deviations > moves * deviations.max())
    return moving if len(moving) > 0 else np.arange(len(deviations))


def _cover_variables(
    pivots: Array, rank: int, anomalies: Array, variables: list[slice]
) -> list[int]:
    """Pivots whose last ones make room for variables that have none, for their largest component;
    `rank` of them are more than rounding.
    """
    largest = []
    for components in variables:
        inside = (pivots[:rank] >= components.start) & (pivots[:rank] < components.stop)
        if not inside.any():
            number = int(anomalies[:, components].std(0).argmax())
            largest.append(components.start + number)
    if len(variables) > len(pivots):
        return pivots.tolist()
    kept = max(1, len(pivots) - len(largest))
    return [*pivots[:kept].tolist(), *largest][: len(pivots)]


def place(data: xr.Dataset, component: int) -> str:
    """Return name of a component by its variable and coordinates, "u at x = 0.5 m, y = 2 m"."""
    layout = layout_of(data)
    name = str(data["component"].values[component])
    if layout.is_plain:
        return name
    for variable, components in zip(layout.variables, layout.slices, strict=True):
        number = component - components.start
        if not 0 <= number < variable.size:
            continue
        where = _coordinates(layout, variable, number)
        if where:
            return f"{variable.name} at {where}"
    return name


def quantity(data: xr.Dataset, component: int, *, line: int = 16) -> str:
    """Variable of a component that has a place, or the component's own name, with its unit.

    `line`: letters of a label beside a low panel, beyond which it goes on in a second line.
    """
    name = str(data["component"].values[component])
    where = place(data, component)
    if where != name:
        name, _, _ = where.partition(" at ")
    unit = layout_of(data).units[component]
    return textwrap.fill(
        f"{name}{display.append_unit(unit, ' ({})')}", line, break_long_words=False
    )


def _coordinates(layout: Layout, variable: Variable, number: int) -> str:
    """Return coordinates of one component of a variable; "" where they are no numbers."""
    cell = variable.cells[number]
    indices = np.unravel_index(cell, variable.shape)
    words = []
    for dim, index in zip(variable.dims, indices, strict=True):
        coordinate = layout.coords.get(dim, {})
        values = np.asarray(coordinate.get("values", []))
        if values.dtype.kind not in "iuf" or len(values) <= index:
            return ""
        value = values[index]
        unit = str(coordinate["attrs"].get("units", ""))
        unit = style.DEGREES.get(unit, unit)
        if value < 0 and unit in OPPOSITE:
            value, unit = -value, OPPOSITE[unit]
        words.append(f"{dim} = {value:.3g}{display.append_unit(unit, ' {}')}")
    return ", ".join(words)
