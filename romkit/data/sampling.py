"""Sampling in time: even steps, the pieces of a trajectory between missing samples, and what is behind its end."""

import numpy as np
import torch
from torch import Tensor

from romkit.boundary import Mask, checked
from romkit.errors import InputError

EVEN = 1e-3
"""Largest deviation of a step from the mean one, relative to it, of times that count as even: some were rounded."""


@checked
def even_step(times: np.ndarray) -> float | None:
    """The step of evenly spaced times (T,); None where they are not.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> romkit.data.even_step(np.array([0.0, 0.5, 1.0]))
        0.5
        >>> romkit.data.even_step(np.array([0.0, 0.5, 2.0])) is None
        True
    """
    steps = np.diff(np.atleast_1d(times).astype(np.float64))
    if len(steps) == 0:
        return None
    mean = float(steps.mean())
    return mean if mean > 0 and np.abs(steps - mean).max() <= EVEN * mean else None


@checked
def pieces(observed: Mask) -> list[slice]:
    """Stretches of a trajectory (T,) without a missing sample.

    Raises:
        InputError: more or fewer axes than one.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> romkit.data.pieces(np.array([True, True, False, True, True, True]))
        [slice(0, 2, None), slice(3, 6, None)]
    """
    observed = np.asarray(observed)
    if observed.ndim != 1:
        got, fix = f"shape {observed.shape}", "give those of one trajectory"
        raise InputError("observed", expected="shape (times,)", got=got, fix=fix)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], observed, [False]]).astype(np.int8)))
    return [slice(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def held(values: Tensor) -> Tensor:
    """(C, T, k) with the last finite value of each trajectory in place of the NaN behind it."""
    finite = values.isfinite().all(-1)
    last = (finite * torch.arange(1, finite.shape[1] + 1)).amax(1, keepdim=True).clamp(min=1) - 1
    index = torch.minimum(torch.arange(finite.shape[1]).expand_as(finite), last)
    return values.gather(1, index.unsqueeze(-1).expand_as(values))
