"""Runs with their groups, as hidden contexts are sought in them."""

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

import romkit.data as datasets
from romkit.bases import Basis, basis
from romkit.core.boundary import unchecked
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.tensors import divisor
from romkit.core.types import Array, ArrayPair, Names, NameSequence, frozen
from romkit.data.context import ROLE
from romkit.hidden.family import Scale
from romkit.hidden.search import Groups

SHORTEST = 6
"""Samples of a run from which on its first part places it, and its second part judges."""


def described(source: xr.Dataset | pd.DataFrame, context: NameSequence | None) -> xr.Dataset:
    """Return runs in romkit's schema, with the known parameters declared.

    Raises:
        InputError: inputs, or parameters that move.
    """
    data = source
    if not isinstance(source, xr.Dataset) or "component" not in source.dims:
        data = datasets.describe(source, context=context)
    data = data.transpose(*datasets.DIMS, ..., missing_dims="ignore")
    if "control" in data:
        fix = "leave inputs out, or romkit.learn with the parameters that are known"
        raise InputError("runs", expected="runs without inputs", got="inputs", fix=fix)
    return _align_times(data)


def _align_times(data: xr.Dataset, *, sparse: float = 0.5) -> xr.Dataset:
    """Return data whose runs have common times.

    `sparse`: share of the common times at which a run has samples, below which runs have times
    of their own.
    """
    seen = np.isfinite(data["state"].values).all(-1)  # (C, T)
    start, stop = seen.argmax(1), seen.shape[1] - seen[:, ::-1].argmax(1)
    share = seen.sum(1) / np.maximum(stop - start, 1)
    if np.median(share) >= sparse:
        return data
    warn(
        "runs have times of their own; brought to common ones by romkit.data.resampled", DataWarning
    )
    return datasets.resampled(data)


def known_names(data: xr.Dataset, group: str | None, context: NameSequence | None) -> Names:
    """Return names of the parameters that are known: as given, else those that are declared.

    Raises:
        InputError: one that the runs do not have, or that moves within them.
    """
    names = context
    if names is None:
        names = ()
        if unchecked(datasets.context.is_declared)(data):
            names = datasets.context_names(data)
    names = tuple(name for name in names if name != group)
    for name in names:
        if name not in data.coords or data[name].dims != ("trajectory",):
            got = f"{name}, which is none" if name not in data.coords else f"{name}, which moves"
            fix = "name coordinates along the trajectories"
            raise InputError("context", expected="one number a run", got=got, fix=fix)
    return names


def group_labels(data: xr.Dataset, group: str | None) -> Array:
    """Return names (C,) of the groups of the runs; by default each has its own.

    Raises:
        InputError: a name that is no coordinate of the runs, or missing names.
    """
    number = data.sizes["trajectory"]
    if group is None:
        return np.arange(number)
    if group not in data.coords or data[group].dims != ("trajectory",):
        fix = "give each run the name of its group: runs.assign_coords(batch=('trajectory', [...]))"
        raise InputError("group", expected="a coordinate along trajectory", got=group, fix=fix)
    labels: Array = data[group].values
    missing = int(pd.isnull(labels).sum())
    if missing:
        fix = "name them, or leave those runs out"
        raise InputError("group", expected="a name for each run", got=f"{missing} missing", fix=fix)
    return labels


@frozen
class Frame:
    """Latents of states, and their units.

    Attributes:
        basis: of wide states, else None.
        scale: of the latents, and of time.
        low, high: (p,) range of the known parameters.
    """

    basis: Basis | None
    scale: Scale
    low: Tensor
    high: Tensor

    def latents(self, states: Tensor) -> Tensor:
        """Latents (..., m) of states (..., n)."""
        return states if self.basis is None else self.basis.encode(states)

    def states(self, w: Tensor) -> Tensor:
        """Return states (..., n) of latents in units of the fit."""
        z = self.scale.physical(w)
        return z if self.basis is None else self.basis.decode(z)

    def deviations(self, of_latents: Tensor) -> Tensor:
        """Return deviations (..., n) of states, from those of latents in units of the fit."""
        z = self.scale.largest * of_latents
        if self.basis is None:
            return z
        return (z.square() @ self.basis.modes.mT.square()).sqrt()

    def known(self, values: Tensor) -> Tensor:
        """Known parameters (..., p), each in [-1, 1] over the runs."""
        return 2 * (values - self.low) / divisor(self.high - self.low) - 1


