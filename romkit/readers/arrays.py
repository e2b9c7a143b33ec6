"""Arrays in the schema of romkit, and runs at common times."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NoReturn, cast

import numpy as np
import xarray as xr
from pydantic import BeforeValidator

from romkit.core import tensors
from romkit.core.boundary import validated
from romkit.core.display import listed
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array
from romkit.data.clocks import shared_clock
from romkit.data.names import TIMES, TRAJECTORIES
from romkit.data.schema import DIMS, check_own_names
from romkit.readers.describe import describe
from romkit.readers.roles import LEAD

SCHEMA = {"states": "state"}
"""Names of arguments in the schema, where these differ."""

DIMS_OF = {"control": (*LEAD, "input")}
"""Dimensions of arguments, where these are not those of the state."""


def _in_order(value: object) -> object:
    """Return arrays whose dimensions, where they have names, are in the order of `from_arrays`:
    times, and one more behind them.

    Raises:
        InputError: names that say another order, which would be read as something else.
    """
    arrays = value if isinstance(value, list | tuple) else [value]
    for array in arrays:
        if not isinstance(array, xr.DataArray):
            continue
        dims = [str(dim) for dim in array.dims]
        times = [k for k, dim in enumerate(dims) if dim in TIMES]
        runs = [k for k, dim in enumerate(dims) if dim in TRAJECTORIES]
        if times in ([], [array.ndim - 2]) and runs in ([], [0]):
            continue
        raise InputError(
            "",
            expected="dimensions (trajectory, time, component)",
            got=f"({', '.join(dims)})",
            fix="romkit.data.describe(array.to_dataset(name='u')) reads them by their names",
        )
    return value


Ordered = Annotated[Array | Sequence[Array], BeforeValidator(_in_order)]
"""Arrays of runs, or one of each."""


@validated
def from_arrays(
    states: Ordered,
    times: Array | Sequence[Array],
    *,
    context: Mapping[str, object] | None = None,
    control: Array | Sequence[Array] | None = None,
    velocity: Ordered | None = None,
    names: Sequence[str] | None = None,
) -> xr.Dataset:
    """Return a dataset of arrays or tensors, as pysindy takes them; prints what was taken as what,
    as `describe` does.

    Args:
        states: (trajectories, times, n), or a list of (timesₖ, n), whose shorter ones end before
            the others; (times, n) is a single trajectory.
        times: the interval; or (T,) of the longest trajectory; or those of each. Trajectories that
            start at different times are counted each from its start. Times of their own are kept,
            with NaN at those of the others; `romkit.data.resampled` gives them common ones.
        context: parameters by name, a number for each trajectory.
        control: inputs, as the states; without the last axis where there is one input.
        velocity: as the states.
        names: of the n components.

    Masked entries of NumPy are missing, NaN.

    Warns:
        DataWarning: trajectories start at different times, or have times of their own.

    Raises:
        InputError: shapes or times that do not match.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t = 0.1 * np.arange(50)
        >>> runs = [np.stack([np.cos(w * t), np.sin(w * t)], axis=-1) for w in (1.0, 1.5)]
        >>> data = romkit.data.from_arrays([runs[0], runs[1][:30]], 0.1, context={"w": [1.0, 1.5]})
        trajectories  2 of up to 50 samples, n = 2
        state         state (component 2), float64
        context       w 1 ... 1.5 (float)
        time          0 ... 4.9, every 0.1
        velocity      none; estimated where it is needed
        missing       20.0% of the snapshots, in 1 trajectories (1); left out of fits, learn fills gaps of two at most
    """
    runs = _runs_by_name(states, velocity, control)
    _check_shapes(runs)
    lengths = [len(run) for run in runs["states"]]
    clocks = _times_of_runs(times, lengths)
    clock, places, notes = _placed(clocks)
    for note in notes:
        warn(note, DataWarning)

    variables = {}
    for name, arrays in runs.items():
        values = _padded(arrays, places, len(clock))  # (C, T, k)
        variables[SCHEMA.get(name, name)] = (DIMS_OF.get(name, DIMS), values)
    coords: dict[str, object] = {"time": clock, **_labels(runs, names)}
    if context is None:
        context = {}
    check_own_names("context", context)
    for name, numbers in context.items():
        coords[name] = ("trajectory", _parameter(name, numbers, len(clocks)))
    return describe(xr.Dataset(variables, coords), context=tuple(context))


def _runs_by_name(
    states: Array | Sequence[Array],
    velocity: Array | Sequence[Array] | None,
    control: Array | Sequence[Array] | None,
) -> dict[str, list[Array]]:
    """Return the array (times, k) of each run, of those that are given."""
    is_single = isinstance(states, Array) and states.ndim == 2
    runs = {}
    for name, values in (("states", states), ("velocity", velocity), ("control", control)):
        if values is None:
            continue
        runs[name] = _runs_of(name, [cast("Array", values)] if is_single else values)
    return runs


def _labels(runs: Mapping[str, list[Array]], names: Sequence[str] | None) -> dict[str, list[str]]:
    """Return names of the components, where they are given, and of the inputs.

    Raises:
        InputError: more or fewer names than components.
    """
    labels = {}
    n = runs["states"][0].shape[1]
    if names is not None:
        if len(names) != n:
            raise InputError(
                "names",
                expected=f"{n}, one for each component",
                got=len(names),
                fix="name each component",
            )
        labels["component"] = list(names)
    if "control" in runs:
        q = runs["control"][0].shape[1]
        labels["input"] = [f"u{k}" for k in range(q)]
    return labels


def _runs_of(name: str, values: Array | Sequence[Array]) -> list[Array]:
    """Return the array (times, k) of each run.

    Raises:
        InputError: none, or arrays of other axes.
    """
    if isinstance(values, Array) and values.ndim == 0:
        _refuse_axes(name, "()")
    runs = list(values)
    if name == "control":
        runs = [_with_last_axis(run) for run in runs]
    if not runs:
        _refuse_axes(name, "none")
    shapes = [run.shape for run in runs]
    sizes = {shape[1:] for shape in shapes}
    if len(sizes) != 1 or len(shapes[0]) != 2:
        _refuse_axes(name, listed(shapes))
    return runs


def _with_last_axis(run: Array) -> Array:
    """Return inputs (T, q) of a run, also of one input without the last axis."""
    return run[:, None] if run.ndim == 1 else run


def _refuse_axes(name: str, got: str) -> NoReturn:
    raise InputError(
        name,
        expected="arrays (times, n)",
        got=got,
        fix="put time on the first axis, and one size on the last",
    )


def _check_shapes(runs: Mapping[str, list[Array]]) -> None:
    """Raise where velocities or inputs are not those of the states."""
    shapes = [run.shape for run in runs["states"]]
    for name, arrays in runs.items():
        known = 1 if name == "control" else 2  # there may be any number of inputs
        expected = [shape[:known] for shape in shapes]
        got = [run.shape[:known] for run in arrays]
        if got == expected:
            continue
        if name == "control" and got == [(length - 1,) for (length,) in expected]:
            raise InputError(
                name,
                expected="an input at each time, the last one included",
                got="one less than states in each run",
                fix="append one, which has no effect where inputs are held: "
                "numpy.concatenate([u, u[-1:]])",
            )
        raise InputError(
            name,
            expected=f"shapes {listed(expected, 3)}, as the states",
            got=listed(got, 3),
            fix="give one for each state",
        )


def _times_of_runs(times: Array | Sequence[Array], lengths: Sequence[int]) -> list[Array]:
    """Return the times (Tₖ,) of each run, by an interval, the times of the longest, or those of
    each.

    Raises:
        InputError: they do not increase, or are not as many as the states.
    """
    if isinstance(times, Array) and times.ndim < 2:
        common = _common_times(times, max(lengths))
        return [common[:length] for length in lengths]
    runs = [tensors.times("times", run).double().numpy() for run in times]
    counts = [len(run) for run in runs]
    if counts != list(lengths):
        raise InputError(
            "times",
            expected=f"as many times as states, {listed(lengths)}",
            got=listed(counts),
            fix="give one list of times for each trajectory, or times.ravel() for all",
        )
    return runs


def _common_times(times: Array, longest: int) -> Array:
    """Return times (T,) by an interval, or as they are given.

    Raises:
        InputError: an interval that is not positive, or times of another number.
    """
    if times.ndim == 0:
        if not 0 < times < np.inf:
            raise InputError(
                "times",
                expected="a positive interval, or times",
                got=times,
                fix="give times=0.1, say",
            )
        return times * np.arange(longest, dtype=np.float64)
    common = tensors.times("times", times).double().numpy()
    if len(common) != longest:
        raise InputError(
            "times",
            expected=f"{longest} times",
            got=len(common),
            fix="give one time for each state of the longest",
        )
    return common


def _placed(
    times: Sequence[Array],
) -> tuple[Array, list[Array], list[str]]:
    """Return times (T,) of all runs, the places of each run's among them, and sentences for
    warnings.
    """
    shared, notes = shared_clock(times)
    # by their values: equal times of several runs are one row
    clock = np.unique(np.concatenate(shared))
    return clock, [np.searchsorted(clock, run) for run in shared], notes


def _padded(runs: Sequence[Array], places: Sequence[Array], size: int) -> Array:
    """(C, T, k) with NaN where a run has no sample."""
    shape = (len(runs), size, runs[0].shape[1])
    dtype = np.result_type(*runs, np.float32)
    padded = np.full(shape, np.nan, dtype=dtype)
    for row, place, run in zip(padded, places, runs, strict=True):
        row[place] = run
    return padded


def _parameter(name: str, values: object, number: int) -> Array:
    """Return a number for each run.

    Raises:
        InputError: more or fewer, or no numbers.
    """
    numbers = np.asarray(values)
    # whole numbers stay whole: `summary` says so, and models may be picky about counts
    if numbers.dtype.kind not in "iu":
        numbers = tensors.finite(name, values).double().numpy()
    numbers = np.atleast_1d(numbers)
    if numbers.shape != (number,):
        raise InputError(
            name,
            expected="one number for each trajectory",
            got=f"shape {numbers.shape}",
            fix=f"give {number} of them",
        )
    return numbers
