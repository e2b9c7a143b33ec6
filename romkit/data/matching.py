"""Data for a model that knows names: its context in its order, and its components."""

from collections.abc import Sequence

import xarray as xr

from romkit.data.context import ROLE, context_names, is_declared
from romkit.data.layout import Layout, component_names, layout_of
from romkit.errors import InputError


def check_context(argument: str, data: xr.Dataset, names: Sequence[str]) -> None:
    """Raise unless the context of a dataset has these names, in any order, or it has them and declares none."""
    found = context_names(data)
    if set(found) != set(names) and (is_declared(data) or not set(names) <= set(map(str, data.variables))):
        expected = f"the context {', '.join(names) or 'of no parameter'}"
        raise InputError(argument, expected=expected, got=", ".join(found) or "none", fix="use matching data")


def check_components(argument: str, data: xr.Dataset | xr.DataArray, names: Sequence[str]) -> None:
    """Raise unless data have as many components; where it has these, they must be in this order."""
    if data.sizes["component"] != len(names):
        expected, got = f"{len(names)} components", f"{data.sizes['component']}"
        raise InputError(argument, expected=expected, got=got, fix="use matching data")
    own = component_names(data)
    if own != tuple(names) and sorted(own) == sorted(names):
        fix = "select them in this order: data.sel(component=[...])"
        expected = f"components in the order {names[0]} ... {names[-1]}"
        raise InputError(argument, expected=expected, got=f"{own[0]} ... {own[-1]}", fix=fix)


def check_grid(data: xr.Dataset, layout: Layout) -> None:
    """Raise where data know the coordinates of their state, which are those of the layout in another order."""
    if data.attrs.get("layout"):
        layout.check_order({dim: own["values"] for dim, own in layout_of(data).coords.items()})


def in_order(argument: str, state: object, names: Sequence[str]) -> object:
    """A state; if it is labelled, with its components last, which must be in this order."""
    if not isinstance(state, xr.DataArray) or "component" not in state.dims:
        return state
    if "time" in state.dims:
        got, fix = f"one of dims {state.dims}", f"select one, {argument}.isel(time=0), say"
        raise InputError(argument, expected="a state at one time", got=got, fix=fix)
    check_components(argument, state, names)
    return state.transpose(..., "component")


def matched(argument: str, data: xr.Dataset, names: Sequence[str], components: Sequence[str]) -> xr.Dataset:
    """The data with this context alone, in this order.

    Raises:
        InputError: another context, another number of components, or these components in another order.
    """
    check_context(argument, data, names)
    check_components(argument, data, components)
    found = context_names(data)
    if found == tuple(names):
        return data
    roles = {name: "label" for name in found if name not in names} | dict.fromkeys(names, "context")
    coords = {name: data[name].assign_attrs({ROLE: role}).variable for name, role in roles.items()}
    return data.drop_vars(list(coords)).assign_coords(coords)
