"""`romkit explore`: a page with sliders for the context of a reduced model."""

from typing import Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import load_a
from romkit.core.errors import InputError


@app.command()
def explore(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A .safetensors file by `romkit fit`, or a pretrained model.")
    ] = "ncae-lorenz96",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0 for one that is free.")] = 0,
    show: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Explore a reduced model in the browser: full and reduced model side by side, as the context moves.

    A second tab fits and follows data of your own. Only this machine can see the page; Ctrl-C ends it.

    \b
    Examples:
      romkit explore
      romkit explore ncae-pendulum --port 5006 --no-show
    """  # noqa: D301, typer keeps the lines after \b as they are
    try:
        from romkit.explorer import explore
    except ModuleNotFoundError as error:
        fix = 'pip install "romkit[explore]"'
        raise InputError("explore", expected="the packages of the explorer", got=f"no {error.name}", fix=fix) from error
    explore(load_a("projection", model), port=port, show=show)
