"""HDF5 files whose objects are opened once."""

import h5py


class Remembered(h5py.File):
    """A file to read. h5netcdf asks for a variable anew whenever it looks at one, hundreds of times
    for a small file, and HDF5 searches for it each time.
    """

    def __init__(self, *source: object):
        super().__init__(*source)
        self._opened: dict[object, object] = {}

    def __getitem__(self, name: object) -> object:
        if not isinstance(name, str):
            return super().__getitem__(name)
        if name not in self._opened:
            self._opened[name] = super().__getitem__(name)
        return self._opened[name]
