"""Fields along a line against time: truth, reduced model and difference, one below the other."""

from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from romkit.core import display
from romkit.data.layout import Layout, Variable, layout_of
from romkit.plotting import style
from romkit.plotting.columns import Column

FIELD_SIZE = 24
"""Number of components of one unit from which on a state is shown as a field, and not as curves."""

PIXELS = 1000
"""Columns of a mesh beyond which more cannot be seen."""

LOST = 0.2
"""Share of missing samples from which on a panel says why they are missing."""

BEYOND = 0.02
"""Part of the range by which values leave it before a colour bar is pointed."""


class Field(NamedTuple):
    """One variable as a field: name, unit and components of the state, and where these stand, along
    what.
    """

    name: str
    unit: str
    components: slice
    along: str
    places: np.ndarray


class Look(NamedTuple):
    """Row of panels: its label, its colours with their ends, and what NaN means."""

    label: str
    colours: str
    limits: tuple[float, float]
    missing: str


def is_field(run: xr.Dataset) -> bool:
    """Whether the state of a run is shown as a field."""
    if run.sizes["component"] < FIELD_SIZE:
        return False
    return run["truth"].attrs.get("units") != "mixed"


def fields_of(run: xr.Dataset) -> list[Field]:
    """Each variable, where every one is a field; the state as a whole elsewhere."""
    layout = layout_of(run)
    smallest = min(variable.size for variable in layout.variables)
    if len(layout.variables) > style.MAX_CURVES or smallest < FIELD_SIZE:
        whole, places = slice(None), np.arange(layout.size)
        return [Field("state", style.unit(run["truth"]), whole, "component", places)]
    fields, start = [], 0
    for variable in layout.variables:
        components = slice(start, start + variable.size)
        fields.append(_field(run, layout, variable, components))
        start = components.stop
    return fields


def _field(run: xr.Dataset, layout: Layout, variable: Variable, components: slice) -> Field:
    """One variable, along its coordinate where it has one, along its numbers otherwise."""
    unit = display.with_unit(variable.units, " ({})")
    along = f"component of {variable.name}"
    if variable.name == "state":
        unit = style.unit(run["truth"])
        along = "component"
    dim = "".join(variable.dims)
    if dim not in layout.coords:
        return Field(variable.name, unit, components, along, np.arange(variable.size))
    coordinate = layout.coords[dim]
    values = np.asarray(coordinate["values"])
    if values.dtype.kind not in "iuf" or values.size == 0:
        return Field(variable.name, unit, components, along, np.arange(variable.size))
    along = f"{dim}{display.with_unit(coordinate['attrs'].get('units', ''), ' ({})')}"
    return Field(variable.name, unit, components, along, values[variable.cells])


def draw_fields(figure: Figure, panels: np.ndarray, run: xr.Dataset, columns: list[Column]) -> None:
    """Draw the fields of a run in rows of panels (3 fields, columns)."""
    for k, field in enumerate(fields_of(run)):
        rows = panels[3 * k : 3 * k + 3]
        _draw_field(figure, rows, run.isel(component=field.components), columns, field)


def _draw_field(
    figure: Figure, panels: np.ndarray, run: xr.Dataset, columns: list[Column], field: Field
) -> None:
    """Draw one field in three rows of panels."""
    truth = _stretches(run["truth"], columns)
    reduced = _stretches(run["rom"], columns)
    difference = _stretches(run["rom"] - run["truth"], columns)
    states = _range(truth)
    width = states[1] - states[0]
    # a model that diverges must not bleach the difference of the others
    apart = min(np.abs(_range(difference)).max(), width)
    if apart == 0:
        apart = 1.0
    name = style.truth(run)
    against = f"reduced − {name.removesuffix(' model')}"
    looks = (
        Look(name, style.STATE_MAP, states, "missing"),
        Look("reduced model", style.STATE_MAP, states, "diverged"),
        Look(against, style.ERROR_MAP, (-apart, apart), ""),
    )
    for axes, look, stretches in zip(panels, looks, (truth, reduced, difference), strict=True):
        for panel, values, column in zip(axes, stretches, columns, strict=True):
            _draw_mesh(panel, values, run["time"].values[column.times], field.places, look)
        axes[0].set_ylabel(f"{look.label}\n{field.along}")
    _add_bar(figure, panels[:2], f"{field.name}{field.unit}", reduced)
    _add_bar(figure, panels[2:], f"error{field.unit}", difference)


def _stretches(values: xr.DataArray, columns: list[Column]) -> list[np.ndarray]:
    """Values (T, n) of each column."""
    return [values.values[column.trajectory, column.times] for column in columns]


def _add_bar(figure: Figure, panels: np.ndarray, label: str, shown: list[np.ndarray]) -> None:
    """Colour bar beside some rows of panels, pointed where the values that they show leave it."""
    mesh = panels[-1, 0].collections[0]
    low, high = mesh.get_clim()
    smallest, largest = _range(shown)
    room = BEYOND * (high - low)
    below, above = bool(smallest < low - room), bool(largest > high + room)
    pointed = {(True, True): "both", (True, False): "min", (False, True): "max"}
    extend = pointed.get((below, above), "neither")
    axes = panels.ravel().tolist()
    figure.colorbar(mesh, ax=axes, label=label, extend=extend, pad=0.01, aspect=15 * len(panels))


def _range(stretches: list[np.ndarray]) -> tuple[float, float]:
    return style.limits(np.concatenate([values.ravel() for values in stretches]))


def _draw_mesh(
    panel: Axes, values: np.ndarray, time: np.ndarray, places: np.ndarray, look: Look
) -> QuadMesh:
    """Draw values (T, n) against time, with the places upwards."""
    samples = np.unique(np.linspace(0, len(time) - 1, PIXELS).astype(int))
    low, high = look.limits
    colours = matplotlib.colormaps[look.colours].with_extremes(bad=style.MISSING)
    shades = {"cmap": colours, "vmin": low, "vmax": high, "rasterized": True}
    mesh = panel.pcolormesh(time[samples], places, values[samples].T, **shades)
    panel.set_xlim(time[0], time[-1])
    panel.yaxis.set_major_locator(MaxNLocator(4, integer=places.dtype.kind == "i"))
    missing = time[np.isnan(values).any(-1)]
    if len(missing) > LOST * len(time):
        middle = (missing[0] + missing[-1]) / 2, (places[0] + places[-1]) / 2
        panel.text(*middle, look.missing, ha="center", va="center")
    return mesh
