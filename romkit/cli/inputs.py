"""Systems, data in files, models and dynamics that arguments name."""

import importlib.util
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, overload

import romkit
from romkit.core import checks
from romkit.core.errors import FileError, InputError
from romkit.core.patterns import is_pattern, matched

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


STDIN = "-"
"""Name of a file that stands for the standard input."""


def is_path(text: str) -> bool:
    """Tell whether an argument is a file, because there is one or because the name has an ending,
    and no word of romkit.
    """
    return bool(Path(text).suffix) or os.path.exists(os.path.expanduser(text))


def is_recorded(name: str) -> bool:
    """Tell whether a system is given as `file.py:Name`."""
    return ".py:" in name


def is_system(sources: Sequence[str]) -> bool:
    """Tell whether data are those of a system, by its name or in a file."""
    if len(sources) != 1:
        return False
    (name,) = sources
    return name in romkit.systems.SYSTEMS or is_recorded(name)


def short_name(sources: str | Sequence[str]) -> str:
    """Return name for results: the stem of a file, of several without their numbers, or the class
    of a system in a file.
    """
    if isinstance(sources, str):
        sources = [sources]
    if is_recorded(sources[0]):
        return sources[0].rsplit(":", 1)[1]
    stem = Path(sources[0]).stem
    # run0.nc, run1.nc and run*.nc are all called run
    if len(sources) == 1 and not is_pattern(stem):
        return stem
    common = re.split(r"[*?\[{]", stem)[0].rstrip("0123456789-_.")
    return common or Path(sources[0]).absolute().parent.name


def system_named(name: str) -> "romkit.systems.System":
    """Return system of that name with its default parameters, or that of a file,
    `my_system.py:Burgers`.
    """
    if is_recorded(name):
        return _recorded_system(*name.rsplit(":", 1))
    return romkit.systems.SYSTEMS[checks.one_of("system", name, romkit.systems.SYSTEMS)]()


def imported(path: str) -> ModuleType:
    """Return module of a Python file of the user's."""
    from romkit.core.files import existing, reason

    file = existing(path)
    # not the stem alone, which may be the name of an installed module
    alias = f"romkit_file_{file.stem}"
    loader = SourceFileLoader(alias, str(file))  # reads a file of any ending as Python
    spec = importlib.util.spec_from_loader(alias, loader)
    assert spec is not None  # of a loader there is one
    # dataclasses look their module up there
    module = sys.modules[alias] = importlib.util.module_from_spec(spec)
    try:
        loader.exec_module(module)
    except Exception as error:
        raise FileError(
            path, problem=f"cannot be imported ({reason(error)})", fix="run it with python"
        ) from error
    return module


def _recorded_system(path: str, name: str) -> "romkit.systems.System":
    """Return an instance of a class of systems in a Python file, or an instance that the file made."""
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


def matching_files(sources: Sequence[str]) -> list[str]:
    """Return names of files; those that a pattern matches in place of the pattern, which not every
    shell replaces.

    Raises:
        FileError: a pattern that matches nothing.
    """
    # quotes keep shells from replacing ~ and *
    return [str(path) for path in matched(list_files(sources)).paths]


def list_files(sources: Sequence[str]) -> list[str]:
    """Return names of files.

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
    """Return the training set of a system, or runs in files."""
    if isinstance(sources, str):
        sources = [sources]
    if is_system(sources):
        return system_named(sources[0]).dataset("train")
    if len(sources) == 1 and not is_path(sources[0]):
        checks.one_of("data", sources[0], romkit.systems.SYSTEMS)
    return read_files(sources)


def read_files(sources: str | Sequence[str]) -> "xr.Dataset":
    """Return runs in files, joined where there are several; warns of those that blew up."""
    from romkit.data.habits import warn_habits
    from romkit.data.schema import DIMS
    from romkit.readers.several import read_runs

    if isinstance(sources, str):
        sources = [sources]
    data, _ = read_runs(list_files(sources))
    if not hasattr(data, "data_vars"):
        raise FileError(
            sources[0],
            problem="is a table, and no dataset in romkit's schema",
            fix="romkit.data.save_dataset(romkit.data.describe(romkit.open(path)), 'runs.nc')",
        )
    # other data are described first, which warns of them
    if "state" in data and set(data["state"].dims) == set(DIMS):
        warn_habits(data, "extremes", "equal runs")
    return data


def read_own(sources: str | Path | Sequence[str]) -> "xr.Dataset | pd.DataFrame":
    """Return tables, if the names end in .csv, else netCDF files; several are runs."""
    data, _ = read_parameters(sources)
    return data


def read_parameters(
    sources: str | Path | Sequence[str],
) -> tuple["xr.Dataset | pd.DataFrame", list[str] | None]:
    """Return tables or netCDF files, and the parameters in the names of the files, None without
    any.
    """
    from romkit.readers.several import read_runs

    if isinstance(sources, str | Path):
        sources = [str(sources)]
    if list(sources) == [STDIN]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "stdin.csv"
            file.write_bytes(sys.stdin.buffer.read())
            data, _ = read_runs([str(file)])
            return data, None
    data, parameters = read_runs(list_files(sources))
    return data, parameters or None


@overload
def load(kind: Literal["projection"], path: str) -> "romkit.projections.Projection": ...


@overload
def load(kind: Literal["law"], path: str) -> "romkit.integrators.LearnedField": ...


def load(kind: str, path: str) -> "romkit.projections.Projection | romkit.integrators.LearnedField":
    """Return model in a file, or a pretrained one, of which `kind` is "projection" or "law"."""
    model = romkit.load(path)
    kind_of_file = "law"
    if isinstance(model, romkit.projections.Projection):
        kind_of_file = "projection"
    elif isinstance(model, romkit.bases.Basis):
        kind_of_file = "basis"
    elif not isinstance(model, romkit.integrators.LearnedField):
        kind_of_file = "hidden context"
    if kind_of_file != kind:
        command = "fit" if kind == "projection" else "law"
        raise FileError(
            path,
            problem=f"holds a {kind_of_file}, not a {kind}",
            fix=f"give a file by romkit {command}",
        )
    assert isinstance(model, romkit.projections.Projection | romkit.integrators.LearnedField)
    return model


def dynamics(name: str | None) -> "romkit.integrators.LatentDynamics | None":
    """Return dynamics of this name, or a law in a file; None where none is named."""
    if name is None:
        return None
    if Path(name).suffix == ".safetensors":
        law = load("law", name)
        assert isinstance(law, romkit.integrators.LearnedField)
        return law
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
