"""Groups of an HDF5 file or of a zarr store, each of which holds a run."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from romkit.core.display import listed
from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import reason
from romkit.data.names import TRAJECTORIES
from romkit.data.storage import WITHOUT_NAME, with_plain_attributes
from romkit.data.untrusted import RESTORE
from romkit.readers.axes import with_named_axes
from romkit.readers.joining import check_units, combined

ROOT = "/"

RUN = "run"
"""Dimension of groups that are runs."""


def joined_groups(
    path: Path, groups: Mapping[str, bool], settings: Mapping[str, Any]
) -> xr.Dataset | None:
    """Join runs in groups that lie beside each other and hold the same variables, in memory.

    Arrays of at most one axis beside the groups, a grid say, belong to all runs.

    Args:
        path: the file or store.
        groups: whether each has numbers of its own, by its path.
        settings: by which xarray reads them.

    Returns:
        The runs along a dimension of the names of their groups, None where groups are something
        else.

    Raises:
        FileError: a group cannot be read.
    """
    inner = _beside(groups)
    if len(inner) < 2:
        return None
    names = [group.rpartition("/")[2] for group in inner]
    places = [f"{path}, group {group}" for group in inner]
    try:
        runs = [_read(path, group, settings) for group in inner]
        shared = _read(path, ROOT, settings)
    except Exception as error:  # readers raise nearly anything on files of others
        raise FileError(
            path, problem=f"has groups that cannot be read ({reason(error)})", fix=RESTORE
        ) from error
    if not _are_runs(runs, shared):
        return None
    sources = list(map(_completed, places, runs, itertools.repeat(shared)))
    check_units(places, sources)
    warn(f"{path}: groups are runs: {listed(names)}", DataWarning)
    return combined(places, sources, RUN).assign_coords({RUN: names})


def _beside(groups: Mapping[str, bool]) -> list[str]:
    """Return the groups with numbers, none where they do not lie beside each other."""
    inner = sorted(group for group, has_data in groups.items() if has_data and group != ROOT)
    folders = {group.rpartition("/")[0] for group in inner}
    return inner if len(folders) == 1 else []


def _read(path: Path, group: str, settings: Mapping[str, Any]) -> xr.Dataset:
    """Return a group in memory."""
    try:
        with xr.open_dataset(path, group=group, decode_times=False, **settings) as data:
            return with_plain_attributes(data.load())
    except KeyError:
        # arrays of a zarr store have names of axes where xarray wrote them
        return with_plain_attributes(_arrays_of_store(path, group))


def _arrays_of_store(store: Path, group: str) -> xr.Dataset:
    """Return arrays of a group whose axes have no names, which are called as those of HDF5."""
    import zarr  # an extra

    source = zarr.open_group(store, path=group.strip("/"), mode="r")
    variables = {}
    for name, values in source.arrays():
        dims = [f"{WITHOUT_NAME}{name}_{place}" for place in range(values.ndim)]
        variables[name] = (dims, values[...])
    return xr.Dataset(variables, attrs=dict(source.attrs))


def _are_runs(runs: Sequence[xr.Dataset], shared: xr.Dataset) -> bool:
    """Tell whether groups have variables of the same names and dimensions, and no runs of their
    own.
    """
    first = {name: len(variable.dims) for name, variable in runs[0].variables.items()}
    for run in runs:
        if {name: len(variable.dims) for name, variable in run.variables.items()} != first:
            return False
        if set(TRAJECTORIES) & set(run.dims):
            return False
    return all(variable.ndim < 2 for variable in shared.variables.values())


def _completed(name: str, run: xr.Dataset, shared: xr.Dataset) -> xr.Dataset:
    """Return a run with what all runs share, and with names for axes that have none."""
    # axes without a name are counted anew in each group
    counted = [dim for dim in shared.dims if str(dim).startswith(WITHOUT_NAME)]
    renamed = shared.rename({dim: f"{WITHOUT_NAME}shared_{dim}" for dim in counted})
    missing = {key: values for key, values in renamed.variables.items() if key not in run.variables}
    coords = [key for key in missing if key in renamed.coords]
    completed = _with_numbers(run.assign(missing).set_coords(coords))
    return with_named_axes(name, completed.assign_attrs(shared.attrs | run.attrs))


def _with_numbers(run: xr.Dataset) -> xr.Dataset:
    """Return a run whose arrays of one number, along axes without a name, are numbers."""
    numbers = {}
    for name, variable in run.variables.items():
        is_nameless = all(str(dim).startswith(WITHOUT_NAME) for dim in variable.dims)
        if variable.dims and variable.size == 1 and is_nameless:
            numbers[name] = ((), variable.values.reshape(()), variable.attrs)
    return run.assign(numbers)