def order_groups(labels: Array) -> ArrayPair:
    """Return names (G,) of groups in the order of their first runs, and the number (C,) of the group
    of each run.
    """
    names, starts, group = np.unique(labels, return_index=True, return_inverse=True)
    order = starts.argsort()
    return names[order], order.argsort()[group]


def grouped(
    data: xr.Dataset,
    labels: Array,
    known: Names,
    rank: int | None,
    *,
    fewest: int = 4,
    narrow: int = 6,
) -> tuple[Groups, Frame, Array]:
    """Return runs in groups, their units, and the names of the groups, in the order of their first
    runs.

    `fewest`: groups from which on a parameter can be left out, found, and judged.

    `narrow`: components of a state that needs no basis.

    Raises:
        InputError: too few groups or samples, or known parameters that differ within a group.
    """
    names, group = order_groups(labels)
    if len(names) < fewest:
        fix = "name what tells them apart, group='batch', or give more runs"
        got = f"{len(names)} groups of {len(labels)} runs"
        raise InputError("group", expected=f"{fewest} groups or more", got=got, fix=fix)
    values = _group_parameters(data, known, group, names)
    states = torch.from_numpy(data["state"].values.astype(float))
    times = torch.from_numpy(data["time"].values.astype(float))
    enough = states.isfinite().all(-1).sum(1)
    if int(enough.min()) < SHORTEST:
        got = f"{int(enough.min())} in run {int(enough.argmin())}"
        fix = "leave that run out"
        raise InputError("runs", expected=f"{SHORTEST} complete samples or more", got=got, fix=fix)
    of_runs = torch.from_numpy(group)
    modes = None
    if rank is not None or states.shape[-1] > narrow:
        modes = _basis(states, rank)
    latents = states if modes is None else modes.encode(states)
    scale = Scale.measure(latents, times)
    of_known = torch.from_numpy(values)
    frame = Frame(modes, scale, of_known.amin(0), of_known.amax(0))
    runs = scale.runs(latents, times, of_runs)
    # latents of one basis have one unit
    units = torch.ones_like(scale.largest)
    if modes is not None:
        units = scale.largest / scale.largest.max()
    return Groups(runs, frame.known(of_known), units), frame, names


def _basis(
    states: Tensor, rank: int | None, *, most: int = 3, fewest: int = 2, held: float = 0.999
) -> Basis:
    """Leading modes of the snapshots: so many, or as few as hold the share `held` of their energy.

    What a mode of decaying noise adds to the states is less than its law needs of the data.
    """
    snapshots = states.flatten(0, 1)
    complete = snapshots.isfinite().all(-1)
    leading = basis(snapshots[complete], rank or most)
    if rank is not None or leading.energy is None:
        return leading
    missing = int((leading.energy < held).sum())
    return leading.truncated(min(most, max(fewest, missing + 1)))


def _group_parameters(data: xr.Dataset, known: Names, group: Array, names: Array) -> Array:
    """Known parameters (G, p) of the groups."""
    values = np.zeros((len(names), len(known)))
    for column, name in enumerate(known):
        of_runs = data[name].values.astype(float)
        for row in range(len(names)):
            columns = np.unique(of_runs[group == row])
            if len(columns) != 1 or not np.isfinite(columns[0]):
                got = f"{', '.join(f'{value:g}' for value in columns[:3])} in {names[row]}"
                fix = "give runs of other values a group of their own"
                raise InputError(name, expected="one value in a group", got=got, fix=fix)
            values[row, column] = columns[0]
    return values


def assign_hidden(data: xr.Dataset, known: Names, hidden: dict[str, Array]) -> xr.Dataset:
    """Return data with hidden parameters (C,), or (C, T) where they move, as parameters of their
    context, beside the known ones.
    """
    for name in known:
        data = data.assign_coords({name: data[name].assign_attrs({ROLE: "context"})})
    for name, values in hidden.items():
        about = {ROLE: "context", "long_name": "hidden parameter", "units": "1"}
        dims = ("trajectory", "time")[: values.ndim]
        data = data.assign_coords({name: (dims, values, about)})
    return data
