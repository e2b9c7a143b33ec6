"""Arguments and options that commands share: context parameters by name, settings, files, names of
systems.
"""

import contextlib
import importlib.util
import inspect
import os
import re
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option
from typer.core import TyperCommand

import romkit
from romkit.cli import output
from romkit.core import checks, display
from romkit.core.errors import FileError, InputError
from romkit.core.patterns import is_pattern, matched

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

OF_CONTEXT = "--context."
"""Prefix of a context parameter that is called like an option of its command."""

CONTEXT = "romkit.context"
"""Key under which a command keeps the context parameters of its command line."""

Data = Annotated[
    list[str],
    Argument(
        metavar="DATA",
        help="Files of runs, or a pattern; or a system, whose training set of seed 0 it is.",
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
    the command does not declare are set aside here, and checked by `context_values`. One that is
    called like an option of the command is `--context.dt 0.1`.
    """

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        declared = {}
        for parameter in self.get_params(ctx):
            for option in parameter.opts:
                declared[option] = parameter
        command_line, context, tokens = [], {}, deque(args)
        while tokens:
            token = tokens.popleft()
            option, equals, value = token.partition("=")
            if option.startswith(OF_CONTEXT):
                if not equals:
                    value = _value_that_follows(tokens)
                option = f"--{option.removeprefix(OF_CONTEXT)}"
                context.setdefault(option, []).append(value)
            elif option in declared:
                command_line.append(token)
                # its value may begin with --, which the parser refuses in better words
                takes_next = not equals and not getattr(declared[option], "is_flag", False)
                if takes_next and tokens:
                    command_line.append(tokens.popleft())
            elif option.startswith("--"):
                if not equals:
                    value = _value_that_follows(tokens)
                context.setdefault(option, []).append(value)
            else:
                command_line.append(token)
        ctx.meta[CONTEXT] = context
        return super().parse_args(ctx, command_line)


def _value_that_follows(tokens: deque[str]) -> str:
    """The next token, unless it is an option; empty where there is none."""
    if tokens and not tokens[0].startswith("--"):
        return tokens.popleft()
    return ""


class MissingParameter(InputError):
    """Context parameters that the command line has to name."""

    def __init__(self, missing: Sequence["romkit.data.ContextParameter"]):
        names = ", ".join(parameter.name for parameter in missing)
        verb = "is" if len(missing) == 1 else "are"
        advice = []
        for parameter in missing:
            middle = (parameter.low + parameter.high) / 2
            unit = display.with_unit(parameter.units)
            span = f"{parameter.low:g} ... {parameter.high:g}{unit}"
            advice.append(f"--{parameter.name} {middle:.3g} (range {span})")
        fix = f"add {' '.join(advice)}"
        super().__init__(names, expected="a number for each", got="none", fix=fix)
        # "expected a number, got none" says less than the range does
        self.args = (f"{names} {verb} missing: {fix}",)


def context_values(ctx: Context, names: Iterable[str]) -> dict[str, object]:
    """Context parameters on the command line, as the keyword arguments that Python takes.

    Raises:
        InputError: an option that is neither the command's nor one of the parameters `names`, or
            not a number.
    """
    names = list(names)
    _check_ambiguous(ctx, names)
    # options of the command are among the suggestions for one that is misspelt
    options = [f"--{name}" for name in names]
    for parameter in ctx.command.params:
        options += [option for option in parameter.opts if option.startswith("--")]
    values = {}
    for option, texts in ctx.meta[CONTEXT].items():
        checks.one_of("option", option, options)
        # --F 3.14 --F 3.15 is the same as --F 3.14,3.15
        numbers = [_number(option, entry) for entry in ",".join(texts).split(",")]
        if len(numbers) == 1:
            (numbers,) = numbers
        values[option.removeprefix("--")] = numbers
    return values


def _check_ambiguous(ctx: Context, names: Sequence[str]) -> None:
    """Raise where an option is called like a parameter, and either may be meant."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name)
        if source is None or source.name != "COMMANDLINE":
            continue
        for option in parameter.opts:
            name = option.removeprefix("--")
            if name not in names or option in ctx.meta[CONTEXT]:
                continue
            raise InputError(
                option,
                expected=f"{OF_CONTEXT}{name} for the parameter of the context",
                got=f"{option}, an option of this command",
                fix=f"add {OF_CONTEXT}{name} VALUE",
            )


def complete_context(ctx: Context, system: "romkit.systems.System") -> dict[str, object]:
    """Values on the command line of all context parameters of a system.

    Raises:
        MissingParameter: some have none.
    """
    values = context_values(ctx, system.context_names)
    missing = [parameter for parameter in system.context if parameter.name not in values]
    if missing:
        raise MissingParameter(missing)
    return values


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(
            option,
            expected="a number, or several with commas between",
            got=repr(text) if text else "none",
            fix=f"write {option} 3.14 or {option} 3.14,3.15",
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
            raise InputError(
                option,
                expected="a setting",
                got=repr(name),
                fix=f"give {name} as an argument or option of the command",
            )
        values[name] = _value(text)
    return values


def _value(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "," in text:
        entries = text.strip("()[] ").split(",")
        return tuple(_value(entry) for entry in entries if entry)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text.lower() == "none" else text


def names(text: str | None) -> list[str] | None:
    """Names separated by commas; those within brackets belong to a name, `u[0, 1]`."""
    if text is None:
        return None
    between = re.split(r",(?![^\[(]*[\])])", text)
    return [name.strip() for name in between if name.strip()]


def is_path(text: str) -> bool:
    """Whether an argument is a file, because there is one or because the name has an ending, and no
    word of romkit.
    """
    return bool(Path(text).suffix) or os.path.exists(os.path.expanduser(text))


def is_in_file(name: str) -> bool:
    """Whether the name of a system is `file.py:Name`."""
    return ".py:" in name


def is_system(sources: Sequence[str]) -> bool:
    """Whether data are those of a system, by its name or in a file."""
    if len(sources) != 1:
        return False
    (name,) = sources
    return name in romkit.systems.SYSTEMS or is_in_file(name)


def short_name(sources: str | Sequence[str]) -> str:
    """Name for results: the stem of a file, of several without their numbers, or the class of a
    system in a file.
    """
    if isinstance(sources, str):
        sources = [sources]
    if is_in_file(sources[0]):
        return sources[0].rsplit(":", 1)[1]
    stem = Path(sources[0]).stem
    # run0.nc, run1.nc and run*.nc are all called run
    if len(sources) == 1 and not is_pattern(stem):
        return stem
    common = re.split(r"[*?\[{]", stem)[0].rstrip("0123456789-_.")
    return common or Path(sources[0]).absolute().parent.name


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

    systems = {}
    for key, value in vars(imported(path)).items():
        is_kind = isinstance(value, type) and issubclass(value, System)
        if isinstance(value, System) or (is_kind and not inspect.isabstract(value)):
            systems[key] = value
    system = systems[checks.one_of("system", name, systems)]
    if isinstance(system, System):
        return system
    # models and data of it name it, and are read again by that name
    romkit.systems.SYSTEMS[recorded_name(system, system.name, System)] = system
    return system()


def files_of(sources: Sequence[str]) -> list[str]:
    """Names of files; those that a pattern matches in place of the pattern, which not every shell
    replaces.

    Raises:
        FileError: a pattern that matches nothing.
    """
    # quotes keep shells from replacing ~ and *
    return [str(path) for path in matched(without_systems(sources)).paths]


def without_systems(sources: Sequence[str]) -> list[str]:
    """Names of files.

    Raises:
        InputError: a system stands beside other words, such as a second value of a parameter.
    """
    for source in sources:
        is_system_among = len(sources) > 1 and source in romkit.systems.SYSTEMS
        if is_system_among and not os.path.exists(source):
            raise InputError(
                "DATA",
                expected="files, or one system",
                got=" ".join(sources),
                fix="give the system alone; values of a parameter have commas between, 3.14,3.15",
            )
    return list(sources)


def read_data(sources: str | Sequence[str]) -> "xr.Dataset":
    """The training set of a system, or runs in files."""
    if isinstance(sources, str):
        sources = [sources]
    if is_system(sources):
        return system_named(sources[0]).dataset("train")
    if len(sources) == 1 and not is_path(sources[0]):
        checks.one_of("data", sources[0], romkit.systems.SYSTEMS)
    return read_files(sources)


def read_files(sources: str | Sequence[str]) -> "xr.Dataset":
    """Runs in files, joined where there are several."""
    from romkit.data.several import joined_runs

    if isinstance(sources, str):
        sources = [sources]
    return joined_runs(*matched(without_systems(sources)))


def read_own(sources: str | Path | Sequence[str]) -> "xr.Dataset | pd.DataFrame":
    """Tables, if the names end in .csv, else netCDF files; several are runs."""
    data, _ = read_with_parameters(sources)
    return data


def read_with_parameters(
    sources: str | Path | Sequence[str],
) -> tuple["xr.Dataset | pd.DataFrame", list[str] | None]:
    """Tables or netCDF files, and the parameters in the names of the files, None without any."""
    from romkit.data.several import read_runs

    if isinstance(sources, str | Path):
        sources = [str(sources)]
    data, parameters = read_runs(without_systems(sources))
    return data, parameters or None


def load(kind: str, path: str) -> "romkit.projections.Projection | romkit.integrators.LearnedField":
    """Model in a file, or a pretrained one, of which `kind` is "projection" or "law"."""
    model = romkit.load(path)
    kind_of_file = "law"
    if isinstance(model, romkit.projections.Projection):
        kind_of_file = "projection"
    elif isinstance(model, romkit.bases.Basis):
        kind_of_file = "basis"
    if kind_of_file != kind:
        command = "fit" if kind == "projection" else "law"
        raise FileError(
            path,
            problem=f"holds a {kind_of_file}, not a {kind}",
            fix=f"give a file by romkit {command}",
        )
    return model


def dynamics(name: str | None) -> "romkit.integrators.LatentDynamics | None":
    """Dynamics of this name, or a law in a file; None where none is named."""
    if name is None:
        return None
    if Path(name).suffix == ".safetensors":
        return load("law", name)
    kinds = romkit.integrators.DYNAMICS
    if name not in kinds and Path(name).suffix == ".py":
        raise InputError(
            "dynamics",
            expected="a name or a file by romkit law",
            got=name,
            fix="import the file, romkit --import FILE.py ..., and give the name that it enters into "
            "DYNAMICS",
        )
    return kinds[checks.one_of("dynamics", name, kinds)]()


def check_device(name: str | None) -> None:
    """Raise InputError for a device that there is not, before anything is computed."""
    if name is not None:
        from romkit.engine import device_of

        device_of("device", name)


RESULTS = ("comparison", "data", "forecast", "law", "projection", "rollout")
"""File names that commands give their results, in folders that are named after the source."""


def result_name(source: str) -> str:
    """Name of a result: that of its file, or of the folder of a file that is called like others."""
    file = Path(source)
    if file.stem in RESULTS and file.parent.name:
        return file.parent.name
    return file.stem


def target(out: Path | None, run: str, name: str, force: bool) -> Path:
    """Main file of a run: --out itself if it is a file name, else `name` in the folder --out, or in
    runs/`run`.

    Raises:
        FileError: there is such a file and it must not be replaced, or nothing can be written
            there.
    """
    folder = Path("runs") / run if out is None else out
    # F-3.15 is a folder: a number behind a dot is no ending
    is_file = out is not None and out.suffix and not out.suffix[1:].isdigit()
    file = out if is_file else folder / name
    if os.path.isfile(file) and not force:
        raise FileError(
            file,
            problem="is there, from an earlier run",
            fix="choose another --out, or add --force",
        )
    return writable(file)


def targets_of(sources: Sequence[str], out: Path | None, pattern: str) -> dict[str, Path]:
    """File to write for each of several files: `out` for a single one, else named after it.

    Raises:
        InputError: one name for several files.
    """
    names = files_of(sources)
    if out is not None:
        if len(names) > 1:
            raise InputError(
                "--out",
                expected="none beside several files",
                got=out,
                fix="leave it out: pictures and pages are named after their files",
            )
        return {names[0]: writable(out)}
    targets = {name: writable(Path(pattern.format(result_name(name)))) for name in names}
    if len(set(targets.values())) < len(targets):
        raise InputError(
            "FILE",
            expected="files with names of their own",
            got="two alike",
            fix="write them one by one, with --out",
        )
    return targets


def writable(path: Path) -> Path:
    """`path`, if its folder takes files: checked before a long computation; a folder that was not
    there is not kept.
    """
    from romkit.core.files import make_folder

    missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    make_folder(path.parent)
    with contextlib.suppress(OSError):  # somebody else may have put something there
        for folder in missing:
            folder.rmdir()
    if path.is_dir():
        raise FileError(path, problem="is a folder", fix="add a file name")
    return path


def write(
    save: Callable[[object, Path], Path], result: object, path: Path, label: str = ""
) -> None:
    """Save a result and print where. If that fails it is saved elsewhere: the result may have taken
    hours.

    Raises:
        FileError: the file cannot be written; the message says where the result is instead.
    """
    from romkit.core.files import make_folder

    try:
        # `writable` left no folder behind, so that a command that fails leaves none
        make_folder(path.parent)
        output.wrote(save(result, path), label)
    except FileError as error:
        spare = Path(tempfile.mkdtemp(prefix="romkit-kept-")) / path.name
        raise FileError(
            path, problem=error.problem, fix=f"it is kept in {save(result, spare)}"
        ) from error
