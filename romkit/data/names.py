"""Names and attributes by which data of others say what a variable is."""

import re
from collections.abc import Iterator, Mapping

import xarray as xr

TIMES = ("time", "t")
"""Usual names of time."""

MORE_TIMES = ("timestamp", "datetime", "date_time", "date", "elapsed_time", "time_s", "t_s")
"""Names, in small letters, that are taken for time where none of the usual ones is there."""

TRAJECTORIES = ("trajectory", "run", "case", "member", "realization", "simulation", "experiment")
"""Usual names of the dimension of trajectories."""

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

BOUNDS = ("_bnds", "_bounds", "_bnd")
"""Usual endings of the names of bounds."""

UNIT = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]\s*$")
"""A unit in brackets behind a name."""


def guessed_time(facts: Mapping[str, tuple[bool, Mapping]]) -> tuple[str | None, list[str]]:
    """The name that is time's, None where there is none, and a warning where that is a guess.

    Args:
        facts: by name, whether the values are dates, and the attributes.
    """
    for name in TIMES:
        if name in facts:
            return name, []
    for candidates in _candidates(facts):
        if len(candidates) == 1:
            name = candidates[0]
            return name, [f"time is taken to be {name!r}; name it, time={name!r}"]
        if candidates:
            break
    return None, []


def _candidates(facts: Mapping[str, tuple[bool, Mapping]]) -> Iterator[list[str]]:
    """Names that may be time's, by their own, by attributes, and by dates, surest first."""
    plain = {name: UNIT.sub("", name).strip().lower() for name in facts}
    yield [name for name in facts if plain[name] in TIMES]
    by_attributes = []
    for name, (_, about) in facts.items():
        if about.get("standard_name") == "time" or about.get("axis") == "T":
            by_attributes.append(name)
    yield by_attributes
    yield [name for name in facts if plain[name] in MORE_TIMES]
    yield [name for name, (is_date, _) in facts.items() if is_date]


def described(data: xr.Dataset) -> dict[str, str]:
    """Variables that describe others, bounds of time say, and what they are."""
    found = {}
    for name, variable in data.variables.items():
        for key in DESCRIBED_BY:
            text = str(variable.attrs.get(key, variable.encoding.get(key, "")))
            # "area: areacello volume: volcello" as well as "time_bnds"
            for word in text.replace(":", " ").split():
                if word in data.variables and word != name:
                    found[word] = f"{key} of {name}"
    for name, variable in data.data_vars.items():
        ending = next((end for end in BOUNDS if str(name).endswith(end)), None)
        if ending is None or name in found:
            continue
        owner = str(name).removesuffix(ending)
        if owner in data.coords and variable.sizes[variable.dims[-1]] in (2, 4):
            found[str(name)] = f"bounds of {owner}"
    return found
