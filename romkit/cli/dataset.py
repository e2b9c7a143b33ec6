"""`romkit dataset`: simulate trajectories of a system and write them to a file."""

from pathlib import Path
from typing import Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import ContextCommand, Force, context_values, short_name, system_named, target, written


@app.command(cls=ContextCommand)
def dataset(
    ctx: typer.Context,
    system: Annotated[
        str, typer.Argument(metavar="SYSTEM", help="Name of a system; `romkit info` lists them.", show_default=False)
    ],
    split: Annotated[
        str | None, typer.Option(help="train (random contexts) or test; train unless contexts are given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random contexts and initial states.")] = 0,
    duration: Annotated[float | None, typer.Option(help="Length of each trajectory; the system's by default.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File, or folder for data.nc; runs/SYSTEM-SPLIT by default.", show_default=False),
    ] = None,
    force: Force = False,
) -> None:
    """Simulate a dataset: states, velocities, contexts.

    \b
    Examples:
      romkit dataset lorenz96                            the training set of seed 0
      romkit dataset lorenz96 --split test
      romkit dataset lorenz96 --F 3.14,3.15 --out my.nc  at contexts of your own

    Writes a netCDF file that `romkit fit`, romkit.data.open_dataset and xarray read.
    """  # noqa: D301, typer keeps the lines after \b as they are
    full_model = system_named(system)
    context = context_values(ctx, full_model.context_names)
    split = split or (None if context else "train")
    file = target(out, f"{short_name(system)}-{split or 'contexts'}", "data.nc", force)

    from romkit.cli.describe import describe_dataset
    from romkit.data import save_dataset

    data = full_model.dataset(split, seed=seed, duration=duration, **context)
    print(describe_dataset(data))
    print(f"\nwrote {written(lambda path: save_dataset(data, path), file)}")
