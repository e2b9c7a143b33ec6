"""Times of a dataset: which variable they are, and its numbers along one dimension."""

import numpy as np
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.data.clocks import check_clock, seconds_since_first, with_missing_times
from romkit.data.names import TIMES, TRAJECTORIES
from romkit.readers.joining import on_one_clock
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
    data = data.set_coords(name)
    if data[name].dtype.kind not in "fiu":
        seconds, since = seconds_since_first(data[name].values)
        about = data[name].attrs | {"units": "s"} | ({"since": since} if since else {})
        data = data.assign_coords({name: (data[name].dims, seconds, about)})
    if data[name].ndim == 2:
        data = _on_one_clock(data, name, guesses)
    dim = str(data[name].dims[0])
    for other in sorted(({dim, "time"} - {name}).intersection(map(str, data.variables))):
        guesses.append(Guess("time", name, f"the numbers of {other!r} are left out"))
        data = data.drop_vars(other)
    if dim != name:
        data = data.swap_dims({dim: name})
    # checked before the grid is filled: an interval of zero or of NaN has no grid
    check_clock(name, data[name].values.astype(np.float64))
    data, missing = with_missing_times(data, name)
    if missing:
        guesses.append(Guess("time", name, f"{missing} times of an even grid are missing: NaN"))
    return data.rename({name: "time"}) if name != "time" else data, name


def _time_name(data: xr.Dataset, declared: str | None, guesses: Guesses) -> str:
    """Return name of the variable or dimension of time.

    Raises:
        InputError: there is none, or another than declared.
    """
    candidates = _candidates(data)
    if declared is not None:
        checks.one_of("time", declared, list(dict.fromkeys([*candidates, *map(str, data.sizes)])))
        return declared
    for name in TIMES:
        if name in data.dims or name in candidates.keys() & {*data.coords}:
            return name
    # times (run, step) are taken by their usual names alone
    facts = {key: fact for key, fact in candidates.items() if fact.ndim == 1 or key in TIMES}
    guess = guessed_time(facts, guesses)
    if guess is None:
        fix = "name it: romkit.data.describe(data, time='...'); where each file is one time: 'u_{time}.nc'"
        if "time" in data.variables:
            fix = "data of one time have none: join several, xarray.concat(..., 'time')"
        got = f"dims {', '.join(map(str, data.dims)) or 'none'}"
        raise InputError("data", expected="a dimension 'time' or 't'", got=got, fix=fix)
    return guess


def _candidates(data: xr.Dataset) -> dict[str, Fact]:
    """Return what is known of numbers, dates and objects that may be dates, along one axis or two."""
    candidates = {}
    for name, values in data.variables.items():
        if values.ndim in (1, 2) and values.dtype.kind in "fiumMO":
            candidates[str(name)] = Fact(values.dtype.kind == "M", values.attrs, values.ndim)
    return candidates


def _on_one_clock(data: xr.Dataset, name: str, guesses: Guesses) -> xr.Dataset:
    """Return data of runs with times (run, step) of their own along one dimension of time."""
    run, step = map(str, data[name].dims)
    if step in TRAJECTORIES:
        run, step = step, run
    fixed = data.drop_dims(step)
    moving = data.drop_vars([*fixed.variables, step], errors="ignore")
    runs = []
    for k in range(data.sizes[run]):
        own = moving.isel({run: k})
        # shorter runs have no times at the end
        runs.append(own.isel({step: np.isfinite(own[name].values)}).swap_dims({step: name}))
    runs, notes = on_one_clock(runs, name)
    guesses += [Guess("time", name, note) for note in notes]
    joined = xr.concat(runs, dim=run, join="outer", data_vars="all", coords="different")
    return joined.assign(fixed.variables).set_coords([*fixed.coords]).assign_attrs(data.attrs)
