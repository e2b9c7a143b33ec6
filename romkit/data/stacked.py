"""Columns called by numbers: one variable at places that the names say, as spectra are written."""

import re
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pandas as pd

from romkit.data.units import is_unit

NUMBER = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(.*)")
"""A number, and what stands behind it."""

FEWEST = 4
"""Least number of columns that are taken for one variable."""

VARIABLE, PLACE = "values", "place"
"""Names of the variable and of its dimension, which the table does not tell."""


class Stacked(NamedTuple):
    """A table with a row for each place.

    Attributes:
        table: with the columns `values` and `place`, in place of those that numbers call.
        dimensions: the name of the places, where there are some.
        units: of these.
        notes: sentences for warnings.
    """

    table: pd.DataFrame
    dimensions: list[str]
    units: dict[str, str]
    notes: list[str]


def stacked(table: pd.DataFrame, known: Collection[str | None]) -> Stacked:
    """A table of columns "300 nm", "303 nm" and so on with one row for each of them; others as they
    are.

    Names are numbers in order, with one unit or none. Whole numbers that count columns, as "0", "1",
    "2", may be of sensors or of variables, which are no places.

    Args:
        table: rows of times and runs.
        known: columns of times, runs and parameters.
    """
    places = _places_in_names(table, known)
    units = {place.unit for place in places.values()}
    numbers = np.array([place.number for place in places.values()])
    is_named_so = bool({VARIABLE, PLACE} & set(table.columns))
    if len(units) > 1 or is_named_so or not _are_places(numbers, bool(units - {""})):
        return Stacked(table, [], {}, [])
    others = [name for name in table.columns if name not in places]
    rows = table.melt(others, list(places), PLACE, VARIABLE)
    rows[PLACE] = rows[PLACE].map({name: place.number for name, place in places.items()})
    first, *_, last = places
    (unit,) = units
    note = f"columns {first} ... {last} are one variable, {VARIABLE!r}, along {PLACE!r}"
    return Stacked(rows, [PLACE], {PLACE: unit}, [note])


class Place(NamedTuple):
    """A place that the name of a column says."""

    number: float
    unit: str


def _places_in_names(table: pd.DataFrame, known: Collection[str | None]) -> dict[str, Place]:
    """Columns of numbers that are called by a number, perhaps with a unit."""
    places = {}
    for name in table.columns:
        match = NUMBER.fullmatch(name.strip())
        if match is None or name in known or not pd.api.types.is_numeric_dtype(table[name]):
            continue
        unit = match[2].strip(" []()")
        if not unit or is_unit(unit):
            places[name] = Place(float(match[1]), unit)
    return places


def _are_places(numbers: np.ndarray, have_unit: bool) -> bool:
    """Whether numbers in the names of columns say places, and do not count these columns."""
    if len(numbers) < FEWEST:
        return False
    steps = np.diff(numbers)
    is_in_order = bool((steps > 0).all() or (steps < 0).all())
    counts = not have_unit and bool((np.abs(steps) == 1).all())
    return is_in_order and not counts
