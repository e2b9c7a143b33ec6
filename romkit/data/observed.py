"""Measurements with gaps: checks of observations, and snapshots of which some components are there."""

import numpy as np
import xarray as xr

from romkit.core import runtime
from romkit.core.display import listed
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data.clocks import check_clock
from romkit.data.schema import DIMS, check_finite, check_known, variable_of


def check_observations(observations: xr.Dataset) -> xr.Dataset:
    """Return the observations along trajectory and time, if a filter or an estimate can use them.

    Observations of one time need no coordinate of it. Values that are missing are NaN.

    Raises:
        InputError: no variable `state`, no real numbers, infinite ones, a trajectory without any,
            or times that are missing, text, dates, repeated or in another order.
    """
    if "state" not in observations:
        raise InputError(
            "observations",
            expected="a variable 'state'",
            got=listed(observations.data_vars, 8) or "nothing",
            fix="name it: romkit.data.describe(observations, state=[...]), "
            "or `romkit check FILE --out NEW`",
        )
    # a snapshot of sensors has neither runs nor times
    for dim in DIMS[:2]:
        if dim not in observations["state"].dims:
            observations = observations.expand_dims(dim)
    _check_times(observations)
    values = variable_of(observations, "state", fix="add it").values
    check_finite("observations", "state", np.isinf(values).any((1, 2)))
    # a number of any sensor is enough
    check_known("observations", np.isfinite(values).any(-1), whole=False)
    return observations


def _check_times(observations: xr.Dataset) -> None:
    """Raise where times are no increasing numbers."""
    if "time" not in observations.coords:
        if observations.sizes["time"] > 1:
            raise InputError(
                "observations",
                expected="times",
                got="none",
                fix="add them: observations.assign_coords(time=...)",
            )
        return
    times = observations["time"]
    if times.dtype.kind not in "fiu" or times.dims != ("time",):
        raise InputError(
            "observations",
            expected="times as numbers",
            got=f"dtype {times.dtype}, dims {times.dims}",
            fix="count them from the first, in the unit of the model: romkit.data.describe does",
        )
    try:
        check_clock("time", times.values.astype(np.float64))
    except InputError as error:
        # advice for data, in terms of the argument that came
        raise InputError(
            "observations",
            expected=error.expected,
            got=error.got,
            fix=error.fix.replace("data", "observations"),
        ) from error


def observed(data: xr.Dataset, fewest: int) -> Array:
    """(C, T) whether this many components of the state, or all, are there in a snapshot."""
    state = variable_of(data, "state", fix="add it").data
    counts = np.isfinite(state).sum(-1)
    (counts,) = runtime.computed("check of the data", counts)
    return counts >= min(fewest, data.sizes["component"])
