"""`romkit law`: fit latent dynamics to data and write them to a file."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from romkit import checks
from romkit.cli.app import app
from romkit.cli.options import Data, Settings, load_a, read_data, settings, writable


@app.command()
def law(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="sindy or neural-ode.", show_default=False)],
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A file by `romkit fit`, or a pretrained model.", show_default=False)
    ],
    data: Data,
    seed: Annotated[int, typer.Option(help="Seed of whatever is random in the fit.")] = 0,
    set_: Settings = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; runs/KIND-DATA.safetensors by default.", show_default=False)
    ] = None,
) -> None:
    """Fit latent dynamics to data: an equation that prints (sindy), or a small network (neural-ode).

    Without velocities in the data, rates come from differentiation in time; with accelerations, the law is of second
    order. Settings are those of romkit.integrators.SINDy and NeuralODE.

    \b
    Examples:
      romkit law sindy ncae-lorenz96 lorenz96 --set degree=5 --set threshold=0.05
      romkit law neural-ode my.safetensors my.nc --set hidden=16,16 --out law.safetensors

    Writes a file that `romkit rollout --dynamics`, `romkit info` and romkit.load read.
    """  # noqa: D301, typer keeps the lines after \b as they are
    import romkit
    from romkit.cli.describe import describe_law
    from romkit.integrators import LAWS

    estimator = LAWS[checks.one_of("kind", kind, LAWS)]
    given = settings(set_ or [])
    for name in given:
        checks.one_of("--set", name, [field.name for field in dataclasses.fields(estimator)])
    prepared = estimator(**given)
    target = writable(out or Path("runs") / f"{kind}-{Path(data).stem}.safetensors")
    found = prepared.fit(load_a("projection", model), read_data(data), seed=seed)
    print(describe_law(found))
    print(f"\nwrote {romkit.save(found, target)}")
