"""What the methods of a system take, with the sizes of that system: annotations that `romkit.boundary` checks."""

from typing import Annotated

import xarray as xr
from torch import Tensor

from romkit.arrays import Axes
from romkit.data import check_states

States = Annotated[Tensor, Axes("state_size")]
"""(..., n)"""

Phases = Annotated[Tensor, Axes("phase_size")]
"""(..., n), or (..., 2n) of a mechanical system."""

Columns = Annotated[Tensor, Axes("state_size", None)]
"""(..., n, k)"""

Context = Annotated[Tensor, Axes("context_names")]
"""(..., p)"""

ContextRows = Annotated[Tensor, Axes(None, "context_names", only=True)]
"""(C, p)"""

Recorded = Annotated[xr.Dataset, lambda argument, value: check_states(value)]
"""Trajectories in romkit's schema."""
