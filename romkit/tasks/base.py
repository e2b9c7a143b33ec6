"""What a task is, and how its result becomes a file."""

import contextlib
import functools
import hashlib
import json
import platform
import re
import subprocess
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import threadpoolctl
import torch
import xarray as xr

from romkit.core import runtime
from romkit.core.errors import FileError, InputError
from romkit.core.files import atomic
from romkit.data import open_dataset, save_dataset
from romkit.engine.threads import one_thread
from romkit.tasks.lock import locked


@dataclass(frozen=True)
class Task(ABC):
    """One unit of work: a frozen dataclass whose fields are plain JSON and decide the result alone.

    Attributes:
        code_version: of the study's code; raise it when results change their meaning, and all are computed again.
    """

    code_version: ClassVar[int] = 1

    @property
    @abstractmethod
    def name(self) -> str:
        """Readable, unique in the sweep; the result is `<name>.nc`."""

    @abstractmethod
    def run(self) -> xr.Dataset:
        """Compute the result. NaN from a divergence is a result; an exception is a failure."""

    @property
    def resolved(self) -> Mapping[str, object]:
        """What names among the fields stand for, as plain JSON: the settings of a preset, the sizes of a network.

        It enters the key, so that a preset that changes makes its results incomplete.
        """
        return {}

    @property
    def config(self) -> str:
        """The fields as JSON.

        Raises:
            InputError: a field that JSON cannot hold.
        """
        return self._json("fields", asdict(self))

    @property
    def key(self) -> str:
        """SHA-256 of the class, the fields, what they stand for, and the versions of the study and of romkit."""
        facts = [type(self).__qualname__, self.config, self._resolved, self.code_version, _versions()["romkit"]]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def identity(self) -> dict[str, str | int]:
        """What makes a result that of this very task; these attributes are in its file."""
        return {
            "task": self.name,
            "key": self.key,
            "config": self.config,
            "resolved": self._resolved,
            "code_version": self.code_version,
        }

    @property
    def _resolved(self) -> str:
        return self._json("resolved settings", dict(self.resolved))

    def _json(self, what: str, facts: dict[str, object]) -> str:
        try:
            return json.dumps(facts, sort_keys=True)
        except TypeError as error:
            fix = "make it text, numbers, tuples or dicts"
            raise InputError(type(self).__name__, expected=f"{what} of plain JSON", got=str(error), fix=fix) from error


def result_file(task: Task, folder: Path) -> Path:
    """Where the result of a task is kept.

    Raises:
        InputError: the name of the task cannot be that of a file.
    """
    if not re.fullmatch(r"[\w.+=,-]{1,200}", task.name) or task.name.startswith("."):
        expected, fix = "letters, digits and any of . _ + = , -", "choose a readable name that is also a file name"
        raise InputError("task.name", expected=expected, got=repr(task.name), fix=fix)
    return folder / f"{task.name}.nc"


def is_complete(task: Task, file: Path) -> bool:
    """Whether the result is there, undamaged, and of this very task."""
    try:
        return open_dataset(file).attrs.get("key") == task.key
    except FileError:
        return False


def attempt(task: Task, file: Path) -> str | None:
    """Compute a task on one thread and write its result; every executor calls this, in whatever process.

    Where another process is at this result already, its end is awaited, and what it has completed is not made again.
    The file has what determines the result, so that it is the same from every executor, bit for bit: configuration,
    versions and device. A record beside it, `<name>.json`, has what happened on the way: host, commit, seconds.

    Returns:
        None, or the traceback if the task failed. (Not every exception survives the way out of a process.)
    """
    try:
        with locked(file):
            if not is_complete(task, file):
                _sweep_up(file)
                _compute(task, file)
    except (Exception, SystemExit):
        return traceback.format_exc()
    return None


def _compute(task: Task, file: Path) -> None:
    started = time.time(), time.perf_counter(), time.process_time()
    with one_thread(), threadpoolctl.threadpool_limits(1):
        data = task.run()
    seconds = time.perf_counter() - started[1], time.process_time() - started[2]
    _write_record(file.with_suffix(".json"), task, started[0], *seconds)
    save_dataset(data.assign_attrs(task.identity | _surroundings()), file)


def _sweep_up(file: Path) -> None:
    """Remove what a killed process left of this result while it was writing; who is alive holds the lock."""
    for part in (file, file.with_suffix(".json")):
        for leftover in file.parent.glob(f"{part.name}.????????.tmp"):
            leftover.unlink(missing_ok=True)


def _surroundings() -> dict[str, str]:
    device = runtime.device_name("cuda" if torch.cuda.is_available() else "cpu")
    return {"versions": json.dumps(_versions()), "device": device}


def _write_record(file: Path, task: Task, started: float, wall: float, cpu: float) -> None:
    record = {
        "task": task.name,
        "key": task.key,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "wall_seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 3),
        "host": platform.node(),
        "commit": _commit(),
    }
    with atomic(file) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n")


_versions = functools.cache(runtime.versions)


@functools.cache
def _commit() -> str:
    """The git commit of this checkout, with `-dirty` where files differ from it; empty where there is no git."""
    git = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        folder = Path(__file__).parents[1]
        return subprocess.run(git, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    return ""
