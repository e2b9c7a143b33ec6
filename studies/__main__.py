"""Commands of a checkout: `python -m studies study`, which is `romkit study`, and those for archives of results."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from romkit.cli.facts import table
from romkit.cli.main import OneLineErrors
from romkit.core import checks
from romkit.core.files import make_folder
from romkit.tasks import Executor
from studies import runner

app = typer.Typer(
    cls=OneLineErrors, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.command()
def study(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of a study; without it, they are listed."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="How large the study is; the list has those of each.")
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            help="process (this one), workers (local processes, one thread each) or slurm."
        ),
    ] = "process",
    workers: Annotated[
        int | None,
        typer.Option(help="Worker processes, one per core by default; or jobs in the queue, 100."),
    ] = None,
    only: Annotated[str, typer.Option(help="Run only tasks whose name contains this text.")] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the report, with one of results for each preset; runs/NAME by default."
        ),
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
    if name is None:
        found = runner.discover().items()
        print(table([(name, ", ".join(study.presets)) for name, study in found], indent=""))
        return
    chosen = _chosen(name, "--preset", preset)
    where = Executor(
        runner.EXECUTORS[checks.one_of("--executor", executor, runner.EXECUTORS)], workers
    )
    folder = out or Path("runs") / name
    make_folder(folder)
    sweep = chosen.run(preset, folder, where, only=only)
    print(
        f"{len(sweep.complete)} tasks computed, {len(sweep.skipped)} were complete, {len(sweep.failed)} failed"
    )
    for task, log in sweep.failed.items():
        print(f"romkit: {task} failed, the traceback is in {log}", file=sys.stderr)
    if sweep.failed:
        raise typer.Exit(1)


@app.command()
def archive(
    folder: Annotated[
        Path, typer.Argument(help="Results of a preset, for example runs/paper/quick.")
    ],
    file: Annotated[
        Path, typer.Argument(help="The archive, for example studies/paper/results/quick.nc.")
    ],
) -> None:
    """Put the results of a folder into an archive, in place of those of the same tasks.

    The folder stays as it is. With `romkit study NAME --preset PRESET --out studies/NAME/results` a study goes on from
    its archive, and makes its report anew.
    """
    print(f"{len(runner.merge(folder, file))} results are now in {file}")


@app.command()
def rekey(
    name: Annotated[str, typer.Argument(metavar="STUDY", help="The study, for example paper.")],
    preset: Annotated[str, typer.Argument(help="Its preset, for example quick.")],
    file: Annotated[
        Path, typer.Argument(help="The archive, for example studies/paper/results/quick.nc.")
    ],
    vouch: Annotated[
        bool,
        typer.Option(
            "--vouch", help="Take also results whose settings are written differently now."
        ),
    ] = False,
) -> None:
    """Give archived results the keys that their tasks have now.

    For when what enters a key has changed, and the results have not. Results of other settings are refused; if these
    mean the same and are merely written differently, --vouch says so. The archive notes what was done.
    """
    planned = _chosen(name, "preset", preset).tasks(preset)
    print(f"{len(runner.rekey(file, planned, vouch=vouch))} keys renewed in {file}")


@app.command(name="headline")
def gate(
    sets: Annotated[
        list[str] | None,
        typer.Option(help="Names of results, or parts of them; may be repeated. All by default."),
    ] = None,
    out: Annotated[Path, typer.Option(help="JSON of the results, written after each.")] = Path(
        "runs/headline.json"
    ),
    against: Annotated[
        Path | None,
        typer.Option(
            help="JSON of the results beside which they are printed; by default those that are committed."
        ),
    ] = None,
) -> None:
    """Compute the headline results at the present sources, beside the committed ones.

    \b
    Examples:
      python -m studies headline                              all, an hour of a core
      python -m studies headline --sets Brusselator --sets wake

    These are the thirty sets of first_afternoon, the wake's two laws and small models of the paper. What the file has
    of the same sources is skipped, so that the same command goes on after an interruption.
    """  # noqa: D301, typer keeps the lines after \b as they are
    from studies import headline

    make_folder(out.parent)
    reference = against or headline.COMMITTED
    found = headline.run(out, sets or (), reference)
    print(headline.page(found, headline.read(reference)))


@app.command(name="ablation")
def special_candidates(
    sets: Annotated[
        list[str] | None,
        typer.Option(help="Names of sets, or parts of them; may be repeated. All by default."),
    ] = None,
) -> None:
    """Leave each special candidate of `romkit.learn` out where it was taken, and write the page.

    \b
    Examples:
      python -m studies ablation --sets patients     what results.json lacks of this set
      python -m studies ablation                     all forty sets, half an hour of a core

    What studies/ablation/results.json has is not computed anew.
    """  # noqa: D301, typer keeps the lines after \b as they are
    from studies.ablation import report, tasks

    print(report.write(tasks.run(report.RESULTS, sets or ())))


def _chosen(name: str, argument: str, preset: str | None) -> runner.Study:
    found = runner.discover()
    chosen = found[checks.one_of("study", name, found)]
    checks.one_of(argument, preset, chosen.presets)
    return chosen


if __name__ == "__main__":
    app(prog_name="romkit" if sys.argv[1:2] == ["study"] else "python -m studies")
