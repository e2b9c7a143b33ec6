"""Results of many tasks in one file, for the repository; see `studies.runner.__main__` for the commands.

The archive of the folder `results/quick` is the file `results/quick.nc`: a group for each task, sealed as a whole. A
sweep in the folder skips what the archive has, and reports are made from both.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import xarray as xr

from romkit.core.errors import InputError
from romkit.data import open_dataset
from romkit.tasks.base import Task
from studies.runner.groups import file_attributes, group_attribute, open_datasets, save_datasets

TITLE = "Results of a study of romkit, a group for each task; its attribute record has host, commit and seconds."
RENEWED = (
    "Keys were renewed by `python -m studies.runner rekey` after the results were computed, because what enters a key "
    "or how settings are written had changed. The attribute computed_as of a group has what it was computed under."
)
_IDENTITY = ("key", "config", "resolved", "code_version")


def read(folder: Path) -> list[xr.Dataset]:
    """All results of a sweep, in the order of their names: those in its folder, and the others from its archive.

    Each has the attributes `task` and, as JSON, `record`.

    Raises:
        FileError: a damaged file.
    """
    archive = archive_of(folder)
    found = open_datasets(archive) if archive.exists() else {}
    found |= _loose(folder)
    return [found[name] for name in sorted(found)]


def archived_keys(folder: Path) -> dict[str, str]:
    """The keys of the results in the archive of a folder, by task.

    Raises:
        FileError: the archive is damaged.
    """
    archive = archive_of(folder)
    return group_attribute(archive, "key") if archive.exists() else {}


def archive_of(folder: Path) -> Path:
    """Where the archive of a folder is."""
    return folder.with_name(f"{folder.name}.nc")


def merge(folder: Path, archive: Path) -> list[str]:
    """Put the results of a folder into an archive, in place of those of the same tasks; the folder stays.

    Returns:
        The names of the tasks.

    Raises:
        InputError: the folder has no results.
        FileError: a damaged file, or an archive that cannot be written.
    """
    new = _loose(folder)
    if not new:
        fix = "give the folder of a preset, for example runs/paper/quick"
        raise InputError("folder", expected="a folder with results", got=str(folder), fix=fix)
    there = archive.exists()
    found = (open_datasets(archive) if there else {}) | new
    attrs = file_attributes(archive) if there else {"title": TITLE}
    save_datasets({name: found[name] for name in sorted(found)}, archive, **attrs)
    return list(new)


def rekey(archive: Path, tasks: Iterable[Task], *, vouch: bool = False) -> list[str]:
    """Give the results in an archive the keys that their tasks have now, and note that in the archive.

    For when what enters a key has changed and the results have not: only results of the same fields, resolved settings
    and version of the code are taken. Where these are merely written differently, somebody has to `vouch` for it.

    Returns:
        The names of the results whose key has changed.

    Raises:
        InputError: results of other settings or no task, and nobody vouches; or no present task of that name.
        FileError: a damaged archive, or one that cannot be written.
    """
    present, found = {task.name: task for task in tasks}, open_datasets(archive)
    _refuse(archive, "tasks of this preset", [name for name in found if name not in present])
    if not vouch:
        _refuse(archive, "the present settings", [n for n, data in found.items() if not _same(data, present[n])])
    changed = [name for name, data in found.items() if data.attrs["key"] != present[name].key]
    for name in changed:
        attrs = found[name].attrs
        before = json.dumps({key: attrs[key] for key in _IDENTITY if key in attrs})
        attrs |= {"computed_as": attrs.get("computed_as", before)} | present[name].identity
    if changed:
        save_datasets(found, archive, **file_attributes(archive) | {"keys": RENEWED})
    return changed


def _same(data: xr.Dataset, task: Task) -> bool:
    """Whether the identity of a result, as far as it has one, is that of the task, but for the key."""
    there = ("config", "resolved", "code_version")
    return all(data.attrs.get(name, task.identity[name]) == task.identity[name] for name in there)


def _refuse(archive: Path, expected: str, names: list[str]) -> None:
    if names:
        got = f"{len(names)} others, the first of which is {names[0]}"
        fix = "compute them again, or see --vouch in python -m studies.runner rekey --help"
        raise InputError(str(archive), expected=f"results of {expected}", got=got, fix=fix)


def _loose(folder: Path) -> dict[str, xr.Dataset]:
    """The results that have a file each."""
    return {file.stem: _with_record(file) for file in sorted(folder.glob("*.nc"))}


def _with_record(file: Path) -> xr.Dataset:
    data, record = open_dataset(file), file.with_suffix(".json")
    return data.assign_attrs(record=json.dumps(json.loads(record.read_text()))) if record.exists() else data
