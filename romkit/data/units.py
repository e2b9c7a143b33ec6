"""Units of data and of models, by pint: compared and converted; without pint those of other names are
refused.
"""

import re
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import xarray as xr

from romkit.core.errors import DataWarning, InputError, warn
from romkit.data.names import unit_of

if TYPE_CHECKING:
    import pint

POWER = re.compile(r"(?<=[A-Za-z])(?![A-Za-z])(?<![0-9\-][eE])(?<![0-9\-])(?=[0-9\-])")
"""Place of the missing sign of a power, as in "m s-1": the convention of UDUNITS and CF; the expression
is that of cf-xarray.
"""

PRODUCT = re.compile(r"(?<=[A-Za-z0-9])[.·](?=[A-Za-z])")
"""A point between two units."""

MORE = ("degrees_C = degree_Celsius", "degree_K = kelvin = deg_K = degK", "rev = revolution")
"""Units of CF and of data sheets that pint calls otherwise."""


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
    def read(cls, data: xr.Dataset, context: Sequence[str]) -> "Units":
        """Return units of a dataset in romkit's schema, and of these parameters of it."""
        contexts = [unit_of(data[name]) for name in context]
        return cls(state_units(data), contexts, time_units(data))


def state_units(data: xr.Dataset) -> list[str]:
    """Return the unit of each component of the state."""
    common = ""
    if "state" in data:
        common = common_unit(data["state"])
    if not common and "component_units" in data.coords:
        return [str(unit) for unit in data["component_units"].values]
    return [common] * data.sizes["component"]


def common_unit(state: xr.DataArray) -> str:
    """Return the unit of all components of a state, "" where nobody said, or where they have
    several.
    """
    unit = unit_of(state)
    if unit.startswith("mixed"):
        return ""
    return unit


def time_units(data: xr.Dataset) -> str:
    """Return the unit of the times of a dataset, "" where nobody said."""
    if "time" not in data.coords:
        return ""
    return unit_of(data["time"])


def strip_origin(unit: str) -> str:
    """Return the unit of an interval: "days" of "days since 2000-01-01"."""
    return unit.partition(" since ")[0]


def is_unit(text: str) -> bool:
    """Tell whether text is a unit that pint knows; without pint nothing is."""
    if _library() is None or not any(map(str.isalpha, text.replace("%", "x"))):
        return False
    return _parsed(text) is not None


def same_unit(a: str, b: str) -> bool:
    """Tell whether two units are one, by their names without pint; a unit that nobody gave is any."""
    if not a or not b or strip_origin(a) == strip_origin(b):
        return True
    return _library() is not None and _line(a, b) == (1.0, 0.0)


def conversion(argument: str, name: str, source: str, target: str) -> tuple[float, float]:
    """Return factor and offset from a unit to another, by pint.

    Warns:
        DataWarning: numbers are converted.

    Raises:
        InputError: pint is not installed, or knows no conversion.
    """
    fix = "convert it, or give its unit another name"
    line = None
    if _library() is None:
        fix = 'convert it, or pip install "romkit-dynamics[readers]", by which romkit does'
    else:
        line = _line(source, target)
    if line is None:
        raise InputError(argument, expected=f"{name} in {target}", got=source, fix=fix)
    warn(
        f"{argument}: {name} is converted from {source} to {target}, the unit of the model",
        DataWarning,
    )
    return line


def _library() -> ModuleType | None:
    """Import pint, which is an extra."""
    try:
        import pint
    except ImportError:
        return None
    return pint


@cache  # reading all definitions takes 0.2 s
def _registry() -> "pint.UnitRegistry[float]":
    """Return units that pint defines, and none that the user has added to a registry."""
    import pint

    def insert_signs(text: str) -> str:
        return POWER.sub("**", PRODUCT.sub("*", text))

    registry = pint.UnitRegistry(preprocessors=[insert_signs])
    for definition in MORE:
        registry.define(definition)
    return registry


@cache
def _parsed(text: str) -> "pint.Unit | None":
    """Read a unit, None of text that is none."""
    try:
        return _registry().Unit(strip_origin(text).strip())
    except Exception:  # pint raises many kinds on text that is no unit
        return None


@cache
def _line(source: str, target: str) -> tuple[float, float] | None:
    """Return factor and offset from a unit to another, None where there is no conversion."""
    before, after = _parsed(source), _parsed(target)
    if before is None or after is None:
        return None
    try:
        # units of temperature have an offset; all others map zero to zero
        zero, unit = (float(_registry().Quantity(x, before).m_as(after)) for x in (0.0, 1.0))
    except Exception:  # of other dimensions, or on another scale, as decibels
        return None
    return unit - zero, zero


def check_units(argument: str, data: xr.Dataset, other: xr.Dataset, context: Sequence[str]) -> None:
    """Raise InputError where two datasets have states, contexts or times of other units."""
    units = Units.read(data, context)
    wanted = Units.read(other, context)
    fix = "convert one of them, units included"
    check_same(argument, units, wanted, components="the state", context=context, fix=fix)


def check_same(
    argument: str,
    own: Units,
    wanted: Units,
    *,
    components: str | Sequence[str],
    context: Sequence[str],
    fix: str,
) -> None:
    """Raise InputError where units of states, contexts or times differ.

    Args:
        argument: whose units are `own`.
        own: units that are checked.
        wanted: units that they have to be.
        components: names of the components of the state, or one for all.
        context: names of the parameters.
        fix: what the user may do.
    """
    if isinstance(components, str):
        components = [components] * len(own.state)
    pairs = [
        *zip(components, own.state, wanted.state, strict=True),
        *zip(context, own.context, wanted.context, strict=True),
        ("time", own.time, wanted.time),
    ]
    for name, unit, expected in pairs:
        if not same_unit(unit, expected):
            raise InputError(argument, expected=f"{name} in {expected}", got=unit, fix=fix)
