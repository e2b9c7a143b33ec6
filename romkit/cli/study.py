"""`romkit study`: run a study of this checkout, task by task."""

import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from romkit import checks
from romkit.cli.app import app
from romkit.cli.options import writable
from romkit.errors import InputError

if TYPE_CHECKING:
    from studies.runner import Sweep


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
    found = _studies()
    if name is None:
        from romkit.cli.describe import table

        print(table([(name, ", ".join(module.PRESETS)) for name, module in found.items()], indent=""))
        return
    module = found[checks.one_of("study", name, found)]
    checks.one_of("--preset", preset, module.PRESETS)

    from studies.runner import EXECUTORS

    kind = EXECUTORS[checks.one_of("--executor", executor, EXECUTORS)]
    folder = writable((out or Path("runs") / name) / preset).parent
    with kind() if workers is None else kind(workers) as where:
        _report(module.main(preset, where, folder, only))


def _studies() -> dict[str, ModuleType]:
    """The studies that `studies.runner` documents how to run, by name."""
    checkout = Path(__file__).parents[2]
    if not (checkout / "studies" / "runner").is_dir():
        fix = "clone the repository and install it with pip install -e"
        raise InputError("study", expected="a checkout of romkit, which has them", got=str(checkout), fix=fix)
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    import studies

    modules = {name: f"studies.{name}" for _, name, package in pkgutil.iter_modules(studies.__path__) if package}
    loaded = {name: importlib.import_module(module) for name, module in modules.items()}
    return {name: module for name, module in loaded.items() if hasattr(module, "PRESETS") and hasattr(module, "main")}


def _report(sweep: "Sweep") -> None:
    """Say how the tasks ended; failures on stderr, and as exit code 1."""
    print(f"{len(sweep.complete)} tasks computed, {len(sweep.skipped)} were complete, {len(sweep.failed)} failed")
    for task, log in sweep.failed.items():
        print(f"romkit: {task} failed, the traceback is in {log}", file=sys.stderr)
    if sweep.failed:
        raise typer.Exit(1)
