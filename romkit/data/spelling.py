"""Names as users type them, of what data call by a name with a unit behind it."""

from collections.abc import Collection, Iterable, Mapping

from romkit.core import checks
from romkit.data.names import split_unit
from romkit.data.units import is_unit

NO_UNIT = ("-", "1", "")
"""Texts behind names of numbers without a unit."""


def strip_unit(name: str) -> str:
    """Return a name without the unit in brackets or behind a stroke at its end: Tfeed of Tfeed [K]
    and of Tfeed / K, and x[1] of x[1].
    """
    bare, unit = split_unit(name)
    # without a blank, 1 in brackets is a number
    if bare and (is_unit(unit) or (unit in NO_UNIT and name[len(bare) :].startswith(" "))):
        return bare
    return name


def full_name(name: str, names: Iterable[str]) -> str:
    """Return the one of `names` that is called so, either of them perhaps with a unit behind it;
    `name` as it came where there is none, or several.
    """
    spellings = list(names)
    if name in spellings:
        return name
    bare = strip_unit(name)
    candidates = [full for full in spellings if strip_unit(full) == bare]
    if len(candidates) == 1:
        return candidates[0]
    return name


def known_name(argument: str, name: str, names: Collection[str]) -> str:
    """Return the one of `names` that is called so, perhaps with a unit behind it.

    Raises:
        InputError: there is none, or several.
    """
    return checks.one_of(argument, full_name(name, names), names)


def complete_keys(values: Mapping[str, object], names: Collection[str]) -> dict[str, object]:
    """Return values by the one of `names` that each of their names is; a value given by both stays
    twice, so that it is refused.
    """
    full = {}
    for name, value in values.items():
        spelling = full_name(name, names)
        is_taken = spelling in values or spelling in full
        full[name if is_taken else spelling] = value
    return full
