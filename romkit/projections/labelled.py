"""Operators on what is no tensor: NumPy arrays, DataArrays and Datasets go in, and come back as what they were."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import arrays
from romkit.data import DIMS, Layout
from romkit.data.matching import check_components, check_grid
from romkit.errors import InputError

LATENT = "latent_component"
FULL = "component"

Map = Callable[[Tensor], Tensor]


def encoded(encode: Map, layout: Layout, stacked: bool, dtype: torch.dtype, x: object) -> np.ndarray | xr.DataArray:
    """ρ of an array (..., n), or of labelled states: the latents, labelled."""
    if isinstance(x, np.ndarray):
        return _mapped(encode, x, dtype)
    values, lead, coords = _labelled(x, layout)
    return _latent(*_through(encode, values, lead, stacked, dtype), coords)


def decoded(decode: Map, layout: Layout, stacked: bool, dtype: torch.dtype, z: object) -> np.ndarray | xr.Dataset:
    """φ of an array (..., m), or of labelled latents: the variables of the state, in their own dimensions."""
    if isinstance(z, np.ndarray):
        return _mapped(decode, z, dtype)
    if not isinstance(z, xr.DataArray) or LATENT not in z.dims:
        got, fix = type(z).__name__, "give a tensor, an array, or what encode returned"
        raise InputError("z", expected=f"latents along {LATENT!r}", got=got, fix=fix)
    lead = _lead(z.dims, LATENT)
    known = stacked and lead[:1] == ["seed"]
    values, lead = _through(decode, z.transpose(*lead, LATENT).values, lead, stacked and not known, dtype)
    return layout.scatter(values, lead, _without(z.coords, LATENT))


def projected(
    project: Map, layout: Layout, stacked: bool, dtype: torch.dtype, x: object
) -> np.ndarray | xr.DataArray | xr.Dataset:
    """P of an array or of labelled states, as what came in."""
    if isinstance(x, np.ndarray):
        return _mapped(project, x, dtype)
    values, lead, coords = _labelled(x, layout)
    values, lead = _through(project, values, lead, stacked, dtype)
    if _is_plain(x):
        state = xr.DataArray(values, {**coords, **_only(x.coords, FULL)}, (*lead, FULL), "state", _attrs(x))
        return state if isinstance(x, xr.DataArray) else state.to_dataset().assign_attrs(x.attrs)
    found = layout.scatter(values, lead, coords)
    return found[layout.variables[0].name] if isinstance(x, xr.DataArray) else found


def _through(
    apply: Map, values: np.ndarray, lead: Sequence[str], stacked: bool, dtype: torch.dtype
) -> tuple[np.ndarray, list[str]]:
    """The image of values (*lead, k), with a leading axis for the seeds of a stack."""
    if not stacked:
        return _mapped(apply, values, dtype), list(lead)
    return _mapped(apply, values[None], dtype), ["seed", *lead]


def _mapped(apply: Map, values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Through tensors of this precision, and back to the one that came."""
    arrays.tensor("z" if getattr(apply, "__name__", "") == "decode" else "x", values)
    own = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    with torch.no_grad():
        return apply(torch.from_numpy(np.array(values, dtype=own)).to(dtype)).numpy().astype(own, copy=False)


def _labelled(x: object, layout: Layout) -> tuple[np.ndarray, list[str], dict[str, object]]:
    """Values (*lead, n), the dimensions in front, and the coordinates along them."""
    if not isinstance(x, xr.DataArray | xr.Dataset):
        got, fix = type(x).__name__, "give a tensor, an array, or a dataset"
        raise InputError("x", expected="states", got=got, fix=fix)
    if _is_plain(x):
        check_components("x", x, layout.names)
        if isinstance(x, xr.Dataset):
            check_grid(x, layout)
        values = x if isinstance(x, xr.DataArray) else x["state"]
        lead = _lead(values.dims, FULL)
        return values.transpose(*lead, FULL).values, lead, _without(values.coords, FULL)
    data = x.to_dataset(name=layout.variables[0].name) if isinstance(x, xr.DataArray) else x
    own = {dim for variable in layout.variables for dim in variable.dims}
    first = layout.variables[0].name
    if first not in data:
        got, fix = f"variables {sorted(map(str, data.data_vars))}", "give data like those of the training"
        raise InputError("x", expected=f"a variable {first!r}", got=got, fix=fix)
    lead = _lead([dim for dim in data[first].dims if dim not in own], FULL)
    coords = {name: c for name, c in data.coords.items() if set(c.dims) <= set(lead)}
    return layout.gather(data, lead), lead, coords


def _is_plain(x: xr.DataArray | xr.Dataset) -> bool:
    return FULL in x.dims and (isinstance(x, xr.DataArray) or "state" in x)


def _lead(dims: Sequence[str], last: str) -> list[str]:
    """Dimensions in front of the last: seeds, trajectories and time first, as operators want them."""
    order = ("seed", *DIMS[:2])
    rest = [dim for dim in dims if dim != last]
    return [dim for dim in order if dim in rest] + [dim for dim in rest if dim not in order]


def _latent(values: np.ndarray, lead: Sequence[str], coords: dict[str, object]) -> xr.DataArray:
    return xr.DataArray(values, coords, (*lead, LATENT), "latent", {"long_name": "latent state"})


def _without(coords: xr.Coordinates, dim: str) -> dict[str, object]:
    return {name: coord for name, coord in coords.items() if dim not in coord.dims}


def _only(coords: xr.Coordinates, dim: str) -> dict[str, object]:
    return {name: coord for name, coord in coords.items() if coord.dims == (dim,)}


def _attrs(x: xr.DataArray | xr.Dataset) -> dict[str, object]:
    return x.attrs if isinstance(x, xr.DataArray) else x["state"].attrs
