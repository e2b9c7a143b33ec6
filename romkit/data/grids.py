"""Variables in dimensions of their own, u(t, y, x) say, from data over `component`, and back."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from romkit.core.boundary import unchecked, validated
from romkit.core.types import Array, Chunked, Names
from romkit.data.layout import AXIS, Layout, layout_of, parsed, renamed

PREFIXES = {"state": "", "lower": "lower_", "upper": "upper_"}
"""Beginnings of the names of variables, by what of a forecast they are."""


@validated
def fields(data: xr.Dataset) -> xr.Dataset:
    """Return a dataset, forecast or rollout as the data came: u(run, t, y, x) in its own
    dimensions, NaN on masked cells.

    Of variables over `component` other than `state`, names get the variable in front: `rom_u`,
    `velocity_v`. The result of a table becomes one by `fields(run)[["u", "v"]].to_dataframe()`.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import romkit
        >>> u = xr.DataArray(np.zeros((3, 20, 4, 8)), dims=("trajectory", "time", "y", "x"), name="u")
        >>> data = romkit.data.describe(u.assign_coords(time=np.arange(20)))
        trajectories  3 of up to 20 samples, n = 32
        state         u (y 4, x 8), float64
        context       none
        time          0 ... 19, every 1
        rates         none given; estimated where needed
        >>> dict(data.state.sizes)
        {'trajectory': 3, 'time': 20, 'component': 32}
        >>> dict(romkit.data.fields(data).u.sizes)
        {'trajectory': 3, 'time': 20, 'y': 4, 'x': 8}
    """
    if AXIS not in data.dims:
        return data
    layout = unchecked(layout_of)(data)
    return data if layout.is_plain else layout.own(unstacked(data))


def stack_components(data: xr.Dataset, layout: Layout | None = None) -> xr.Dataset:
    """Return a forecast whose variables have dimensions of their own, as `fields` gives it, with
    `state`, `lower` and `upper` over `component` and times as numbers; others as they are.

    Args:
        data: a forecast, or data that stand beside one.
        layout: of the forecast; by default the one in the attributes.
    """
    if AXIS in data.dims:
        return data
    if layout is None and "layout" in data.attrs:
        layout = parsed(data.attrs["layout"])
    if layout is None:
        return data
    data = _restack_runs(data, layout)
    data = _count_seconds(data)
    lead = [dim for dim in ("trajectory", "time") if dim in data.dims]
    space = set(data.dims) - set(lead)
    variables = {}
    for kind, prefix in PREFIXES.items():
        gathered = _gathered(data, layout, prefix, lead)
        if gathered is not None:
            variables[kind] = gathered
    for name, values in _drop_dims(space, data.data_vars).items():
        variables.setdefault(str(name), values)
    coords = _drop_dims(space, data.coords) | {AXIS: list(layout.names)}
    attrs = data.attrs | {"layout": layout.to_json()}
    return xr.Dataset(variables, coords, attrs)


def _drop_dims(dims: set[Any], arrays: Mapping[Hashable, xr.DataArray]) -> dict[Hashable, Any]:
    """Return the variables that have none of these dimensions."""
    variables: dict[Hashable, Any] = {}
    for name, values in arrays.items():
        if dims.isdisjoint(values.dims):
            variables[name] = values.variable
    return variables


def _restack_runs(data: xr.Dataset, layout: Layout) -> xr.Dataset:
    """Return data in the dimensions that they came in, but for `trajectory` and `time`."""
    runs = [name for name in layout.runs if name in data.dims]
    if runs and "trajectory" not in data.dims:
        data = data.stack(trajectory=runs, create_index=False)
    return renamed(data, layout.time, "time")


def _gathered(
    data: xr.Dataset, layout: Layout, prefix: str, lead: Sequence[str]
) -> tuple[Names, Array | Chunked, dict[str, object]] | None:
    """Return the variables of a layout, with a prefix before their names, over `component`; None
    where one is missing.
    """
    names = {f"{prefix}{variable.name}": variable.name for variable in layout.variables}
    if not names.keys() <= data.data_vars.keys():
        return None
    values = data[list(names)]
    attrs = {}
    for name in names:
        if "level" in values[name].attrs:
            attrs["level"] = values[name].attrs["level"]
    array = layout.gather(values.rename(names), lead)
    return (*lead, AXIS), array, attrs


def _count_seconds(data: xr.Dataset) -> xr.Dataset:
    """Return data whose dates are seconds since the first one."""
    if "time" not in data.coords or data["time"].dtype.kind != "M":
        return data
    since = data["time"].values - data["time"].values[0]
    seconds = since / np.timedelta64(1, "s")
    return data.assign_coords(time=("time", seconds, {"units": "s"}))


def unstacked(data: xr.Dataset) -> xr.Dataset:
    """Return a dataset whose variables have the dimensions of space that the data came in, behind
    trajectory and time.
    """
    if AXIS not in data.dims and "layout" in data.attrs:
        # in the dimensions that they came in, with `trajectory` and `time` by these names
        return _restack_runs(data, parsed(data.attrs["layout"]))
    layout = layout_of(data)
    if layout.is_plain:
        return data
    coords = _drop_dims({AXIS}, data.coords)
    variables: dict[Hashable, xr.Variable] = {}
    for name, values in data.data_vars.items():
        if values.dims[-1:] == (AXIS,):
            split = _split(layout, str(name), values)
            # without their coordinates, which would have to be equal
            variables |= {key: variable.variable for key, variable in split.data_vars.items()}
            coords |= split.coords.variables
        else:
            variables[name] = values.variable
    return xr.Dataset(variables, coords, data.attrs)


def _split(layout: Layout, name: str, values: xr.DataArray) -> xr.Dataset:
    """Return a variable over components as the variables of a layout, with its name in front."""
    split = layout.scatter(values.data, [str(dim) for dim in values.dims[:-1]])
    if "level" in values.attrs:
        # the probability that an interval claims is needed to draw it
        for variable in split.data_vars.values():
            variable.attrs["level"] = values.attrs["level"]
    if name in ("velocity", "acceleration"):
        for variable in split.data_vars.values():
            variable.attrs.clear()  # unit and name of the state
    if name == "state":
        return split
    names = {key: f"{name}_{key}" for key in split.data_vars}
    return split.rename(names)
