"""Datasets: one xarray schema for every system, named contexts, tensors for training, files with
checksums.
"""

from romkit.data.arrays import from_arrays
from romkit.data.context import (
    ContextParameter,
    Contexts,
    context_array,
    context_matrix,
    context_names,
    context_ranges,
    is_declared,
)
from romkit.data.controls import (
    Control,
    control_matrix,
    control_names,
    control_of,
    given_control,
)
from romkit.data.delays import delayed
from romkit.data.describe import describe
from romkit.data.layout import Layout, fields, layout_of
from romkit.data.resample import resampled
from romkit.data.schema import DIMS, check_dataset, check_states, complete, make_dataset
from romkit.data.storage import open_dataset, save_dataset
from romkit.data.summary import summary
from romkit.data.times import even_step, pieces, times_of
from romkit.data.trajectories import (
    Snapshots,
    Trajectories,
    snapshots,
    split,
    trajectories,
    whole_trajectories,
)
from romkit.data.velocity import needing_velocity, smoothest, with_velocity

__all__ = ["DIMS", "ContextParameter", "Contexts", "Control", "Layout", "Snapshots", "Trajectories"]
__all__ += ["check_dataset", "check_states", "complete", "context_array", "context_matrix"]
__all__ += ["context_names", "context_ranges", "control_matrix", "control_names", "control_of"]
__all__ += ["delayed", "describe", "even_step", "fields", "from_arrays", "given_control"]
__all__ += [
    "is_declared",
    "layout_of",
    "make_dataset",
    "needing_velocity",
    "open_dataset",
    "pieces",
]
__all__ += ["resampled", "save_dataset", "smoothest", "snapshots", "split", "summary", "times_of"]
__all__ += ["trajectories", "whole_trajectories", "with_velocity"]
