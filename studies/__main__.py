"""What `romkit study` runs, as a process of its own: `python -m studies`, from the folder of the checkout."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from romkit.cli.describe import table
from romkit.cli.main import OneLineErrors
from romkit.core import checks
from romkit.core.files import make_folder
from romkit.tasks import Executor
from studies.runner import EXECUTORS, discover

app = typer.Typer(cls=OneLineErrors, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def romkit() -> None:
    """So that `study` stays the name of a command, in its help and in errors."""


@app.command()
def study(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of a study; without it, they are listed.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="How large the study is; the list has those of each.")] = None,
    executor: Annotated[
        str, typer.Option(help="process (this one), workers (local processes, one thread each) or slurm.")
    ] = "process",
    workers: Annotated[
        int | None, typer.Option(help="Worker processes, one per core by default; or jobs in the queue, 100.")
    ] = None,
    only: Annotated[str, typer.Option(help="Run only tasks whose name contains this text.")] = "",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the report, with one of results for each preset; runs/NAME by default."),
    ] = None,
) -> None:
    """Reproduce a study: run its tasks, and write its report.

    \b
    Examples:
      romkit study                           the studies and their presets
      romkit study paper --preset quick --executor workers
      romkit study paper --preset quick --only lorenz96-ncae

    Complete tasks are skipped, so that the same command goes on after an interruption. A task that fails leaves its
    traceback in NAME.log, the rest goes on, and the exit code is 1. Partition, account, time, memory and GPUs of Slurm
    are sbatch's own environment variables: SBATCH_PARTITION=gpu SBATCH_GRES=gpu:1 romkit study ...
    """  # noqa: D301, typer keeps the lines after \b as they are
    found = discover()
    if name is None:
        print(table([(name, ", ".join(study.presets)) for name, study in found.items()], indent=""))
        return
    chosen = found[checks.one_of("study", name, found)]
    checks.one_of("--preset", preset, chosen.presets)
    where = Executor(EXECUTORS[checks.one_of("--executor", executor, EXECUTORS)], workers)
    folder = out or Path("runs") / name
    make_folder(folder)
    sweep = chosen.run(preset, folder, where, only=only)
    print(f"{len(sweep.complete)} tasks computed, {len(sweep.skipped)} were complete, {len(sweep.failed)} failed")
    for task, log in sweep.failed.items():
        print(f"romkit: {task} failed, the traceback is in {log}", file=sys.stderr)
    if sweep.failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    app(["study", *sys.argv[1:]], prog_name="romkit")
