"""Observations of trajectories: some components of the state at some times, with gaps."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Names, NameSequence
from romkit.data.conversions import convert_data, convert_state
from romkit.data.layout import component_names
from romkit.data.observed import check_observations
from romkit.data.spelling import known_name
from romkit.data.trajectories import trajectories
from romkit.data.units import Units
from romkit.projections import Frame, Projection
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
    def read(
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
        names = described(source).state_names
        units = units_of(source)
        rows = torch.tensor(rows_of(names, sensors))
        has_times = "time" in observations.coords
        checked = _checked(observations, timed)
        state = _components(checked[["state"]], [names[row] for row in rows])
        if not np.isfinite(state["state"].values).any((1, 2)).all():
            raise InputError(
                "observations", expected="numbers", got="a trajectory without any", fix="drop it"
            )
        observed_units = Units([units.state[row] for row in rows], [], units.time)
        state = convert_data("observations", state, observed_units, [])
        times = torch.zeros(1, dtype=torch.float64)
        if has_times:
            times = torch.tensor(state["time"].values, dtype=torch.float64)
        return cls(times, trajectories(state, "state"), rows)


class Sensors(NamedTuple):
    """Observed components of a model.

    Attributes:
        names: of the components.
        units: of each.
    """

    names: Names
    units: Names

    @classmethod
    def pick(cls, source: Projection | System, rows: Sequence[int]) -> "Sensors":
        """Return the components of these numbers."""
        names = described(source).state_names
        units = units_of(source).state
        return cls(tuple(names[row] for row in rows), tuple(units[row] for row in rows))

    def read(self, values: object) -> object:
        """Return an observation (s,) in the order and the units of the sensors, where it has
        labels.

        Raises:
            InputError: it lacks a sensor, or has a unit that cannot be converted.
        """
        if not isinstance(values, xr.DataArray) or "component" not in values.coords:
            return values
        if values.dims != ("component",):
            return values
        observed = _components(values.to_dataset(name="state"), self.names)["state"]
        return convert_state("values", observed, self.units)


def described(source: Projection | System) -> Frame | System:
    """Return what has the names of states and contexts of a model."""
    return source.frame if isinstance(source, Projection) else source


def units_of(source: Projection | System) -> Units:
    """Return units of states, contexts and times of a model."""
    return source.frame.units if isinstance(source, Projection) else source.known_units


def _checked(observations: xr.Dataset, timed: bool) -> xr.Dataset:
    """Observations that pass the checks of data; snapshots need no times, and are counted."""
    if "time" not in observations.coords:
        if timed:
            raise InputError(
                "observations",
                expected="times",
                got="none",
                fix="add them: observations.assign_coords(time=...)",
            )
        count = observations.sizes.get("time", 1)
        if "time" in observations.dims:
            observations = observations.assign_coords(time=np.arange(float(count)))
    if "state" in observations and observations["state"].dtype.kind not in "fiu":
        raise InputError(
            "observations",
            expected="real numbers",
            got=f"values of type {observations['state'].dtype}",
            fix="give what the sensors see",
        )
    return check_observations(observations)


def _components(state: xr.Dataset, observed: NameSequence) -> xr.Dataset:
    """Return the observed components of the state."""
    names = list(component_names(state))
    for name in observed:
        count = names.count(name)
        if count == 0:
            raise InputError(
                "observations",
                expected="the observed components",
                got=f"no {name!r}",
                fix="name the components as in training, or give sensors=...",
            )
        if count > 1:
            raise InputError(
                "observations",
                expected="each component once",
                got=f"{count} of the name {name!r}",
                fix="name the components as in training",
            )
    return state.isel(component=[names.index(name) for name in observed])


def rows_of(
    names: NameSequence, sensors: Sequence[object] | None, argument: str = "sensors"
) -> list[int]:
    """Return numbers of the sensors among the components; of all by default.

    Raises:
        InputError: no sensor, one that is no component, or one twice, whose noise would count as
            that of two.
    """
    if sensors is None:
        return list(range(len(names)))
    if not len(sensors):
        raise InputError(
            argument,
            expected="one component or more",
            got="none",
            fix=f"give {argument}=[{names[0]!r}], or leave it out for all components",
        )
    rows: list[int] = []
    for sensor in sensors:
        # by its name, or by its number, which may count from the end
        if isinstance(sensor, str):
            row = names.index(known_name(argument, sensor, names))
        else:
            number = checks.check_minimum(argument, sensor, -len(names))
            row = checks.index(argument, number, len(names)) % len(names)
        if row in rows:
            raise InputError(
                argument,
                expected="each component once",
                got=f"{names[row]!r} twice",
                fix="drop one",
            )
        rows.append(row)
    return rows
