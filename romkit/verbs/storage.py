"""`romkit.save`, `romkit.load` and `romkit.open`: projections, laws, bases and hidden contexts as
files; data that stay in theirs.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
import xarray as xr

from romkit.bases import Basis
from romkit.bases import storage as bases
from romkit.core import files
from romkit.core.boundary import FilePath, validated
from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.patterns import matched
from romkit.data.context import ROLE
from romkit.hidden import HiddenContext
from romkit.hidden import storage as hidden
from romkit.integrators import LearnedField
from romkit.laws import storage as laws
from romkit.projections import Projection
from romkit.projections import storage as projections
from romkit.readers.names import Guess
from romkit.readers.several import opened, run_parameters
from romkit.readers.tables import convert_table


@validated
def save(model: Projection | LearnedField | Basis | HiddenContext, path: FilePath) -> Path:
    """Write a projection or a fitted law, or a stack of them, a basis, or a hidden context with its
    runs to one file: all of it, or nothing at all.

    Args:
        model: a projection, with its `report`; what the fit of SINDy or NeuralODE returned; a
            basis; or what `romkit.hidden_context` returned.
        path: the file, in the safetensors format; an earlier one is replaced once the new one is
            complete.

    Returns:
        The path. `load` gives back the same: outputs are equal bit by bit.

    Raises:
        InputError: `config` does not rebuild the projection, or a law with functions of your own
            (`Functions`).
        FileError: the file cannot be written.

    Example:
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> path = romkit.save(ncae, "mine.safetensors")
        >>> romkit.load(path).config == ncae.config
        True
    """
    if isinstance(model, Projection):
        return files.write(path, "projection", *projections.packed(model))
    if isinstance(model, LearnedField):
        return files.write(path, "law", *laws.packed(model))
    if isinstance(model, HiddenContext):
        return files.write(path, "hidden context", *hidden.packed(model))
    return files.write(path, "basis", *bases.packed(model))


@validated
def load(path: FilePath) -> Projection | LearnedField | Basis | HiddenContext:
    """Read what `save` wrote, or a projection that ships with romkit, by its name:
    `load("ncae-lorenz96")`.

    Returns:
        The projection, the law, the basis or the hidden context on the CPU, in the precision that it was saved in, with
        its seed axis if it was a stack.

    Raises:
        FileError: neither a file nor a name in `pretrained()`; damaged, altered, or with content
            that cannot be used; or a projection of a class that is not imported.

    Example:
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> ncae.name, ncae.latent_dim, ncae.idempotent
        ('ncae', 2, True)
    """
    header, tensors = files.read(projections.find(path))
    if "hidden" in header:
        return hidden.unpacked(path, header, tensors)
    if "basis" in header:
        return bases.unpacked(path, header, tensors)
    return (laws if "law" in header else projections).unpacked(path, header, tensors)


@validated
def open(
    source: FilePath | Sequence[FilePath], *, along: str | None = None, time: str | None = None
) -> xr.Dataset:
    """Open data in zarr or netCDF, one or many, as chunks of dask, which are read where they are
    needed.

    Coordinates are in memory. Attributes that differ between files become coordinates. Data of
    foreign names go through `romkit.data.describe`.

    Args:
        source: a file or folder, a pattern such as "runs/*.nc", or a list of these. Numbers in
            names are parameters where a pattern says so, "runs/b_{b}.nc": they are coordinates,
            and `describe` takes them for the context. In "Re_{Re}/u_{time}.csv" a file is the
            snapshot at the time that its name has. Tables in .csv are read into memory.
        along: the dimension along which many are joined in their order, a new one, say:
            "trajectory". By default that along which their coordinates differ.
        time: the dimension, column or number in names that is the time, if it is called neither
            `time` nor `t`: `romkit.open("Re_{Re}/u_{step}.vtu", time="step")`. The result calls it
            `time`.

    Warns:
        DataWarning: runs are counted each from its start, have times of their own, or differ in
            attributes that belong to no dimension.

    Raises:
        FileError: no such file, one that is damaged, takes numbers from others or would run code,
            or files that differ in their units or grids.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> for k in range(2):
        ...     path = romkit.data.save_dataset(data.isel(trajectory=[k]), f"run{k}.nc")
        >>> lazy = romkit.open("run*.nc", along="trajectory")
        >>> lazy.state.chunks is not None, romkit.basis(lazy, rank=2).rank
        (True, 2)
    """
    names = [source] if isinstance(source, str | os.PathLike) else source
    paths, parameters = matched([Path(name) for name in names])
    if not paths:
        raise FileError("an empty list", problem="names no file", fix="check the list")
    data = opened(paths, along, parameters, time=time)
    if isinstance(data, xr.Dataset):
        return data
    return _convert_table(data, along, [name for name in parameters if name != time])


def _convert_table(table: pd.DataFrame, along: str | None, parameters: Iterable[str]) -> xr.Dataset:
    """Convert a table of runs to a dataset, in memory."""
    run = along if along in table.columns else None
    contexts = run_parameters(parameters)
    guesses: list[Guess] = []
    data, _ = convert_table(table, contexts, run, None, guesses)
    for guess in guesses:
        warn(str(guess), DataWarning)
    for name in contexts:
        data[name].attrs[ROLE] = "context"
    return data
