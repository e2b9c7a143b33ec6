"""Times of datasets: even steps, and stretches between missing samples."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import tensors
from romkit.core.boundary import Mask, validated
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data.clocks import check_clock, single_precision

EVEN = 1e-3
"""Largest deviation of a step from the mean one, relative to it, of times that count as even."""

DECIMALS = 9
"""Most decimals that times were rounded to."""


@validated
def even_step(times: Array) -> float | None:
    """Return the step of evenly spaced times (T,), which may have been rounded; None where they are
    not.

    Raises:
        InputError: more axes than one.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> romkit.data.even_step(np.array([0.0, 0.5, 1.0]))
        0.5
        >>> romkit.data.even_step(np.array([0.0, 0.5, 2.0])) is None
        True
        >>> round(romkit.data.even_step(np.round(np.arange(100) / 30, 3)), 4)  # 0.033, 0.067, ...
        0.0333
    """
    times = np.atleast_1d(times).astype(np.float64)
    _check_one_axis("times", times)
    if len(times) < 2:
        return None
    steps = np.diff(times)
    mean = float(steps.mean())
    if mean <= 0:
        return None
    if np.abs(steps - mean).max() <= EVEN * mean:
        return mean
    return _unrounded_step(times)


def _check_one_axis(argument: str, values: Array) -> None:
    if values.ndim != 1:
        raise InputError(
            argument,
            expected="shape (times,)",
            got=f"shape {values.shape}",
            fix="give those of one trajectory",
        )


def _unrounded_step(times: Array, *, rounded: float = 0.1) -> float | None:
    """Return the step of even times that were rounded to some decimals since, or to single
    precision, None where they were not.

    `rounded`: largest error of rounding, relative to the mean step, of times that may have been
    even before.
    """
    index = np.arange(len(times))
    elapsed = times - times[0]
    step, start = np.polyfit(index, elapsed, 1)
    line = start + step * index
    error = np.abs(elapsed - line).max()
    if len(times) < 4 or error > rounded * step:
        return None
    spacing = single_precision(times)
    if spacing:
        return float(step) if error <= 1.05 * spacing else None
    for decimals in range(DECIMALS + 1):
        # rounding of both the times and the fit through them
        largest = 1.05 * 10.0**-decimals
        if not np.allclose(np.round(times, decimals), times, rtol=0, atol=1e-6 * largest):
            continue
        is_explained = error <= largest and largest <= 2 * rounded * step
        return float(step) if is_explained else None
    return None


@validated
def pieces(observed: Mask) -> list[slice]:
    """Return the stretches of a trajectory (T,) without a missing sample.

    Raises:
        InputError: more or fewer axes than one.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> romkit.data.times.pieces(np.array([True, True, False, True, True, True]))
        [slice(0, 2, None), slice(3, 6, None)]
    """
    is_there = np.asarray(observed)
    _check_one_axis("observed", is_there)
    padded = np.concatenate([[False], is_there, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    # a stretch begins at one edge and ends at the next
    return [slice(*ends) for ends in edges.reshape(-1, 2).tolist()]


def stretches(is_complete: Array, shortest: int = 1) -> list[tuple[int, slice]]:
    """Return trajectory and times of each stretch without a missing sample.

    Args:
        is_complete: (C, T) which samples are complete; or whole numbers, 0 where one is missing,
            and others in each stretch than in that before it.
        shortest: samples of a stretch, at least.
    """
    places = []
    for k, row in enumerate(is_complete):
        for number in np.unique(row[row != 0]):
            for piece in pieces(row == number):
                if piece.stop - piece.start >= shortest:
                    places.append((k, piece))
    places.sort(key=lambda place: (place[0], place[1].start))
    return places


def held(values: Tensor) -> Tensor:
    """(C, T, k) with the last finite value of each trajectory in place of the NaN behind it."""
    is_finite = values.isfinite().all(-1)
    index = torch.arange(is_finite.shape[1])
    end = (is_finite * index).amax(1, keepdim=True)  # (C, 1) last finite
    index = torch.minimum(index, end).unsqueeze(-1)  # (C, T, 1)
    return values.gather(1, index.expand_as(values))


@validated
def times_of(data: xr.Dataset) -> Tensor:
    """Return the times (T,) of a dataset, in float64.

    Raises:
        InputError: there are none, or one is missing, repeated or before another.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.03)
        >>> romkit.data.times_of(data)
        tensor([0.0000, 0.0100, 0.0200], dtype=torch.float64)
    """
    if "time" not in data.coords or data["time"].dtype.kind not in "fiu":
        raise InputError(
            "data",
            expected="times, as numbers",
            got="none",
            fix="add them: data.assign_coords(time=...), or romkit.data.describe(data)",
        )
    times = data["time"].values
    check_clock("time", times.astype(np.float64))
    return tensors.times("data's time", times).double()
