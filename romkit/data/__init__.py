"""Datasets: one xarray schema for every system, named contexts, tensors for training, files with checksums."""

from romkit.data.context import ContextParameter, Contexts, context_array, context_matrix, context_names, context_ranges
from romkit.data.schema import DIMS, check_dataset, check_states, make_dataset
from romkit.data.storage import open_dataset, save_dataset
from romkit.data.tensors import Snapshots, snapshots, trajectories

__all__ = [
    "DIMS",
    "ContextParameter",
    "Contexts",
    "Snapshots",
    "check_dataset",
    "check_states",
    "context_array",
    "context_matrix",
    "context_names",
    "context_ranges",
    "make_dataset",
    "open_dataset",
    "save_dataset",
    "snapshots",
    "trajectories",
]
