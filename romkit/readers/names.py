"""Names and attributes by which data of others say what a variable is."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import xarray as xr

from romkit.data.names import TIMES, TRAJECTORIES, split_unit

MORE_TIMES = (
    "timestamp",
    "datetime",
    "date_time",
    "date",
    "elapsed_time",
    "time_s",
    "t_s",
    "flow_time",
    "cur_time",
)
"""Names, in small letters, that are taken for time where none of the usual ones is there."""

MORE_TRAJECTORIES = ("scenario", "trial")
"""Names, in small letters, of columns that tell the runs of a table apart, beside the usual ones."""

NUMBERED = re.compile(r"[ _.-]?(id|no|nr|number|name)$")
"""An ending that such names may have."""

RATES = ("velocity", "acceleration")

DESCRIBED_BY = (
    "bounds",
    "climatology",
    "ancillary_variables",
    "cell_measures",
    "grid_mapping",
    "node_coordinates",
)
"""Attributes of the CF conventions that name variables which describe others."""

MODIFIERS = (
    "standard_error",
    "status_flag",
    "quality_flag",
    "number_of_observations",
    "detection_minimum",
    "detection_maximum",
)
"""Ends of standard names of CF that make a variable one about another."""

BOUNDS = ("_bnds", "_bounds", "_bnd")
"""Usual endings of the names of bounds."""


def columns_of_runs(columns: Iterable[str]) -> list[str]:
    """Return columns that may tell runs apart, by their names: the usual ones first."""
    names = list(columns)
    usual = [name for name in TRAJECTORIES if name in names]
    rarer = []
    for name in names:
        plain = NUMBERED.sub("", name.strip().lower())
        if name not in usual and plain in TRAJECTORIES + MORE_TRAJECTORIES:
            rarer.append(name)
    return usual + rarer


def guessed_time(
    facts: Mapping[str, tuple[bool, Mapping[str, Any]]],
) -> tuple[str | None, list[str]]:
    """Return the name that is time's, None where there is none, and a warning where that is a
    guess.

    Args:
        facts: by name, whether the values are dates, and the attributes.
    """
    usual = [name for name in TIMES if name in facts]
    if usual:
        time, *rivals = usual
        notes = []
        # a table of the user's own may have a variable t beside the time, or time beside t
        for name in rivals:
            notes.append(f"time is taken to be {time!r}, and not {name!r}; name it, time=...")
        return time, notes
    for candidates in _candidates(facts):
        if len(candidates) == 1:
            name = candidates[0]
            return name, [f"time is taken to be {name!r}; name it, time={name!r}"]
        if candidates:
            break
    return None, []


def _candidates(facts: Mapping[str, tuple[bool, Mapping[str, Any]]]) -> tuple[list[str], ...]:
    """Return names that may be time's, by their own, by attributes, and by dates, surest first."""
    spelt_as_usual, usual, by_attributes, rarer, dates = [], [], [], [], []
    for name, (is_date, about) in facts.items():
        without_unit = split_unit(name).bare.strip()
        plain = without_unit.lower().replace("-", "_")
        # beside a time t [min], T [K] is a temperature
        if without_unit in TIMES:
            spelt_as_usual.append(name)
        if plain in TIMES:
            usual.append(name)
        if about.get("standard_name") == "time" or about.get("axis") == "T":
            by_attributes.append(name)
        if plain in MORE_TIMES:
            rarer.append(name)
        if is_date:
            dates.append(name)
    return spelt_as_usual, usual, by_attributes, rarer, dates


def described(data: xr.Dataset) -> dict[str, str]:
    """Return variables that describe others, bounds of time say, and what they are."""
    descriptions = {}
    for name, variable in data.variables.items():
        for key in DESCRIBED_BY:
            for word in _named_by(variable, key):
                if word in data.variables and word != name:
                    descriptions[word] = f"{key} of {name}"
    for name, values in data.data_vars.items():
        if name in descriptions:
            continue
        owner = _owner_of_bounds(data, str(name))
        if owner:
            descriptions[str(name)] = f"bounds of {owner}"
        # "sea_surface_height standard_error": a name, and what about it
        standard_name = str(values.attrs.get("standard_name", ""))
        if standard_name.endswith(MODIFIERS):
            descriptions[str(name)] = standard_name
    return descriptions


def _named_by(variable: xr.Variable, key: str) -> list[str]:
    """Return words in an attribute, which xarray moves to the encoding of what it has decoded."""
    text = str(variable.attrs.get(key, variable.encoding.get(key, "")))
    # "area: areacello volume: volcello" as well as "time_bnds"
    return text.replace(":", " ").split()


def _owner_of_bounds(data: xr.Dataset, name: str) -> str:
    """Return the coordinate whose bounds a variable is by its name and size, "" where it is of
    none.
    """
    ending = next((ending for ending in BOUNDS if name.endswith(ending)), None)
    if ending is None:
        return ""
    owner = name.removesuffix(ending)
    if owner not in data.coords or not data[name].dims:
        return ""
    # two ends of an interval, or four corners of a cell
    has_size = data[name].shape[-1] in (2, 4)
    return owner if has_size else ""
