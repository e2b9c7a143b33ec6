"""Context of data of others: coordinates, variables and attributes that are parameters of runs."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from romkit.core.errors import InputError
from romkit.core.types import Names
from romkit.data.context import ROLE, context_names, is_declared, without_rounding
from romkit.readers.names import columns_of_runs
from romkit.readers.roles import (
    LEAD,
    Roles,
)

ALONG_RUNS = (("trajectory",), LEAD, LEAD[::-1])
"""Dimensions of what belongs to runs."""


def with_context(
    described: xr.Dataset, data: xr.Dataset, roles: Roles
) -> tuple[xr.Dataset, Names, list[str]]:
    """Return the dataset with coordinates along trajectories, names of its context, and warnings.

    Those of the context are declared, in its order; others are labels.
    """
    columns = {}
    for name, coord in data.coords.items():
        if coord.dims in ALONG_RUNS and name != "trajectory":
            columns[str(name)] = coord
    for name in roles.context or ():
        columns.pop(name, None)  # those of the context stand behind the labels, in its order
        columns[name] = _parameter(data, name)
    coords = {}
    for name, column in columns.items():
        coords[name] = column.transpose(*LEAD, missing_dims="ignore").variable
    described = described.assign_coords(coords)
    if roles.context is None:
        names, notes = _guessed_context(described)
    else:
        names = roles.context
        notes = _constants_in_words(described, names)
    for name in coords:
        described[name].attrs[ROLE] = "context" if name in names else "label"
    return _with_equal_parameters(described, names), names, notes


def _with_equal_parameters(described: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Return the dataset whose parameters that differ by rounding alone are equal."""
    for name in names:
        column = described[name]
        if column.dims == LEAD[:1] and column.dtype.kind == "f":
            described[name] = column.copy(data=without_rounding(column.values))
    return described


def _parameter(data: xr.Dataset, name: str) -> xr.DataArray:
    """Return a declared parameter as numbers along trajectory, and perhaps time.

    Raises:
        InputError: no numbers, other dimensions, or one number for several runs.
    """
    if name in data.variables:
        value = data[name]
    else:
        value = _number(data.attrs[name])
    if not set(value.dims) <= set(LEAD) or value.dtype.kind not in "iufb":
        raise InputError(
            "context",
            expected="numbers along trajectory (and time)",
            got=f"{name} of dims {value.dims}, dtype {value.dtype}",
            fix="convert it to numbers",
        )
    if value.dtype.kind == "b":
        value = value.astype(float)  # a switch is a parameter of two values
    if "trajectory" in value.dims:
        return _of_runs(value)
    number = data.sizes["trajectory"]
    if number > 1 and value.ndim == 0:  # readers keep the attribute of the first file
        raise InputError(
            "context",
            expected=f"several values of {name}",
            got=f"{float(value):g} for {number} runs",
            fix="give that of each run; romkit.open(files, along='run') keeps attributes that differ",
        )
    return value.expand_dims(trajectory=number)


def _of_runs(value: xr.DataArray) -> xr.DataArray:
    """Return a parameter along trajectory, and along time where it moves in a run: columns of
    tables repeat the number of a run at each time.
    """
    if "time" not in value.dims:
        return value
    numbers = value.transpose(*LEAD).values.astype(float)  # (C, T)
    # behind its end a run has no number
    largest = np.fmax.reduce(numbers, axis=1, keepdims=True)
    filled = np.where(np.isnan(numbers), largest, numbers)
    if (filled != filled[:, :1]).any():
        return value
    return xr.DataArray(filled[:, 0], dims="trajectory", attrs=value.attrs)


def _constants_in_words(described: xr.Dataset, declared: Sequence[str]) -> list[str]:
    """Warnings of parameters that have one value in several runs, while others vary.

    Raises:
        InputError: none varies.
    """
    number = described.sizes["trajectory"]
    if number == 1:
        return []
    constant = [name for name in declared if _is_constant(described[name])]
    if not constant:
        return []
    names = ", ".join(constant)
    if len(constant) == len(declared):
        raise InputError(
            "context",
            expected=f"several values of {names}",
            got=f"one in all {number} runs",
            fix="leave it out, or give the value of each run",
        )
    return [f"{names}: one value in all runs; models know nothing of another"]


def _number(attribute: object) -> xr.DataArray:
    """Return an attribute as a number, also one that was written as text."""
    if not isinstance(attribute, str):
        return xr.DataArray(attribute)
    try:
        return xr.DataArray(float(attribute))
    except ValueError:
        return xr.DataArray(attribute)


def _is_constant(values: xr.DataArray) -> bool:
    numbers = np.asarray(values.values, dtype=np.float64)
    known = numbers[np.isfinite(numbers)]
    return len(np.unique(known)) == 1


def _guessed_context(described: xr.Dataset) -> tuple[Names, list[str]]:
    """Return coordinates of numbers along the trajectories that vary, and sentences for warnings."""
    # the number of a run is no parameter, though it is a number along the runs
    names = context_names(described)
    numbers_of_runs = columns_of_runs(names)
    candidates = [name for name in names if name not in numbers_of_runs]
    if described.sizes["trajectory"] == 1:
        return tuple(candidates), []
    constant = [name for name in candidates if _is_constant(described[name])]
    varying = [name for name in candidates if name not in constant]
    guesses = []
    if varying and not is_declared(described):
        how = f"name it, context={varying}, or none, context=[]"
        guesses.append(f"the context is taken to be {', '.join(varying)}; {how}")
    if constant:
        guesses.append(f"{', '.join(constant)}: one value in all runs, so no context")
    return tuple(varying), guesses
