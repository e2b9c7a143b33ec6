"""Writing files so that a reader finds the old content or the new one, never half of either."""

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from romkit.errors import FileError, one_line


@contextlib.contextmanager
def atomic(path: str | os.PathLike) -> Iterator[Path]:
    """A temporary name in the folder of `path`; what the block writes there becomes `path` when the block ends.

    If the block raises, the temporary file is removed and an earlier `path` stays. A process that is killed
    leaves `path` as it was, and perhaps a file `<name>.<8 digits>.tmp` beside it, which can be deleted.

    Raises:
        FileError: the folder does not exist, `path` is a folder, or the system refuses to write (disk full, ...).
    """
    # A link is followed, so that the file it points to is replaced and not the link.
    target = Path(os.path.realpath(expanded(path)))
    if not target.parent.is_dir():
        raise FileError(path, problem="its folder does not exist", fix=f"make it first: mkdir -p {target.parent}")
    if target.is_dir():
        raise FileError(path, problem="is a folder", fix="add a file name")
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(target)
    except FileError:
        raise
    except OSError as error:
        problem = f"cannot be written ({reason(error)})"
        raise FileError(path, problem=problem, fix="check free space and permissions") from error
    finally:
        with contextlib.suppress(OSError):  # a file system that became read-only must not hide what went wrong
            temporary.unlink(missing_ok=True)
    if os.name == "posix":  # Windows cannot open a folder and does not need it
        with contextlib.suppress(OSError):  # some network file systems refuse; the file is complete all the same
            _flush(target.parent)


def reserve(file: Path, size: int) -> None:
    """Make `file` with `size` bytes of disk, which raises OSError at once where disk or quota lack them.

    For libraries that do not survive a full disk: HDF5 leaves a file it can neither write nor close, and crashes later.
    """
    with file.open("wb") as stream:
        if size > 0 and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, size)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it.

    Raises:
        FileError: it cannot be made, or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        problem = f"cannot be written to ({reason(error)})"
        raise FileError(folder, problem=problem, fix="check the path and its permissions") from error


def existing(path: str | os.PathLike) -> Path:
    """`path`, with ~ expanded, if it is a file.

    Raises:
        FileError: it is not.
    """
    file = expanded(path)
    try:
        if file.is_file():
            return file
        problem = "is a folder" if file.is_dir() else "no such file"
    except OSError as error:  # a name that is too long, a folder that may not be read
        problem = f"cannot be read ({reason(error)})"
    raise FileError(path, problem=problem, fix="check the path")


def there(path: str | os.PathLike) -> bool:
    """Whether something is at this path, which may be no path at all."""
    try:
        return os.path.exists(expanded(path))
    except ValueError:
        return False


def reason(error: BaseException) -> str:
    """What an exception of another library says, on one line of bearable length."""
    text = one_line(getattr(error, "strerror", None) or str(error))
    return text if len(text) <= 200 else f"{text[:197]}..."


def expanded(path: str | os.PathLike) -> Path:
    """With ~ expanded, where there is such a home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _flush(path: Path) -> None:
    """Before a rename, which else may reach the disk ahead of the content; and of the folder, so that it lasts."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
