"""Tasks, their identity, and how a result becomes a file."""

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
from filelock import FileLock

from romkit.core import runtime
from romkit.core.errors import FileError, InputError
from romkit.core.files import atomic
from romkit.data import open_dataset, save_dataset
from romkit.engine.threads import one_thread

HIDDEN = ".running"
"""Subfolder of the results for locks and for the logs of running jobs."""

_versions = functools.cache(runtime.versions)


@dataclass(frozen=True)
class Task(ABC):
    """One unit of work: a frozen dataclass whose fields are plain JSON and decide the result alone.

    Attributes:
        code_version: version of the study's code; raise it when results change their meaning, and all are computed
            again.
    """

    code_version: ClassVar[int] = 1

    @property
    @abstractmethod
    def name(self) -> str:
        """Readable name, unique in the sweep; the result is `<name>.nc`."""

    @abstractmethod
    def run(self) -> xr.Dataset:
        """Compute the result. NaN from a divergence is a result; an exception is a failure."""

    @property
    def resolved(self) -> Mapping[str, object]:
        """Plain JSON that names among the fields stand for: the settings of a preset, the sizes of a network.

        These settings enter the key, so that a preset that changes makes its results incomplete.
        """
        return {}

    @property
    def key(self) -> str:
        """SHA-256 of the class, the fields, what they stand for, and the versions of the study and of romkit."""
        return self.identity["key"]

    @property
    def identity(self) -> dict[str, str | int]:
        """Attributes of the result's file by which it is recognised as that of this very task.

        Raises:
            InputError: a field or a resolved setting that JSON cannot hold.
        """
        try:
            config, resolved = (json.dumps(facts, sort_keys=True) for facts in (asdict(self), dict(self.resolved)))
        except TypeError as error:
            expected, fix = "fields of plain JSON", "make it text, numbers, tuples or dicts"
            raise InputError(type(self).__name__, expected=expected, got=str(error), fix=fix) from error
        facts = [type(self).__qualname__, config, resolved, self.code_version, _versions()["romkit"]]
        key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return {
            "task": self.name,
            "key": key,
            "config": config,
            "resolved": resolved,
            "code_version": self.code_version,
        }


def result_file(task: Task, folder: Path) -> Path:
    """Path of a task's result.

    Raises:
        InputError: the name of the task cannot be that of a file.
    """
    if not re.fullmatch(r"[\w+=,-][\w.+=,-]{0,199}", task.name):
        expected, fix = "letters, digits and any of . _ + = , -", "choose a readable name that is also a file name"
        raise InputError("task.name", expected=expected, got=repr(task.name), fix=fix)
    return folder / f"{task.name}.nc"


def is_complete(task: Task, file: Path) -> bool:
    """Whether the result exists, is undamaged, and is of this very task."""
    try:
        return open_dataset(file).attrs.get("key") == task.key
    except FileError:
        return False


def attempt(task: Task, file: Path) -> str | None:
    """Compute a task on one thread and write its result; every executor calls this function, in whatever process.

    A result that another process is computing is awaited, and not made again. The file holds what determines the
    result, so that every executor writes the same bytes: configuration, versions and device. A record beside it,
    `<name>.json`, holds the circumstances: host, commit, seconds.

    Returns:
        None, or the traceback if the task failed. (Not every exception survives the way out of a process.)
    """
    try:
        with FileLock(hidden_folder(file) / f"{file.stem}.lock"):
            if is_complete(task, file):
                return None
            record = file.with_suffix(".json")
            for part in (file, record):  # a killed process leaves these; a living one would hold the lock
                for leftover in file.parent.glob(f"{part.name}.????????.tmp"):
                    leftover.unlink(missing_ok=True)
            started, wall, cpu = time.time(), time.perf_counter(), time.process_time()
            with one_thread(), threadpoolctl.threadpool_limits(1):
                data = task.run()
            facts = {
                "task": task.name,
                "key": task.key,
                "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
                "wall_seconds": round(time.perf_counter() - wall, 3),
                "cpu_seconds": round(time.process_time() - cpu, 3),
                "host": platform.node(),
                "commit": _commit(),
            }
            with atomic(record) as temporary:
                temporary.write_text(json.dumps(facts, indent=1) + "\n")
            device = runtime.device_name("cuda" if torch.cuda.is_available() else "cpu")
            made_by = {"versions": json.dumps(_versions()), "device": device}
            save_dataset(data.assign_attrs(task.identity | made_by), file)
    except (Exception, SystemExit):
        return traceback.format_exc()
    return None


def hidden_folder(file: Path) -> Path:
    """Folder beside a result for its lock and its logs; it is made."""
    folder = file.parent / HIDDEN
    folder.mkdir(exist_ok=True)
    return folder


@functools.cache
def _commit() -> str:
    """Git commit of this checkout, with `-dirty` where files differ from it; empty without git."""
    git = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        folder = Path(__file__).parents[1]
        return subprocess.run(git, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    return ""
