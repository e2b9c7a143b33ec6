"""Whether an exact projection is as accurate as one that is not: `romkit study exactness`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from studies.runner import Executor, Sweep, Task

PRESETS = (
    "smoke", "equal", "half", "double", "paper", "bent", "long", "adam", "time", "cost", "robustness", "floor",
    "guarantees", "rollouts", "dynamics",
)  # fmt: skip


def plan(preset: str) -> "list[Task]":
    """The tasks of a preset, one of PRESETS."""
    from studies.exactness.config import tasks

    return tasks(preset)


def main(preset: str, executor: "Executor", folder: "Path", only: str = "") -> "Sweep":
    """Run the tasks of a preset and write the report on what is there.

    Args:
        preset: one of PRESETS.
        executor: where the tasks run.
        folder: results go to its subfolder of the preset's name, the report into the folder itself.
        only: tasks whose name contains this text.
    """
    from studies.exactness.report import write
    from studies.runner import run

    sweep = run(plan(preset), folder / preset, executor, only=only)
    print(f"report: {write(folder)}")
    return sweep
