"""Sweeps of tasks that survive failures and interruptions; `romkit.compare` and all studies run by them.

A task is a frozen dataclass that computes one dataset; `run(tasks, folder, executor)` computes what is not yet complete
in the folder, one netCDF file per task, here or in processes of this machine.
"""

from romkit.tasks.base import Task
from romkit.tasks.executors import Executor, InProcess, Workers
from romkit.tasks.sweep import Sweep, run

__all__ = ["Executor", "InProcess", "Sweep", "Task", "Workers", "run"]
