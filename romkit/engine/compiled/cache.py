"""Compiled libraries on disk, guarded as OpenSSH guards keys: nothing is loaded that others could have written."""

import contextlib
import functools
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

LEFT_OVER = 3600
"""Seconds after which a temporary file belongs to a process that was killed; compilers are given up on long before."""

_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def kept() -> Path:
    """Where libraries are kept: $XDG_CACHE_HOME/romkit or ~/.cache/romkit. It can be deleted at any time.

    Raises:
        RuntimeError: there is no home folder.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "romkit"


def passing() -> Path:
    """A folder of this process alone, gone when it ends."""
    return Path(_passing(os.getpid()).name)


@functools.cache
def _passing(_: int) -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="romkit-", ignore_cleanup_errors=True)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Path]:
    """A name for the folder, which is made if need be; it stays with this folder even if the path is exchanged.

    Raises:
        OSError: it cannot be made or read, belongs to somebody else, or others may write to it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not hasattr(os, "geteuid"):  # Windows: what is in a user's profile is the user's
        yield folder
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _check_ours(descriptor, folder)
        same = Path(f"/proc/self/fd/{descriptor}")
        yield same if same.exists() else folder
    finally:
        os.close(descriptor)


def intact(file: Path, name: str) -> bool:
    """Whether the file is what `seal` wrote under this name: ours, a plain file, unwritable to others, undamaged."""
    try:
        descriptor = os.open(file, _OPEN)
    except OSError:  # none, a link, a folder, ...
        return False
    with os.fdopen(descriptor, "rb") as stream:
        try:
            _check_ours(descriptor, file)
            content = stream.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        except OSError:
            return False
    return content[-32:] == _digest(content[:-32], name)


def seal(file: Path, name: str, content: bytes) -> None:
    """Write a library with its checksum behind it, at once or not at all.

    Raises:
        OSError: disk full, a folder of that name, ...
    """
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content + _digest(content, name))
        temporary.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def workshop() -> Iterator[Path]:
    """A folder to compile in."""
    with tempfile.TemporaryDirectory(prefix="romkit-", suffix=".tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def sweep(folder: Path) -> None:
    """Remove what killed processes left here and in the system's temporary folder."""
    oldest = time.time() - LEFT_OVER
    for path in (*folder.glob("*.tmp"), *Path(tempfile.gettempdir()).glob("romkit-*.tmp")):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if found.st_mtime < oldest and found.st_uid == folder.stat().st_uid:
                shutil.rmtree(path) if stat.S_ISDIR(found.st_mode) else path.unlink()


def _check_ours(descriptor: int, path: Path) -> None:
    if not hasattr(os, "geteuid"):
        return
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"others may write to {path}: chmod go-w")


def _digest(content: bytes, name: str) -> bytes:
    """With the name, so that one library cannot stand in for another."""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()
