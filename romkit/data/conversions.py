"""Data in other units: states, parameters and times as a model has them."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from romkit.data.names import unit_of
from romkit.data.units import Units, conversion, same_unit, state_units, strip_origin, time_units


def convert_data(
    argument: str, data: xr.Dataset, model: Units, context: Sequence[str]
) -> xr.Dataset:
    """Return the data in the units of a model, which has these parameters.

    Raises:
        InputError: units that differ and cannot be converted.
    """
    data = _convert_state_units(argument, data, state_units(data), model.state)
    for name, target in zip(context, model.context, strict=True):
        data = data.assign_coords(
            {name: convert_values(argument, name, data[name], target).variable}
        )
    return convert_times(argument, data, model.time)


def _convert_state_units(
    argument: str, data: xr.Dataset, sources: Sequence[str], targets: Sequence[str]
) -> xr.Dataset:
    pairs = list(zip(sources, targets, strict=True))
    differing = [k for k, pair in enumerate(pairs) if not same_unit(*pair)]
    if not differing:
        return data
    labels = data["component"].values  # numbers where they have no names
    lines = np.array([(1.0, 0.0)] * len(pairs))  # (n, 2) factor and offset of each component
    conversions: dict[tuple[str, str], tuple[float, float]] = {}
    for k in differing:
        pair = pairs[k]
        # asked once for each pair: a field has thousands of components of one unit
        if pair not in conversions:
            conversions[pair] = conversion(argument, f"the state {labels[k]}", *pair)
        lines[k] = conversions[pair]
    factor, offset = (xr.DataArray(column, dims="component") for column in lines.T)
    about = {"units": targets[0]} if len(set(targets)) == 1 else {}
    # an offset, as of temperatures, has no rate
    for name, shift in (("state", offset), ("velocity", 0.0), ("acceleration", 0.0)):
        if name in data:
            before = data[name]
            values = (before * factor + shift).transpose(*before.dims)
            values = values.astype(before.dtype.newbyteorder("="))
            data = data.assign({name: values.assign_attrs(before.attrs | about)})
    if "component_units" in data.coords:
        data = data.assign_coords(component_units=("component", list(targets)))
    return data


def convert_state(argument: str, state: xr.DataArray, wanted: Sequence[str]) -> xr.DataArray:
    """Return a labelled state (..., component) in these units; as it is where it has none.

    Raises:
        InputError: units that differ and cannot be converted.
    """
    if not unit_of(state):
        return state
    return convert_states(argument, state.to_dataset(name="state"), wanted)["state"]


def convert_states(argument: str, data: xr.Dataset, wanted: Sequence[str]) -> xr.Dataset:
    """Return the data with states, and rates, in these units, one for each component; as they are
    where there are none.

    Raises:
        InputError: units that differ and cannot be converted.
    """
    if not wanted:
        return data
    return _convert_state_units(argument, data, state_units(data), wanted)


def convert_values(argument: str, name: str, values: xr.DataArray, target: str) -> xr.DataArray:
    """Return labelled values in a unit; as they are where they have none, or nobody gave that of
    the model.

    Raises:
        InputError: another unit that cannot be converted.
    """
    source = unit_of(values)
    if same_unit(source, target):
        return values
    factor, offset = conversion(argument, name, source, target)
    about = values.attrs | {"units": target}
    # the range is in the unit of the data, too
    if "training_range" in about:
        about["training_range"] = [factor * end + offset for end in about["training_range"]]
    return (values * factor + offset).assign_attrs(about)


def convert_parameters(
    values: Mapping[str, object], names: Sequence[str], units: Sequence[str]
) -> dict[str, object]:
    """Return parameters by name, of which labelled ones are in these units; numbers are taken to
    be.

    Raises:
        InputError: another unit that cannot be converted.
    """
    converted = dict(values)
    for name, unit in zip(names, units, strict=True):
        value = values.get(name)
        if isinstance(value, xr.DataArray):
            converted[name] = convert_values("context", name, value, unit)
    return converted


def convert_times(argument: str, data: xr.Dataset, target: str) -> xr.Dataset:
    """Return the data with their times in a unit; as they are where they have none.

    Raises:
        InputError: another unit that cannot be converted.
    """
    source = time_units(data)
    if same_unit(source, target):
        return data
    factor, _ = conversion(argument, "time", strip_origin(source), strip_origin(target))
    times = data["time"]
    about = times.attrs | {"units": target}
    data = data.assign_coords(time=("time", times.values * factor, about))
    # rates are by time, whose unit they do not name
    for order, name in enumerate(("velocity", "acceleration"), start=1):
        if name in data:
            rate = data[name]
            data[name] = (rate / factor**order).assign_attrs(rate.attrs)
    return data
