"""Delay coordinates: a few sensors, and their past, as a state."""

import numpy as np
import xarray as xr

from romkit.core.boundary import Count, validated
from romkit.core.errors import InputError
from romkit.data.layout import AXIS, component_names
from romkit.data.schema import DIMS, check_states, of_other_coordinates
from romkit.data.times import even_step
from romkit.data.units import state_units


@validated
def delayed(data: xr.Dataset, delays: Count = 1, *, every: Count = 1) -> xr.Dataset:
    """A dataset in delay coordinates x(t), x(t - τ), ..., x(t - kτ), so that one sensor has a law.

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
        velocity      none; estimated where it is needed
        >>> data = romkit.data.delayed(sensor, delays=1, every=10)
        >>> data.component.values.tolist(), data.sizes["time"]
        (['x0', 'x0(t-0.5)'], 190)
    """
    check_states(data)
    step = _checked_step(data, delays, every)
    size = data.sizes["time"] - delays * every
    present = data.isel(time=slice(delays * every, None))
    values = {}
    for name in ("state", "velocity", "acceleration"):
        if name in data:
            values[name] = _shifted(data[name].transpose(*DIMS), delays, every, size)
    present_names = component_names(data)
    names = list(present_names)
    for k in range(1, delays + 1):
        delay = f"{k * every * step:.6g}"
        names += [f"{name}(t-{delay})" for name in present_names]
    units = state_units(data) * (delays + 1)
    # the layout is that of present states alone
    result = of_other_coordinates(present, values, names, units)
    result.attrs = {key: value for key, value in data.attrs.items() if key != "layout"}
    return result.assign_attrs(delays=delays, delay=every * step)


def _checked_step(data: xr.Dataset, delays: int, every: int) -> float:
    """The sampling interval of data that can be delayed.

    Raises:
        InputError: they cannot.
    """
    step = even_step(data["time"].values)
    if step is None:
        fix = "resample them: romkit.data.resampled(data)"
        raise InputError("data", expected="even times", got="uneven ones", fix=fix)
    if data.sizes["time"] <= delays * every + 1:
        expected = f"more than {delays * every + 1} times"
        got = data.sizes["time"]
        fix = "take fewer delays, or a smaller every"
        raise InputError("data", expected=expected, got=got, fix=fix)
    return step


def _shifted(x: xr.DataArray, delays: int, every: int, size: int) -> np.ndarray:
    """x (C, T, n) beside its past, (C, size, n (k + 1))."""
    shifted = []
    for k in range(delays + 1):
        # the present begins where the longest delay has passed
        start = (delays - k) * every
        shifted.append(x.isel(time=slice(start, start + size)).data)
    return np.concatenate(shifted, axis=x.get_axis_num(AXIS))
