"""Sweeps of tasks that survive failures and interruptions; `romkit.compare` and all studies run by them.

A task is a frozen dataclass that computes one dataset; `run(tasks, folder, Executor("local", 4))` computes what is not
yet complete in the folder, one netCDF file per task: in this process, in processes of this machine, or as Slurm jobs.
"""

import functools
import warnings

from romkit.tasks.base import Task
from romkit.tasks.sweep import Executor, Sweep, run

__all__ = ["Executor", "Sweep", "Task", "run"]

_FORMER = {"InProcess": "debug", "Workers": "local"}


def __getattr__(name: str) -> object:
    if name not in _FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name} is Executor({_FORMER[name]!r}) now", DeprecationWarning, stacklevel=2)
    return functools.partial(Executor, _FORMER[name])
