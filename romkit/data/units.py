"""Units of data and of models: compared, converted by pint where it is installed, else refused."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr

from romkit.core.errors import DataWarning, InputError, warn
from romkit.data.names import unit_of

if TYPE_CHECKING:
    import pint

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

PREFIXES = "fpnumcdhkMGT"
PREFIXED = {
    "s",
    "m",
    "g",
    "N",
    "Pa",
    "J",
    "W",
    "V",
    "A",
    "Hz",
    "mol",
    "C",
    "ohm",
    "L",
    "l",
    "eV",
    "F",
    "T",
    "bar",
}
KNOWN = (
    PREFIXED
    | {*NAMES} - {"1"}
    | {"rpm", "%", "Ω", "ppm", "rev", "yr", "a", "atm", "psi", "ft", "mph"}
)
"""Units by which text in brackets behind a name is recognised as one."""

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
        contexts = [unit_of(data[name]) for name in context]
        return cls(state_units(data), contexts, time_units(data))


def state_units(data: xr.Dataset) -> list[str]:
    """The unit of each component of the state."""
    common = ""
    if "state" in data:
        common = common_unit(data["state"])
    if not common and "component_units" in data.coords:
        return [str(unit) for unit in data["component_units"].values]
    return [common] * data.sizes["component"]


def common_unit(state: xr.DataArray) -> str:
    """The unit of all components of a state, "" where nobody said, or where they have several."""
    unit = unit_of(state)
    if unit.startswith("mixed"):
        return ""
    return unit


def time_units(data: xr.Dataset) -> str:
    """The unit of the times of a dataset, "" where nobody said."""
    if "time" not in data.coords:
        return ""
    return unit_of(data["time"])


def factors(unit: str) -> dict[str, int] | None:
    """Powers of the units in a product, "kg m s-2" or "kg*m/s^2"; None of what is no product."""
    text = without_origin(unit).strip()
    text = text.translate(SUPERSCRIPTS).replace("**", "^")
    powers: Counter[str] = Counter()
    sign = 1
    for product in text.split("/"):
        for factor in _factors_of(product):
            match = FACTOR.fullmatch(factor)
            if match is None:
                return None
            name, power = match.groups(default="1")
            name = SAME.get(name, name)
            powers[name] += sign * int(power)
        # all behind the first stroke divides
        sign = -1
    powers.pop("1", None)
    return {name: power for name, power in powers.items() if power}


def without_origin(unit: str) -> str:
    """The unit of an interval: "days" of "days since 2000-01-01"."""
    return unit.partition(" since ")[0]


def _factors_of(product: str) -> list[str]:
    """The factors of a product, without those that are one."""
    factors = PRODUCT.split(product.strip(" ()"))
    return [factor for factor in factors if factor not in ("", "1")]


def is_unit(text: str) -> bool:
    """Whether text is a product of units that are known by name, with their usual prefixes."""
    powers = factors(text)
    return bool(powers) and all(_is_known(name) for name in powers)


def _is_known(name: str) -> bool:
    if name in KNOWN:
        return True
    return name[:1] in PREFIXES and name[1:] in PREFIXED


def same_unit(a: str, b: str) -> bool:
    """Whether two units are one, as far as their names tell; a unit that nobody gave is any."""
    if not a or not b or a == b:
        return True
    first = factors(a)
    second = factors(b)
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
        import pint  # noqa: F401  an extra: most data need no conversion
    except ImportError as error:
        raise InputError(
            argument,
            expected=f"{name} in {target}",
            got=f"{source}",
            fix="convert it, or install pint, by which romkit does",
        ) from error
    registry = _registry()
    try:
        images = []
        for value in (0.0, 1.0):
            quantity = registry.Quantity(value, _for_pint(source))
            image = quantity.to(_for_pint(target))
            images.append(float(image.magnitude))
    except Exception as error:  # pint raises many kinds on text that is no unit
        raise InputError(
            argument,
            expected=f"{name} in {target}",
            got=got,
            fix="convert it, or give its unit another name",
        ) from error
    warn(
        f"{argument}: {name} is converted from {source} to {target}, the unit of the model",
        DataWarning,
    )
    # units of temperature have an offset; all others map zero to zero
    zero, one = images
    return one - zero, zero


@cache  # reading all definitions takes a tenth of a second
def _registry() -> "pint.UnitRegistry":
    """Units that pint defines, and none that the user has added to a registry."""
    import pint

    return pint.UnitRegistry()


def _for_pint(unit: str) -> str:
    powers = factors(unit)
    if powers is None:
        return unit
    words = [f"{name} ** {power}" for name, power in powers.items()]
    return " * ".join(words) or "1"


def check_units(argument: str, data: xr.Dataset, other: xr.Dataset, context: Sequence[str]) -> None:
    """Raise InputError where two datasets have states, contexts or times of other units."""
    own = Units.of(data, context)
    wanted = Units.of(other, context)
    fix = "convert one of them, units included"
    check_same(argument, own, wanted, components="the state", context=context, fix=fix)


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


def in_units_of(
    argument: str, data: xr.Dataset, model: Units, context: Sequence[str]
) -> xr.Dataset:
    """The data in the units of a model, which has these parameters.

    Raises:
        InputError: units that differ and cannot be converted.
    """
    units = Units.of(data, context)
    data = _states_in_units(argument, data, units.state, model.state)
    for name, source, target in zip(context, units.context, model.context, strict=True):
        if not same_unit(source, target):
            data = _context_in_unit(argument, data, name, source, target)
    return times_in_unit(argument, data, model.time)


def _states_in_units(
    argument: str, data: xr.Dataset, sources: Sequence[str], targets: Sequence[str]
) -> xr.Dataset:
    factor, offset = _conversions(argument, data, sources, targets)
    if factor is None:
        return data
    converted = {"state": data["state"] * factor + offset}
    # an offset, as of temperatures, has no rate
    for rate in ("velocity", "acceleration"):
        if rate in data:
            converted[rate] = data[rate] * factor
    about = {}
    if len(set(targets)) == 1:
        about = {"units": targets[0]}
    for name, values in converted.items():
        before = data[name]
        values = values.transpose(*before.dims)
        values = values.astype(before.dtype.newbyteorder("="))
        values = values.assign_attrs(before.attrs | about)
        data = data.assign({name: values})
    if "component_units" in data.coords:
        data = data.assign_coords(component_units=("component", list(targets)))
    return data


def _conversions(
    argument: str, data: xr.Dataset, sources: Sequence[str], targets: Sequence[str]
) -> tuple[xr.DataArray | None, xr.DataArray | None]:
    """Factor and offset (n,) of each component of the state; None where no unit differs."""
    pairs = list(zip(sources, targets, strict=True))
    differing = [k for k, pair in enumerate(pairs) if not same_unit(*pair)]
    if not differing:
        return None, None
    size = len(pairs)
    labels = np.arange(size)
    if "component" in data.coords:
        labels = data["component"].values
    factor = xr.DataArray(np.ones(size), dims="component")
    offset = xr.DataArray(np.zeros(size), dims="component")
    known: dict[tuple[str, str], tuple[float, float]] = {}
    for k in differing:
        pair = pairs[k]
        # asked once for each pair: a field has thousands of components of one unit
        if pair not in known:
            name = f"the state {labels[k]}"
            known[pair] = conversion(argument, name, *pair)
        factor[k], offset[k] = known[pair]
    return factor, offset


def state_in_units(argument: str, state: xr.DataArray, wanted: Sequence[str]) -> xr.DataArray:
    """A labelled state (..., component) in these units; as it is where it has none.

    Raises:
        InputError: units that differ and cannot be converted.
    """
    if not unit_of(state):
        return state
    return states_in_units(argument, state.to_dataset(name="state"), wanted)["state"]


def states_in_units(argument: str, data: xr.Dataset, wanted: Sequence[str]) -> xr.Dataset:
    """The data with states, and rates, in these units, one for each component; as they are where
    there are none.

    Raises:
        InputError: units that differ and cannot be converted.
    """
    if not wanted:
        return data
    return _states_in_units(argument, data, state_units(data), wanted)


def in_unit(argument: str, name: str, values: xr.DataArray, target: str) -> xr.DataArray:
    """Labelled values in a unit; as they are where they have none, or nobody gave that of the model.

    Raises:
        InputError: another unit that cannot be converted.
    """
    source = unit_of(values)
    if same_unit(source, target):
        return values
    factor, offset = conversion(argument, name, source, target)
    converted = values * factor + offset
    return converted.assign_attrs(values.attrs | {"units": target})


def parameters_in_units(
    values: Mapping[str, object], names: Sequence[str], units: Sequence[str]
) -> dict[str, object]:
    """Parameters by name, of which labelled ones are in these units; numbers are taken to be.

    Raises:
        InputError: another unit that cannot be converted.
    """
    converted = dict(values)
    for name, unit in zip(names, units, strict=True):
        value = values.get(name)
        if isinstance(value, xr.DataArray):
            converted[name] = in_unit("context", name, value, unit)
    return converted


def _context_in_unit(
    argument: str, data: xr.Dataset, name: str, source: str, target: str
) -> xr.Dataset:
    factor, offset = conversion(argument, name, source, target)
    parameter = data[name]
    about = parameter.attrs | {"units": target}
    # the range is in the unit of the data, too
    if "training_range" in about:
        about["training_range"] = [factor * end + offset for end in about["training_range"]]
    values = parameter.astype(np.float64) * factor + offset
    values = values.assign_attrs(about)
    return data.assign_coords({name: values.variable})


def times_in_unit(argument: str, data: xr.Dataset, target: str) -> xr.Dataset:
    """The data with their times in a unit; as they are where they have none.

    Raises:
        InputError: another unit that cannot be converted.
    """
    source = time_units(data)
    if same_unit(source, target):
        return data
    factor, _ = conversion(argument, "time", without_origin(source), without_origin(target))
    times = data["time"]
    about = times.attrs | {"units": target}
    data = data.assign_coords(time=("time", times.values * factor, about))
    # rates are by time, whose unit they do not name
    for order, name in enumerate(("velocity", "acceleration"), start=1):
        if name in data:
            rate = data[name]
            data[name] = (rate / factor**order).assign_attrs(rate.attrs)
    return data
