"""Units of data and of models: compared, converted by pint where it is installed, else refused."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core.errors import DataWarning, InputError, warn

NAMES = {
    "s": ("second", "seconds", "sec", "secs"),
    "m": ("meter", "meters", "metre", "metres"),
    "kg": ("kilogram", "kilograms"),
    "K": ("kelvin", "Kelvin", "kelvins", "degK", "deg_K"),
    "degC": (
        "celsius",
        "Celsius",
        "degreeC",
        "degrees_C",
        "degree_Celsius",
        "degrees_Celsius",
        "°C",
    ),
    "N": ("newton", "newtons"),
    "Pa": ("pascal", "pascals"),
    "rad": ("radian", "radians"),
    "deg": ("degree", "degrees", "°"),
    "d": ("day", "days"),
    "h": ("hour", "hours", "hr"),
    "min": ("minute", "minutes"),
    "1": ("dimensionless", "none", "-"),
}
"""Names of one unit."""

SAME = {name: unit for unit, names in NAMES.items() for name in names}
PRODUCT = re.compile(r"\s*[*·.]\s*|\s+")
FACTOR = re.compile(r"([^\d\s^*+/-]+)(?:\^|\*\*)?([+-]?\d+)?")
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻µ", "0123456789-u")


class Units(NamedTuple):
    """Units of the states, contexts and times of a model or dataset; "" where nobody said.

    Attributes:
        state: of each component.
        context: of each parameter.
        time: of the times.
    """

    state: Sequence[str]
    context: Sequence[str]
    time: str = ""

    @classmethod
    def of(cls, data: xr.Dataset, context: Sequence[str]) -> "Units":
        """Units of a dataset in romkit's schema, and of these parameters of it."""
        time = data["time"].attrs.get("units", "") if "time" in data.coords else ""
        return cls(
            state_units(data),
            [str(data[name].attrs.get("units", "")) for name in context],
            str(time),
        )


def state_units(data: xr.Dataset) -> list[str]:
    """The unit of each component of the state."""
    common = str(data["state"].attrs.get("units", "")) if "state" in data else ""
    if common.startswith("mixed"):
        common = ""
    if not common and "component_units" in data.coords:
        return [str(unit) for unit in data["component_units"].values]
    return [common] * data.sizes["component"]


def factors(unit: str) -> dict[str, int] | None:
    """Powers of the units in a product, "kg m s-2" or "kg*m/s^2"; None of what is no product."""
    powers: dict[str, int] = {}
    text = unit.partition(" since ")[0].strip().translate(SUPERSCRIPTS).replace("**", "^")
    if text in ("", "1"):
        return powers
    for place, part in enumerate(text.split("/")):
        for factor in filter(None, PRODUCT.split(part.strip(" ()"))):
            match = FACTOR.fullmatch(factor)
            if match is None and factor != "1":
                return None
            if match is None:
                continue
            name, power = match.groups()
            name = SAME.get(name, name)
            if name == "1":
                continue
            powers[name] = powers.get(name, 0) + (-1 if place else 1) * int(power or 1)
    return {name: power for name, power in powers.items() if power}


def same_unit(a: str, b: str) -> bool:
    """Whether two units are one, as far as their names tell; a unit that nobody gave is any."""
    if not a or not b or a == b:
        return True
    first, second = factors(a), factors(b)
    return first is not None and first == second


def conversion(argument: str, name: str, source: str, target: str) -> tuple[float, float]:
    """Factor and offset from a unit to another, by pint.

    Warns:
        DataWarning: numbers are converted.

    Raises:
        InputError: pint is not installed, or knows no conversion.
    """
    got = f"{name} in {source}, where the model has {target}"
    try:
        import pint
    except ImportError as error:
        fix = "convert it, or install pint, by which romkit does"
        expected = f"{name} in {target}"
        raise InputError(argument, expected=expected, got=f"{source}", fix=fix) from error
    registry = pint.UnitRegistry()
    try:
        zero, one = (
            registry.Quantity(value, _for_pint(source)).to(_for_pint(target)).magnitude
            for value in (0.0, 1.0)
        )
    except Exception as error:  # pint raises many kinds on text that is no unit
        fix = "convert it, or give its unit another name"
        raise InputError(argument, expected=f"{name} in {target}", got=got, fix=fix) from error
    warn(
        f"{argument}: {name} is converted from {source} to {target}, the unit of the model",
        DataWarning,
    )
    return float(one - zero), float(zero)


