"""Arrays in the schema of romkit, and runs at common times."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

import numpy as np
import xarray as xr
from pydantic import BeforeValidator

from romkit.core import tensors
from romkit.core.boundary import validated
from romkit.core.display import listed
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array
from romkit.data.names import TIMES, TRAJECTORIES
from romkit.data.schema import check_own_names
from romkit.readers.describe import describe
from romkit.readers.joining import align_clocks

SCHEMA = {"states": "state"}
"""Names of arguments in the schema, where these differ."""


def _transpose_named(value: object) -> object:
    """Return arrays whose dimensions, where they have names, are in the order of `from_arrays`:
    times, and one more behind them.

    Raises:
        InputError: names that say another order, which would be read as something else.
    """
    for array in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(array, xr.DataArray):
            continue
        dims = [str(dim) for dim in array.dims]
        times = [k for k, dim in enumerate(dims) if dim in TIMES]
        runs = [k for k, dim in enumerate(dims) if dim in TRAJECTORIES]
        if times not in ([], [array.ndim - 2]) or runs not in ([], [0]):
            raise InputError(
                "",
                expected="dimensions (trajectory, time, component)",
                got=f"({', '.join(dims)})",
                fix="romkit.data.describe(array.to_dataset(name='u')) reads them by their names",
            )
    return value


Ordered = Annotated[Array | Sequence[Array], BeforeValidator(_transpose_named)]
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
        rates         none given; estimated where needed
        missing       20.0% of the snapshots, in 1 trajectories (1); left out of fits, learn fills gaps of two at most
    """
    is_single = isinstance(states, Array) and states.ndim == 2
    arrays = {"states": states, "velocity": velocity, "control": control}
    runs: dict[str, list[Array]] = {}
    for name, values in arrays.items():
        if values is not None:
            runs[name] = _split_runs(name, [cast("Array", values)] if is_single else values)
    _check_shapes(runs)
    clocks = _run_times(times, [len(run) for run in runs["states"]])
    data = _joined(runs, clocks)
    size = data.sizes["component"]
    if names is not None:
        if len(names) != size:
            expected = f"{size}, one for each component"
            raise InputError("names", expected=expected, got=len(names), fix="name each component")
        data = data.assign_coords(component=list(names))
    context = {} if context is None else context
    check_own_names("context", context)
    for name, numbers in context.items():
        column = ("trajectory", _parameter(name, numbers, len(clocks)))
        data = data.assign_coords({name: column})
    return describe(data, context=tuple(context))


def _joined(runs: Mapping[str, list[Array]], clocks: Sequence[Array]) -> xr.Dataset:
    """Return arrays (times, k) of each run along trajectory and the times of all."""
    sources = []
    for k, clock in enumerate(clocks):
        variables: dict[str, Any] = {}
        for name, arrays in runs.items():
            dims = ("time", "input" if name == "control" else "component")
            # whole numbers have no NaN where a run has no sample
            numbers = np.asarray(arrays[k], dtype=np.result_type(*arrays, np.float32))
            variables[SCHEMA.get(name, name)] = (dims, numbers)
        sources.append(xr.Dataset(variables, {"time": clock}))
    sources, notes = align_clocks(sources, "time")
    for note in notes:
        warn(note, DataWarning)
    data = xr.concat(sources, "trajectory", join="outer")
    inputs = [f"u{k}" for k in range(data.sizes.get("input", 0))]
    return data.assign_coords(input=inputs) if inputs else data


def _split_runs(name: str, values: Array | Sequence[Array]) -> list[Array]:
    """Return the array (times, k) of each run.

    Raises:
        InputError: none, or arrays of other axes.
    """
    shapes: list[tuple[int, ...]] = [()]
    if not (isinstance(values, Array) and values.ndim == 0):
        # one input may come without the last axis
        runs = [run[:, None] if name == "control" and run.ndim == 1 else run for run in values]
        shapes = [run.shape for run in runs]
        if len({shape[1:] for shape in shapes}) == 1 and len(shapes[0]) == 2:
            return runs
    raise InputError(
        name,
        expected="arrays (times, n)",
        got=listed(shapes) or "none",
        fix="put time on the first axis, and one size on the last",
    )


def _check_shapes(runs: Mapping[str, list[Array]]) -> None:
    """Raise where velocities or inputs are not those of the states."""
    for name, arrays in runs.items():
        axes = 1 if name == "control" else 2  # there may be any number of inputs
        expected = [run.shape[:axes] for run in runs["states"]]
        got = [run.shape[:axes] for run in arrays]
        words, shapes, fix = "as the states", listed(got, 3), "give one for each state"
        if axes == 1 and got == [(length - 1,) for (length,) in expected]:
            words, shapes = "the last one included", "one less than states in each run"
            fix = "append one, which has no effect where inputs are held: "
            fix += "numpy.concatenate([u, u[-1:]])"
        if got != expected:
            expected_words = f"shapes {listed(expected, 3)}, {words}"
            raise InputError(name, expected=expected_words, got=shapes, fix=fix)


def _run_times(times: Array | Sequence[Array], lengths: Sequence[int]) -> list[Array]:
    """Return the times (Tₖ,) of each run, by an interval, the times of the longest, or those of
    each.

    Raises:
        InputError: they do not increase, are not as many as the states, or an interval is not
            positive.
    """
    if not (isinstance(times, Array) and times.ndim < 2):
        runs = [tensors.times("times", run).double().numpy() for run in times]
    elif times.ndim == 0 and 0 < times < np.inf:
        common = times * np.arange(max(lengths), dtype=np.float64)
        return [common[:length] for length in lengths]
    elif times.ndim == 0:
        expected, fix = "a positive interval, or times", "give times=0.1, say"
        raise InputError("times", expected=expected, got=times, fix=fix)
    else:
        common = tensors.times("times", times).double().numpy()
        missing = len(common) - max(lengths)
        runs = [common[: length + missing] for length in lengths]
    counts = [len(run) for run in runs]
    if counts != list(lengths):
        raise InputError(
            "times",
            expected=f"as many times as states, {listed(lengths)}",
            got=listed(counts),
            fix="give those of the longest, one list for each trajectory, or times.ravel() for all",
        )
    return runs


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
