"""Trajectories of a dataset: match with a model, split by context, and tensors."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Part, Seed, unchecked, validated
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data.context import (
    ROLE,
    context_matrix,
    context_names,
    is_declared,
    merge_rounded,
)
from romkit.data.contexts import Contexts
from romkit.data.controls import Control, control_of, reorder_inputs
from romkit.data.conversions import convert_data, convert_state
from romkit.data.layout import Layout, component_names, layout_of, reordered
from romkit.data.schema import check_states, complete, variable_of
from romkit.data.times import times_of
from romkit.data.units import Units
from romkit.numerics.folds import find_interior


def check_context(argument: str, data: xr.Dataset, names: Sequence[str]) -> None:
    """Raise unless the context of a dataset has these names, in any order, or it has them and
    declares none.
    """
    context = unchecked(context_names)(data)
    if set(context) == set(names):
        return
    # data that declare nothing may have more numbers along their runs than the model knows
    has_all = set(names) <= set(map(str, data.variables))
    if has_all and not unchecked(is_declared)(data):
        return
    raise InputError(
        argument,
        expected=f"the context {', '.join(names) or 'of no parameter'}",
        got=", ".join(context) or "none",
        fix="use matching data",
    )


def check_components(argument: str, data: xr.Dataset | xr.DataArray, names: Sequence[str]) -> None:
    """Raise unless data have as many components; where it has these, they must be in this order."""
    labels = component_names(data)
    expected, got, fix = f"{len(names)} components", str(len(labels)), "use matching data"
    if len(labels) == len(names):
        if not reordered(labels, tuple(names)):
            return
        expected = f"components in the order {names[0]} ... {names[-1]}"
        got = f"{labels[0]} ... {labels[-1]}"
        fix = "select them in this order: data.sel(component=[...])"
    raise InputError(argument, expected=expected, got=got, fix=fix)


def check_grid(data: xr.Dataset, layout: Layout) -> None:
    """Raise where data know the coordinates of their state, which are those of the layout in
    another order.
    """
    # plain components are compared by their names
    if data.attrs.get("layout"):
        coords = layout_of(data).coords
        layout.check_order({dim: coord["values"] for dim, coord in coords.items()})


def order_state(
    argument: str, state: object, names: Sequence[str], units: Sequence[str] = ()
) -> object:
    """Return a state; if it is labelled, with its components last, which must be in this order, in
    these units.
    """
    if not isinstance(state, xr.DataArray) or "component" not in state.dims:
        return state
    if "time" in state.dims:
        raise InputError(
            argument,
            expected="a state at one time",
            got=f"one of dims {state.dims}",
            fix=f"select one, {argument}.isel(time=0), say",
        )
    check_components(argument, state, names)
    return convert_state(argument, state.transpose(..., "component"), units)


def matched(
    argument: str,
    data: xr.Dataset,
    names: Sequence[str],
    components: Sequence[str],
    units: Units | None = None,
) -> xr.Dataset:
    """Return the data with this context alone, in this order, and in these units.

    Raises:
        InputError: another context, another number of components, these components in another
            order, or units that cannot be converted.
    """
    check_context(argument, data, names)
    check_components(argument, data, components)
    if units is not None:
        data = convert_data(argument, data, units, names)
    context = unchecked(context_names)(data)
    if context == tuple(names):
        return data
    coords = {}
    # labels first, since the order of coordinates is that of the context
    for name in (*sorted({*context} - {*names}), *names):
        role = "context" if name in names else "label"
        coords[name] = data[name].assign_attrs({ROLE: role}).variable
    return data.drop_vars(list(coords)).assign_coords(coords)


@validated
def split(data: xr.Dataset, share: Part, *, seed: Seed = 0) -> tuple[xr.Dataset, xr.Dataset]:
    """Return trajectories for training, and held-out ones, which have contexts that training does
    not see.

    Trajectories of one context stay together. Contexts at the ends of a parameter's range are for
    training, as long as there are enough others, so that what is held out lies between what was
    seen.

    Args:
        data: in romkit's schema.
        share: of the contexts, or of the trajectories where there is no context, that is held out;
            at least one.
        seed: of the choice.

    Raises:
        InputError: a share that is not between 0 and 1, or a single context.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.15, 3.16, 3.17, 3.18], duration=0.1)
        >>> train, held_out = romkit.data.split(data, 0.4)
        >>> train.sizes["trajectory"], held_out.sizes["trajectory"]
        (3, 2)
        >>> float(train.F.min()), float(train.F.max())  # the ends of the range are for training
        (3.14, 3.18)
    """
    unchecked(check_states)(data)
    groups = _groups(data)
    count = max(groups) + 1
    if count < 2:
        raise InputError(
            "data",
            expected="two contexts or more",
            got="a single one",
            fix="give data of more contexts, or hold out nothing",
        )
    wanted = max(1, round(share * count))
    number = min(count - 1, wanted)
    c = context_matrix(data)
    # of a parameter that moves, at its first time
    is_inner = find_interior(c[:, 0] if c.ndim == 3 else c)
    is_end = np.isin(np.arange(count), groups[~is_inner])
    order = np.random.default_rng(seed).permutation(count)
    # in random order, but ends of the range only where nothing inside is left
    chosen = order[np.argsort(is_end[order], kind="stable")]
    is_held_out = np.isin(groups, chosen[:number])
    return data.isel(trajectory=~is_held_out), data.isel(trajectory=is_held_out)


def _groups(data: xr.Dataset) -> Array:
    """(C,) number of the context of each trajectory; of the trajectory where there is no context."""
    c = context_matrix(data)
    c = c.reshape(len(c), -1)  # (C, p) or (C, T p)
    if not c.shape[1]:
        return np.arange(len(c))
    columns = np.stack([merge_rounded(column) for column in c.T], axis=-1)
    _, groups = np.unique(columns, axis=0, return_inverse=True)
    return groups.ravel()


@dataclass(frozen=True)
class Trajectories:
    """Trajectories as tensors in float64 on the CPU, validated once: no labels from here on.

    Attributes:
        data: from which states and velocities are read when somebody asks for them.
        times: (T,).
        contexts: of the trajectories.
        control: inputs as a function of time, None where there are none.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> given = romkit.data.trajectories.Trajectories.read(data, ["F"], data.component.values)
        >>> given.states.shape, given.start(1)[0].shape
        (torch.Size([2, 10, 36]), torch.Size([2, 36]))
    """

    data: xr.Dataset
    times: Tensor
    contexts: Contexts
    control: Control | None

    @functools.cached_property
    def states(self) -> Tensor:
        """(C, T, n); NaN where they are missing."""
        return trajectories(self.data, "state")

    @functools.cached_property
    def velocities(self) -> Tensor | None:
        """(C, T, n), None where there are none."""
        return trajectories(self.data, "velocity") if "velocity" in self.data else None

    @classmethod
    def read(
        cls,
        data: xr.Dataset,
        context: Sequence[str],
        components: Sequence[str],
        layout: Layout | None = None,
        *,
        control: Sequence[str] = (),
        held: bool | None = None,
        contexts: Contexts | None = None,
        units: Units | None = None,
    ) -> "Trajectories":
        """Return trajectories of a dataset with these context parameters and components.

        Args:
            data: in romkit's schema.
            context: names of its parameters, which become its order.
            components: names of the components, with which the data must agree.
            layout: of the state, with which coordinates of the data must agree.
            control: names of the inputs, in order.
            held: whether a law takes inputs as held, where the data do not declare it.
            contexts: in place of those of the data: of a simulation, which may diverge, so that its
                states are not checked.
            units: of the model that takes the data.

        Raises:
            InputError: data that cannot be used, or of another context, components, layout or
                units.
        """
        if contexts is None:
            unchecked(check_states)(data)
        data = matched("data", data, context, components, units)
        if layout is not None:
            check_grid(data, layout)
        if contexts is None:
            contexts = unchecked(Contexts.read)(data)
        inputs = unchecked(control_of)(reorder_inputs(data, control), held)
        return cls(data, unchecked(times_of)(data), contexts, inputs)

    def start(self, order: int, *, complete: bool = True) -> tuple[Tensor, ...]:
        """Return first state, or first state and velocity of a problem of order two, each (C, n).

        Args:
            order: of the problem.
            complete: refuse starts with missing values; a simulation that diverges at once has
                some.

        Raises:
            InputError: they are missing.
        """
        if order == 2 and "velocity" not in self.data:
            raise InputError(
                "data",
                expected="a variable 'velocity'",
                got="none",
                fix="record it, or follow a law of first order",
            )
        start = self.data.isel(time=slice(1))
        names = ("state", "velocity")[:order]
        states = tuple(unchecked(trajectories)(start, name)[:, 0] for name in names)
        if complete:
            _check_complete(states)
        return states  # (C, n) each


def _check_complete(states: Sequence[Tensor]) -> None:
    """Raise where the start of a trajectory has missing values."""
    is_complete = torch.cat(list(states), dim=-1).isfinite().all(-1)
    missing = torch.nonzero(~is_complete).flatten().tolist()
    if not missing:
        return
    raise InputError(
        "data",
        expected="a complete first state",
        got=f"none for trajectories {', '.join(map(str, missing))}",
        fix="begin later, data.isel(time=slice(k, None)), "
        f"or drop them, data.drop_isel(trajectory={missing})",
    )


class Snapshots(NamedTuple):
    """States and velocities (N, n) with the context (N, p) of each, in physical units.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> x, v, c = romkit.data.snapshots(data)
        >>> x.shape, v.shape, c.shape
        (torch.Size([20, 36]), torch.Size([20, 36]), torch.Size([20, 1]))
    """

    state: Tensor
    velocity: Tensor
    context: Tensor


@validated
def trajectories(data: xr.Dataset, name: str, *, fix: str = "add it") -> Tensor:
    """Return a variable (trajectories, times, n) of a dataset, in float64 on the CPU; NaN where it
    is missing.

    Raises:
        InputError: there is none.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> x = romkit.data.trajectories(data, "state")
        >>> x.shape, x.dtype
        (torch.Size([2, 10, 36]), torch.float64)
    """
    variable = variable_of(data, name, fix=fix)
    values = np.array(variable, dtype=np.float64, order="C")
    return torch.from_numpy(values)


@validated
def snapshots(data: xr.Dataset, *, every: Count = 1) -> Snapshots:
    """Return all complete snapshots of all trajectories, of each `every`-th time, in float64 on the
    CPU.

    Raises:
        InputError: state or velocity is missing.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.snapshots(data).state.shape, romkit.data.snapshots(data, every=5).state.shape
        (torch.Size([20, 36]), torch.Size([4, 36]))
    """
    if "time" in data.dims:
        data = data.isel(time=slice(None, None, every))
    context = torch.from_numpy(context_matrix(data))
    if context.ndim == 2:
        context = context.unsqueeze(1).expand(-1, data.sizes["time"], -1)  # (C, T, p)
    values = (trajectories(data, "state"), trajectories(data, "velocity"), context)
    flat = [numbers.flatten(0, 1) for numbers in values]  # (C T, ...)
    rows = torch.from_numpy(complete(data, ("state", "velocity"))).flatten()
    if not bool(rows.all()):  # indexing copies, which large data should be spared
        flat = [numbers[rows] for numbers in flat]
    return Snapshots(*flat)


@validated
def whole_trajectories(data: xr.Dataset, *, every: Count = 1) -> Snapshots:
    """(C, T, n) of each `every`-th time, where nothing may be missing.

    Raises:
        InputError: something is.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.trajectories.whole_trajectories(data, every=5).velocity.shape
        torch.Size([2, 2, 36])
    """
    is_complete = complete(data, ("state", "velocity")).all(1)
    missing = int((~is_complete).sum())
    if missing:
        raise InputError(
            "data",
            expected="whole trajectories for training by rollouts",
            got=f"missing samples in {missing} of them",
            fix="train on snapshots alone (rollouts=None, phase=None), "
            "or select trajectories and times without gaps",
        )
    count = data.sizes["trajectory"]
    flat = snapshots(data, every=every)
    shape = (count, -1)
    return Snapshots(*(values.unflatten(0, shape) for values in flat))
