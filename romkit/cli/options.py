"""What commands take beside their declared options: context parameters by name, settings, names of systems."""

import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from romkit.core import checks
from romkit.core.errors import FileError, InputError
from romkit.core.files import existing, make_folder, reason, there

if TYPE_CHECKING:
    import xarray as xr

    from romkit.integrators import LearnedField
    from romkit.projections import Projection
    from romkit.systems import System

_CONTEXT = "romkit.context"

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A netCDF file, or a system, whose training set of seed 0 it is.", show_default=False
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Set a value in place of the default; as often as you need.", metavar="NAME=VALUE"),
]


Force = Annotated[bool, typer.Option("--force", help="Replace the results of an earlier run.")]


class ContextCommand(TyperCommand):
    """A command that takes context parameters as options named after them: `--F 3.14,3.15`.

    Which parameters there are depends on the system, an argument of the same command, so options that are not the
    command's own are set aside here and checked by `context_values`.
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        own = {option: parameter for parameter in self.get_params(ctx) for option in parameter.opts}
        kept, context = [], {}
        tokens = deque(args)
        while tokens:
            token = tokens.popleft()
            option, equals, value = token.partition("=")
            if option.startswith("--") and option not in own:
                follows = tokens and not tokens[0].startswith("--")
                context.setdefault(option, []).append(value if equals else tokens.popleft() if follows else "")
                continue
            kept.append(token)
            if option in own and not equals and not getattr(own[option], "is_flag", False) and tokens:
                kept.append(tokens.popleft())
        ctx.meta[_CONTEXT] = context
        return super().parse_args(ctx, kept)


def context_values(ctx: typer.Context, names: Iterable[str]) -> dict[str, object]:
    """The context parameters with these names on the command line, as the keyword arguments that Python takes.

    Raises:
        InputError: an option that is neither the command's nor one of the parameters, or not a number.
    """
    own = [option for parameter in ctx.command.params for option in parameter.opts if option.startswith("--")]
    known = [*(f"--{name}" for name in names), *own]
    values = {}
    for option, texts in ctx.meta[_CONTEXT].items():
        checks.one_of("option", option, known)
        numbers = [_number(option, entry) for text in texts for entry in text.split(",")]
        values[option.removeprefix("--")] = numbers[0] if len(numbers) == 1 else numbers
    return values


def system_named(name: str) -> "System":
    """The system of that name with its default parameters; or that of a file, `my_system.py:Burgers`."""
    from romkit.systems import SYSTEMS

    if is_in_file(name):
        return _system_in_file(*name.rsplit(":", 1))
    return SYSTEMS[checks.one_of("system", name, SYSTEMS)]()


def is_in_file(name: str) -> bool:
    """Whether it is `file.py:Name`."""
    return ".py:" in name


def short_name(source: str) -> str:
    """For files: the stem of a file, the class in a file."""
    return source.rsplit(":", 1)[1] if is_in_file(source) else Path(source).stem


def _system_in_file(path: str, name: str) -> "System":
    """An instance of a class of systems, or one that the file made."""
    import importlib.util
    import inspect
    import sys

    from romkit.systems import SYSTEMS, System
    from romkit.systems.base import recorded_name

    file = existing(path)
    own = f"romkit_system_{file.stem}"  # of its own, since the file may be called like a module of others
    spec = importlib.util.spec_from_file_location(own, file)
    module = sys.modules[own] = importlib.util.module_from_spec(spec)  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FileError(path, problem=f"cannot be imported ({reason(error)})", fix="run it with python") from error
    kinds = {key: x for key, x in vars(module).items() if isinstance(x, type) and issubclass(x, System)}
    kinds = {key: kind for key, kind in kinds.items() if not inspect.isabstract(kind)}
    made = {key: x for key, x in vars(module).items() if isinstance(x, System)}
    checks.one_of("system", name, [*kinds, *made])
    if name in made:
        return made[name]
    kind = kinds[name]
    SYSTEMS[recorded_name(kind, kind.name)] = kind
    return kind()


def read_data(data: str) -> "xr.Dataset":
    """The dataset in a netCDF file, or the training set of a system."""
    from romkit.data import open_dataset
    from romkit.systems import SYSTEMS

    if data in SYSTEMS or is_in_file(data):
        return system_named(data).dataset("train")
    if not Path(data).suffix and not there(data):
        checks.one_of("data", data, SYSTEMS)
    return open_dataset(data)


def load_a(kind: str, path: str) -> "Projection | LearnedField":
    """The "projection" or the "law" in a file, or a projection that ships."""
    from romkit.bases import Basis
    from romkit.projections import Projection
    from romkit.verbs.storage import load

    model = load(path)
    found = "projection" if isinstance(model, Projection) else "basis" if isinstance(model, Basis) else "law"
    if found != kind:
        command = "fit" if kind == "projection" else "law"
        raise FileError(path, problem=f"holds a {found}, not a {kind}", fix=f"give a file by romkit {command}")
    return model


def settings(pairs: Iterable[str], option: str = "--set") -> dict[str, object]:
    """`name=value` of an option as keyword arguments: numbers, sizes like 2,18,36, `none`, true, false, or text.

    Raises:
        InputError: no `=`. Names and values are checked by what takes them.
    """
    values = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(option, expected="name=value", got=repr(pair), fix=f"write {option} epochs=2")
        values[name] = _value(text)
    return values


def names(text: str | None) -> list[str] | None:
    """Names with commas between."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def target(out: Path | None, run: str, name: str, force: bool) -> Path:
    """The main file of a run: --out itself if it is a file name, else `name` in the folder --out, or runs/`run`.

    A number behind the dot, as in F-3.15, is no ending.

    Raises:
        FileError: it is there already, and not to be replaced.
    """
    ends = out is not None and out.suffix and not out.suffix[1:].isdigit()
    file = out if ends else (out or Path("runs") / run) / name
    if there(file) and not file.is_dir() and not force:
        raise FileError(file, problem="is there, from an earlier run", fix="choose another --out, or add --force")
    return writable(file)


def refuse_options(settings: Iterable[str], options: Iterable[str]) -> None:
    """Raise where `--set` names what has an option, or an argument, of its own."""
    for name in settings:
        if name in options:
            fix = f"give {name} as an argument or option of the command"
            raise InputError("--set", expected="a setting", got=repr(name), fix=fix)


def writable(path: Path) -> Path:
    """`path`, in a folder that takes files: before a long computation, not after it."""
    checks.path("--out", path)
    make_folder(path.parent)
    if path.is_dir():
        raise FileError(path, problem="is a folder", fix="add a file name")
    return path


def written(write: Callable[[Path], Path], path: Path) -> Path:
    """What `write` made of `path`. Where that fails after all, it is kept elsewhere: it may have taken hours.

    Raises:
        FileError: it failed; the message says where it is kept.
    """
    try:
        return write(path)
    except FileError as error:
        spare = Path(tempfile.mkdtemp(prefix="romkit-kept-")) / path.name
        raise FileError(path, problem=error.problem, fix=f"it is kept in {write(spare)}") from error


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        got = repr(text) if text else "none"
        fix = f"write {option} 3.14 or {option} 3.14,3.15"
        raise InputError(option, expected="a number, or several with commas between", got=got, fix=fix) from error


def _value(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "," in text:
        return tuple(_value(part) for part in text.strip("()[] ").split(",") if part)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text.lower() == "none" else text
