"""Tables of waveforms that LTspice exports as text, of a sweep of parameters."""

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from romkit.core.display import listed
from romkit.core.errors import FileError
from romkit.readers.ways import OF_SPICE

STEP = re.compile(r"Step Information:\s*(.*?)\s*\(Step:\s*([0-9]+)/([0-9]+)\)\s*")
"""A line above the rows of a step: its parameters, its number, and the number of steps."""

VALUE = re.compile(
    r"([-+]?[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?)(meg|mil|[tgkmunpf\u00b5]?)[^0-9.]*", re.I
)
"""A number of SPICE, which ignores the letters of a unit behind the prefix."""

FACTORS = {
    "t": 1e12, "g": 1e9, "meg": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "mil": 25.4e-6,
    "u": 1e-6, "\u00b5": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15,
}  # fmt: skip
"""Prefixes in small letters: M is milli, as in SPICE."""

UNITS = {"time": "s", "V": "V", "I": "A"}
"""Units of columns by their names, V(out) say, before the bracket."""


def is_stepped(lines: Sequence[str]) -> bool:
    """Whether a line of a step follows the names of the columns."""
    return len(lines) > 1 and STEP.match(lines[1]) is not None


def table_of_steps(path: str | Path, lines: Iterable[str]) -> tuple[pd.DataFrame, list[str]]:
    """A table in which each step is a run, with its parameters as columns, and sentences for
    warnings.

    Raises:
        FileError: a parameter that is no number or is called like a column, or numbers of complex
            waveforms.
    """
    first, *rows = lines
    names = first.strip("\n").split("\t")
    steps: list[tuple[re.Match, list[str]]] = []
    for row in rows:
        step = STEP.match(row)
        if step is not None:
            steps.append((step, []))
        else:
            steps[-1][1].append(row)
    runs, empty = [], []
    for step, rows_of_step in steps:
        if not any(map(str.strip, rows_of_step)):
            empty.append(step[1])
            continue
        values = pd.read_csv(io.StringIO("".join(rows_of_step)), sep="\t", names=names)
        if not values.dtypes.map(pd.api.types.is_numeric_dtype).all():
            raise FileError(
                path, problem="holds complex waveforms", fix="export a transient analysis"
            )
        runs.append(values.assign(run=int(step[2]), **_parameters(path, step[1], names)))
    if not runs:
        raise FileError(path, problem="holds steps without a row", fix="export it anew")
    table = pd.concat(runs, ignore_index=True)
    table.attrs = {"units": {name: UNITS.get(name.split("(")[0], "") for name in names}}
    parameters = ", ".join(_parameters(path, steps[0][0][1], names))
    notes = [f"{len(runs)} steps are runs, at values of {parameters}"]
    if empty:
        notes.append(f"steps without a row are left out: {listed(empty)}")
    wanted = int(steps[0][0][3])
    if len(steps) < wanted:
        notes.append(f"{path} holds {len(steps)} of {wanted} steps; export it anew for the others")
    return table, notes


def _parameters(path: str | Path, text: str, names: Sequence[str]) -> dict[str, float]:
    """Values by name of "Rload=1K C=10n"."""
    parameters = {}
    for pair in text.split():
        name, _, value = pair.partition("=")
        number = VALUE.fullmatch(value)
        if number is None or name in {*names, "run"}:
            raise FileError(path, problem=f"has a step of {pair!r}, no number", fix=OF_SPICE)
        parameters[name] = float(number[1]) * FACTORS[number[2].lower()]
    return parameters
