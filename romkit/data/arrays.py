"""From arrays to a dataset, trajectories of unequal length included."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from romkit import arrays
from romkit.boundary import checked
from romkit.data.describe import describe
from romkit.data.schema import DIMS, RESERVED
from romkit.errors import InputError


@checked
def from_arrays(
    states: np.ndarray | Sequence[np.ndarray],
    times: np.ndarray,
    *,
    context: Mapping[str, object] | None = None,
    control: np.ndarray | Sequence[np.ndarray] | None = None,
    velocity: np.ndarray | Sequence[np.ndarray] | None = None,
) -> xr.Dataset:
    """A dataset of arrays; prints what was taken as what, as `describe` does.

    Args:
        states: (trajectories, times, n), or a list of (timesₖ, n), whose shorter ones end before the others.
        times: (T,) of the longest trajectory.
        context: parameters by name, a number for each trajectory.
        control: inputs, as the states.
        velocity: as the states.

    Raises:
        InputError: shapes that do not match.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t = 0.1 * np.arange(50)
        >>> runs = [np.stack([np.cos(w * t), np.sin(w * t)], axis=-1) for w in (1.0, 1.5)]
        >>> data = romkit.data.from_arrays([runs[0], runs[1][:30]], t, context={"w": [1.0, 1.5]})
        trajectories  2 of up to 50 samples, n = 2
        state         state (component 2), float64
        context       w 1 ... 1.5 (float)
        time          0 ... 4.9, every 0.1
        velocity      none; estimated where it is needed
        missing       20.0% of the snapshots, in 1 trajectories (1); left out, never filled
    """
    times = arrays.times("times", times).double().numpy()
    state = _padded("states", states, len(times))
    count, variables = len(state), {"state": (DIMS, state)}
    if velocity is not None:
        variables["velocity"] = (DIMS, _padded("velocity", velocity, len(times)))
    if control is not None:
        variables["control"] = ((*DIMS[:2], "input"), _padded("control", control, len(times)))
    for name, (dims, values) in variables.items():
        like = state.shape if dims == DIMS else state.shape[:2]
        if values.shape[: len(like)] != like:
            fix = "give one for each state"
            raise InputError(name, expected=f"shape {like}, as the states", got=f"shape {values.shape}", fix=fix)
    coords: dict[str, object] = {"time": times}
    for name, values in (context or {}).items():
        if name in RESERVED:
            raise InputError("context", expected="names of its own", got=repr(name), fix="rename it")
        values = np.asarray(values)
        if values.shape != (count,):
            got, fix = f"shape {values.shape}", f"give {count} of them"
            raise InputError(name, expected="one number for each trajectory", got=got, fix=fix)
        coords[name] = ("trajectory", values)
    return describe(xr.Dataset(variables, coords), context=tuple(context or ()))


def _padded(name: str, given: object, length: int) -> np.ndarray:
    """(C, T, k) with NaN behind the end of shorter ones."""
    single = isinstance(given, np.ndarray) and given.ndim == 0
    each = [] if single else [np.asarray(array) for array in given]
    sizes = {array.shape[1:] for array in each}
    if not each or any(array.ndim != 2 for array in each) or len(sizes) != 1 or max(map(len, each)) != length:
        got = ", ".join(str(array.shape) for array in each[:4]) or "none"
        expected = f"arrays (times, n) of which the longest has {length} times"
        raise InputError(name, expected=expected, got=got, fix="put time on the first axis, and one size on the last")
    dtype = np.result_type(*each, np.float32)
    padded = np.full((len(each), length, each[0].shape[1]), np.nan, dtype=dtype)
    for row, array in zip(padded, each, strict=True):
        row[: len(array)] = array
    return padded
