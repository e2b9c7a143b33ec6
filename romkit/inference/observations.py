"""Observations of trajectories: some components of the state at some times, with gaps."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.data.layout import component_names
from romkit.data.observed import check_observations
from romkit.data.trajectories import trajectories
from romkit.data.units import Units, in_units_of
from romkit.projections import Projection
from romkit.systems import System


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
        source: Projection | System,
        observations: xr.Dataset,
        sensors: Sequence[object] | None,
        *,
        timed: bool = False,
    ) -> "Observations":
        """Observations of a dataset with `state`: all components, or sensors given by name or
        number.

        Args:
            source: projection or system, whose components are observed.
            observations: `state` (trajectory, time, component).
            sensors: names or numbers of the observed components.
            timed: whether times are needed.

        Raises:
            InputError: no state, other components or units, times that are missing, not numbers, not
                finite or do not increase, infinite values, a trajectory without any number.
        """
        owner = source.frame if isinstance(source, Projection) else source
        names = tuple(owner.state_names)
        units = owner.units if isinstance(source, Projection) else owner.known_units
        rows = torch.tensor(rows_of(names, sensors))
        known = "time" in observations.coords
        checked = _checked(observations, timed)
        state = _components(checked[["state"]], [names[row] for row in rows])
        _check_numbers(state)
        wanted = Units([units.state[row] for row in rows], [], units.time)
        state = in_units_of("observations", state, wanted, [])
        times = torch.zeros(1, dtype=torch.float64)
        if known:
            times = torch.tensor(state["time"].values, dtype=torch.float64)
        return cls(times, trajectories(state, "state"), rows)


def _checked(observations: xr.Dataset, timed: bool) -> xr.Dataset:
    """Observations that pass the checks of data; snapshots need no times, and are counted."""
    if "time" not in observations.coords:
        if timed:
            fix = "add them: observations.assign_coords(time=...)"
            raise InputError("observations", expected="times", got="none", fix=fix)
        count = observations.sizes.get("time", 1)
        if "time" in observations.dims:
            observations = observations.assign_coords(time=np.arange(float(count)))
    if "state" in observations and observations["state"].dtype.kind not in "fiu":
        got, fix = f"values of type {observations['state'].dtype}", "give what the sensors see"
        raise InputError("observations", expected="real numbers", got=got, fix=fix)
    return check_observations(observations)


def _components(state: xr.Dataset, observed: Sequence[str]) -> xr.Dataset:
    """The observed components of the state."""
    places = {name: k for k, name in enumerate(component_names(state))}
    missing = [name for name in observed if name not in places]
    if missing:
        fix = "name the components as in training, or give sensors=..."
        got = f"no {missing[0]!r}"
        raise InputError("observations", expected="the observed components", got=got, fix=fix)
    return state.isel(component=[places[name] for name in observed])


def _check_numbers(state: xr.Dataset) -> None:
    """Refuse trajectories of which no sensor says anything."""
    if not np.isfinite(state["state"].values).any((1, 2)).all():
        got = "a trajectory without any"
        raise InputError("observations", expected="numbers", got=got, fix="drop it")


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
