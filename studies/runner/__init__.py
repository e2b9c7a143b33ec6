"""Sweeps of tasks that survive failures and interruptions; shared by all studies.

A task is a frozen dataclass that computes one dataset:

    @dataclass(frozen=True)
    class Train(Task):
        code_version: ClassVar[int] = 3
        system: str
        method: str
        seeds: tuple[int, ...]

        @property
        def name(self) -> str:
            return f"{self.system}-{self.method}"

        def run(self) -> xr.Dataset: ...

`run(tasks, folder, executor)` computes what is not yet complete in the folder, one netCDF file per task. Killed at any
moment and started again, it has lost the running tasks at most; started twice at once, one waits for what the other
computes. A task whose fields are names of settings (a preset, a method) says in `resolved` what they stand for.

`archive.py` merges the files of a folder into one, `<folder>.nc`, for the repository; `run` skips what is in it, and
`archive.read` gives the results of both. `python -m studies.runner --help` has the commands.

A study is on the command line (`romkit study NAME --preset P`) when the package `studies.NAME` has

    PRESETS                                       names of its presets: a mapping or sequence of text
    plan(preset)                                  -> list[Task]; for renewing the keys of its archive
    main(preset, executor, folder, only)          -> Sweep

    preset: str            one of PRESETS
    executor: Executor     pass it on to `run`; the caller closes it
    folder: Path           exists; `run` gets its subfolder of the preset's name, reports go into the folder itself
    only: str              pass it on to `run`: tasks whose name contains it; "" for all

`main` returns what `run` returned. It prints what it wrote; failures are printed, and become exit code 1, by the
command. These names must cost nothing to import: `studies/NAME/__init__.py` imports the heavy part inside functions.
"""

from collections.abc import Iterable
from pathlib import Path

from romkit import tasks
from romkit.tasks import Executor, InProcess, Sweep, Task, Workers
from studies.runner.archive import archived_keys
from studies.runner.slurm import Slurm

EXECUTORS = {"process": InProcess, "workers": Workers, "slurm": Slurm}
"""By the names of the command line; each is made with a number of workers, or without."""

__all__ = ["EXECUTORS", "Executor", "InProcess", "Slurm", "Sweep", "Task", "Workers", "run"]


def run(planned: Iterable[Task], folder: Path, executor: Executor, *, only: str = "") -> Sweep:
    """`romkit.tasks.run` of what is complete neither in the folder nor in its archive.

    Raises:
        InputError: as there.
        FileError: the archive is damaged.
    """
    folder = Path(folder).expanduser().absolute()
    return tasks.run(planned, folder, executor, only=only, known=archived_keys(folder))
