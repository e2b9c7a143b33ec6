"""The application: its commands, and how errors end. `explore` and `study` hand over to other
programs here.
"""

import contextlib
import io
import os
import runpy
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from typer import Option
from typer.core import TyperGroup

import romkit
from romkit.cli import data, forecast, inputs, models, options, output, report, runs
from romkit.core import checks, errors
from romkit.core.version import VERSION

UsageError = typer.BadParameter.__base__
"""Error of typer itself: a missing argument, an unknown command or option. Typer does not export
this class.
"""

BAD_INPUT = 2
"""Exit code when the input cannot be used; the reason stands on one line of stderr."""

ONE_LINE = (
    errors.DataWarning | errors.DivergenceWarning | errors.ExtrapolationWarning | errors.FitWarning
)
"""Warnings about data and models; they are printed without the line of code that issued them."""


class OneLineErrors(TyperGroup):
    """Commands that answer bad input with one line `romkit: reason` on stderr instead of a
    traceback.
    """

    def main(self, *args: object, standalone_mode: bool = True, **extra: object) -> None:
        with _shorten_warnings():
            try:
                code = super().main(*args, standalone_mode=False, **extra)
                # a full disk is told here, and not at the end of the process
                print(end="", flush=True)
                sys.exit(code)
            except UsageError as error:
                command = "romkit"
                if error.ctx:
                    command = error.ctx.command_path
                reason = f"{error.format_message().rstrip('.')}; see {command} --help"
            except (errors.RomkitError, OSError) as error:
                reason = str(error)
            except (MemoryError, OverflowError, RuntimeError) as error:
                # torch has no class of its own for memory that it cannot allocate
                if isinstance(error, RuntimeError) and "memory" not in str(error):
                    raise
                reason = f"a number is too large for the memory of this machine ({error})"
            print(f"romkit: {' '.join(reason.split())}", file=sys.stderr)
            sys.exit(BAD_INPUT)


@contextlib.contextmanager
def _shorten_warnings() -> Iterator[None]:
    """Print warnings about data and models without the line of code that issued them.

    Only their text changes, by the hook that Python documents for it; filters stay, and so does
    what is printed of other warnings.
    """
    usual = warnings.formatwarning

    def text(message: Warning, category: type[Warning], *place: object, **line: object) -> str:
        if issubclass(category, ONE_LINE):
            return f"romkit: warning: {message}\n"
        return usual(message, category, *place, **line)

    warnings.formatwarning = text
    try:
        yield
    finally:
        warnings.formatwarning = usual


# Exceptions that are not about the input are bugs, and get the plain traceback.
PLAIN = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(name="romkit", cls=OneLineErrors, context_settings=HELP, **PLAIN)


@app.callback(invoke_without_command=True)
@output.documented
def start(
    context: typer.Context,
    version: Annotated[bool, Option("--version")] = False,
    files: Annotated[list[str] | None, Option("--import", metavar="FILE.py")] = None,
) -> None:
    """Reduced-order modeling with context-dependent nonlinear projections.

    \b
    romkit info                            what there is: systems, methods, models
    romkit rollout lorenz96 --F 3.15       a full and a reduced model side by side
    romkit learn runs/*.nc --context beta  a reduced model of your own runs
    romkit check my.nc                     what romkit takes data for
    romkit fit ncae lorenz96               train a projection
    romkit law sindy MODEL DATA            fit latent dynamics to data
    romkit forecast MODEL --from DATA      a reduced model alone
    romkit infer MODEL OBSERVATIONS        the context that observations come from
    romkit compare DATA                    projections and laws side by side
    romkit dataset lorenz96 --split test   simulate a dataset
    romkit branches lorenz96 --F 0.5,2     equilibria and orbits along a parameter
    romkit explore MODEL                   a page with sliders for its context
    romkit plot FILE                       a picture of what a file holds
    romkit report FILE                     a run or a model as one page of HTML
    romkit study                           reproduce what was measured

    Commands take --json, which prints results as one JSON object, and --quiet. Bad input ends with
    one line on stderr and exit code 2.

    Args:
        version: Print the version and exit.
        files: Import a file with methods or dynamics of your own.
    """
    for file in files or ():
        inputs.imported(file)
    if version:
        print(VERSION)
    elif context.invoked_subcommand is None:
        print(context.get_help())


def explore(
    model: options.Model = "ncae-lorenz96",
    port: Annotated[int, Option(min=0, max=65535)] = 0,
    show: bool = True,
) -> None:
    """Explore a reduced model in the browser: full and reduced model side by side, as the context
    moves.

    A second tab learns from data of your own. Only this machine can see the page; Ctrl-C ends
    it.

    \b
    Examples:
      romkit explore
      romkit explore ncae-pendulum --port 5006 --no-show

    Args:
        port: Port on this machine; 0 for one that is free.
        show: Open a browser.
    """
    checks.extra("explore", "panel", "explore")
    from romkit.explorer import explore

    explore(inputs.load("projection", model), port=port, show=show)


def study(context: typer.Context) -> None:
    """Reproduce a study: run its tasks, and write its report."""
    checkout = Path(romkit.__file__).parents[1]
    if not (checkout / "studies" / "__main__.py").is_file():
        raise errors.InputError(
            "study",
            expected="a checkout of romkit with its studies",
            got=checkout,
            fix="run it in a copy of the repository, installed with pip install -e .",
        )
    folders = [str(checkout)]
    if os.environ.get("PYTHONPATH"):
        folders.append(os.environ["PYTHONPATH"])
    # Processes of workers import the studies by this variable. This process may have another
    # folder `studies` on its path, the working directory's say.
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    sys.path.insert(0, str(checkout))
    sys.argv = ["studies", "study", *context.args]
    runpy.run_module("studies", run_name="__main__", alter_sys=True)


COMMANDS = (
    data.info,
    runs.rollout,
    data.check,
    models.fit,
    models.law,
    forecast.forecast,
    runs.infer,
    runs.compare,
    data.dataset,
    runs.branches,
    models.learn,
    report.plot,
    report.report,
)
TAKE_CONTEXT = (runs.rollout, forecast.forecast, data.dataset, runs.branches)
for command in COMMANDS:
    kind = options.ContextCommand if command in TAKE_CONTEXT else None
    app.command(cls=kind)(output.add_output_options(command))
app.command()(output.documented(explore))
ANY_OPTION = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
}
app.command(add_help_option=False, context_settings=ANY_OPTION)(study)


def main() -> None:
    """Entry point of the `romkit` command."""
    for stream in (sys.stdout, sys.stderr):
        # consoles of Windows lack some letters of mathematics
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.flush()
        sys.stdout = output.closable(sys.stdout)
    app(prog_name="romkit")
