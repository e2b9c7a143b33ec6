"""Variables of a state: their dimensions, their cells, and the names of these."""

import base64
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import dask.array as da
import numpy as np
import xarray as xr

from romkit.core.types import Array, Names
from romkit.data.names import unit_of

AXIS = "component"

LEAD = ("trajectory", "time")
"""Dimensions of a dataset before those of its state."""


@dataclass(frozen=True)
class Variable:
    """One variable of a state.

    Attributes:
        dims, shape: its dimensions beside trajectory and time, and their sizes.
        units: of its values, "" where they are not known.
        dtype: of its values, "" for whole numbers.
        mask: cells that hold values, as bits in base64; "" where all do. Land and solids hold none.
        long_name: as in the data, for figures.
    """

    name: str
    dims: Names
    shape: tuple[int, ...]
    units: str = ""
    dtype: str = ""
    mask: str = ""
    long_name: str = ""

    @functools.cached_property
    def cells(self) -> Array:
        """Places of the components among the cells, in C order."""
        if not self.mask:
            return np.arange(math.prod(self.shape))
        bits = base64.b64decode(self.mask)
        packed = np.frombuffer(bits, np.uint8)
        return np.flatnonzero(np.unpackbits(packed))

    @property
    def size(self) -> int:
        """Number of components."""
        return len(self.cells) if self.mask else math.prod(self.shape)


def in_cells(values: Array | da.Array, variable: Variable) -> Array | da.Array:
    """The components (..., k) of a variable as an array of its shape, NaN on masked cells."""
    values = values.astype(variable.dtype or values.dtype, copy=False)
    if variable.mask:
        # place of each cell among the components and one NaN behind them
        size = variable.size
        place = np.full(math.prod(variable.shape), size)
        place[variable.cells] = np.arange(size)
        missing = np.full_like(values[..., :1], np.nan)
        extended = np.concatenate([values, missing], axis=-1)
        values = extended[..., place]
    lead = values.shape[:-1]
    return values.reshape((*lead, *variable.shape))


def attributes(variable: Variable) -> dict[str, str]:
    """Attributes of a variable, as far as they are known."""
    about = {}
    if variable.units:
        about["units"] = variable.units
    if variable.long_name:
        about["long_name"] = variable.long_name
    return about


def variable_like(values: xr.DataArray, lead: Sequence[str]) -> Variable:
    dims = tuple(str(dim) for dim in values.dims if dim not in lead)
    variable = Variable(
        name=str(values.name),
        dims=dims,
        shape=tuple(values.sizes[dim] for dim in dims),
        units=unit_of(values),
        long_name=str(values.attrs.get("long_name", "")),
    )
    if values.dtype.kind == "f":
        variable = replace(variable, dtype=str(values.dtype))
    # cells of plain components are never land; nor has a single number any
    if dims and AXIS not in dims:
        variable = replace(variable, mask=_mask(values, dims))
    return variable


def _mask(values: xr.DataArray, dims: Sequence[str]) -> str:
    """Cells that hold a value at some time of some run, as bits in base64; "" where all do."""
    lead = [dim for dim in values.dims if dim not in dims]
    is_known = values.notnull().any(lead).transpose(*dims).values
    if is_known.all():
        return ""
    bits = np.packbits(is_known).tobytes()
    return base64.b64encode(bits).decode()


def plain_coordinate(coord: xr.DataArray) -> dict[str, object]:
    plain = {}
    for name, value in coord.attrs.items():
        if isinstance(value, str | int | float):
            plain[str(name)] = value
    return {"values": coord.values.tolist(), "attrs": plain, "dims": list(coord.dims)}


def names_of(variable: Variable, coords: Mapping[str, Mapping[str, object]]) -> list[str]:
    if not variable.dims:
        return [variable.name]
    labels = [_labels(dim, coords) for dim in variable.dims]
    names = []
    indices = np.unravel_index(variable.cells, variable.shape)  # of each dimension
    for place in np.stack(indices, axis=-1).tolist():
        words = []
        for number, of_dim in zip(place, labels, strict=True):
            words.append(str(number) if of_dim is None else of_dim[number])
        names.append(f"{variable.name}[{', '.join(words)}]")
    return names


def _labels(dim: str, coords: Mapping[str, Mapping[str, object]]) -> list[str] | None:
    """Labels along a dimension, None where its coordinate is none of text, or has one twice."""
    coord = coords.get(dim)
    if coord is None or coord.get("dims", [dim]) != [dim]:
        return None
    values = list(coord["values"])
    is_text = all(isinstance(value, str) for value in values)
    if not is_text or len(set(values)) < len(values):
        return None
    return values
