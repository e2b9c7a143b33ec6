"""Times of a dataset: which variable they are, and its numbers along one dimension."""

from typing import NoReturn

import numpy as np
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.data.clocks import check_clock, seconds_since_first, shared_clock, with_missing_times
from romkit.data.names import TIMES, TRAJECTORIES
from romkit.readers.names import Fact, Guess, Guesses, guessed_time


def with_time(data: xr.Dataset, declared: str | None, guesses: Guesses) -> tuple[xr.Dataset, str]:
    """Return data with times as increasing numbers along `time`, and the name of time in the data."""
    name = _time_name(data, declared, guesses)
    if name not in data.variables:
        raise InputError(
            "data",
            expected=f"values of {name!r}",
            got="a dimension without",
            fix=f"add the times: data.assign_coords({name}=dt * numpy.arange({data.sizes[name]}))",
        )
    data = _with_numbers(data.set_coords(name), name)
    if data[name].ndim == 2:
        data = _on_one_clock(data, name, guesses)
    dim = str(data[name].dims[0])
    others = {dim, "time"} - {name}
    for other in sorted(others.intersection(map(str, data.variables))):
        guesses.append(Guess("time", name, f"the numbers of {other!r} are left out"))
        data = data.drop_vars(other)
    if dim != name:
        data = data.swap_dims({dim: name})
    # checked before the grid is filled: an interval of zero or of NaN has no grid
    times = data[name].values.astype(np.float64)
    if times.size:
        check_clock(name, times)
    data, missing = with_missing_times(data, name)
    if missing:
        guesses.append(Guess("time", name, f"{missing} times of an even grid are missing: NaN"))
    return data.rename({name: "time"}) if name != "time" else data, name


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


def _time_name(data: xr.Dataset, declared: str | None, guesses: Guesses) -> str:
    """Return name of the variable or dimension of time.

    Raises:
        InputError: there is none, or another than declared.
    """
    candidates = _candidates_for_time(data)
    if declared is not None:
        checks.one_of("time", declared, list(dict.fromkeys([*candidates, *map(str, data.sizes)])))
        return declared
    for name in TIMES:
        if name in data.dims or (name in candidates and name in data.coords):
            return name
    facts = {}
    for name, values in candidates.items():
        # times (run, step) are taken by their usual names alone
        if values.ndim == 1 or name in TIMES:
            facts[name] = Fact(values.dtype.kind == "M", values.attrs)
    guess = guessed_time(facts, guesses)
    if guess is None:
        _refuse_without_time(data)
    return guess


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


def _on_one_clock(data: xr.Dataset, name: str, guesses: Guesses) -> xr.Dataset:
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
    guesses += [Guess("time", name, note) for note in notes]
    clocked = []
    for values, clock in zip(runs, times, strict=True):
        values = values.rename_dims({step: name})
        coordinate = (name, clock, clock_of_runs.attrs)
        clocked.append(values.assign_coords({name: coordinate}))
    joined = xr.concat(clocked, dim=run, join="outer", data_vars="all", coords="different")
    joined = joined.assign(fixed)
    labels = [key for key in fixed if key in data.coords]
    joined = joined.set_coords(labels)
    return joined.assign_attrs(data.attrs)
