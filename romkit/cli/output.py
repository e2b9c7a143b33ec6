"""Output of a command: text, one JSON object by `--json`, nothing by `--quiet`; and a word when it
is interrupted.
"""

import contextlib
import functools
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option
from typer.models import ArgumentInfo, ParameterInfo

from romkit.cli import facts
from romkit.core.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Quiet = Annotated[
    bool, Option("--quiet", "-q", help="Print no results and no progress; files are written.")
]
Json = Annotated[
    bool, Option("--json", help="Print results as one JSON object, with the files written.")
]


@dataclass
class Output:
    """Results of a running command.

    Attributes:
        values: results by name, for `--json`.
        written: names of files.
        kept: end of the sentence that says what an interruption leaves.
    """

    values: dict[str, object] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    kept: str = "nothing was written"


class UntilClosed(io.FileIO):
    """Standard output that a reader may close, as `head` does after some lines: the rest is
    dropped, and the command goes on to write its files.
    """

    def write(self, text: "Buffer") -> int:
        try:
            return super().write(text)
        except OSError as error:
            # of a full disk, too: what is left would be written again at the end of the process
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if not isinstance(error, BrokenPipeError):
                raise
            return super().write(text)


def closable(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return the stream, as one that its reader may close."""
    raw = UntilClosed(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
    )


# Commands call each other's helpers, so that results reach the command that runs without a parameter.
_current: ContextVar[Output] = ContextVar("output")


def add(**values: object) -> None:
    """Results that `--json` prints, by name."""
    _running().values |= values


def show(values: Mapping[str, object]) -> None:
    """Print facts, as text or as JSON."""
    add(**values)
    print(facts.format_text(values))


def wrote(path: object, label: str = "", what: str = "") -> None:
    """Print the name of a file that was written."""
    _running().written.append(str(path))
    print(f"{label}wrote {what}{path}")


def announce_interruption(kept: str) -> None:
    """Say what Ctrl-C leaves from here on, and how to go on."""
    _running().kept = kept


def _running() -> Output:
    """Return the output of the running command; one that nobody reads where functions are called
    from Python.
    """
    return _current.get(Output())


def add_output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options `--quiet` and `--json`."""
    command = documented(command)

    @functools.wraps(command)
    def run(*, quiet: bool, as_json: bool, **arguments: object) -> None:
        output = Output()
        token = _current.set(output)
        try:
            with _silent(quiet), _silence(quiet or as_json):
                command(**arguments)
        except InputError as error:
            error.args = (translate_refusal(str(error), typed_names(command)),)
            raise
        except KeyboardInterrupt:
            print(f"romkit: interrupted; {output.kept}", file=sys.stderr)
            # the parser of the command line gives exit code 130
            raise
        finally:
            _current.reset(token)
            # a command that ends with an exit code of its own has results, too
            if as_json and not quiet and output.values:
                print(facts.format_json(output.values | {"wrote": output.written}))

    parameters = list(inspect.signature(command).parameters.values())
    for name, annotation in (("quiet", Quiet), ("as_json", Json)):
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=False, annotation=annotation))
    _declare(run, parameters)
    return run


def documented(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command, of which each option has the help that stands under Args in its
    docstring.
    """
    text, _, listing = (inspect.getdoc(command) or "").partition("\n\nArgs:\n")
    helps = dict(re.findall(r"^    (\w+): (.*(?:\n     .*)*)", listing, re.MULTILINE))
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in helps:
            kind, declared = _declared(parameter)
            declared.help = " ".join(helps[name].split())
            parameter = parameter.replace(annotation=Annotated[kind, declared])
        parameters.append(parameter)

    @functools.wraps(command)
    def run(**arguments: object) -> None:
        command(**arguments)

    run.__doc__ = text
    _declare(run, parameters)
    return run


def _declared(parameter: inspect.Parameter) -> tuple[Any, ParameterInfo]:
    """Return type of a parameter, and what typer knows of it: an option where it has a default."""
    annotation = parameter.annotation
    if hasattr(annotation, "__metadata__"):
        return annotation.__origin__, annotation.__metadata__[0]
    is_argument = parameter.default is parameter.empty
    return annotation, Argument() if is_argument else Option()


def _declare(run: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    """Give the function these parameters, as typer reads them."""
    run.__dict__["__signature__"] = inspect.Signature(list(parameters))
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def typed_names(command: Callable[..., None]) -> dict[str, str]:
    """Return what is typed for each parameter of a command: `--dt` for dt."""
    names = {}
    for name, parameter in inspect.signature(command).parameters.items():
        for declared in getattr(parameter.annotation, "__metadata__", ()):
            names[name] = _typed(name, declared)
    return names


def _typed(name: str, declared: ParameterInfo) -> str:
    """Return what is typed for a parameter: its option, or the word that stands for an argument."""
    if isinstance(declared, ArgumentInfo):
        return declared.metavar or name.upper()
    # within `Annotated` typer keeps the first name as a default
    for text in (declared.default, *(declared.param_decls or ())):
        if isinstance(text, str) and text.startswith("--"):
            return text
    return f"--{name.replace('_', '-')}"


def translate_refusal(text: str, names: Mapping[str, str]) -> str:
    """Return a refusal with options in place of arguments of Python: `--dt 0.1` for dt=0.1."""
    argument, colon, message = text.partition(":")
    text = f"{names.get(argument, argument)}{colon}{message}"
    for name, typed in names.items():
        if typed.startswith("--"):
            text = re.sub(rf"(?<![-\w.]){name}(=(?=\S)|(?= [<>]))", f"{typed} ", text)
    return " ".join(text.split())


def _silent(quiet: bool) -> contextlib.AbstractContextManager[Any]:
    """Return no progress bars, for a quiet command."""
    if not quiet:
        return contextlib.nullcontext()
    from romkit.core.runtime import bars  # torch, which takes seconds

    return bars(False)


@contextlib.contextmanager
def _silence(silent: bool) -> Iterator[None]:
    if not silent:
        yield
        return
    # functions of the package print, too: `romkit.data.describe` its summary
    with contextlib.redirect_stdout(io.StringIO()):
        yield
