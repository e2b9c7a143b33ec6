"""`romkit check`: what romkit takes a file for."""

from pathlib import Path
from typing import Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import Force, names, target


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A netCDF file of any origin.", show_default=False)],
    context: Annotated[str | None, typer.Option(help="Names of the context parameters, with commas.")] = None,
    state: Annotated[str | None, typer.Option(help="Names of the variables of the state.")] = None,
    control: Annotated[str | None, typer.Option(help="Names of the inputs.")] = None,
    trajectory: Annotated[str | None, typer.Option(help="The dimension of the trajectories.")] = None,
    time: Annotated[str | None, typer.Option(help="The dimension of time.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the data in romkit's schema here.", show_default=False)
    ] = None,
    force: Force = False,
) -> None:
    """Show what romkit takes data for: state, context, sampling, what is missing and what is ignored.

    \b
    Examples:
      romkit check my.nc
      romkit check my.nc --context Re,epsilon --state u,v --out my-data.nc

    What --out writes is what `romkit fit` takes. Names are those of romkit.data.describe.
    """  # noqa: D301, typer keeps the lines after \b as they are
    written = target(out, "check", "data.nc", force) if out else None

    from romkit.data import describe, open_dataset, save_dataset

    given = {"context": names(context), "state": names(state), "control": names(control) or ()}
    data = describe(open_dataset(file), **given, trajectory=trajectory, time=time)
    if written:
        print(f"\nwrote {save_dataset(data, written)}")
