"""Files: atomic writing, and tensors with a JSON header under a SHA-256; nothing is unpickled."""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import safetensors
import safetensors.torch
import torch

from romkit.core.errors import FileError, InputError, one_line
from romkit.core.types import Kwargs, PathLike, Tensors
from romkit.core.version import VERSION

LEARNED = "learned.json"
"""List of the files of a learned model, by which its folder is known."""


@contextlib.contextmanager
def atomic(path: PathLike) -> Iterator[Path]:
    """Temporary name in the folder of `path`; the content written there becomes `path` when the
    block ends.

    If the block raises, the temporary file is removed and an earlier `path` stays. A process that
    is killed leaves `path` as it was, and perhaps a file `<name>.<8 digits>.tmp` beside it, which
    can be deleted.

    Raises:
        FileError: the folder does not exist, `path` is a folder, a device or a pipe, or the system
            refuses to write (disk full, ...).
    """
    # A link is followed, so that the file it points to is replaced and not the link.
    target = Path(os.path.realpath(expanded(path)))
    if not os.path.isdir(target.parent):
        raise FileError(
            path,
            problem="its folder does not exist",
            fix=f"make it first: mkdir -p {target.parent}",
        )
    # false, without an error, for names that no file can have
    if os.path.isdir(target):
        raise FileError(path, problem="is a folder", fix="add a file name")
    # a rename would put a file in the place of a device
    if os.path.exists(target) and not os.path.isfile(target):
        problem = "is a device or a pipe, which a file would replace"
        raise FileError(path, problem=problem, fix="give the name of a file")
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with temporary.open("r+b") as file:
            # a rename may else reach the disk ahead of the content
            os.fsync(file.fileno())
        temporary.replace(target)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            path,
            problem=f"cannot be written ({reason(error)})",
            fix="check free space and permissions",
        ) from error
    finally:
        # a file system that became read-only must not hide what went wrong
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


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
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> FileError:
    """Return error of a folder that refuses files."""
    problem = f"cannot be written to ({reason(error)})"
    return FileError(folder, problem=problem, fix="check the path, its permissions and free space")


def existing(path: PathLike) -> Path:
    """`path`, with ~ expanded, if it is a file.

    Raises:
        FileError: it is not.
    """
    file = expanded(path)
    # false, without an error, for names that no file can have
    if os.path.isfile(file):
        return file
    problem = "no such file"
    if os.path.isdir(file):
        problem = "is a folder"
    raise FileError(path, problem=problem, fix="check the path")


LONGEST = 200
"""Characters of the message of another library, at most."""


def reason(error: BaseException) -> str:
    """Message of an exception of another library, on one line of `LONGEST` characters."""
    # errors of the system have their words without the path there
    text = one_line(getattr(error, "strerror", None) or str(error))
    if len(text) > LONGEST:
        return f"{text[: LONGEST - 3]}..."
    return text


def expanded(path: PathLike) -> Path:
    """Return path with `~` expanded; unchanged if there is no home folder."""
    return Path(os.path.expanduser(path))


WHOLE = "whole.tmp"
"""Folder of a save that is complete, and not yet in its place."""


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Temporary folder; the files written there become those of `folder`, which is made, when the
    block ends.

    Until then files of an earlier save stay, and of a block that raises nothing stays. Where the
    process is killed while files are moved, `settle` moves the others.

    Raises:
        FileError: the folder cannot be made or written to.
    """
    make_folder(folder)
    settle(folder)
    staged = folder / f"{secrets.token_hex(4)}.tmp"
    staged.mkdir()
    try:
        yield staged
        # one step makes the save complete
        staged.replace(folder / WHOLE)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    settle(folder)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Folder of the system for what is needed for a moment, removed when the block ends.

    Raises:
        FileError: the system refuses to write there (disk full, ...).
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        problem = f"cannot hold temporary files ({reason(error)})"
        fix = "free space there, or set TMPDIR to a folder with some"
        raise FileError(tempfile.gettempdir(), problem=problem, fix=fix) from error


def settle(folder: Path) -> None:
    """Move the files of a complete save into their places, and remove those that the lists of an
    earlier one name and its own do not.
    """
    whole = folder / WHOLE
    if not whole.is_dir():
        return
    try:
        # lists last: until they are moved, they tell which files of the earlier save to remove
        written = sorted(_nested_files(whole), key=lambda name: name.endswith(".json"))
        listed = _listed(whole)
        if listed:
            for name in _listed(folder) - listed - set(written):
                (folder / name).unlink(missing_ok=True)
        for name in written:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (whole / name).replace(folder / name)
        shutil.rmtree(whole)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _nested_files(folder: Path) -> list[str]:
    """Return names of all files in a folder, from there, in order."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return [file.relative_to(folder).as_posix() for file in files]


