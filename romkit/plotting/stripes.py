"""Fields along a line against time: truth, reduced model and difference, one below the other."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from romkit.core import display
from romkit.core.types import Array
from romkit.data.layout import Layout, Variable, layout_of
from romkit.plotting import style
from romkit.plotting.columns import Column
from romkit.plotting.places import unit_of_place

FIELD_SIZE = 24
"""Number of components of one unit from which on a state is shown as a field, and not as curves."""


LOST = 0.2
"""Share of missing samples from which on a panel says why they are missing."""

POINTED = {
    (False, False): "neither",
    (True, False): "min",
    (False, True): "max",
    (True, True): "both",
}
"""Ends of a colour bar by whether values lie below and above it."""


class Field(NamedTuple):
    """One variable as a field: name, unit and components of the state, and where these stand, along
    what.
    """

    name: str
    unit: str
    components: slice
    along: str
    places: Array


def is_field(run: xr.Dataset) -> bool:
    """Tell whether the state of a run is shown as a field."""
    if run.sizes["component"] < FIELD_SIZE:
        return False
    return run["truth"].attrs.get("units") != "mixed"


def fields_of(run: xr.Dataset) -> list[Field]:
    """Return each variable, where every one is a field; the state as a whole elsewhere."""
    layout = layout_of(run)
    too_many = len(layout.variables) > style.MAX_CURVES
    smallest = min(variable.size for variable in layout.variables)
    if too_many or smallest < FIELD_SIZE:
        unit = style.unit(run["truth"])
        places = np.arange(layout.size)
        return [Field("state", unit, slice(None), "component", places)]
    variables = zip(layout.variables, layout.slices, strict=True)
    return [_field(run, layout, variable, components) for variable, components in variables]


def _field(run: xr.Dataset, layout: Layout, variable: Variable, components: slice) -> Field:
    """One variable, along its coordinate where it has one, along its numbers otherwise."""
    unit = display.with_unit(variable.units, " ({})")
    along = "number"
    if len(variable.dims) == 1:
        along = variable.dims[0]
    if variable.name == "state":
        unit = style.unit(run["truth"])
        along = "component"
    places = np.arange(variable.size)
    dim = "".join(variable.dims)
    coordinate = layout.coords.get(dim)
    if coordinate is not None:
        values = np.asarray(coordinate["values"])
        are_numbers = values.dtype.kind in "iuf"
        if are_numbers and values.size > 0:
            places = values[variable.cells]
            along = f"{dim}{display.with_unit(unit_of_place(coordinate['attrs']), ' ({})')}"
    return Field(variable.name, unit, components, along, places)


def draw_fields(figure: Figure, panels: Array, run: xr.Dataset, columns: list[Column]) -> None:
    """Draw the fields of a run in rows of panels (3 fields, columns)."""
    for k, field in enumerate(fields_of(run)):
        top = 3 * k
        rows = panels[top : top + 3]
        variable = run.isel(component=field.components)
        _draw_field(figure, rows, variable, columns, field)


def _draw_field(
    figure: Figure, panels: Array, run: xr.Dataset, columns: list[Column], field: Field
) -> None:
    """Draw one field in three rows of panels."""
    truth = _stretches(run["truth"], columns)
    reduced = _stretches(run["rom"], columns)
    difference = _stretches(run["rom"] - run["truth"], columns)
    looks = style.looks(style.truth(run), _flat(truth), _flat(difference))
    time = run["time"].values
    times = [time[column.times] for column in columns]
    shown = (truth, reduced, difference)
    for axes, look, stretches in zip(panels, looks, shown, strict=True):
        for panel, values, stretch in zip(axes, stretches, times, strict=True):
            _draw_mesh(panel, values, stretch, field.places, look)
        axes[0].set_ylabel(f"{look.label}\n{field.along}")
    upper, lower = panels[:2], panels[2:]
    _add_bar(figure, upper, f"{field.name}{field.unit}", reduced)
    _add_bar(figure, lower, f"error{field.unit}", difference)


def _stretches(values: xr.DataArray, columns: list[Column]) -> list[Array]:
    """Return values (T, n) of each column."""
    everything = values.values  # (C, T, n)
    stretches = []
    for column in columns:
        stretch = everything[column.trajectory, column.times]
        stretches.append(stretch)
    return stretches


def _flat(stretches: list[Array]) -> Array:
    """Return values of all columns, one behind the other."""
    flat = [values.ravel() for values in stretches]
    return np.concatenate(flat)


def _add_bar(
    figure: Figure, panels: Array, label: str, shown: list[Array], *, beyond: float = 0.02
) -> None:
    """Colour bar beside some rows of panels, pointed where the values that they show leave it.

    `beyond`: part of the range by which values leave it before a colour bar is pointed.
    """
    (mesh,) = panels[-1, 0].collections
    low, high = mesh.get_clim()
    smallest, largest = style.limits(_flat(shown))
    room = beyond * (high - low)
    below = bool(smallest < low - room)
    above = bool(largest > high + room)
    extend = POINTED[below, above]
    aspect = 15 * len(panels)
    axes = panels.ravel().tolist()
    figure.colorbar(mesh, ax=axes, label=label, extend=extend, pad=0.01, aspect=aspect)


def _draw_mesh(
    panel: Axes, values: Array, time: Array, places: Array, look: style.Look, *, pixels: int = 1000
) -> None:
    """Draw values (T, n) against time, with the places upwards.

    `pixels`: columns of a mesh beyond which more cannot be seen.
    """
    last = len(time) - 1
    samples = np.linspace(0, last, pixels).astype(int)
    samples = np.unique(samples)
    upwards = values[samples].T  # (n, T)
    style.draw_mesh(panel, (time[samples], places), upwards, look.colours, look.limits)
    panel.set_xlim(time[0], time[-1])
    are_numbers = places.dtype.kind == "i"
    ticks = MaxNLocator(4, integer=are_numbers)
    panel.yaxis.set_major_locator(ticks)
    incomplete = np.isnan(values).any(-1)
    missing = time[incomplete]
    if len(missing) <= LOST * len(time):
        return
    middle_time = (missing[0] + missing[-1]) / 2
    middle_place = (places[0] + places[-1]) / 2
    panel.text(middle_time, middle_place, look.missing, ha="center", va="center")
