"""Files that hold arrays by name, without names of their axes: NumPy's .npz, and MATLAB's .mat."""

from pathlib import Path

import numpy as np
import xarray as xr

from romkit.core.errors import FileError
from romkit.core.files import existing, reason
from romkit.core.types import Array
from romkit.data.storage import WITHOUT_NAME
from romkit.readers.axes import CLOCKS, name_axes

ENDINGS = (".npz", ".mat")

HDF5_IN_MATLAB = b"MATLAB 7.3"
"""First bytes of files of MATLAB that are HDF5."""

OF_VERSION_73 = (
    "read it by h5py, which has axes in reverse order: with h5py.File(path) as file: "
    "x = file['x'][:].T; then romkit.data.from_arrays(runs, times, context={...})"
)
OF_ARRAYS = (
    "call the array of times so, or give romkit.data.from_arrays([run, ...], times, "
    "context={'Re': [...]})"
)
MODELICA = "Aclass"
"""Matrix that all results of Dymola and OpenModelica have."""

OF_MODELICA = (
    "reader = buildingspy.io.outputfile.Reader(path, 'dymola'); t, x = reader.values('x'); then "
    "romkit.data.from_arrays(runs, times, context={...})"
)
OF_STRUCTS = "make a table of its entries, romkit.learn(table, ...): the lines are in the guide, Your own data"


def can_read(path: Path) -> bool:
    """Tell whether a file holds arrays by name, by the ending of its name."""
    return path.suffix.lower() in ENDINGS


def read(path: Path) -> xr.Dataset:
    """Return the arrays of a file, along the times that one of them holds; single numbers are
    attributes.

    Raises:
        FileError: no such file, entries that are no arrays of numbers, or no times.
    """
    arrays, numbers = {}, {}
    for name, values in _entries(existing(path)).items():
        if values.dtype.kind in "OV":
            raise FileError(path, problem=f"holds {name}, a struct or cell array", fix=OF_STRUCTS)
        if values.dtype.kind not in "iufbc":
            continue
        if values.size == 1 and name not in CLOCKS:
            numbers[name] = values.item()
        else:
            # as h5netcdf calls axes without a name
            dims = [f"{WITHOUT_NAME}{name}_{place}" for place in range(values.ndim)]
            arrays[name] = (dims, values)
    if not arrays:
        raise FileError(path, problem="holds no arrays of numbers", fix=OF_STRUCTS)
    return name_axes(path, xr.Dataset(arrays, attrs=numbers), OF_ARRAYS)


def _entries(file: Path) -> dict[str, Array]:
    """Return arrays by name.

    Raises:
        FileError: the file is damaged, or holds pickled objects.
    """
    try:
        if file.suffix.lower() == ".mat":
            return _read_matlab(file)
        with np.load(file, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in archive.files}
    except FileError:
        raise
    except Exception as error:  # archives raise nearly anything where they are damaged
        fix = "check that it was written to its end"
        if "pickle" in str(error):
            # what was pickled can run code
            fix = "load it yourself, and give romkit.data.from_arrays(runs, times, context={...})"
        raise FileError(file, problem=f"cannot be read ({reason(error)})", fix=fix) from error


def _read_matlab(file: Path) -> dict[str, Array]:
    """Return variables of a file of MATLAB, which has no arrays of one axis, without that of columns."""
    from scipy.io import loadmat  # slow to import, and seldom needed

    with file.open("rb") as stream:
        if stream.read(len(HDF5_IN_MATLAB)) == HDF5_IN_MATLAB:
            raise FileError(file, problem="is a file of MATLAB 7.3", fix=OF_VERSION_73)
    entries = loadmat(file)
    if MODELICA in entries:
        raise FileError(file, problem="is a result of Modelica", fix=OF_MODELICA)
    arrays = {}
    for name, values in entries.items():
        if isinstance(values, np.ndarray):
            is_row_or_column = values.ndim == 2 and 1 in values.shape
            arrays[name] = values.reshape(-1) if is_row_or_column else values
    return arrays