def _listed(folder: Path) -> set[str]:
    """Return names that lists in a folder have, as far as these can be read."""
    names: set[str] = set()
    for file in folder.glob("*.json"):
        with contextlib.suppress(FileError):
            names |= set(_facts(file)["files"])
    return names


def write_list(file: Path, facts: "Header") -> None:
    """Write facts about the files in the folder of a list, and below it, with the checksums that tell a
    folder with files of two saves from one of a single save, and with a checksum of all this.

    Raises:
        InputError: facts with control characters.
    """
    names = [name for name in _nested_files(file.parent) if name != file.name]
    checksums = {name: _checksum(file.parent / name) for name in names}
    content = plain("model", facts | {"files": checksums})
    fault = _text_fault(content)
    if fault:
        raise InputError("model", expected="plain text", got=fault, fix="mend it before saving")
    content["sha256"] = _sha256(content, {})
    with atomic(file) as temporary:
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")


def read_list(file: Path) -> "Header":
    """Return facts that `write_list` wrote, of a folder whose files are those of one save.

    Raises:
        FileError: no list, one that has changed, or files that are missing, changed, or of another
            save.
    """
    settle(file.parent)
    facts = _facts(file)
    for name, checksum in facts["files"].items():
        listed = file.parent / name
        if not listed.is_file() or _checksum(listed) != checksum:
            raise FileError(
                file.parent,
                problem=f"holds files that do not belong together ({name} is not that of its save)",
                fix="save it again, or restore the folder from a copy",
            )
    return facts


def _facts(file: Path) -> Kwargs:
    """Content of a list, without its own checksum.

    Raises:
        FileError: no list, one that has changed, or one with names of other folders or control
            characters.
    """
    again = "save it again, or restore the folder from a copy"
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        changed = facts.pop("sha256") != _sha256(facts, {})
        names = list(facts["files"].keys())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = f"is no list of checksums ({reason(error)})"
        raise FileError(file, problem=problem, fix=again) from error
    if changed:
        problem = "has changed since romkit wrote it (checksum)"
        raise FileError(file, problem=problem, fix=again)
    fault = _text_fault(facts)
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in names):
        fault = "names of files in other folders"
    if fault:
        fix = "do not trust it; save it again from its source"
        raise FileError(file, problem=f"holds {fault}", fix=fix)
    return facts


def _checksum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


FORMAT = 2
"""Version of the header; a reader refuses every other."""

Header = dict[str, object]


def plain(what: str, header: Header) -> Header:
    """Return the header as it is read back: lists for tuples, nothing but JSON.

    Raises:
        InputError: an entry of the object called `what` is something else.
    """
    for key, value in header.items():
        try:
            header = header | {key: json.loads(json.dumps(value))}
        except (TypeError, ValueError, RecursionError) as error:
            argument = f"{what}.{key}"
            fix = "convert tensors and arrays by .tolist()"
            refusal = InputError(argument, expected="plain values", got=reason(error), fix=fix)
            raise refusal from error
    return header


