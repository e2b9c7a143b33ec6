"""Datasets: one xarray schema for every system, named contexts, tensors for training, files with
checksums.

`describe` and `from_arrays`, which turn data of others into the schema, stand in `romkit.readers`
and are loaded at their first use; nothing else here knows that room. Type checkers read the stub
beside this file.
"""

import importlib

from romkit.data.context import ContextParameter, context_matrix, context_names
from romkit.data.contexts import Contexts
from romkit.data.controls import Control, control_names, inputs_held
from romkit.data.delays import delayed
from romkit.data.grids import fields
from romkit.data.layout import Layout, layout_of
from romkit.data.resample import resampled
from romkit.data.schema import DIMS, check_dataset, check_states, make_dataset
from romkit.data.storage import open_dataset, save_dataset
from romkit.data.summary import summary
from romkit.data.times import even_step, times_of
from romkit.data.trajectories import Snapshots, snapshots, split, trajectories
from romkit.data.velocity import with_velocity

OF_READERS = {"describe": "romkit.readers.describe", "from_arrays": "romkit.readers.arrays"}
"""Modules of the public names that are loaded at their first use."""

__all__ = [
    "DIMS",
    "ContextParameter",
    "Contexts",
    "Control",
    "Layout",
    "Snapshots",
    "check_dataset",
    "check_states",
    "context_matrix",
    "context_names",
    "control_names",
    "delayed",
    "describe",
    "even_step",
    "fields",
    "from_arrays",
    "inputs_held",
    "layout_of",
    "make_dataset",
    "open_dataset",
    "resampled",
    "save_dataset",
    "snapshots",
    "split",
    "summary",
    "times_of",
    "trajectories",
    "with_velocity",
]


def __getattr__(name: str) -> object:
    """Load a public name that stands in `romkit.readers`."""
    if name not in OF_READERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(OF_READERS[name]), name)
    globals()[name] = value
    return value
