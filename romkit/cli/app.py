"""The application: what all commands share, and how errors end."""

import sys
import warnings
from typing import Annotated

import typer
from typer.core import TyperGroup

from romkit.core.errors import DataWarning, DivergenceWarning, ExtrapolationWarning, FitWarning, RomkitError

UsageError = typer.BadParameter.__base__
"""A missing argument, an unknown command or option: what typer itself finds wrong."""

BAD_INPUT = 2
"""Exit code when the input cannot be used; the reason stands on one line of stderr."""


class OneLineErrors(TyperGroup):
    """Ends with one line `romkit: reason` where the input is at fault, and never with a traceback for that."""

    def main(self, *args: object, standalone_mode: bool = True, **extra: object) -> None:
        with warnings.catch_warnings():
            _show_warnings_on_one_line()
            try:
                code = super().main(*args, standalone_mode=False, **extra)
            except UsageError as error:
                command = error.ctx.command_path if error.ctx else "romkit"
                code = _refuse(f"{error.format_message().rstrip('.')}; see {command} --help")
            except RomkitError as error:
                code = _refuse(str(error))
        sys.exit(code)


def _refuse(reason: str) -> int:
    print(f"romkit: {' '.join(reason.split())}", file=sys.stderr)
    return BAD_INPUT


def _show_warnings_on_one_line() -> None:
    show = warnings.showwarning

    def show_on_one_line(message: Warning, category: type[Warning], *where: object, **more: object) -> None:
        if issubclass(category, DataWarning | DivergenceWarning | ExtrapolationWarning | FitWarning):
            print(f"romkit: warning: {message}", file=sys.stderr)
        else:
            show(message, category, *where, **more)

    warnings.showwarning = show_on_one_line


app = typer.Typer(
    name="romkit",
    cls=OneLineErrors,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # what is not the input's fault is a bug, and wants the plain traceback
)


@app.callback(invoke_without_command=True)
def romkit(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Reduced-order modeling with context-dependent nonlinear projections.

    \b
    romkit info                            what there is: systems, methods, models
    romkit rollout lorenz96 --F 3.15       a full and a reduced model side by side
    romkit check my.nc                     what romkit takes data for
    romkit fit ncae lorenz96               train a projection
    romkit law sindy MODEL DATA            fit latent dynamics to data
    romkit forecast MODEL --from DATA      a reduced model alone
    romkit compare DATA                    projections and laws side by side
    romkit dataset lorenz96 --split test   simulate a dataset
    romkit explore MODEL                   a page with sliders for its context
    romkit report FILE                     a run or a model as one page of HTML
    romkit study                           reproduce what was measured

    Bad input ends with one line on stderr and exit code 2.
    """  # noqa: D301, typer keeps the lines after \b as they are
    if version:
        import importlib.metadata

        print(importlib.metadata.version("romkit"))
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """The entry point of the `romkit` command."""
    app()
