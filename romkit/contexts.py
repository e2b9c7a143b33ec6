"""What the context of a run is: named values, of which some may be functions of time, or coordinates of a dataset."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from scipy.interpolate import CubicSpline
from torch import Tensor

from romkit.data import context_array, context_matrix, context_path
from romkit.types import ContextFunction


class Contexts(NamedTuple):
    """What the context is.

    Attributes:
        initial: (C, p) at the first time.
        over_time: (C, T, p) if it varies in time, else `initial`.
        path: c(t) (C, p), None if it does not vary.
        moving: names of the parameters that vary.
    """

    initial: Tensor
    over_time: Tensor
    path: ContextFunction | None = None
    moving: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str], values: Mapping[str, object], times: Tensor) -> "Contexts":
        """Named values, each a number, an array, or a function of time.

        Raises:
            InputError: a name is missing or unknown, or a value is no number.
        """
        moving = tuple(name for name, value in values.items() if callable(value))
        if not moving:
            initial = torch.from_numpy(np.atleast_2d(context_array(names, values)))
            return cls(initial, initial)
        at = context_path(names, values)

        def path(t: Tensor) -> Tensor:
            return torch.from_numpy(np.atleast_2d(at(float(t))))

        over_time = torch.stack([path(t) for t in times], dim=-2)
        return cls(path(times[0]), over_time, path, moving)

    def expanded(self, number: int) -> "Contexts":
        """For this many trajectories that share a single context."""
        if len(self.initial) == number:
            return self
        return self._replace(
            initial=self.initial.expand(number, -1), over_time=self.over_time.expand(number, *self.over_time.shape[1:])
        )

    @classmethod
    def of_dataset(cls, data: xr.Dataset) -> "Contexts":
        """The context of a dataset; splines go through one that was recorded over time."""
        values, times = torch.from_numpy(context_matrix(data)), data["time"].values
        if values.ndim == 2:
            return cls(values, values)
        spline = CubicSpline(times, values.numpy(), axis=1)
        return cls(values[:, 0], values, lambda t: torch.from_numpy(spline(float(t))))
