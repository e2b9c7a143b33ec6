"""Columns of a table that say at which place a row is: their values are the same at each time of each
run.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from romkit.data.names import split_unit
from romkit.readers.long import is_text, restarts
from romkit.readers.names import NUMBERED, columns_of_runs

REPEATS = ("rep", "repeat", "repetition", "replicate", "replica", "sample", "subject", "patient")
"""Names, in small letters, of columns that number runs of one context, and no places."""

SPACE = (
    "x", "y", "z", "r", "s", "position", "pos", "distance", "depth", "height", "lat", "lon",
    "sensor", "probe", "node", "cell", "station", "place",
)  # fmt: skip
"""Beginnings of names, in small letters, of coordinates and numbers of places."""

MOST = 3
"""Number of dimensions of space."""

FILLING = 4
"""Cells of a grid for each place, at most; places that are more scattered are numbered."""

NUMBER_OF_PLACE = "place"


class Placed(NamedTuple):
    """A table whose rows differ in some columns at each time of each run.

    Attributes:
        table: perhaps with a column `place`, the number of the place.
        dimensions: names of these columns.
        notes: sentences for warnings.
    """

    table: pd.DataFrame
    dimensions: list[str]
    notes: list[str]


def placed(table: pd.DataFrame, runs: Sequence[str], time: str) -> Placed:
    """Return the columns of numbers that are coordinates of places.

    Each place occurs once at each time of each run. The fewest columns that tell rows apart are
    dimensions, the first where there are several; further ones say something of the places.

    Args:
        table: one column for each variable.
        runs: columns that tell runs apart.
        time: column of the times.
    """
    keys = [*runs, time]
    if not table.duplicated(keys).any() or _moves(table, runs, time):
        return Placed(table, [], [])
    candidates = _candidates(table, keys)
    for names in _choices(candidates):
        others = [name for name in candidates if name not in names]
        if _is_grid(table, keys, names) and _are_of_places(table, names, others):
            if _may_be_runs(table, names, runs, time):
                break
            return _along(table, names)
    return Placed(table, [], [])


def _moves(table: pd.DataFrame, runs: Sequence[str], time: str) -> bool:
    """Tell whether what should tell runs apart changes with the time, as a parameter that moves
    does.
    """
    if not runs or table[time].nunique() == 1:
        return False
    return int(table.groupby(list(runs), sort=False)[time].nunique().max()) == 1


def _candidates(table: pd.DataFrame, keys: Sequence[str]) -> list[str]:
    """Return columns of numbers, or of labels, that have all of their values, two or more, at each
    time of each run.
    """
    sizes = table.groupby(list(keys), sort=False).size()
    numbered_as_runs = columns_of_runs(table.columns)
    candidates = []
    for name in table.columns:
        column = table[name]
        plain = NUMBERED.sub("", name.strip().lower())
        if name in keys or name in numbered_as_runs or plain in REPEATS:
            continue
        may_say = pd.api.types.is_numeric_dtype(column) or is_text(column)
        if not may_say or column.isna().any():
            continue
        number = column.nunique()
        if not 2 <= number <= sizes.min():
            continue
        of_each_time = column.groupby([table[key] for key in keys], sort=False).nunique()
        if (of_each_time == number).all():
            candidates.append(name)
    return candidates


def _choices(candidates: Sequence[str]) -> Iterator[list[str]]:
    """Yield columns that may be the dimensions, the fewest first."""
    for number in range(1, min(MOST, len(candidates)) + 1):
        for names in itertools.combinations(candidates, number):
            yield list(names)


def _is_grid(table: pd.DataFrame, keys: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether every combination of values occurs once at each time of each run."""
    if table.duplicated([*keys, *names]).any():
        return False
    places = len(table[list(names)].drop_duplicates())
    sizes = table.groupby(list(keys), sort=False).size()
    return bool((sizes == places).all())


def _are_of_places(table: pd.DataFrame, names: Sequence[str], others: Sequence[str]) -> bool:
    """Tell whether the other columns have one value at each place."""
    if not others:
        return True
    values = table.groupby(list(names), sort=False)[list(others)].nunique()
    return bool((values == 1).all(axis=None))


def _may_be_runs(table: pd.DataFrame, names: Sequence[str], runs: Sequence[str], time: str) -> bool:
    """Tell whether columns may tell runs apart: a parameter where nobody named one, or the number
    of a run, whose rows are together.
    """
    if all(map(_is_space, names)):
        return False
    if not runs:
        return True
    if len(names) > 1 or is_text(table[names[0]]):
        return False
    numbers = table[names[0]].to_numpy(float)
    are_counted = bool((numbers == np.round(numbers)).all())
    return are_counted and restarts(table, time, runs) is not None


def _is_space(name: str) -> bool:
    """Tell whether a column is called like a coordinate: x [m], position_m, lat."""
    return split_unit(name).bare.lower().split("_")[0] in SPACE


def _along(table: pd.DataFrame, names: list[str]) -> Placed:
    """Return the table with its dimensions, which are the number of the place where a grid would be
    empty.
    """
    names = _slowest_first(table, names)
    text = " and ".join(names)
    places = table[names].drop_duplicates()
    cells = int(np.prod([places[name].nunique() for name in names]))
    if cells <= FILLING * len(places):
        plural = "a dimension" if len(names) == 1 else "dimensions"
        return Placed(table, names, [f"rows of one time differ in {text}: {plural} of the state"])
    numbers = table.groupby(names, sort=False).ngroup()
    note = f"rows of one time differ in {text}: {len(places)} scattered places, which are numbered"
    return Placed(table.assign(**{NUMBER_OF_PLACE: numbers}), [NUMBER_OF_PLACE], [note])


def _slowest_first(table: pd.DataFrame, names: list[str]) -> list[str]:
    """Return dimensions as the rows go through them, so that the state has the order of the rows."""
    if len(names) == 1:
        return names
    values = table[names]
    changes = (values != values.shift()).sum()
    return sorted(names, key=changes.__getitem__)
