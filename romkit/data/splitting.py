"""Parts of a dataset: training and held-out trajectories, by context."""

import numpy as np
import xarray as xr

from romkit.boundary import Part, Seed, checked
from romkit.data.context import context_matrix
from romkit.data.schema import check_states
from romkit.errors import InputError


@checked
def split(data: xr.Dataset, share: Part, *, seed: Seed = 0) -> tuple[xr.Dataset, xr.Dataset]:
    """Trajectories for training, and held-out ones, which have contexts that training does not see.

    Trajectories of one context stay together. Contexts at the ends of a parameter's range are for training, as long as
    there are enough others, so that what is held out lies between what was seen.

    Args:
        data: in romkit's schema.
        share: of the contexts, or of the trajectories where there is no context, that is held out; at least one.
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
    check_states(data)
    groups = _groups(data)
    count = max(groups) + 1
    if count < 2:
        got, fix = "a single one", "give data of more contexts, or hold out nothing"
        raise InputError("data", expected="two contexts or more", got=got, fix=fix)
    wanted = min(count - 1, max(1, round(share * count)))
    inner = _inner(data, groups, count)
    order = np.random.default_rng(seed).permutation(count)
    chosen = [group for group in order if inner[group]] + [group for group in order if not inner[group]]
    held = np.isin(groups, chosen[:wanted])
    return data.isel(trajectory=np.flatnonzero(~held)), data.isel(trajectory=np.flatnonzero(held))


def _groups(data: xr.Dataset) -> np.ndarray:
    """(C,) number of the context of each trajectory; of the trajectory where there is no context."""
    c = context_matrix(data)
    c = c.reshape(len(c), -1)
    return np.unique(c, axis=0, return_inverse=True)[1].ravel() if c.shape[1] else np.arange(len(c))


def _inner(data: xr.Dataset, groups: np.ndarray, count: int) -> np.ndarray:
    """Whether a context has no parameter at an end of its range; of one that moves, at its first time."""
    c = context_matrix(data)
    c = c if c.ndim == 2 else c[:, 0]
    if not c.shape[1]:
        return np.ones(count, dtype=bool)
    varies = c.min(0) < c.max(0)
    at_end = (((c == c.min(0)) | (c == c.max(0))) & varies).any(1)
    return np.array([not at_end[groups == group].any() for group in range(count)])
