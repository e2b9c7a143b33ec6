"""Columns called by numbers: one variable at places that the names say, as spectra are written."""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from romkit.data.units import is_unit

NUMBER = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(.*)")
"""A number, and what stands behind it."""

FEWEST = 4
"""Least number of columns that are taken for one variable."""

VARIABLE, PLACE = "values", "place"
"""Names of the variable and of its dimension, which the table does not tell."""


class Place(NamedTuple):
    """A place that the name of a column says."""

    number: float
    unit: str


def places_in_names(
    table: pd.DataFrame, known: Collection[str | None]
) -> tuple[dict[str, Place], list[str]]:
    """Return columns "300 nm", "303 nm" and so on, with the places that their names say, none where
    they are no places; and sentences for warnings.

    Names are numbers in order, with one unit or none. Whole numbers that count columns, as "0", "1",
    "2", may be of sensors or of variables, which are no places.

    Args:
        table: rows of times and runs.
        known: columns of times, runs and parameters.
    """
    places = {}
    for name in table.columns:
        place = _place(name)
        is_number = pd.api.types.is_numeric_dtype(table[name])
        if place is not None and name not in known and is_number:
            places[name] = place
    units = {place.unit for place in places.values()}
    numbers = np.array([place.number for place in places.values()])
    is_named_so = bool({VARIABLE, PLACE} & set(table.columns))
    if len(units) > 1 or is_named_so or not _are_places(numbers, bool(units - {""})):
        return {}, []
    first, *_, last = places
    note = f"columns {first} ... {last} are one variable, {VARIABLE!r}, along {PLACE!r}"
    return places, [note]


def _place(name: str) -> Place | None:
    """Return the place that a name says; None where it is no number, or has more behind it than a
    unit.
    """
    match = NUMBER.fullmatch(name.strip())
    if match is None:
        return None
    unit = match[2].strip(" []()")
    if unit and not is_unit(unit):
        return None
    return Place(float(match[1]), unit)


def along_places(columns: xr.Dataset, places: Mapping[str, Place]) -> xr.DataArray:
    """One variable (..., place) of columns, in the order of their places in the table."""
    numbers = [place.number for place in places.values()]
    unit, *_ = [place.unit for place in places.values()]
    attrs = {"units": unit} if unit else {}
    values = columns[list(places)].to_array(PLACE).transpose(..., PLACE)
    along = xr.Variable(PLACE, numbers, attrs)
    return values.assign_coords({PLACE: along}).rename(VARIABLE)


def _are_places(numbers: np.ndarray, have_unit: bool) -> bool:
    """Tell whether numbers in the names of columns say places, and do not count these columns."""
    if len(numbers) < FEWEST:
        return False
    steps = np.diff(numbers)
    is_in_order = bool((steps > 0).all() or (steps < 0).all())
    counts = not have_unit and bool((np.abs(steps) == 1).all())
    return is_in_order and not counts
