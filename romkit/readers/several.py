"""Runs in several files: as a table if they are tables, else as one dataset in chunks of dask."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import xarray as xr

from romkit.core.patterns import matched
from romkit.data.context import ROLE
from romkit.data.names import TRAJECTORIES
from romkit.readers.door import read_all
from romkit.readers.joined_tables import joined_tables
from romkit.readers.joining import check_units, combined, on_one_grid, with_parameter
from romkit.readers.snapshot_files import datasets_of_runs, time_in_braces, without_time


def read_runs(
    names: Sequence[str | Path], *, in_memory: float = 2e9
) -> tuple[xr.Dataset | pd.DataFrame, list[str]]:
    """Read runs in files, in memory where they fit, and name the parameters in the files' names.

    Args:
        names: of files, which may have wildcards, and parameters in braces; where one of these is a
            time, a file is a snapshot.
        in_memory: size of runs in several files [bytes] up to which they are read as a whole.

    Raises:
        FileError: a pattern without files, or a file that cannot be read, or is not like the first.
    """
    paths, parameters = matched(names)
    data = opened(paths, None, parameters, are_runs=True)
    if isinstance(data, xr.Dataset) and data.nbytes <= in_memory:
        with data:
            data = data.compute()
    return data, without_time(parameters)


def opened(
    paths: Sequence[Path],
    along: str | None,
    parameters: Mapping[str, Sequence[float]],
    are_runs: bool = False,
) -> xr.Dataset | pd.DataFrame:
    """Read files as they are, joined along a dimension; coordinates are in memory.

    Args:
        paths: the files.
        along: the dimension; None for that along which their coordinates differ.
        parameters: contexts of one value in each file, by name, which need a dimension, and perhaps
            the time of each file.
        are_runs: whether several files are runs, along a dimension of their own where they have
            none.

    Raises:
        FileError: a file that cannot be read, or is not like the first.
    """
    sources = read_all(paths)
    if isinstance(sources[0], pd.DataFrame):
        return joined_tables(paths, sources, parameters)
    if along is None and (parameters or (are_runs and len(paths) > 1)):
        along = next((name for name in TRAJECTORIES if name in sources[0].dims), TRAJECTORIES[0])
    with contextlib.ExitStack() as stack:
        for source in sources:
            stack.enter_context(source)
        data = _joined(paths, sources, along, parameters)
        # the stack would close them here, before anything is read
        data.set_close(stack.pop_all().close)
        return data


def _joined(
    paths: Sequence[Path],
    sources: Sequence[xr.Dataset],
    along: str | None,
    parameters: Mapping[str, Sequence[float]],
) -> xr.Dataset:
    check_units(paths, sources)
    contexts = without_time(parameters)
    for name in contexts:
        sources = with_parameter(paths, sources, name, parameters[name], along)
    if time_in_braces(parameters):
        aligned = on_one_grid(paths, sources, along)
        paths, sources = datasets_of_runs(paths, aligned, parameters)
    data = combined(paths, sources, along)
    for name in contexts:
        data[name].attrs[ROLE] = "context"
    return data
