"""First states that a reduced model cannot have: it begins at another one."""

import numpy as np
import xarray as xr
from torch import Tensor

from romkit.core.errors import ExtrapolationWarning, warn
from romkit.core.tensors import divisor
from romkit.core.types import Array
from romkit.projections import Frame


def warn_distant_start(
    run: xr.Dataset, given: Tensor, frame: Frame, *, distant: float = 0.5
) -> None:
    """Warn where a run begins far from the states that were given.

    Args:
        run: of the reduced model, with `state` at the first time.
        given: (n,) or (C, n).
        frame: of the projection, with the deviations of the training data.
        distant: distance of the start from the state that was given, in deviations of the data,
            from which on it is warned of: half of what moves in them is missing.
    """
    begins = run["state"].isel(time=0).transpose("trajectory", ..., "component").values
    states = given.detach().double().numpy().reshape(-1, begins.shape[-1])  # (C, n)
    if begins.ndim == 3:  # a stack of seeds
        states = states[:, None]
    distance = _distances(begins - states, frame)
    worst = float(np.nanmax(distance, initial=0.0))
    if worst <= distant:
        return
    number = int((distance.reshape(len(distance), -1) > distant).any(1).sum())
    which = f" in {number} of {len(distance)} forecasts" if len(distance) > 1 else ""
    warn(
        f"initial_state: expected one that the model can have, got one that is {worst:.2g} deviations of "
        f"the data from where the forecast begins{which}; check units and the order of components, or "
        "take more latents",
        ExtrapolationWarning,
    )


def _distances(apart: Array, frame: Frame) -> Array:
    """Root mean square of differences (..., n), each group of components in its deviation."""
    std = frame.state_std.double().numpy()  # (n,)
    squares = []
    for cells in _groups(frame):
        deviation = divisor(np.square(std[cells]).mean())
        squares.append(np.square(apart[..., cells]).mean(-1) / deviation)
    return np.sqrt(np.mean(squares, axis=0))


def _groups(frame: Frame) -> list[slice] | list[Array]:
    """Components of each variable, or of each unit where the state is a plain vector."""
    layout = frame.fields
    if not layout.is_plain:
        return layout.slices
    _, unit = np.unique(frame.state_units, return_inverse=True)  # (n,)
    return [np.flatnonzero(unit == number) for number in range(unit.max() + 1)]
