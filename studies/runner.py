"""Studies on the command line: their tasks, their results, and the archives that the repository
keeps.

`romkit study NAME --preset P` runs the package `studies.NAME` if it has three files:

    presets.toml    a table for each preset
    tasks.py        tasks(preset) -> list[Task]
    report.py       write(folder, preset) -> Path of the page, made from the results in `folder` and their archives

Tasks are those of `romkit.tasks`: killed at any moment and started again, a study has lost the
running tasks at most; started twice at once, one run waits for what the other computes. A task
whose fields are names of settings (a preset, a method) says in `resolved` what they stand for. A
task gives a dataset, or plain numbers (`Numbers`).

The archive of the folder `results/quick` is the file `results/quick.nc` with a group for each task,
or for numbers `results/quick.json`: a run in the folder skips what its archive has, and reports are
made from both. `python -m studies --help` has the commands.
"""

import contextlib
import importlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import romkit.tasks
import studies
from romkit.core.errors import FileError, InputError
from romkit.core.files import atomic, reason
from romkit.core.parallel import Pool
from romkit.data import open_dataset
from romkit.tasks import Executor, Sweep, Task
from studies.report import save_png, write_text

EXECUTORS = {"process": "debug", "workers": "local", "slurm": "slurm"}
"""Clusters of `romkit.tasks.Executor` by their names on the command line."""
Settings = tuple[tuple[str, object], ...]
"""Names and values in a form that can be hashed: `dict(settings)` gives keyword arguments."""

TITLE = "Results of a study of romkit, a group for each task; its attribute record has host, commit and seconds."
RENEWED = (
    "Keys were renewed by `python -m studies rekey` after the results were computed, because what enters a key "
    "or how settings are written had changed. The attribute computed_as of a group has what it was computed under."
)
_OF_NETCDF = {
    "CLASS",
    "NAME",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
}
"""Attributes by which netCDF keeps dimensions in HDF5."""


@dataclass(frozen=True)
class Study:
    """A study by the name of its package."""

    name: str

    @property
    def presets(self) -> dict[str, dict]:
        """Tables of `presets.toml`."""
        module = importlib.import_module(f"studies.{self.name}")
        return tomllib.loads(
            Path(module.__file__).with_name("presets.toml").read_text(encoding="utf-8")
        )

    def tasks(self, preset: str) -> list[Task]:
        """Tasks of a preset, the most valuable first."""
        return importlib.import_module(f"studies.{self.name}.tasks").tasks(preset)

    def run(
        self, preset: str, folder: Path, executor: Executor | Pool | None = None, *, only: str = ""
    ) -> Sweep:
        """Run the tasks of a preset that are complete neither in `folder/preset` nor in its
        archive; write the report.

        Args:
            preset: one of `presets`.
            folder: of the report, with one of results for each preset.
            executor: where the tasks run, in this process by default; any that `romkit.tasks.run`
                takes.
            only: tasks whose name contains this text.
        """
        results, planned = Path(folder).expanduser().absolute() / preset, self.tasks(preset)
        known, stored = archived_keys(results), _stored(_archive_of(results, ".json"))
        known |= {
            task.name: task.key for task in planned if getattr(task, "title", "") in stored
        }  # has no keys
        sweep = romkit.tasks.run(planned, results, executor, only=only, known=known)
        print(
            f"report: {importlib.import_module(f'studies.{self.name}.report').write(results.parent, preset)}"
        )
        return sweep

    def write_page(
        self,
        folder: Path,
        preset: str,
        page: Callable[[dict[str, dict]], str],
        target: str,
        draw: Callable[[dict[str, dict]], Mapping[str, Figure]] = lambda found: {},
    ) -> Path:
        """Write a page and pictures about the numbers of a preset when all are there; else return
        their folder.
        """
        found = numbers(folder / preset)
        if not {task.title for task in self.tasks(preset)} <= found.keys():
            return folder / preset
        for name, figure in draw(found).items():
            save_png(figure, folder / name)
        return write_text(folder / target, page(found))


