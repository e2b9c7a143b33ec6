"""Delay coordinates: a few sensors, and their past, as a state."""

import numpy as np
import xarray as xr

from romkit.core.boundary import Count, validated
from romkit.core.errors import InputError
from romkit.data.layout import component_names
from romkit.data.schema import DIMS, check_states, replace_states
from romkit.data.times import even_step
from romkit.data.units import state_units


@validated
def delayed(data: xr.Dataset, delays: Count = 1, *, every: Count = 1) -> xr.Dataset:
    """Return a dataset in delay coordinates x(t), x(t - τ), ..., x(t - kτ), so that one sensor has
    a law.

    A single coordinate cannot turn round under a law of first order; with one delay, a sine obeys
    a linear law. m frequencies in one sensor need 2m - 1 delays.

    Args:
        data: in romkit's schema, at even times.
        delays: k, the number of delays.
        every: τ in sampling intervals. A quarter of the shortest period is a good choice.

    Returns:
        States (trajectory, time, n (k + 1)), the present ones first, under their names; those of
        the past are called "x0(t-0.05)". Velocities, contexts and inputs are kept. The first kτ of
        each trajectory have no past, and are left out. A state whose past is missing is missing.

    Raises:
        InputError: uneven times, or trajectories that are not longer than the delays.

    Source: Takens (1981); Arbabi, Mezić (2017) for linear laws.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t = 0.05 * np.arange(200)
        >>> sensor = romkit.data.from_arrays(np.sin(2 * t)[:, None], t)
        trajectories  1 of up to 200 samples, n = 1
        state         state (component 1), float64
        context       none
        time          0 ... 9.95, every 0.05
        rates         none given; estimated where needed
        >>> data = romkit.data.delayed(sensor, delays=1, every=10)
        >>> data.component.values.tolist(), data.sizes["time"]
        (['x0', 'x0(t-0.5)'], 190)
    """
    check_states(data)
    delay = every * _checked_step(data, delays, every)
    begin = delays * every  # of the present, where the longest delay has passed
    present = data.isel(time=slice(begin, None))
    size = present.sizes["time"]
    starts = [begin - k * every for k in range(delays + 1)]
    values = {}
    for name in ("state", "velocity", "acceleration"):
        if name in data:
            x = data[name].transpose(*DIMS)
            # from these times on side by side, (C, size, n (k + 1))
            shifted = [x.isel(time=slice(start, start + size)).data for start in starts]
            values[name] = np.concatenate(shifted, axis=-1)
    present_names = component_names(data)
    names = list(present_names)
    for k in range(1, delays + 1):
        names += [f"{name}(t-{k * delay:.6g})" for name in present_names]
    units = state_units(data) * (delays + 1)
    # the layout is that of present states alone
    result = replace_states(present, values, names, units)
    result.attrs = dict(data.attrs)
    result.attrs.pop("layout", None)
    return result.assign_attrs(delays=delays, delay=delay)


def _checked_step(data: xr.Dataset, delays: int, every: int) -> float:
    """Return the sampling interval of data that can be delayed.

    Raises:
        InputError: they cannot.
    """
    step = even_step(data["time"].values)
    if step is None:
        raise InputError(
            "data",
            expected="even times",
            got="uneven ones",
            fix="resample them: romkit.data.resampled(data)",
        )
    times = data.sizes["time"]
    fewest = delays * every + 1
    if times <= fewest:
        raise InputError(
            "data",
            expected=f"more than {fewest} times",
            got=times,
            fix="take fewer delays, or a smaller every",
        )
    return step
