"""Observations of trajectories: some components of the state at some times, with gaps."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.data import DIMS, trajectories
from romkit.data.layout import component_names
from romkit.projections import Projection


class Observations(NamedTuple):
    """Observed components of trajectories in time.

    Attributes:
        times: (T,).
        values: (B, T, s); NaN where they are missing.
        rows: (s,) which components of the state they are.
    """

    times: Tensor
    values: Tensor
    rows: Tensor

    @classmethod
    def of(
        cls,
        source: Projection | Sequence[str],
        observations: xr.Dataset,
        sensors: Sequence[object] | None,
    ) -> "Observations":
        """Observations of a dataset with `state`: all components, or sensors given by name or
        number.

        `source` has the names of the components, or is these.
        """
        names = source.frame.state_names if isinstance(source, Projection) else tuple(source)
        rows = torch.tensor(rows_of(names, sensors))
        if "state" not in observations:
            got = ", ".join(map(str, observations.data_vars)) or "nothing"
            fix = "name it: romkit.data.describe(observations, state=[...]), or `romkit check FILE --out NEW`"
            raise InputError("observations", expected="a variable 'state'", got=got, fix=fix)
        found = observations[["state"]]
        for dim in DIMS[:2]:
            found = found if dim in found.dims else found.expand_dims(dim)
        places = {name: k for k, name in enumerate(component_names(found))}
        missing = [names[row] for row in rows if names[row] not in places]
        if missing:
            got, fix = (
                f"no {missing[0]!r}",
                "name the components as in training, or give sensors=...",
            )
            raise InputError("observations", expected="the observed components", got=got, fix=fix)
        values = trajectories(found.isel(component=[places[names[row]] for row in rows]), "state")
        times = (
            torch.tensor(found["time"].values, dtype=torch.float64)
            if "time" in found.coords
            else torch.zeros(1)
        )
        if not bool(values.isfinite().any(-1).any(-1).all()):
            raise InputError(
                "observations", expected="numbers", got="a trajectory without any", fix="drop it"
            )
        return cls(times.double(), values, rows)


def rows_of(names: Sequence[str], sensors: Sequence[object] | None) -> list[int]:
    """Numbers of the sensors among the components; of all by default."""
    if sensors is None:
        return list(range(len(names)))
    rows = []
    for sensor in sensors:
        row = names.index(sensor) if sensor in names else sensor
        if isinstance(row, bool) or not isinstance(row, int) or not -len(names) <= row < len(names):
            expected = f"names of components ({names[0]} ...), or numbers below {len(names)}"
            fix = f"give sensors=[0, {names[-1]!r}]"
            raise InputError("sensors", expected=expected, got=checks.shown(sensor), fix=fix)
        rows.append(row % len(names))
    return rows
