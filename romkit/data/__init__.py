"""Datasets: one xarray schema for every system, named contexts, tensors for training, files with
checksums.
"""

from romkit.data.arrays import from_arrays
from romkit.data.context import ContextParameter, context_matrix, context_names
from romkit.data.contexts import Contexts
from romkit.data.controls import Control, control_names, inputs_held
from romkit.data.delays import delayed
from romkit.data.describe import describe
from romkit.data.grids import fields
from romkit.data.layout import Layout, layout_of
from romkit.data.resample import resampled
from romkit.data.schema import DIMS, check_dataset, check_states, make_dataset
from romkit.data.storage import open_dataset, save_dataset
from romkit.data.summary import summary
from romkit.data.times import even_step, times_of
from romkit.data.trajectories import Snapshots, snapshots, split, trajectories
from romkit.data.velocity import with_velocity

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
