"""HDF5 files whose objects are opened once."""

import h5py


class Remembered(h5py.File):
    """A file whose root group remembers its objects. h5netcdf asks for a variable anew whenever it
    looks at one, hundreds of times for a small file, and HDF5 searches for it each time.
    """

    def __init__(self, *source: object, **settings: object):
        super().__init__(*source, **settings)
        self._opened: dict[object, object] = {"/": self}

    def __getitem__(self, name: object) -> object:
        if not isinstance(name, str):
            return super().__getitem__(name)
        if name not in self._opened:
            self._opened[name] = super().__getitem__(name)
        return self._opened[name]

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        # the same object may be known by several paths
        self._opened = {"/": self}
