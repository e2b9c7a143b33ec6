"""Probes of OpenFOAM: a folder for each start of a case, and in it a text file for each field."""

import contextlib
import itertools
import re
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason

BEGINNING = b"# Probe"
"""First bytes of the file of a field."""

RESULTS = "postProcessing"
"""Folder of a case in which function objects write."""

PLACE = re.compile(r"#\s*Probe\s+[0-9]+\s*\(([^()]*)\)")
"""The line of comment that says where a probe is."""

DIRECTIONS = {3: list("xyz"), 6: ["xx", "xy", "xz", "yy", "yz", "zz"]}
"""Names of the entries of vectors and symmetric tensors."""
DIRECTIONS[9] = [a + b for a in "xyz" for b in "xyz"]


def can_read(path: Path) -> bool:
    """Tell whether a path is a case with probes, their folder, that of one start, or one field."""
    return _is_field(path) if path.is_file() else bool(_fields(path))


def read(path: Path) -> xr.Dataset:
    """Return the fields of probes, along time and probe, and along direction if they are vectors.

    After a restart, numbers of the later start replace those from its first time on.

    Args:
        path: a case, the folder of its probes or of one start, or the file of one field.

    Warns:
        DataWarning: a case was restarted, or probes are outside of the mesh.

    Raises:
        FileError: several sets of probes, other probes after a restart, or a file that was cut off.
    """
    if path.is_file():
        return _field(existing(path))
    files = _fields(path)
    sets = sorted({file.parent.parent for file in files})
    if len(sets) > 1:
        names = ", ".join(folder.name for folder in sets)
        problem = f"has several sets of probes, {names}"
        raise FileError(path, problem=problem, fix=f"give one: {sets[0]}")
    starts = itertools.groupby(files, key=lambda file: file.parent)
    try:
        segments = [
            xr.merge(map(_field, group), join="exact", compat="equals") for _, group in starts
        ]
        data = segments[0]
        for later in segments[1:]:
            data = _continued(data, later)
    except ValueError as error:
        problem = f"has fields at other times, probes or places ({reason(error)})"
        fix = "give the folder of one start, or the file of one field"
        raise FileError(path, problem=problem, fix=fix) from error
    if len(segments) > 1:
        warn(f"{path} was restarted: the later start counts", DataWarning)
    return data


def _continued(data: xr.Dataset, later: xr.Dataset) -> xr.Dataset:
    """Return a case and its restart, of which the latter has the times that both have.

    Raises:
        ValueError: they have other probes or fields.
    """
    if set(data) != set(later):
        raise ValueError("other fields after a restart")
    before = data.sel(time=data["time"] < later["time"][0])
    return xr.concat([before, later], "time", compat="equals", coords="minimal", join="exact")


def _is_field(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(BEGINNING)) == BEGINNING


def _fields(path: Path) -> list[Path]:
    """Return files of fields in a case, or in the folder of its probes or of one start, by starts
    in the order of their times.
    """
    for pattern in ("*", "*/*", "*/*/*" if path.name == RESULTS else f"{RESULTS}/*/*/*"):
        files = []
        for file in path.glob(pattern):
            # the folder of a start is called by its time
            with contextlib.suppress(ValueError):
                files.append((float(file.parent.name), file))
        fields = [file for _, file in sorted(files) if file.is_file() and _is_field(file)]
        if fields:
            return fields
    return []


def _field(file: Path, *, outside: float = 1e299) -> xr.Dataset:
    """Return one field at all probes, NaN at those that are outside of the mesh.

    `outside`: size of the numbers from which on OpenFOAM says that a probe is outside of the
    mesh.

    Raises:
        FileError: rows have not a number, or vector, of each probe.
    """
    lines = file.read_text(encoding="utf-8").splitlines()
    places = [place[1].split() for place in map(PLACE.match, lines) if place]
    rows = [line for line in lines if line.strip() and not line.startswith("#")]
    # vectors are in parentheses, and all have as many entries
    words = [row.translate(str.maketrans("()", "  ")).split() for row in rows]
    try:
        x, y, z = np.array(places, dtype=np.float64).T
        numbers = np.array(words, dtype=np.float64)
        values = numbers[:, 1:].reshape(len(rows), len(places), -1)  # (T, probes, entries)
    except (ValueError, IndexError) as error:
        raise FileError(
            file,
            problem=f"has rows that are not of {len(places)} probes ({reason(error)})",
            fix="check that it was written to its end",
        ) from error
    is_outside = np.abs(values) > outside
    if is_outside.any():
        number = int(is_outside.any((0, 2)).sum())
        warn(f"{number} probes are outside of the mesh", DataWarning)
    values = np.where(is_outside, np.nan, values)
    coords = {"time": ("time", numbers[:, 0], {"units": "s"})}
    for name, column in (("x", x), ("y", y), ("z", z)):
        coords[name] = ("probe", column, {"units": "m"})
    dims, size = ("time", "probe"), values.shape[-1]
    if size == 1:
        return xr.Dataset({file.name: (dims, values[..., 0])}, coords)
    direction, labels = velocity_direction(size)
    return xr.Dataset({file.name: ((*dims, direction), values)}, coords | {direction: labels})


def velocity_direction(size: int) -> tuple[str, list[str]]:
    """Return dimension of the entries of a vector or tensor, and their labels."""
    # a case may have vectors and tensors
    name = "direction" if size == 3 else f"direction_{size}"
    return name, DIRECTIONS.get(size, [str(k) for k in range(size)])