def _for_pint(unit: str) -> str:
    powers = factors(unit)
    if powers is None:
        return unit
    return (
        " * ".join(f"{name} ** {power}" if power != 1 else name for name, power in powers.items())
        or "1"
    )


def check_units(argument: str, data: xr.Dataset, other: xr.Dataset, context: Sequence[str]) -> None:
    """Raise InputError where two datasets have states, contexts or times of other units."""
    own, wanted = Units.of(data, context), Units.of(other, context)
    pairs = [
        *(("the state", *pair) for pair in zip(own.state, wanted.state, strict=True)),
        *zip(context, own.context, wanted.context, strict=True),
        ("time", own.time, wanted.time),
    ]
    for name, unit, expected in pairs:
        if not same_unit(unit, expected):
            fix = "convert one of them, units included"
            raise InputError(argument, expected=f"{name} in {expected}", got=unit, fix=fix)


def in_units_of(
    argument: str, data: xr.Dataset, model: Units, context: Sequence[str]
) -> xr.Dataset:
    """The data in the units of a model, which has these parameters.

    Raises:
        InputError: units that differ and cannot be converted.
    """
    own = Units.of(data, context)
    data = _states_in_units(argument, data, own.state, model.state)
    for name, source, target in zip(context, own.context, model.context, strict=True):
        if not same_unit(source, target):
            data = _context_in_unit(argument, data, name, source, target)
    if not same_unit(own.time, model.time):
        data = _times_in_unit(argument, data, own.time, model.time)
    return data


def _states_in_units(
    argument: str, data: xr.Dataset, own: Sequence[str], wanted: Sequence[str]
) -> xr.Dataset:
    differing = [k for k, pair in enumerate(zip(own, wanted, strict=True)) if not same_unit(*pair)]
    if not differing:
        return data
    names = data["component"].values if "component" in data.coords else np.arange(len(own))
    known: dict[tuple[str, str], tuple[float, float]] = {}
    factor, offset = np.ones(len(own)), np.zeros(len(own))
    for k in differing:
        pair = own[k], wanted[k]
        if pair not in known:
            known[pair] = conversion(argument, f"the state {names[k]}", *pair)
        factor[k], offset[k] = known[pair]
    factor, offset = (xr.DataArray(values, dims="component") for values in (factor, offset))
    converted = {"state": data["state"] * factor + offset}
    for rate in ("velocity", "acceleration"):
        if rate in data:
            converted[rate] = data[rate] * factor
    for name, values in converted.items():
        units = {"units": wanted[0]} if len({*wanted}) == 1 else {}
        values = values.transpose(*data[name].dims).astype(data[name].dtype.newbyteorder("="))
        data = data.assign({name: values.assign_attrs(data[name].attrs | units)})
    if "component_units" in data.coords:
        data = data.assign_coords(component_units=("component", list(wanted)))
    return data


def state_in_units(argument: str, state: xr.DataArray, wanted: Sequence[str]) -> xr.DataArray:
    """A labelled state (..., component) in these units; as it is where it has none.

    Raises:
        InputError: units that differ and cannot be converted.
    """
    source = str(state.attrs.get("units", ""))
    if not source or source.startswith("mixed") or len({*wanted}) != 1:
        return state
    if same_unit(source, wanted[0]):
        return state
    factor, offset = conversion(argument, "the state", source, wanted[0])
    return (state * factor + offset).assign_attrs(state.attrs | {"units": wanted[0]})


def _context_in_unit(
    argument: str, data: xr.Dataset, name: str, source: str, target: str
) -> xr.Dataset:
    factor, offset = conversion(argument, name, source, target)
    about = data[name].attrs | {"units": target}
    if "training_range" in about:
        about["training_range"] = [factor * end + offset for end in about["training_range"]]
    values = data[name].astype(np.float64) * factor + offset
    return data.assign_coords({name: values.assign_attrs(about).variable})


def _times_in_unit(argument: str, data: xr.Dataset, source: str, target: str) -> xr.Dataset:
    units = [unit.partition(" since ")[0] for unit in (source, target)]
    factor, _ = conversion(argument, "time", *units)
    about = data["time"].attrs | {"units": target}
    data = data.assign_coords(time=("time", data["time"].values * factor, about))
    for order, rate in enumerate(("velocity", "acceleration"), start=1):
        if rate in data:
            data[rate] = (data[rate] / factor**order).assign_attrs(data[rate].attrs)
    return data
