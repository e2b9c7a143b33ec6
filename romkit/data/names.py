"""Usual names of times and runs, and units behind names."""

import re
from typing import NamedTuple

import xarray as xr

TIMES = ("time", "t")
"""Usual names of time."""

TRAJECTORIES = ("trajectory", "run", "case", "member", "realization", "simulation", "experiment")
"""Usual names of the dimension of trajectories."""

BRACKETS = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]\s*(?:, [^,]*)?$")
"""A unit in brackets behind a name, before the place that COMSOL adds: u (m), Point Probe."""

STROKE = re.compile(r"\s+/\s*(\S[^/]*)$")
"""A unit behind a stroke, as IUPAC writes it: time / s, c / mol L-1."""


class Named(NamedTuple):
    """A name in two parts.

    Attributes:
        bare: what stands before the unit.
        unit: the text behind it, perhaps no unit; "" where there is none.
    """

    bare: str
    unit: str


def split_unit(name: str) -> Named:
    """Return a name and the text in brackets or behind a stroke at its end."""
    for form in (BRACKETS, STROKE):
        match = form.search(name)
        if match is not None:
            return Named(name[: match.start()].strip(), match[1].strip())
    return Named(name, "")


def unit_of(values: xr.DataArray | xr.Variable) -> str:
    """Return the unit that a variable has by its attributes, "" where nobody said."""
    return str(values.attrs.get("units", ""))
