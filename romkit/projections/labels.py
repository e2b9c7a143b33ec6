"""States and latents in arrays and datasets with labels."""

import xarray as xr

from romkit.core.errors import InputError
from romkit.core.types import Kwargs
from romkit.data.conversions import convert_state, convert_states
from romkit.data.trajectories import check_components, check_grid
from romkit.projections.frame import Frame

LATENT, FULL = "latent_component", "component"


def label_latents(z: object) -> xr.DataArray:
    """Latents along the last axis."""
    if not isinstance(z, xr.DataArray) or LATENT not in z.dims:
        raise InputError(
            "z",
            expected=f"latents along {LATENT!r}",
            got=type(z).__name__,
            fix="give a tensor, an array, or what encode returned",
        )
    return z.transpose(..., LATENT)


def label_states(x: object, frame: Frame) -> xr.DataArray:
    """Return states of romkit's schema, or of variables of the user's own in the dimensions of the
    layout, in the units of the frame.
    """
    layout = frame.fields
    if not isinstance(x, xr.DataArray | xr.Dataset):
        raise InputError(
            "x",
            expected="states",
            got=type(x).__name__,
            fix="give a tensor, an array, or a dataset",
        )
    if is_plain(x):
        # states of romkit's schema in these units
        check_components("x", x, layout.names)
        if isinstance(x, xr.DataArray):
            return convert_state("x", x, frame.state_units).transpose(..., FULL)
        check_grid(x, layout)
        return convert_states("x", x, frame.state_units)["state"].transpose(..., FULL)
    name = layout.variables[0].name
    data = x
    if isinstance(data, xr.DataArray):
        data = data.to_dataset(name=name)
    if name not in data:
        raise InputError(
            "x",
            expected=f"a variable {name!r}",
            got=f"variables {sorted(map(str, data.data_vars))}",
            fix="give data like those of the training",
        )
    places: set[str] = set()
    for variable in layout.variables:
        places.update(variable.dims)
    lead = [str(dim) for dim in data[name].dims if dim not in places]
    coords = {label: coord for label, coord in data.coords.items() if set(coord.dims) <= set(lead)}
    return xr.DataArray(layout.gather(data, lead), coords, (*lead, FULL))


def label_alike(
    given: xr.DataArray | xr.Dataset, values: object, lead: list[str], coords: Kwargs
) -> xr.DataArray | xr.Dataset:
    """Return states of romkit's schema with the labels of those that were given."""
    labels = dict(coords)
    for name, coord in given.coords.items():
        if coord.dims == (FULL,):
            labels[str(name)] = coord
    dims = (*lead, FULL)
    if isinstance(given, xr.DataArray):
        return xr.DataArray(values, labels, dims, "state", given.attrs)
    state = xr.DataArray(values, labels, dims, "state", given["state"].attrs)
    return state.to_dataset().assign_attrs(given.attrs)


def is_plain(x: xr.DataArray | xr.Dataset) -> bool:
    """Tell whether states are in romkit's schema."""
    if FULL not in x.dims:
        return False
    return isinstance(x, xr.DataArray) or "state" in x
