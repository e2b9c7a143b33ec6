"""Every number of Adriaens et al. (2026), reproduced by one command and judged: `romkit study paper`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from studies.runner import Executor, Sweep, Task

PRESETS = ("smoke", "quick", "paper")


def plan(preset: str) -> "list[Task]":
    """The tasks of a preset, one of PRESETS."""
    from studies.paper.config import CONFIGS
    from studies.paper.tasks import tasks

    return tasks(CONFIGS[preset])


def main(preset: str, executor: "Executor", folder: "Path", only: str = "") -> "Sweep":
    """Run the tasks of a preset and write the report on what is there.

    Args:
        preset: one of PRESETS.
        executor: where the tasks run.
        folder: results go to its subfolder of the preset's name, the report into the folder itself.
        only: tasks whose name contains this text.
    """
    from studies.paper.config import CONFIGS
    from studies.paper.report import write
    from studies.runner import run

    sweep = run(plan(preset), folder / preset, executor, only=only)
    print(f"report: {write(CONFIGS[preset], folder)}")
    return sweep
