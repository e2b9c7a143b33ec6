"""Fields as pictures: rows of panels of colours, for data, forecasts and rollouts."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh, TriMesh
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.tri import TriAnalyzer, Triangulation

from romkit.core.types import Array, Kwargs
from romkit.plotting import style

STATE_MAP, ERROR_MAP, WIDTH_MAP = style.STATE_MAP, "RdBu_r", "magma"
"""Colours of states, of differences, which have a sign, and of widths, which have none."""

MISSING = "0.85"
"""Grey of values that are missing or lost."""

FIELD_SIZE = 24
"""Number of points from which on a line is shown as a field, and not as curves."""


class Row(NamedTuple):
    """A row of panels on one scale of colours.

    Attributes:
        label: whose values these are, on the left.
        bar: quantity and unit, beside the colours.
        panels: values of each panel, (upwards, to the right), or at the points of a mesh.
        colours: their map.
        ends: of the scale.
        missing: what it means that values are not there.
    """

    label: str
    bar: str
    panels: list[xr.DataArray]
    colours: str
    ends: tuple[float, float]
    missing: str = "missing"


def panels_of(
    values: xr.DataArray, entries: Sequence[Mapping[Any, int | slice]]
) -> list[xr.DataArray]:
    """Select panels: values at some entries, a run or a time say, over a plane, or along a line with the
    time to the right.
    """
    axes = style.space(values) if style.is_mesh(values) else [*style.space(values), "time"][:2]
    return [values.isel(entry).transpose(*axes) for entry in entries]


def states(label: str, bar: str, panels: list[xr.DataArray], missing: str = "missing") -> Row:
    """Return a row of states."""
    return Row(label, bar, panels, STATE_MAP, _limits(panels), missing)


def compared(
    labels: tuple[str, str],
    quantity: str,
    panels: tuple[list[xr.DataArray], list[xr.DataArray]],
    lost: str,
) -> list[Row]:
    """Return rows of the truth and of a model on one scale, and of their difference.

    Args:
        labels: of truth and model.
        quantity: name of the variable.
        panels: values of truth and model.
        lost: what values of the model mean that are not there.
    """
    truth, model = panels
    differences = [b.copy(data=b.values - a.values) for a, b in zip(truth, model, strict=True)]
    low, high = _limits(truth)
    # a model that is lost must not bleach the differences of other times and contexts
    largest = min(_most(differences), high - low) or 1.0
    unit = style.unit(model[0])
    short_truth, short_model = (label.removesuffix(" model") for label in labels)
    difference = f"{short_model} − {short_truth}"
    return [
        Row(labels[0], f"{quantity}{unit}", truth, STATE_MAP, (low, high)),
        Row(labels[1], f"{quantity}{unit}", model, STATE_MAP, (low, high), lost),
        Row(difference, f"error{unit}", differences, ERROR_MAP, (-largest, largest), ""),
    ]


def _most(panels: Sequence[xr.DataArray], *, share: float = 0.98) -> float:
    """Return size that nearly all values of panels have at most: a last sample does not decide.

    `share`: of the values that are no larger.
    """
    sizes = np.abs(np.concatenate([values.values.ravel() for values in panels]))
    sizes = sizes[np.isfinite(sizes)]
    if len(sizes) == 0:
        return 0.0
    return float(np.quantile(sizes, share)) or float(sizes.max())


def widths(label: str, bar: str, panels: list[xr.DataArray]) -> Row:
    """Return a row of widths of intervals, from zero."""
    return Row(label, bar, panels, WIDTH_MAP, (0.0, _most(panels)), "no end")


def draw_rows(figure: Figure, panels: Array, rows: Sequence[Row]) -> None:
    """Draw rows in panels (rows, columns); those that follow each other on one scale share a bar."""
    for axes, row in zip(panels, rows, strict=True):
        for panel, values in zip(axes, row.panels, strict=True):
            draw_values(panel, values, row)
        upwards = style.label(values[axes_of(values)[0]])
        axes[0].set_ylabel("\n".join(filter(None, (row.label, upwards))))
    places = zip(rows, panels, strict=True)
    for _, group in itertools.groupby(places, lambda place: (place[0].bar, place[0].ends)):
        of_scale, axes_of_scale = zip(*group, strict=True)
        _add_bar(figure, np.stack(axes_of_scale), of_scale)


def axes_of(values: xr.DataArray) -> tuple[str, str]:
    """Return names of the axes of a panel (upwards, to the right)."""
    if values.ndim == 1:
        upwards, across = style.plane(values) or ("", "")
        return upwards, across
    return str(values.dims[0]), str(values.dims[1])


def _draw_mesh(panel: Axes, values: xr.DataArray, row: Row) -> TriMesh:
    """Draw values at points of a plane, linear on the triangles between them."""
    upwards, across = axes_of(values)
    triangles = Triangulation(values[across].values, values[upwards].values)
    # slivers along the edge have no neighbour beyond it
    triangles.set_mask(TriAnalyzer(triangles).get_flat_tri_mask())
    low, high = style.widen_scale(*row.ends)
    shades = matplotlib.colormaps[row.colours].with_extremes(bad=MISSING)
    look: Kwargs = {"cmap": shades, "vmin": low, "vmax": high, "rasterized": True}
    mesh = panel.tripcolor(triangles, values.values, shading="gouraud", **look)
    panel.set_aspect("equal", adjustable="box")
    return mesh


def draw_values(
    panel: Axes, values: xr.DataArray, row: Row, *, pixels: int = 1000, told: float = 0.2
) -> QuadMesh | TriMesh:
    """Draw values (upwards, to the right) at their places, in the colours of a row; planes are to
    scale, and grey means missing.

    `pixels`: columns beyond which more cannot be seen.

    `told`: share of columns without values from which on a panel says why.
    """
    if values.ndim == 1:
        return _draw_mesh(panel, values, row)
    upwards, across = values.dims
    columns = np.linspace(0, values.sizes[across] - 1, pixels).astype(int)
    values = values.isel({across: np.unique(columns)})
    x, y = style.places(values, across), style.places(values, upwards)
    # a panel without width would have a scale of its own
    low, high = style.widen_scale(*row.ends)
    shades = matplotlib.colormaps[row.colours].with_extremes(bad=MISSING)
    mesh = panel.pcolormesh(
        _edges(x), _edges(y), values.values, cmap=shades, vmin=low, vmax=high, rasterized=True
    )
    if across != "time":
        panel.set_aspect("equal", adjustable="box")
    elif len(x) > 1:
        panel.set_xlim(x[0], x[-1])
        panel.yaxis.set_major_locator(MaxNLocator(4, integer=y.dtype.kind == "i"))
    lost = x[np.isnan(values.values).all(0)]
    if len(lost) > told * len(x):
        middle = (lost[0] + lost[-1]) / 2, (y[0] + y[-1]) / 2
        panel.text(*middle, row.missing, ha="center", va="center")
    return mesh


def _edges(places: Array) -> Array:
    """Edges (N + 1,) of cells about places (N,), half way to the next; one cell alone is one wide."""
    places = np.asarray(places, dtype=np.float64)
    if len(places) == 1:
        return places[0] + np.array([-0.5, 0.5])
    between = (places[1:] + places[:-1]) / 2
    low = 2 * places[0] - between[0]
    high = 2 * places[-1] - between[-1]
    return np.concatenate([[low], between, [high]])


def _add_bar(figure: Figure, panels: Array, rows: Sequence[Row], *, beyond: float = 0.02) -> None:
    """Add a bar beside rows of panels, pointed where their values leave it.

    `beyond`: part of the range by which values leave it before a bar is pointed.
    """
    low, high = rows[0].ends
    room = beyond * (high - low)
    smallest, largest = _limits([values for row in rows for values in row.panels])
    above = largest > high + room
    extend = ("max" if above else "neither", "both" if above else "min")[smallest < low - room]
    (mesh,) = panels[-1, 0].collections
    axes = panels.ravel().tolist()
    aspect = 15 * len(rows)
    figure.colorbar(mesh, ax=axes, label=rows[0].bar, extend=extend, pad=0.01, aspect=aspect)


def _limits(panels: Sequence[xr.DataArray]) -> tuple[float, float]:
    return style.limits(np.concatenate([values.values.ravel() for values in panels]))
