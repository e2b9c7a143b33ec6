"""Arguments and options that commands share: context parameters by name, settings, files, names of
systems.
"""

import contextlib
import importlib.util
import inspect
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option
from typer.core import TyperCommand

import romkit
from romkit.core import checks
from romkit.core.errors import FileError, InputError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

CONTEXT = "romkit.context"
"""Key under which a command keeps the context parameters of its command line."""

Data = Annotated[
    str,
    Argument(
        metavar="DATA", help="A netCDF file, or a system, whose training set of seed 0 it is."
    ),
]
Model = Annotated[
    str,
    Argument(metavar="MODEL", help="A .safetensors file by `romkit fit`, or a pretrained model."),
]
Settings = Annotated[
    list[str] | None,
    Option("--set", help="Set a value, any number of times.", metavar="NAME=VALUE"),
]
Device = Annotated[
    str | None, Option(help="cpu or cuda; by default a fit takes a GPU, a run the CPU.")
]
Force = Annotated[bool, Option("--force", help="Replace the results of an earlier run.")]


class ContextCommand(TyperCommand):
    """Command that takes context parameters as options named after them: `--F 3.14,3.15`.

    The system, an argument of the same command, decides which parameters there are. So options that
    the command does not declare are set aside here, and checked by `context_values`.
    """

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        own = {option: parameter for parameter in self.get_params(ctx) for option in parameter.opts}
        kept, context, tokens = [], {}, deque(args)
        while tokens:
            token = tokens.popleft()
            option, equals, value = token.partition("=")
            if option.startswith("--") and option not in own:
                follows = tokens and not tokens[0].startswith("--")
                context.setdefault(option, []).append(
                    value if equals else tokens.popleft() if follows else ""
                )
                continue
            kept.append(token)
            if (
                option in own
                and not equals
                and not getattr(own[option], "is_flag", False)
                and tokens
            ):
                kept.append(tokens.popleft())
        ctx.meta[CONTEXT] = context
        return super().parse_args(ctx, kept)


def context_values(ctx: Context, names: Iterable[str]) -> dict[str, object]:
    """Context parameters on the command line, as the keyword arguments that Python takes.

    Raises:
        InputError: an option that is neither the command's nor one of the parameters `names`, or
            not a number.
    """
    own = [
        option
        for parameter in ctx.command.params
        for option in parameter.opts
        if option.startswith("--")
    ]
    known, values = [*(f"--{name}" for name in names), *own], {}
    for option, texts in ctx.meta[CONTEXT].items():
        checks.one_of("option", option, known)
        numbers = [_number(option, entry) for text in texts for entry in text.split(",")]
        values[option.removeprefix("--")] = numbers[0] if len(numbers) == 1 else numbers
    return values


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        got, fix = repr(text) if text else "none", f"write {option} 3.14 or {option} 3.14,3.15"
        raise InputError(
            option, expected="a number, or several with commas between", got=got, fix=fix
        ) from error


def settings(
    pairs: Iterable[str] | None, option: str = "--set", refused: Iterable[str] = ()
) -> dict[str, object]:
    """`name=value` of an option as keyword arguments: numbers, sizes like 2,18,36, `none`, true,
    false, or text.

    Raises:
        InputError: no `=`, or a name that has an argument or option of its own (`refused`). Values,
            and other names, are checked by the function that takes them.
    """
    values = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(
                option, expected="name=value", got=repr(pair), fix=f"write {option} epochs=2"
            )
        if name in refused:
            fix = f"give {name} as an argument or option of the command"
            raise InputError(option, expected="a setting", got=repr(name), fix=fix)
        values[name] = _value(text)
    return values


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