@dataclass(frozen=True)
class Numbers(Task):
    """Numbers that a function computes, as JSON in the attribute `numbers` of the result.

    Attributes:
        title: of the numbers, their key in the archive.
        function: "module:name".
        settings: arguments of the function.
    """

    title: str
    function: str
    settings: Settings = ()

    @classmethod
    def of(
        cls, title: str, function: Callable[..., dict[str, object]], **settings: object
    ) -> "Numbers":
        """Task that calls a function of a module with these arguments."""
        return cls(title, f"{function.__module__}:{function.__name__}", frozen(settings))

    @property
    def name(self) -> str:
        return re.sub(r"[^\w.]+", "-", self.title)

    def run(self) -> xr.Dataset:
        module, _, name = self.function.partition(":")
        found = getattr(importlib.import_module(module), name)(**dict(self.settings))
        return xr.Dataset(attrs={"title": self.title, "numbers": json.dumps(found, default=float)})


def discover() -> dict[str, Study]:
    """Studies of this checkout that have presets, by name."""
    found = sorted(
        file.parent.name for path in studies.__path__ for file in Path(path).glob("*/presets.toml")
    )
    return {name: Study(name) for name in found}


def frozen(value: object) -> object:
    """Return tables of TOML as `Settings` and lists as tuples, within one another too."""
    if isinstance(value, Mapping):
        return tuple((name, frozen(item)) for name, item in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def read(folder: Path) -> list[xr.Dataset]:
    """Return results of a sweep in the order of their names: those in its folder, and the others
    from its archive.

    Each has the attributes `task` and, as JSON, `record`.

    Raises:
        FileError: a damaged file.
    """
    found = _archived(_archive_of(folder))[0] | _loose(folder)
    return [found[name] for name in sorted(found)]


def numbers(folder: Path) -> dict[str, dict[str, object]]:
    """Return the numbers of a sweep by title, with device, versions and sources (commit, digest):
    those of its archive, and those in its folder.
    """
    found = _stored(_archive_of(folder, ".json"))
    for data in _loose(folder).values():
        made_by = {"device": data.attrs["device"], "versions": json.loads(data.attrs["versions"])}
        made_by["sources"] = json.loads(data.attrs.get("sources", "{}"))
        found[data.attrs["title"]] = json.loads(data.attrs["numbers"]) | made_by
    return found


def archived_keys(folder: Path) -> dict[str, str]:
    """Return keys of the results in the archive of a folder, by task.

    Raises:
        FileError: the archive is damaged.
    """
    archive = _archive_of(folder)
    if not archive.exists():
        return {}
    with _opened(archive) as file:
        return {name: group.attrs["key"] for name, group in file.items()}


def merge(folder: Path, archive: Path) -> list[str]:
    """Put the results of a folder into an archive, in place of those of the same tasks; the folder
    stays.

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
    if archive.suffix == ".json":
        write_text(archive, json.dumps(_stored(archive) | numbers(folder), indent=1) + "\n")
    else:
        found, attrs = _archived(archive)
        _write(found | new, archive, attrs or {"title": TITLE})
    return list(new)


def rekey(archive: Path, planned: Iterable[Task], *, vouch: bool = False) -> list[str]:
    """Give the results in an archive the keys that their tasks have now, and note that in the
    archive.

    For when what enters a key has changed and the results have not: only results of the same
    fields, resolved settings and version of the code are taken. Where these are merely written
    differently, somebody has to `vouch` for it.

    Returns:
        The names of the results whose key has changed.

    Raises:
        InputError: results of other settings or no task, and nobody vouches; or no present task of
            that name.
        FileError: a damaged archive, or one that cannot be written.
    """
    present, (found, attrs) = {task.name: task.identity for task in planned}, _archived(archive)
    others = [name for name in found if name not in present]
    changed = [
        name
        for name, data in found.items()
        if name in present and data.attrs["key"] != present[name]["key"]
    ]
    settings = ("config", "resolved", "code_version")
    differ = [
        n
        for n in changed
        if any(found[n].attrs.get(k, present[n][k]) != present[n][k] for k in settings)
    ]
    for refused, expected in (
        (others, "tasks of this preset"),
        ([] if vouch else differ, "the present settings"),
    ):
        if refused:
            got = f"{len(refused)} others, the first of which is {refused[0]}"
            fix = "compute them again, or see --vouch in python -m studies rekey --help"
            raise InputError(str(archive), expected=f"results of {expected}", got=got, fix=fix)
    for name in changed:
        own = found[name].attrs
        before = json.dumps({key: own[key] for key in ("key", *settings) if key in own})
        own |= {"computed_as": own.get("computed_as", before)} | present[name]
    if changed:
        _write(found, archive, attrs | {"keys": RENEWED})
    return changed


def _archive_of(folder: Path, suffix: str = ".nc") -> Path:
    return folder.with_name(f"{folder.name}{suffix}")


def _stored(archive: Path) -> dict[str, dict[str, object]]:
    """Return numbers of an archive by title; nothing if there is none."""
    return json.loads(archive.read_text(encoding="utf-8")) if archive.exists() else {}


def _loose(folder: Path) -> dict[str, xr.Dataset]:
    """Return results that have a file each."""
    found = {}
    for file in sorted(folder.glob("*.nc")):
        found[file.stem], record = open_dataset(file), file.with_suffix(".json")
        if record.exists():
            found[file.stem].attrs["record"] = json.dumps(json.loads(record.read_text()))
    return found


def _write(datasets: Mapping[str, xr.Dataset], archive: Path, attrs: Mapping[str, str]) -> None:
    """Write the groups of an archive, neither chunked nor compressed: git packs what two versions
    share.
    """
    whole = {name: datasets[name].drop_encoding() for name in sorted(datasets)}
    encoding = {
        f"/{name}": {key: {"_FillValue": None} for key in data.variables}
        for name, data in whole.items()
    }
    with atomic(archive) as temporary:
        tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs), **whole})
        tree.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)


def _archived(archive: Path) -> tuple[dict[str, xr.Dataset], dict[str, str]]:
    """Return datasets of an archive, and its own attributes; nothing if there is none."""
    if not archive.exists():
        return {}, {}
    with _opened(archive) as file:
        own = {
            key: value
            for key, value in file.attrs.items()
            if isinstance(value, str) and not key.startswith("_")
        }
        return {name: _dataset(group) for name, group in file.items()}, own


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[h5py.File]:
    try:
        with h5py.File(archive) as file:
            yield file
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        problem = f"cannot be read as an archive ({reason(error)})"
        raise FileError(archive, problem=problem, fix="restore it from the repository") from error


def _dataset(group: h5py.Group) -> xr.Dataset:
    """Group as a dataset. (xarray takes minutes for it: it asks the whole file for each dimension's
    name.)
    """
    names = {item.attrs["_Netcdf4Dimid"]: name for name, item in group.items() if item.is_scale}
    variables = {}
    for name, item in group.items():
        if not item.attrs.get("NAME", b"").startswith(
            b"This is a netCDF dimension but not a netCDF variable"
        ):
            text = h5py.check_string_dtype(item.dtype)
            values = np.asarray(item.asstr()[()], dtype=str) if text else np.asarray(item[()])
            variables[name] = (
                [names[key] for key in item.attrs.get("_Netcdf4Coordinates", ())],
                values,
                _attrs(item),
            )
    return xr.decode_cf(xr.Dataset(variables, attrs=_attrs(group)), decode_times=False)


def _attrs(item: h5py.Group | h5py.Dataset) -> dict[str, object]:
    """Attributes of the user in plain Python types; HDF5 keeps a number as a list of one."""
    found = {key: value for key, value in item.attrs.items() if key not in _OF_NETCDF}
    plain = {
        k: v.tolist() if isinstance(v, np.ndarray | np.generic) else v for k, v in found.items()
    }
    return {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in plain.items()}
