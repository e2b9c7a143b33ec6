"""Names and attributes by which data of others say what a variable is, and guesses from them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import xarray as xr

from romkit.data.names import TIMES, TRAJECTORIES, split_unit

MORE_TIMES = ("timestamp", "datetime", "date")
"""Names, in small letters, that are taken for time where none of the usual ones is there."""

NUMBERED = re.compile(r"[ _.-]?(id|no|nr|number|name)$")
"""An ending that such names may have."""

RATES = ("velocity", "acceleration")

DESCRIBED_BY = (
    "bounds", "climatology", "ancillary_variables", "cell_measures", "grid_mapping",
    "node_coordinates",
)  # fmt: skip
"""Attributes of the CF conventions that name variables which describe others."""

MODIFIERS = (
    "standard_error", "status_flag", "quality_flag", "number_of_observations", "detection_minimum",
    "detection_maximum",
)  # fmt: skip
"""Ends of standard names of CF that make a variable one about another."""

BOUNDS = re.compile(r"(.+)_(bnds|bounds|bnd)")
"""Usual names of the bounds of a coordinate."""


class Guess(NamedTuple):
    """Reading of a column that nobody declared, or a change to it.

    Attributes:
        role: time, runs, context, state, and so on.
        column: the name, or several with commas between.
        why: by what, and how to say it otherwise.
    """

    role: str
    column: str
    why: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.role} {self.column}: {self.why}"


Guesses = list[Guess]


class Fact(NamedTuple):
    """Type and attributes of a candidate for the time coordinate."""

    is_date: bool
    attrs: Mapping[str, object]
    ndim: int = 1


def run_columns(columns: Iterable[str]) -> list[str]:
    """Return columns that may tell runs apart, by their names: the usual ones first."""
    names = list(columns)
    usual = [name for name in TRAJECTORIES if name in names]
    rarer = [name for name in names if NUMBERED.sub("", name.strip().lower()) in TRAJECTORIES]
    return list(dict.fromkeys(usual + rarer))


def guessed_time(facts: Mapping[str, Fact], guesses: Guesses) -> str | None:
    """Return the name that is time's, None where there is none, or nobody can tell which."""
    usual = [name for name in TIMES if name in facts]
    if usual:
        # a table of the user's own may have a variable t beside the time, or time beside t
        for rival in usual[1:]:
            guesses.append(
                Guess(
                    "time",
                    usual[0],
                    f"and not {rival!r}; or name it, time={rival!r}",
                )
            )
        return usual[0]
    for is_time in SIGNS_OF_TIME:
        names = [name for name, fact in facts.items() if is_time(split_unit(name).bare, fact)]
        if len(names) == 1:
            # a usual name with a unit behind it is no guess
            if is_time is not SIGNS_OF_TIME[0]:
                fix = f"name it, time={names[0]!r}"
                guesses.append(Guess("time", names[0], f"by its name; {fix}"))
            return names[0]
        if names:
            break
    return None


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_")


SIGNS_OF_TIME: Sequence[Callable[[str, Fact], bool]] = (
    # beside a time t [min], T [K] is a temperature
    lambda bare, _: bare.strip() in TIMES,
    lambda bare, _: _plain(bare) in TIMES,
    lambda _, fact: fact.attrs.get("standard_name") == "time" or fact.attrs.get("axis") == "T",
    lambda bare, _: _plain(bare) in MORE_TIMES,
    lambda _, fact: fact.is_date,
)
"""Signs that a variable is time's, by its name without a unit and by what is known of it, surest
first.
"""


def described(data: xr.Dataset) -> dict[str, str]:
    """Return variables that describe others, bounds of time say, and what they are."""
    descriptions = {}
    for name, variable in data.variables.items():
        # xarray moves the attributes of what it has decoded to the encoding
        about = variable.encoding | variable.attrs
        for key in DESCRIBED_BY:
            # "area: areacello volume: volcello" as well as "time_bnds"
            for word in str(about.get(key, "")).replace(":", " ").split():
                if word in data.variables and word != name:
                    descriptions[word] = f"{key} of {name}"
    for variable_name, values in data.data_vars.items():
        name = str(variable_name)
        bounds = BOUNDS.fullmatch(name)
        # two ends of an interval, or four corners of a cell
        if bounds and bounds[1] in data.coords and values.shape[-1:] in ((2,), (4,)):
            descriptions.setdefault(name, f"bounds of {bounds[1]}")
        # "sea_surface_height standard_error": a name, and what about it
        standard_name = str(values.attrs.get("standard_name", ""))
        if standard_name.endswith(MODIFIERS):
            descriptions.setdefault(name, standard_name)
    return descriptions
