"""A lock that ends with its process, however that ends."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from romkit.core.errors import FileError
from romkit.core.files import reason


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold `<file>.lock` during the block; while another process does, wait.

    The system's own lock on that file counts, not that the file is there: one that a killed process left blocks nobody.

    Raises:
        FileError: the folder is not there or not writable, or its file system has no locks.
    """
    lock = file.with_name(f"{file.name}.lock")
    descriptor = _acquire(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # before it is released, so that nobody's but one's own is removed
        os.close(descriptor)


def _acquire(lock: Path) -> int:
    """An open descriptor of the file at this path, with the lock."""
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise FileError(lock, problem=f"cannot be made ({reason(error)})", fix="check the folder") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(lock, descriptor):
                return descriptor
        except OSError as error:
            os.close(descriptor)
            fix = "choose a folder on a file system that has locks (flock)"
            raise FileError(lock, problem=f"cannot be locked ({reason(error)})", fix=fix) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # who held it has removed it: others may have made and locked a new one


def _is_at(lock: Path, descriptor: int) -> bool:
    """Whether the file that is open is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False
