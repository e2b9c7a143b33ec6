"""Datasets: one xarray schema for every system, named contexts, tensors for training, files with checksums."""

from romkit.data.context import ContextParameter, context_array, context_names, context_path
from romkit.data.schema import DIMS, check_dataset, check_states, make_dataset
from romkit.data.storage import open_dataset, save_dataset
from romkit.data.tensors import Snapshots, context_matrix, snapshots

__all__ = [
    "DIMS",
    "ContextParameter",
    "Snapshots",
    "check_dataset",
    "check_states",
    "context_array",
    "context_matrix",
    "context_names",
    "context_path",
    "make_dataset",
    "open_dataset",
    "save_dataset",
    "snapshots",
]
