"""`romkit info`: what there is, or what is in a file."""

from pathlib import Path
from typing import Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import is_in_file, system_named
from romkit.core import checks
from romkit.core.files import there


@app.command()
def info(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A dataset, a model, a law, a basis (files), a system, a method, other dynamics, a pretrained model.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what romkit offers, or what a file holds.

    \b
    Examples:
      romkit info                          systems, methods, models, versions
      romkit info lorenz96                 the equation and context of a system
      romkit info ncae                     a method with its settings
      romkit info sindy                    a law with its settings
      romkit info ncae-lorenz96            how a model was trained
      romkit info runs/lorenz96-train.nc   what a dataset holds
    """  # noqa: D301, typer keeps the lines after \b as they are
    from romkit.cli import describe
    from romkit.data import open_dataset
    from romkit.integrators import DYNAMICS, LAWS
    from romkit.projections import METHODS, pretrained
    from romkit.systems import SYSTEMS
    from romkit.verbs.storage import load

    if name is None:
        print(describe.describe_everything())
    elif name in SYSTEMS or is_in_file(name):
        print(describe.describe_system(system_named(name)))
    elif name in METHODS:
        print(describe.describe_method(METHODS[name]))
    elif name in {**LAWS, **DYNAMICS}:
        print(describe.describe_settings({**LAWS, **DYNAMICS}[name]))
    elif name in pretrained() or Path(name).suffix == ".safetensors":
        print(describe.describe_saved(load(name)))
    else:
        if not Path(name).suffix and not there(name):
            checks.one_of("name", name, [*SYSTEMS, *METHODS, *LAWS, *DYNAMICS, *pretrained()])
        print(describe.describe_dataset(open_dataset(name)))
