"""Groups of an HDF5 file or of a zarr store, each of which holds a run."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import xarray as xr

from romkit.core.errors import FileError
from romkit.core.files import reason
from romkit.data.names import TRAJECTORIES
from romkit.data.storage import WITHOUT_NAME, WITHOUT_NAMES, with_plain_attributes
from romkit.data.untrusted import (
    RESTORE,
    check_seal_of_file,
    check_store,
    checked_groups,
    is_store,
)
from romkit.readers.axes import with_named_axes

HDF5 = b"\x89HDF"

ROOT = "/"


def runs_in_groups(path: Path) -> dict[str, xr.Dataset]:
    """Runs in memory by the names of their groups, which lie beside each other and hold the same
    variables; none where groups of a file are something else.

    Arrays of at most one axis beside the groups, a grid say, belong to all runs.

    Raises:
        FileError: the file is damaged, or reads other files.
    """
    groups, settings = _groups(path)
    inner = sorted(group for group, has_data in groups.items() if has_data and group != ROOT)
    if len(inner) < 2 or len({group.rpartition("/")[0] for group in inner}) > 1:
        return {}
    try:
        runs = {group: _read(path, group, settings) for group in inner}
        shared = _read(path, ROOT, settings)
    except Exception as error:  # readers raise nearly anything on files of others
        raise FileError(
            path, problem=f"has groups that cannot be read ({reason(error)})", fix=RESTORE
        ) from error
    if not _are_runs(list(runs.values()), shared):
        return {}
    return {
        group.rpartition("/")[2]: _completed(f"{path}, group {group}", run, shared)
        for group, run in runs.items()
    }


def _groups(path: Path) -> tuple[Mapping[str, bool], dict[str, object]]:
    """Whether groups have numbers, by their paths, and the settings by which xarray reads them."""
    if is_store(path):
        check_store(path)
        return _groups_of_store(path), {"engine": "zarr", "consolidated": False}
    if not path.is_file():
        return {}, {}
    with path.open("rb") as stream:
        if stream.read(len(HDF5)) != HDF5:
            return {}, {}
    check_seal_of_file(path)
    return checked_groups(path, path), {"engine": "h5netcdf", **WITHOUT_NAMES}


def _groups_of_store(store: Path) -> dict[str, bool]:
    """Groups of a zarr store that hold arrays, by the files that describe these."""
    groups = {}
    for folder, _, files in os.walk(store):
        is_array = ".zarray" in files
        if "zarr.json" in files:
            description = json.loads(Path(folder, "zarr.json").read_text())
            is_array = description.get("node_type") == "array"
        if is_array:
            inside = Path(folder).parent.relative_to(store).as_posix()
            groups["/" + inside.removeprefix(".")] = True
    return groups


def _read(path: Path, group: str, settings: Mapping[str, object]) -> xr.Dataset:
    """A group in memory."""
    try:
        with xr.open_dataset(path, group=group, decode_times=False, **settings) as data:
            return with_plain_attributes(data.load())
    except KeyError:
        # arrays of a zarr store have names of axes where xarray wrote them
        return with_plain_attributes(_arrays_of_store(path, group))


def _arrays_of_store(store: Path, group: str) -> xr.Dataset:
    """Arrays of a group whose axes have no names, which are called as those of HDF5."""
    import zarr  # an extra

    source = zarr.open_group(store, path=group.strip("/"), mode="r")
    variables = {}
    for name, values in source.arrays():
        dims = [f"{WITHOUT_NAME}{name}_{place}" for place in range(values.ndim)]
        variables[name] = (dims, values[...])
    return xr.Dataset(variables, attrs=dict(source.attrs))


def _are_runs(runs: Sequence[xr.Dataset], shared: xr.Dataset) -> bool:
    """Whether groups have variables of the same names and dimensions, and no runs of their own."""
    first = {name: len(variable.dims) for name, variable in runs[0].variables.items()}
    for run in runs:
        if {name: len(variable.dims) for name, variable in run.variables.items()} != first:
            return False
        if set(TRAJECTORIES) & set(run.dims):
            return False
    return all(variable.ndim < 2 for variable in shared.variables.values())


def _completed(name: str, run: xr.Dataset, shared: xr.Dataset) -> xr.Dataset:
    """A run with what all runs share, and with names for axes that have none."""
    # axes without a name are counted anew in each group
    counted = [dim for dim in shared.dims if str(dim).startswith(WITHOUT_NAME)]
    renamed = shared.rename({dim: f"{WITHOUT_NAME}shared_{dim}" for dim in counted})
    missing = {key: values for key, values in renamed.variables.items() if key not in run.variables}
    coords = [key for key in missing if key in renamed.coords]
    completed = _with_numbers(run.assign(missing).set_coords(coords))
    return with_named_axes(name, completed.assign_attrs(shared.attrs | run.attrs))


def _with_numbers(run: xr.Dataset) -> xr.Dataset:
    """A run whose arrays of one number, along axes without a name, are numbers."""
    numbers = {}
    for name, variable in run.variables.items():
        is_nameless = all(str(dim).startswith(WITHOUT_NAME) for dim in variable.dims)
        if variable.dims and variable.size == 1 and is_nameless:
            numbers[name] = ((), variable.values.reshape(()), variable.attrs)
    return run.assign(numbers)
