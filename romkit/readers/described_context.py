"""Context of data of others: coordinates, variables and attributes that are parameters of runs."""

import contextlib
import itertools

import numpy as np
import xarray as xr

from romkit.core.errors import InputError
from romkit.core.types import Names
from romkit.data.context import ROLE, context_names, is_declared, without_rounding
from romkit.readers.names import Guess, Guesses, columns_of_runs
from romkit.readers.roles import LEAD, Roles

ALONG_RUNS = (("trajectory",), LEAD, LEAD[::-1])
"""Dimensions of what belongs to runs."""


def with_context(
    described: xr.Dataset, data: xr.Dataset, roles: Roles, guesses: Guesses
) -> tuple[xr.Dataset, Names]:
    """Return the dataset with coordinates along trajectories, and the names of its context.

    Those of the context are declared, in its order; others are labels.
    """
    coords = data.coords.items()
    columns = {str(key): coord for key, coord in coords if coord.dims in ALONG_RUNS}
    columns.pop("trajectory", None)
    for name in roles.context or ():
        columns.pop(name, None)  # those of the context stand behind the labels, in its order
        columns[name] = _parameter(data, name)
    for name, coord in columns.items():
        along = coord.transpose(*LEAD, missing_dims="ignore").variable
        described = described.assign_coords({name: along})
    names = _varying(described, roles.context, guesses)
    for name in columns:
        column = described[name]
        if name in names and column.dims == LEAD[:1] and column.dtype.kind == "f":
            # parameters that differ by rounding alone are equal
            described[name] = column.copy(data=without_rounding(column.values))
        described[name].attrs[ROLE] = "context" if name in names else "label"
    return described, names


def _varying(described: xr.Dataset, declared: Names | None, guesses: Guesses) -> Names:
    """Return the declared context; else the coordinates of numbers along the trajectories that vary.

    Raises:
        InputError: a declared context of one value in several runs.
    """
    names = _candidates(described) if declared is None else declared
    number = described.sizes["trajectory"]
    if number == 1:
        return names
    varying = tuple(itertools.filterfalse(lambda name: _is_constant(described[name]), names))
    text = ", ".join(name for name in names if name not in varying)
    if declared and not varying:
        raise InputError(
            "context",
            expected=f"several values of {text}",
            got=f"one in all {number} runs",
            fix="leave it out, or give the value of each run",
        )
    if text:
        why = "one value in all runs, of which models learn nothing"
        guesses.append(Guess("context", text, why))
    if declared is not None:
        return declared
    if varying and not is_declared(described):
        why = f"varies along the runs; name it, context={list(varying)}, or none, context=[]"
        guesses.append(Guess("context", ", ".join(varying), why))
    return varying


def _candidates(described: xr.Dataset) -> Names:
    """Return coordinates along trajectories; the number of a run is no parameter."""
    known = context_names(described)
    numbers_of_runs = columns_of_runs(known)
    return tuple(name for name in known if name not in numbers_of_runs)


def _parameter(data: xr.Dataset, name: str) -> xr.DataArray:
    """Return a declared parameter as numbers along trajectory, and perhaps time.

    Raises:
        InputError: no numbers, other dimensions, or one number for several runs.
    """
    value = data[name] if name in data.variables else xr.DataArray(data.attrs[name])
    if name not in data.variables and value.dtype.kind == "U":
        with contextlib.suppress(ValueError):
            value = value.astype(float)  # a number that was written as text
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


def _is_constant(values: xr.DataArray) -> bool:
    numbers = np.asarray(values.values, dtype=np.float64)
    known = numbers[np.isfinite(numbers)]
    return len(np.unique(known)) == 1
