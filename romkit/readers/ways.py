"""Formats that are not read, and the ways by which their libraries read them."""

import re
from collections.abc import Sequence
from pathlib import Path

from romkit.core.errors import FileError
from romkit.data.untrusted import ENGINES

FROM_ARRAYS = "romkit.data.from_arrays([run, ...], times, context={'Re': [...]})"
OF_MESH = (
    f"read it: run = numpy.stack([meshio.read(name).point_data['p'] for name in names]), "
    f"then {FROM_ARRAYS}"
)
OF_PICKLE = (
    "a pickle can run code; if you trust its author: with open(name, 'rb') as file: "
    f"run = pickle.load(file), then {FROM_ARRAYS}"
)
OF_SPICE = (
    "raw = ltspice.Ltspice(name); raw.parse(); then a table of raw.get_time(k) and "
    "raw.get_data('V(out)', k) for each step k, from 0"
)
OF_LINES = "pandas.read_json(name, lines=True) is a table, romkit.learn(table, ...)"
NAMED_INDEX = "table.rename_axis('time')"
WAYS = {
    ".vtp": OF_MESH,
    ".vts": OF_MESH,
    ".pvtu": f"read it by pyvista: numpy.stack([pyvista.read(name)['p'] for name in names]), then {FROM_ARRAYS}",
    ".xdmf": f"read it by meshio.xdmf.TimeSeriesReader, then {FROM_ARRAYS}",
    ".xmf": f"read it by meshio.xdmf.TimeSeriesReader, then {FROM_ARRAYS}",
    ".npy": "load it: pandas.DataFrame(numpy.load(name)) of an array with fields is a table; "
    f"else run = numpy.load(name) of (time, component), then {FROM_ARRAYS}",
    ".pkl": OF_PICKLE,
    ".pickle": OF_PICKLE,
    ".joblib": OF_PICKLE,
    ".tdms": "nptdms.TdmsFile.read(name).as_dataframe(time_index=True) is a table; name its index of "
    f"seconds, {NAMED_INDEX}",
    ".hea": "wfdb.rdrecord(name_without_ending).to_dataframe() is a table; name its index of times, "
    f"{NAMED_INDEX}",
    ".edf": "mne.io.read_raw_edf(name).to_data_frame() is a table, romkit.learn(table, ...)",
    ".bdf": "mne.io.read_raw_bdf(name).to_data_frame() is a table, romkit.learn(table, ...)",
    ".raw": OF_SPICE,
    ".pt": f"torch.load(name, weights_only=True), then {FROM_ARRAYS}",
    ".grib": "xarray.open_dataset(name, engine='cfgrib'), then romkit.learn(data, ...)",
    ".grib2": "xarray.open_dataset(name, engine='cfgrib'), then romkit.learn(data, ...)",
    ".c3d": "write the markers as .csv or .trc",
    ".trc": "ezc3d or opensim read it; pandas.DataFrame of its markers is a table",
    ".xvg": "MDAnalysis.auxiliary.XVG.XVGReader(name)._auxdata_values has the columns, a table by "
    "pandas.DataFrame(values, columns=['time', ...])",
    ".jsonl": OF_LINES,
    ".ndjson": OF_LINES,
    ".bp": f"read it by adios2, then {FROM_ARRAYS}",
    ".json": "pandas.DataFrame(json.load(file)), with a row for each time of each run",
}
"""Ways for files of formats that are not read, by the endings of their names."""

OF_TECPLOT = (
    "read each zone: pandas.read_csv(name, sep=r'\\s+', skiprows=3, nrows=..., names=['time', 'u'])"
)
OF_LAMMPS = (
    "log = lammps_logfile.File(name); table = pandas.DataFrame({key: log.get(key) for key in "
    "log.get_keywords()}); table['time'] = table.Step * timestep"
)
OF_MARKERS = (
    "table = pandas.read_csv(name, skiprows=5, header=None, names=['frame', 'sub', 'tip_x', ...]); "
    "table['time'] = (table.frame - 1) / rate"
)
OF_FLUENT = "pandas.read_csv(name, sep=r'\\s+', skiprows=3, names=['time', 'lift', ...]) is a table"
OF_DUMP = f"read it by MDAnalysis or ovito, then {FROM_ARRAYS}"

BEGINNINGS = {
    r"\s*(TITLE|VARIABLES)\s*=": ("Tecplot", OF_TECPLOT),
    r"LAMMPS \(": ("LAMMPS, a log", OF_LAMMPS),
    r"[^\n]*\nStep Information:": ("LTspice, a sweep", OF_SPICE),
    r"Trajectories\s*\n|PathFileType": ("motion capture", OF_MARKERS),
    r'"[^"\n]*"\s*\n"[^\n]*"\s*\n\("': ("Fluent, a monitor", OF_FLUENT),
    r"ITEM: TIMESTEP": ("LAMMPS, a dump", OF_DUMP),
}
"""Name and way of text that is no table, by an expression that its beginning matches."""


def check_is_table(path: str | Path, lines: Sequence[str]) -> None:
    """Raise FileError where text begins as a known format does that is no table."""
    beginning = "".join(lines)
    for expression, (name, fix) in BEGINNINGS.items():
        if re.match(expression, beginning, re.IGNORECASE):
            raise FileError(path, problem=f"is a file of {name}", fix=fix)


def check_is_read(path: str | Path, start: bytes) -> None:
    """Raise FileError with the way of its library where the format of a file is not read.

    Args:
        path: the file.
        start: its first bytes, those of netCDF where the ending misleads.
    """
    ending = Path(path).suffix.lower()
    if start and start[:4] not in ENGINES and ending in WAYS:
        raise FileError(path, problem=f"is not read as {ending}", fix=WAYS[ending])
