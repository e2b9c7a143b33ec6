"""Probes of OpenFOAM: a folder for each start of a case, and in it a text file for each field."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.core.types import Array

BEGINNING = "# Probe"
"""First characters of the file of a field."""

RESULTS = "postProcessing"
"""Folder of a case in which function objects write."""

PLACE = re.compile(r"#\s*Probe\s+[0-9]+\s*\(([^()]*)\)")
"""The line of comment that says where a probe is."""

DIRECTIONS = {3: list("xyz"), 6: ["xx", "xy", "xz", "yy", "yz", "zz"]}
"""Names of the entries of vectors and symmetric tensors."""
DIRECTIONS[9] = [a + b for a in "xyz" for b in "xyz"]


def can_read(path: Path) -> bool:
    """Tell whether a path is a case with probes, their folder, that of one start, or one field."""
    if path.is_file():
        return _is_field(path)
    return path.is_dir() and bool(_folders(path))


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
        return _of_starts(path, [[existing(path)]])
    folders = _folders(path)
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise FileError(
            path, problem=f"has several sets of probes, {names}", fix=f"give one: {folders[0]}"
        )
    return _of_starts(path, _starts(folders[0]))


def _is_field(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(BEGINNING)) == BEGINNING.encode()


def _folders(path: Path) -> list[Path]:
    """Folders of sets of probes in a case, the folder itself if it is one."""
    if _starts(path) or _fields(path):
        return [path]
    within = path
    if (path / RESULTS).is_dir():
        within = path / RESULTS
    elif path.name != RESULTS:
        return []
    return [folder for folder in sorted(within.iterdir()) if _starts(folder)]


def _starts(folder: Path) -> list[list[Path]]:
    """Return files of the fields of each start, in the order of their times."""
    if not folder.is_dir():
        return []
    own = _fields(folder)
    if own:
        return [own]
    starts = []
    for below in folder.iterdir():
        time = _number(below.name)
        if time is None or not below.is_dir():
            continue
        files = _fields(below)
        if files:
            starts.append((time, files))
    return [files for _, files in sorted(starts)]


def _fields(folder: Path) -> list[Path]:
    """Return files of fields in the folder of a start; compare each with its folder's name, a time."""
    if _number(folder.name) is None:
        return []
    return [file for file in sorted(folder.iterdir()) if file.is_file() and _is_field(file)]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _of_starts(path: Path, starts: Sequence[Sequence[Path]]) -> xr.Dataset:
    """Return fields of all starts of a case, one behind the other."""
    parts = []
    for files in starts:
        fields = [_field(file) for file in files]
        try:
            parts.append(xr.merge(fields, join="exact", compat="equals"))
        except ValueError as error:
            raise FileError(
                files[0].parent,
                problem=f"has fields at other times or places ({reason(error)})",
                fix="give the file of one field",
            ) from error
    data = parts[0]
    for later in parts[1:]:
        data = _continued(path, data, later)
    if len(parts) > 1:
        warn(f"{path} was restarted: the later start counts", DataWarning)
    return data


def _continued(path: Path, data: xr.Dataset, later: xr.Dataset) -> xr.Dataset:
    """Return a case and its restart, of which the latter has the times that both have."""
    is_alike = set(data.data_vars) == set(later.data_vars)
    for name in ("x", "y", "z"):
        is_alike = is_alike and np.array_equal(data[name].values, later[name].values)
    if not is_alike:
        raise FileError(
            path,
            problem="has other probes or fields after a restart",
            fix="give the folder of one start",
        )
    before = data.isel(time=data["time"].values < later["time"].values[0])
    return xr.concat([before, later], "time")


def _field(file: Path) -> xr.Dataset:
    """One field at all probes.

    Raises:
        FileError: rows have not a number, or vector, of each probe.
    """
    places, times, rows = _rows(file)
    points = _numbers(file, places).reshape(len(places), -1)
    values = _numbers(file, rows)
    clock = _numbers(file, times)
    number = len(places)
    if not number or not rows or values.shape[1] % number or points.shape[1] != 3:
        raise FileError(
            file,
            problem=f"has rows that are not of {number} probes",
            fix="check that it was written to its end",
        )
    values = values.reshape(len(rows), number, -1)  # (T, probes, entries)
    values = _without_outside(values)
    coords = {"time": ("time", clock, {"units": "s"})}
    for name, column in zip("xyz", points.T, strict=True):
        coords[name] = ("probe", column, {"units": "m"})
    size = values.shape[-1]
    if size == 1:
        return xr.Dataset({file.name: (("time", "probe"), values[..., 0])}, coords)
    direction, labels = direction_of(size)
    fields = {file.name: (("time", "probe", direction), values)}
    return xr.Dataset(fields, {**coords, direction: labels})


def direction_of(size: int) -> tuple[str, list[str]]:
    """Return dimension of the entries of a vector or tensor, and their labels."""
    # a case may have vectors and tensors
    name = "direction" if size == 3 else f"direction_{size}"
    return name, DIRECTIONS.get(size, [str(k) for k in range(size)])


def _rows(file: Path) -> tuple[list[list[str]], list[str], list[list[str]]]:
    """Return places of the probes, times, and the numbers of each time, as text."""
    places, times, rows = [], [], []
    with file.open(encoding="utf-8") as stream:
        for line in stream:
            place = PLACE.match(line)
            if place is not None:
                places.append(place[1].split())
            if line.startswith("#"):
                continue
            # vectors are in parentheses, and all have as many entries
            words = line.replace("(", " ").replace(")", " ").split()
            if words:
                times.append(words[0])
                rows.append(words[1:])
    return places, times, rows


def _numbers(file: Path, rows: Sequence[Any]) -> Array:
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError as error:
        raise FileError(
            file,
            problem=f"cannot be read as probes ({reason(error)})",
            fix="check that it was written to its end",
        ) from error


def _without_outside(values: Array, *, outside: float = 1e299) -> Array:
    """Return values (T, probes, entries), NaN where a probe is outside of the mesh.

    `outside`: size of the numbers from which on OpenFOAM says that a probe is outside of the
    mesh.
    """
    is_outside = np.abs(values) > outside
    if is_outside.any():
        number = int(is_outside.any((0, 2)).sum())
        warn(f"{number} probes are outside of the mesh", DataWarning)
    return np.where(is_outside, np.nan, values)
