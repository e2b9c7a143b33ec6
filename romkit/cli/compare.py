"""`romkit compare`: projections and laws in all combinations on one split."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import Data, Settings, names, read_data, refuse_options, settings, writable

if TYPE_CHECKING:
    import xarray as xr


@app.command()
def compare(
    data: Data,
    methods: Annotated[str, typer.Option(help="Names of methods, with commas.")] = "pod,ncae",
    laws: Annotated[str, typer.Option(help="Names of laws, with commas.")] = "dmd,operator-inference,sindy",
    test: Annotated[float, typer.Option(help="Share of the contexts that is held out.")] = 0.25,
    seed: Annotated[int, typer.Option(help="Of the split and of the fits.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes; one after the other here by default.")] = None,
    set_: Settings = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; runs/compare-DATA by default.")] = None,
) -> None:
    """Fit projections with laws, and score them on trajectories that were held out.

    \b
    Examples:
      romkit compare my.nc --set latent_dim=2
      romkit compare my.nc --methods pod,ncae --laws sindy,neural-ode --set latent_dim=3 --workers 2

    What is complete in the folder, for the same data and settings, is not computed again: the same command goes on
    after an interruption. Writes a file for each combination and comparison.nc. A combination that fails leaves its
    traceback in a .log file, the others go on, and the exit code is 1.
    """  # noqa: D301, typer keeps the lines after \b as they are
    folder = out or Path("runs") / f"compare-{Path(data).stem}"
    file = writable(folder / "comparison.nc")

    import romkit
    from romkit.data import save_dataset

    given = {"test": test, "seed": seed, "workers": workers, "folder": folder}
    overrides = settings(set_ or [])
    refuse_options(overrides, ("data", "methods", "laws", *given))
    found = romkit.compare(read_data(data), names(methods), names(laws), **given, **overrides)
    print(_table(found))
    print(f"\nwrote {save_dataset(found, file)}")
    failed = json.loads(found.attrs["failed"])
    for name, log in failed.items():
        print(f"romkit: {name} failed, the traceback is in {log}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _table(found: "xr.Dataset") -> str:
    """Median errors over trajectories and time, and what was lost."""
    from romkit.cli.describe import table

    rows = [["projection", "law", "NRMSE", "projection alone", "valid for", "lost", "seconds"]]
    for projection in found["projection"].values:
        for law in found["law"].values:
            one = found.sel(projection=projection, law=law)
            numbers = (one[name].median().item() for name in ("nrmse", "nrmse_projected", "valid_time"))
            rest = one["diverged"].item(), one["seconds_projection"].item() + one["seconds_law"].item()
            rows.append([str(projection), str(law), *(f"{x:.3g}" for x in (*numbers, *rest))])
    return table(rows, indent="")
