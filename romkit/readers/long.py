"""Long tables: a row for each variable, or for each place, in place of a column."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from romkit.core.errors import InputError

VALUES = ("value", "values")
"""Names, in small letters, of the column of numbers of a long table."""

VARIABLES = (
    "variable",
    "var",
    "name",
    "quantity",
    "indicator",
    "measure",
    "metric",
    "observable",
    "signal",
    "channel",
    "parameter",
    "species",
    "key",
)
"""Names, in small letters, of the column that says of which variable a number is."""

UNITS = ("unit", "units")
"""Names, in small letters, of a column of the units of these variables."""

FEWEST = 3
"""Least number of rows of a run among runs that are told apart by times that begin again."""


class Wide(NamedTuple):
    """A table with a column for each variable."""

    table: pd.DataFrame

    units: dict[str, str]
    """Units by name of the variable."""

    notes: list[str]
    """Sentences for warnings."""


def widened(table: pd.DataFrame, time: str) -> Wide:
    """Return a table of rows (..., variable, value) with a column for each variable; others as they
    are.

    Args:
        table: rows in any order. Where one is missing, the variable is NaN.
        time: name of the column of times.

    Raises:
        InputError: several rows of one variable, time and place.
    """
    value, variable = _columns_of_long_table(table, time)
    if value is None or variable is None:
        return Wide(table, {}, [])
    units, about = _about_variables(table, variable, value)
    keys = [name for name in table.columns if name not in (value, variable, *about)]
    _check_values(table, [*keys, variable], variable)
    labels = sorted(map(str, pd.unique(table[variable].dropna())))
    clashing = set(labels) & set(keys)
    if clashing:
        raise InputError(
            "data",
            expected=f"names in {variable} that no column has",
            got=", ".join(sorted(clashing)),
            fix=f"rename the column: data.rename(columns={{{sorted(clashing)[0]!r}: ...}})",
        )
    # rows whose key is empty are none that pandas drops
    grouped = table.set_index([*keys, variable])[value].unstack(variable)
    wide = grouped.rename(columns=str)[labels].rename_axis(columns=None).reset_index()
    return Wide(wide, units, [f"variables are those in {variable}: {_listed(labels)}"])


def _listed(labels: Sequence[str]) -> str:
    names = ", ".join(labels[:6])
    return f"{names}, ..." if len(labels) > 6 else names


def _columns_of_long_table(table: pd.DataFrame, time: str) -> tuple[str | None, str | None]:
    """Return columns of the numbers and of the names of their variables, None where there are none."""
    plain = {str(name).strip().lower(): name for name in table.columns if name != time}
    value = _first_of(VALUES, plain)
    variable = _first_of(VARIABLES, plain)
    if value is None or variable is None or not is_text(table[variable]):
        return None, None
    # text beside one number in each row is a remark or a name of the run
    others = []
    for name in table.columns:
        if name not in (value, variable) and not _is_about(table, name, variable):
            others.append(name)
    if not table.duplicated(others).any():
        return None, None
    return value, variable


def _first_of(names: Sequence[str], columns: Mapping[str, str]) -> str | None:
    """Return the column of the first of these names that there is."""
    return next((columns[name] for name in names if name in columns), None)


def is_text(column: pd.Series) -> bool:
    kinds = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        return True
    return kinds.is_string_dtype(column) or kinds.is_object_dtype(column)


def _is_about(table: pd.DataFrame, name: str, variable: str) -> bool:
    """Tell whether a column of text says something of each variable, its unit or its long name."""
    if str(name).strip().lower() in UNITS:
        return True
    if not is_text(table[name]) or table[name].nunique() < 2:
        return False
    return int(table.groupby(variable)[name].nunique().max()) <= 1


def _about_variables(
    table: pd.DataFrame, variable: str, value: str
) -> tuple[dict[str, str], list[str]]:
    """Return units of variables, and the columns that say these or other things about them.

    Raises:
        InputError: a variable has several units.
    """
    units, about = {}, []
    for name in table.columns:
        if name in (variable, value) or not _is_about(table, name, variable):
            continue
        about.append(name)
        if str(name).strip().lower() not in UNITS:
            continue
        pairs = table[[variable, name]].dropna().drop_duplicates()
        is_repeated = pairs[variable].duplicated()
        if is_repeated.any():
            raise InputError(
                "data",
                expected=f"one unit of each {variable}",
                got=f"several of {pairs[variable][is_repeated].iloc[0]}",
                fix="convert them to one",
            )
        for label, unit in pairs.itertuples(index=False):
            units[str(label)] = str(unit)
    return units, about


def _check_values(table: pd.DataFrame, keys: Sequence[str], variable: str) -> None:
    """Raise where a variable has several values at one time and place, or a row none of the keys."""
    empty = table[list(keys)].isna().any()
    if empty.any():
        name = empty.index[empty][0]
        raise InputError(
            "data",
            expected=f"a {name} in every row of a long table",
            got=f"{int(table[name].isna().sum())} rows without",
            fix=f"fill or drop these rows: table.dropna(subset=[{name!r}])",
        )
    repeated = table.duplicated(list(keys))
    if not repeated.any():
        return
    row = table.loc[repeated, list(keys)].iloc[0]
    got = ", ".join(f"{name}={row[name]}" for name in keys)
    raise InputError(
        "data",
        expected=f"one value of each {variable}",
        got=f"several for {got}",
        fix="add a column that tells the runs apart; rows that are there twice: "
        "data.drop_duplicates()",
    )


def dimensions(
    table: pd.DataFrame, runs: Sequence[str], keys: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return columns of labels, regions or sensors say, by which rows of one time differ in each
    run; and sentences for warnings.

    Args:
        table: one column for each variable.
        runs: columns that tell runs apart.
        keys: columns that tell rows apart as far as they are known: runs, time and dimensions.
    """
    if not table.duplicated(list(keys)).any():
        return [], []
    candidates = []
    for name in table.columns:
        if name not in keys and is_text(table[name]) and _is_in_all_runs(table, name, runs):
            candidates.append(name)
    choices = [[name] for name in candidates]
    if len(candidates) > 1:
        choices.append(candidates)
    for names in choices:
        if not table.duplicated([*keys, *names]).any():
            text = " and ".join(names)
            return names, [f"rows of one time differ in {text}: a dimension"]
    return [], []


def _is_in_all_runs(table: pd.DataFrame, name: str, runs: Sequence[str]) -> bool:
    """Tell whether a column has several labels, each of which occurs in every run.

    Names of people or of repeats occur in one run each.
    """
    labels = table[name]
    if labels.isna().any() or labels.nunique() < 2:
        return False
    if not runs:
        return True
    of_runs = labels.groupby([table[run] for run in runs]).nunique()
    return bool((of_runs == labels.nunique()).all())


def restarts(table: pd.DataFrame, time: str, context: Sequence[str]) -> pd.Series | None:
    """Return numbers of the runs of rows whose times begin again at the same one; None where rows
    are not such runs in their order.
    """
    times = table[time]
    steps = times.diff()
    zero = steps.iloc[-1] - steps.iloc[-1]
    begins = (steps <= zero).to_numpy()
    runs = pd.Series(np.cumsum(begins), index=table.index)
    firsts = times.groupby(runs).first()
    sizes = runs.value_counts()
    if firsts.nunique() > 1 or len(firsts) < 2 or sizes.min() < FEWEST:
        return None
    for name in context:
        if table[name].groupby(runs).nunique(dropna=False).max() > 1:
            return None
    return runs
