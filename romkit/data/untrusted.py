"""Checks of files that others wrote, before a library reads them: seal, references to other files,
and codecs that run code.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from romkit.core.errors import FileError
from romkit.core.files import reason

if TYPE_CHECKING:
    import h5py

SEAL = b"\nromkit sha256 "
ENGINES = {b"\x89HDF": "h5netcdf", b"CDF\x01": "scipy", b"CDF\x02": "scipy"}
"""Engine of xarray for each kind of netCDF, by the first bytes of a file."""

MATLAB = b"MATL"
"""First bytes of files of MATLAB, 7.3 too."""

RESTORE = "restore it from a copy or remake it"
OWN_NUMBERS = "ask its author for a file that holds its own numbers"
DESCRIPTIONS = (".zarray", ".zmetadata", "zarr.json")
"""Files of a zarr store that name codecs."""

TAIL = len(SEAL) + 66
"""Bytes of a seal: SHA-256 in hexadecimal digits and the end of the line behind it."""

BLOCK = 1 << 24


def compute_seal(content: bytes) -> bytes:
    """Return the bytes that follow the content of a file which romkit writes."""
    return SEAL + hashlib.sha256(content).hexdigest().encode() + b"\n"


def check_seal(name: object, content: bytes) -> None:
    """Raise FileError where sealed content has changed; content without a seal passes."""
    sealed, seal, digest = content.rpartition(SEAL)
    if seal and digest.strip() != hashlib.sha256(sealed).hexdigest().encode():
        raise _changed(name)


def check_file_seal(file: Path) -> None:
    """`check_seal` of a file that may be larger than memory."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        # the seal is at the end; most files of others have none, and are read no further
        stream.seek(max(0, size - TAIL))
        _, seal, digest = stream.read().rpartition(SEAL)
        if not seal:
            return
        stream.seek(0)
        remaining = size - len(SEAL) - len(digest)
        checksum = hashlib.sha256()
        while remaining > 0:
            block = stream.read(min(BLOCK, remaining))
            checksum.update(block)
            remaining -= len(block)
    if digest.strip() != checksum.hexdigest().encode():
        raise _changed(file)


def _changed(name: object) -> FileError:
    return FileError(name, problem="has changed since romkit wrote it (checksum)", fix=RESTORE)


SMALL = 1 << 28
"""Bytes that are read whatever the size of a file."""


def check_declared(name: object, declared: int, size: int, *, deflated: int = 1032) -> None:
    """Refuse a file of some size [bytes] that declares many more numbers than it can hold: chunks
    that nobody wrote would be filled in memory.

    `deflated`: times that the compression of zlib shrinks numbers, at most (zlib's technical
    details).

    Raises:
        FileError: it does.
    """
    if declared <= max(SMALL, deflated * size):
        return
    problem = f"declares {declared / 1e9:.3g} GB of numbers, and has {size / 1e3:.3g} kB"
    raise FileError(name, problem=problem, fix=OWN_NUMBERS)


def storage_engine(name: object, start: bytes) -> str:
    """Return the engine of xarray that reads content with these first bytes.

    Raises:
        FileError: it is not netCDF.
    """
    engine = ENGINES.get(start[:4])
    if engine is not None:
        return engine
    problem = "is empty"
    fix = "give a file by romkit.data.save_dataset or xarray's to_netcdf"
    if start:
        problem = "is not a netCDF file, or its first bytes are damaged"
    if start.startswith(MATLAB):
        problem = "is a file of MATLAB"
        fix = "read it by scipy.io.loadmat, or by h5py if it is of version 7.3"
    raise FileError(name, problem=problem, fix=fix)


def checked_groups(name: object, source: Path | io.BytesIO) -> dict[str, bool]:
    """Return every group of an HDF5 file, by its path, and whether it has numbers of its own.

    Raises:
        FileError: the file reads other files: by an external link, external storage or a virtual
            dataset.
    """
    import h5py  # with HDF5, for which a file without netCDF has no need

    groups: dict[str, bool] = {}
    with h5py.File(source, "r") as file:
        visited = set()
        waiting = [("/", file)]
        while waiting:
            path, group = waiting.pop()
            address = h5py.h5o.get_info(group.id).addr
            if address in visited:  # a hard link may lead back to a group above
                continue
            visited.add(address)
            groups[path] = False
            for key in group:
                # by its link first: opening a member would open the file that it lies in
                below = f"{path.rstrip('/')}/{key}"
                member = _own_member(name, group, key, below)
                if isinstance(member, h5py.Group):
                    waiting.append((below, member))
                elif isinstance(member, h5py.Dataset):
                    groups[path] = True
    return groups


def _own_member(name: object, group: "h5py.Group", key: str, path: str) -> object:
    """Return a member of a group, None of a soft link; FileError where its numbers lie in another
    file.
    """
    import h5py

    link = group.get(key, getlink=True)
    if isinstance(link, h5py.SoftLink):
        return None
    if isinstance(link, h5py.ExternalLink):
        raise FileError(name, problem=f"links to another file at {path}", fix=OWN_NUMBERS)
    member = group[key]
    if isinstance(member, h5py.Dataset) and (member.is_virtual or member.external):
        raise FileError(name, problem=f"takes {path} from another file", fix=OWN_NUMBERS)
    return member


def is_store(path: Path) -> bool:
    """Tell whether a folder is a zarr store."""
    names = (".zgroup", *DESCRIPTIONS)
    return path.is_dir() and any((path / name).is_file() for name in names)


def check_store(store: Path) -> None:
    """Raise FileError where a zarr store names a codec that unpickles, or has links to other
    places.
    """
    # no library is asked: zarr would make the codec, and so run its code
    for folder, folders, files in os.walk(store):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                raise FileError(store, problem=f"has a link, {path.name}", fix=OWN_NUMBERS)
            if name in DESCRIPTIONS and any("pickle" in codec for codec in _codecs(path)):
                raise FileError(
                    store,
                    problem=f"unpickles, by {path.name}",
                    fix="ask its author for numbers without the codec pickle, which runs code",
                )


def _codecs(description: Path) -> Iterator[str]:
    """Yield names of codecs and data types in a file that describes arrays of zarr."""
    try:
        waiting = [json.loads(description.read_text())]
    except (ValueError, RecursionError) as error:
        raise FileError(
            description.parent,
            problem=f"has a damaged {description.name} ({reason(error)})",
            fix=RESTORE,
        ) from error
    # by a stack: descriptions of strangers may nest deeper than Python recurses
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, list):
            waiting.extend(entry)
        if not isinstance(entry, dict):
            continue
        for key, value in entry.items():
            if key in ("id", "name") and isinstance(value, str):
                yield value.lower()
            elif key != "attributes" and not key.endswith(".zattrs"):
                waiting.append(value)
