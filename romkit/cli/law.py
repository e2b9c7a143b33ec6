"""`romkit law`: fit latent dynamics to data and write them to a file."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import Data, Force, Settings, load_a, read_data, settings, short_name, target, written
from romkit.core import checks

LAW = "law.safetensors"


@app.command()
def law(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Name of a law; `romkit info` lists them.", show_default=False)
    ],
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A file by `romkit fit`, or a pretrained model.", show_default=False)
    ],
    data: Data,
    seed: Annotated[int, typer.Option(help="Seed of whatever is random in the fit.")] = 0,
    set_: Settings = None,
    select: Annotated[
        list[str] | None,
        typer.Option(help="Choose a setting by rollouts of held-out trajectories.", metavar="NAME=VALUE,VALUE,..."),
    ] = None,
    members: Annotated[
        int | None, typer.Option(help="Fit an ensemble of so many bootstraps; --out is its folder then.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File, or folder for law.safetensors; runs/KIND-DATA by default.", show_default=False),
    ] = None,
    force: Force = False,
) -> None:
    """Fit latent dynamics to data: an equation that prints (sindy, ...), or a small network (neural-ode).

    Without velocities in the data, rates come from differentiation in time; with accelerations, the law is of second
    order. Settings are those of romkit.integrators.SINDy, NeuralODE, ...: `romkit info sindy` has them.

    \b
    Examples:
      romkit law sindy ncae-lorenz96 lorenz96 --set degree=5 --set threshold=0.05
      romkit law sindy my.safetensors my.nc --select degree=1,2,3 --select threshold=0.01,0.1
      romkit law neural-ode my.safetensors my.nc --set hidden=16,16 --out law.safetensors
      romkit law weak-sindy my.safetensors my.nc --members 20

    Writes a file that `romkit rollout --dynamics`, `romkit info` and romkit.load read.
    """  # noqa: D301, typer keeps the lines after \b as they are
    import romkit
    from romkit.cli.describe import describe_law
    from romkit.integrators import LAWS

    estimator = LAWS[checks.one_of("kind", kind, LAWS)]
    given, choices = settings(set_ or []), settings(select or [], "--select")
    known = [field.name for field in dataclasses.fields(estimator)]
    for option, names in (("--set", given), ("--select", choices)):
        for name in names:
            checks.one_of(option, name, known)
    prepared = estimator(**given)
    within = out if out is None or members is None else out / LAW  # a folder, whatever it is called
    file = target(within, f"{kind}-{short_name(data)}", LAW, force)
    projection, measured = load_a("projection", model), read_data(data)
    if members is not None:
        ensemble = romkit.bootstrap(projection, prepared, measured, members=members, seed=seed)
        print(describe_law(ensemble.law[0] if hasattr(ensemble.law, "__getitem__") else ensemble.law))
        print(f"\nwrote an ensemble of {members} to {ensemble.save(file.parent)}")
        return
    grid = {name: values if isinstance(values, tuple) else (values,) for name, values in choices.items()}
    found = prepared.fit(projection, measured, seed=seed, select=grid or None)
    print(describe_law(found))
    print(f"\nwrote {written(lambda path: romkit.save(found, path), file)}")
