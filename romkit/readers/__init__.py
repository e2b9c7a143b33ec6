"""Readers: files and habits of others, in the schema of `romkit.data`.

`romkit.open`, `romkit.learn` and the command line read files by the first reader that can read them.
A package adds one of its own, a module or object with `can_read(path)` and `read(path)`, by an entry
point of the group `romkit.readers`.
"""

from romkit.readers.door import Reader, read
from romkit.readers.vtk import write_vtk

__all__ = ["Reader", "read", "write_vtk"]
