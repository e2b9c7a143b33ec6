"""Files that commands write: their names, and refusals before anything long is computed."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from romkit.cli import output
from romkit.cli.inputs import matching_files
from romkit.core.errors import FileError, InputError

RESULTS = ("comparison", "data", "forecast", "law", "projection", "rollout")
"""File names that commands give their results, in folders that are named after the source."""


def result_name(source: str) -> str:
    """Return name of a result: that of its file, or of the folder of a file that is called like
    others.
    """
    file = Path(source)
    if file.stem in RESULTS and file.parent.name:
        return file.parent.name
    return file.stem


def target(out: Path | None, run: str, name: str, force: bool) -> Path:
    """Return main file of a run: --out itself if it is a file name, else `name` in the folder
    --out, or in runs/`run`.

    Raises:
        FileError: there is such a file and it must not be replaced, or nothing can be written
            there.
    """
    folder = Path("runs") / run if out is None else out
    # F-3.15 is a folder: a number behind a dot is no ending
    file = folder / name
    if out is not None and out.suffix and not out.suffix[1:].isdigit():
        file = out
    if os.path.isfile(file) and not force:
        raise FileError(
            file,
            problem="is there, from an earlier run",
            fix="choose another --out, or add --force",
        )
    return writable(file)


def result_targets(sources: Sequence[str], out: Path | None, pattern: str) -> dict[str, Path]:
    """Return the file to write for each of several files: `out` for a single one, else named after
    it.

    Raises:
        InputError: one name for several files.
    """
    names = matching_files(sources)
    if out is not None:
        if len(names) > 1:
            raise InputError(
                "--out",
                expected="none beside several files",
                got=out,
                fix="leave it out: pictures and pages are named after their files",
            )
        return {names[0]: writable(out)}
    targets = {name: writable(Path(pattern.format(result_name(name)))) for name in names}
    if len(set(targets.values())) < len(targets):
        raise InputError(
            "FILE",
            expected="files with names of their own",
            got="two alike",
            fix="write them one by one, with --out",
        )
    return targets


def writable(path: Path) -> Path:
    """`path`, if its folder takes files: checked before a long computation; a folder that was not
    there is not kept.
    """
    from romkit.core.files import make_folder

    missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    make_folder(path.parent)
    with contextlib.suppress(OSError):  # somebody else may have put something there
        for folder in missing:
            folder.rmdir()
    if path.is_dir():
        raise FileError(path, problem="is a folder", fix="add a file name")
    return path


def write(save: Callable[[Any, Path], Path], result: object, path: Path, label: str = "") -> None:
    """Save a result and print where. If that fails it is saved elsewhere: the result may have taken
    hours.

    Raises:
        FileError: the file cannot be written; the message says where the result is instead.
    """
    from romkit.core.files import make_folder

    try:
        # `writable` left no folder behind, so that a command that fails leaves none
        make_folder(path.parent)
        output.wrote(save(result, path), label)
    except FileError as error:
        spare = Path(tempfile.mkdtemp(prefix="romkit-kept-")) / path.name
        raise FileError(
            path, problem=error.problem, fix=f"it is kept in {save(result, spare)}"
        ) from error