def write(path: PathLike, what: str, header: Header, tensors: Tensors) -> Path:
    """Write header and tensors to one file, all of it or nothing; an earlier one is replaced once
    it is complete.

    Args:
        path: the file.
        what: name of the object, for errors.
        header: JSON.
        tensors: on any device, finite.

    Raises:
        InputError: content that `read` would refuse.
        FileError: the file cannot be written.
    """
    origin = {"format": FORMAT, "romkit": VERSION}
    header = origin | plain(what, header)
    # contiguous tensors on the CPU, each in memory of its own
    content = {}
    places = set()
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        place = value.untyped_storage().data_ptr()
        # The format stores memory, not tensors: it refuses two tensors that share some.
        content[name] = value.clone() if place in places else value
        places.add(place)
    fault = _fault(header, content)
    if fault:
        raise InputError(
            what, expected="finite numbers and plain text", got=fault, fix="mend it before saving"
        )
    header["sha256"] = _sha256(header, content)
    data = safetensors.torch.save(content, {"romkit": json.dumps(header)})
    with atomic(path) as temporary:
        temporary.write_bytes(data)
    return expanded(path)


def read(file: Path) -> tuple[Header, Tensors]:
    """Header and tensors, verified: as they were written, finite, real, and without control
    characters in any text.

    Raises:
        FileError: not safetensors, truncated, altered, of another format, or with content that
            `write` refuses.
    """
    try:
        with safetensors.safe_open(file, framework="pt") as stored:
            metadata = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118, not a dict
    except Exception as error:  # safetensors and torch raise many kinds on a damaged header
        raise FileError(
            file,
            problem=f"is not a complete safetensors file ({reason(error)})",
            fix="restore it from a copy, or save it again",
        ) from error
    try:
        header = json.loads(metadata["romkit"])
        changed = header.pop("sha256") != _sha256(header, tensors)
        fault = _fault(header, tensors)
    except (KeyError, ValueError, AttributeError, TypeError, RuntimeError) as error:
        raise FileError(
            file,
            problem="has no romkit header, or a damaged one",
            fix="give a file by romkit.save, restored from a copy if this is one",
        ) from error
    if header.get("format") != FORMAT:
        raise FileError(
            file,
            problem=f"is of format {header.get('format')!r:.20}, this romkit reads {FORMAT}",
            fix="update romkit, or restore the file from a copy",
        )
    if changed:
        raise FileError(
            file,
            problem="has changed since romkit wrote it (checksum)",
            fix="restore it from a copy, or save it again",
        )
    if fault:
        raise FileError(
            file, problem=f"holds {fault}", fix="do not trust it; save it again from its source"
        )
    return header, tensors


def _fault(header: Header, tensors: Tensors) -> str:
    """Return description of content that must not be used; empty if there is none."""
    fault = _text_fault([header, list(tensors)])
    if fault:
        return fault
    for name, tensor in tensors.items():
        if tensor.is_complex():
            return f"a tensor {name} of {tensor.dtype}"
        if not bool(tensor.isfinite().all()):
            return f"NaN or infinity in {name}"
    return ""


def _text_fault(value: object) -> str:
    """Return description of text that a terminal would obey, in plain values; empty if there is
    none.
    """
    for text in _texts(value):
        if _has_control_characters(text):
            return f"control characters in {text!a:.40}"
    return ""


def _has_control_characters(text: str) -> bool:
    """Tell whether a terminal would obey the text: that in files of others ends up on terminals."""
    return any(unicodedata.category(c) == "Cc" for c in text if c not in "\n\t")


def _texts(value: object) -> Iterator[str]:
    """Every string in plain values, also the keys."""
    if isinstance(value, str):
        yield value
    if isinstance(value, dict):
        yield from _texts([*value, *value.values()])
    if isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


def _sha256(header: Header, tensors: Tensors) -> str:
    digest = hashlib.sha256(json.dumps(header).encode())
    for name, tensor in sorted(tensors.items()):
        kind = f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n"
        digest.update(kind.encode())
        # a tensor without numbers may have any strides
        if tensor.numel():
            numbers = tensor.contiguous().reshape(-1)
            digest.update(numbers.view(torch.uint8).numpy().data)
    return digest.hexdigest()
