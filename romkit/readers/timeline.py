"""Times of a dataset: which variable they are, and its numbers along one dimension."""

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.data.clocks import check_clock, seconds_since_first, shared_clock, with_missing_times
from romkit.data.names import TIMES, TRAJECTORIES
from romkit.readers.names import guessed_time


def with_time(data: xr.Dataset, declared: str | None) -> tuple[xr.Dataset, str, list[str]]:
    """Return data with times as increasing numbers along `time`, the name of time in the data, and
    warnings.
    """
    name, notes = _time_name(data, declared)
    if name not in data.variables:
        raise InputError(
            "data",
            expected=f"values of {name!r}",
            got="a dimension without",
            fix=f"add the times: data.assign_coords({name}=dt * numpy.arange({data.sizes[name]}))",
        )
    data = _with_numbers(data.set_coords(name), name)
    if data[name].ndim == 2:
        data, clock_notes = _on_one_clock(data, name)
        notes += clock_notes
    data, dim_notes = _with_dim_of_times(data, name)
    # checked before the grid is filled: an interval of zero or of NaN has no grid
    times = data[name].values.astype(np.float64)
    if times.size:
        check_clock(name, times)
    data, missing = with_missing_times(data, name)
    notes += dim_notes
    if missing:
        notes.append(f"{missing} times are missing from an even grid; they are NaN")
    if name != "time":
        data = data.rename({name: "time"})
    return data, name, notes


def _with_numbers(data: xr.Dataset, name: str) -> xr.Dataset:
    """Return data whose dates or durations are seconds since the first."""
    times = data[name]
    if times.dtype.kind in "fiu":
        return data
    seconds, since = seconds_since_first(times.values)
    about = {**times.attrs, "units": "s"}
    if since:
        about["since"] = since
    return data.assign_coords({name: (times.dims, seconds, about)})


def _with_dim_of_times(data: xr.Dataset, name: str) -> tuple[xr.Dataset, list[str]]:
    """Return data whose dimension of time has the name of its times, with no other variable of this
    name or of "time"; and warnings.
    """
    notes = []
    dim = str(data[name].dims[0])
    if dim != name:
        if dim in data.variables:
            notes.append(f"times are those of {name!r}; the numbers of {dim!r} are left out")
            data = data.drop_vars(dim)
        data = data.swap_dims({dim: name})
    if name != "time" and "time" in data.variables:
        notes.append(f"times are those of {name!r}; 'time' is left out")
        data = data.drop_vars("time")
    return data, notes


def _time_name(data: xr.Dataset, declared: str | None) -> tuple[str, list[str]]:
    """Return name of the variable or dimension of time, and a warning where it is a guess.

    Raises:
        InputError: there is none, or another than declared.
    """
    candidates = _candidates_for_time(data)
    if declared is not None:
        names = dict.fromkeys([*candidates, *map(str, data.sizes)])
        checks.one_of("time", declared, list(names))
        return declared, []
    for name in TIMES:
        is_coordinate = name in candidates and name in data.coords
        if is_coordinate or name in data.dims:
            return name, []
    facts: dict[str, tuple[bool, Mapping[str, Any]]] = {}
    for name, values in candidates.items():
        # times (run, step) are taken by their usual names alone
        if values.ndim == 1 or name in TIMES:
            facts[name] = (values.dtype.kind == "M", values.attrs)
    guess, notes = guessed_time(facts)
    if guess is None:
        _refuse_without_time(data)
    return guess, notes


def _candidates_for_time(data: xr.Dataset) -> dict[str, xr.Variable]:
    """Return variables of numbers, dates or objects that may be dates, along one or two dimensions."""
    candidates = {}
    for name, values in data.variables.items():
        if values.ndim in (1, 2) and values.dtype.kind in "fiumMO":
            candidates[str(name)] = values
    return candidates


def _refuse_without_time(data: xr.Dataset) -> NoReturn:
    """Raise InputError: nothing is called time."""
    dims = ", ".join(map(str, data.dims)) or "none"
    fix = "name it: time='...'; where each file is one time: 'u_{time}.nc'"
    if "time" in data.variables:
        fix = "data of one time have none: join several, xarray.concat(..., 'time')"
    raise InputError("data", expected="a dimension 'time' or 't'", got=f"dims {dims}", fix=fix)


def _on_one_clock(data: xr.Dataset, name: str) -> tuple[xr.Dataset, list[str]]:
    """Return data of runs with times (run, step) of their own along one dimension of time."""
    clock_of_runs = data[name]
    run, step = map(str, clock_of_runs.dims)
    if step in TRAJECTORIES:
        run, step = step, run
    fixed = {key: values for key, values in data.variables.items() if step not in values.dims}
    moving = data.drop_vars(list(fixed))
    runs, times = [], []
    clocks = clock_of_runs.transpose(run, step).values.astype(np.float64)
    moving = moving.drop_vars([name, step], errors="ignore")
    for k, clock in enumerate(clocks):
        is_known = np.isfinite(clock)  # shorter runs have no times at the end
        known_times = clock[is_known]
        check_clock(name, known_times)
        runs.append(moving.isel({run: k, step: is_known}))
        times.append(known_times)
    times, notes = shared_clock(times)
    clocked = []
    for values, clock in zip(runs, times, strict=True):
        values = values.rename_dims({step: name})
        coordinate = (name, clock, clock_of_runs.attrs)
        clocked.append(values.assign_coords({name: coordinate}))
    joined = xr.concat(clocked, dim=run, join="outer", data_vars="all", coords="different")
    joined = joined.assign(fixed)
    labels = [key for key in fixed if key in data.coords]
    joined = joined.set_coords(labels)
    return joined.assign_attrs(data.attrs), notes