def names(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def is_path(text: str) -> bool:
    """Whether an argument is a file, because there is one or because the name has an ending, and no
    word of romkit.
    """
    return bool(Path(text).suffix) or os.path.exists(os.path.expanduser(text))


def is_in_file(name: str) -> bool:
    """Whether the name of a system is `file.py:Name`."""
    return ".py:" in name


def short_name(source: str) -> str:
    """Name for results: the stem of a file, or the class of a system in a file."""
    return source.rsplit(":", 1)[1] if is_in_file(source) else Path(source).stem


def system_named(name: str) -> "romkit.systems.System":
    """System of that name with its default parameters, or that of a file, `my_system.py:Burgers`."""
    if is_in_file(name):
        return _system_in_file(*name.rsplit(":", 1))
    return romkit.systems.SYSTEMS[checks.one_of("system", name, romkit.systems.SYSTEMS)]()


def imported(path: str) -> ModuleType:
    """Module of a Python file of the user's."""
    from romkit.core.files import existing, reason

    file = existing(path)
    # not the stem alone, which may be the name of an installed module
    alias = f"romkit_file_{file.stem}"
    loader = SourceFileLoader(alias, str(file))  # reads a file of any ending as Python
    spec = importlib.util.spec_from_loader(alias, loader)
    # dataclasses look their module up there
    module = sys.modules[alias] = importlib.util.module_from_spec(spec)
    try:
        loader.exec_module(module)
    except Exception as error:
        raise FileError(
            path, problem=f"cannot be imported ({reason(error)})", fix="run it with python"
        ) from error
    return module


def _system_in_file(path: str, name: str) -> "romkit.systems.System":
    """Instance of a class of systems in a Python file, or an instance that the file made."""
    from romkit.systems.base import System
    from romkit.systems.naming import recorded_name

    kinds = lambda x: isinstance(x, type) and issubclass(x, System) and not inspect.isabstract(x)  # noqa: E731
    found = {key: x for key, x in vars(imported(path)).items() if isinstance(x, System) or kinds(x)}
    system = found[checks.one_of("system", name, found)]
    if isinstance(system, System):
        return system
    romkit.systems.SYSTEMS[recorded_name(system, system.name, System)] = system
    return system()


def read_data(data: str) -> "xr.Dataset":
    """Dataset in a netCDF file, or the training set of a system."""
    if data in romkit.systems.SYSTEMS or is_in_file(data):
        return system_named(data).dataset("train")
    if not is_path(data):
        checks.one_of("data", data, romkit.systems.SYSTEMS)
    return romkit.data.open_dataset(data)


def read_own(file: str) -> "xr.Dataset | pd.DataFrame":
    """A table, if the name ends in .csv, else a netCDF file."""
    if Path(file).suffix.lower() != ".csv":
        return romkit.data.open_dataset(file)
    from romkit.data.tables import read_table

    return read_table(file)


def load(kind: str, path: str) -> "romkit.projections.Projection | romkit.integrators.LearnedField":
    """Model in a file, or a pretrained one, of which `kind` is "projection" or "law"."""
    model = romkit.load(path)
    kinds = {
        "projection": romkit.projections.Projection,
        "basis": romkit.bases.Basis,
        "law": object,
    }
    found = next(name for name, one in kinds.items() if isinstance(model, one))
    if found != kind:
        command = "fit" if kind == "projection" else "law"
        raise FileError(
            path, problem=f"holds a {found}, not a {kind}", fix=f"give a file by romkit {command}"
        )
    return model


def target(out: Path | None, run: str, name: str, force: bool) -> Path:
    """Main file of a run: --out itself if it is a file name, else `name` in the folder --out, or in
    runs/`run`.

    Raises:
        FileError: there is such a file and it must not be replaced, or nothing can be written
            there.
    """
    ends = out is not None and out.suffix and not out.suffix[1:].isdigit()  # F-3.15 is a folder
    file = out if ends else (out or Path("runs") / run) / name
    if os.path.isfile(file) and not force:
        raise FileError(
            file,
            problem="is there, from an earlier run",
            fix="choose another --out, or add --force",
        )
    return writable(file)


def writable(path: Path) -> Path:
    """`path`, if its folder takes files: checked before a long computation; a folder that was not
    there is not kept.
    """
    from romkit.core.files import make_folder

    new = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    make_folder(path.parent)
    with contextlib.suppress(OSError):  # somebody else may have put something there
        for folder in new:
            folder.rmdir()
    if path.is_dir():
        raise FileError(path, problem="is a folder", fix="add a file name")
    return path


def write(
    save: Callable[[object, Path], Path], result: object, path: Path, before: str = ""
) -> None:
    """Save a result and print where. If that fails it is saved elsewhere: the result may have taken
    hours.

    Raises:
        FileError: the file cannot be written; the message says where the result is instead.
    """
    from romkit.core.files import make_folder

    try:
        make_folder(path.parent)
        print(f"{before}wrote {save(result, path)}")
    except FileError as error:
        spare = Path(tempfile.mkdtemp(prefix="romkit-kept-")) / path.name
        raise FileError(
            path, problem=error.problem, fix=f"it is kept in {save(result, spare)}"
        ) from error
