"""Archives of results: `python -m studies.runner archive` and `python -m studies.runner rekey`."""

from pathlib import Path
from typing import Annotated

import typer

from romkit.cli.main import OneLineErrors
from romkit.core import checks
from studies import runner

app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Archives of results, a netCDF file for each preset of a study, which the repository keeps.",
)


@app.command()
def archive(
    folder: Annotated[Path, typer.Argument(help="Results of a preset, for example runs/paper/quick.")],
    file: Annotated[Path, typer.Argument(help="The archive, for example studies/paper/results/quick.nc.")],
) -> None:
    """Put the results of a folder into an archive, in place of those of the same tasks.

    The folder stays as it is. With `romkit study NAME --preset PRESET --out studies/NAME/results` a study goes on from
    its archive, and makes its report anew.
    """
    print(f"{len(runner.merge(folder, file))} results are now in {file}")


@app.command()
def rekey(
    study: Annotated[str, typer.Argument(help="The study, for example paper.")],
    preset: Annotated[str, typer.Argument(help="Its preset, for example quick.")],
    file: Annotated[Path, typer.Argument(help="The archive, for example studies/paper/results/quick.nc.")],
    vouch: Annotated[
        bool, typer.Option("--vouch", help="Take also results whose settings are written differently now.")
    ] = False,
) -> None:
    """Give archived results the keys that their tasks have now.

    For when what enters a key has changed, and the results have not. Results of other settings are refused; if these
    mean the same and are merely written differently, --vouch says so. The archive notes what was done.
    """
    found = runner.discover()
    chosen = found[checks.one_of("study", study, found)]
    checks.one_of("preset", preset, chosen.presets)
    print(f"{len(runner.rekey(file, chosen.tasks(preset), vouch=vouch))} keys renewed in {file}")


if __name__ == "__main__":
    app(prog_name="python -m studies.runner")
