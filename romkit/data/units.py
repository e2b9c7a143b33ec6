"""Units of data and of models: compared, converted by pint where it is installed, else refused."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

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


def factors(unit: str) -> dict[str, int] | None:
    """Return powers of the units in a product, "kg m s-2" or "kg*m/s^2"; None of what is no
    product.
    """
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
    """Return the unit of an interval: "days" of "days since 2000-01-01"."""
    return unit.partition(" since ")[0]


def _factors_of(product: str) -> list[str]:
    """Return the factors of a product, without those that are one."""
    factors = PRODUCT.split(product.strip(" ()"))
    return [factor for factor in factors if factor not in ("", "1")]


def is_unit(text: str) -> bool:
    """Tell whether text is a product of units that are known by name, with their usual prefixes."""
    powers = factors(text)
    return powers is not None and len(powers) > 0 and all(_is_known(name) for name in powers)


def _is_known(name: str) -> bool:
    if name in KNOWN:
        return True
    return name[:1] in PREFIXES and name[1:] in PREFIXED


def same_unit(a: str, b: str) -> bool:
    """Tell whether two units are one, as far as their names tell; a unit that nobody gave is any."""
    if not a or not b or a == b:
        return True
    first = factors(a)
    second = factors(b)
    return first is not None and first == second


def conversion(argument: str, name: str, source: str, target: str) -> tuple[float, float]:
    """Return factor and offset from a unit to another, by pint.

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
def _registry() -> "pint.UnitRegistry[float]":
    """Return units that pint defines, and none that the user has added to a registry."""
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
