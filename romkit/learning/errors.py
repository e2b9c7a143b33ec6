"""Errors of forecasts at contexts that a model has not seen, of all variables and of each, beside
those of forecasts that need no model.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import xarray as xr

from romkit.core.types import Array
from romkit.data.layout import Layout
from romkit.laws.baselines import interpolated_runs, nearest_and_shifted
from romkit.learning.contexts import scaled_contexts
from romkit.metrics import per_unit

Errors = Mapping[str, Array]
"""Error of each run by what made the forecast [deviations of the training data]."""

AT_EQUAL_TIMES = "runs interpolated at equal times"
"""Name of the forecast that splines in the context make, whatever makes that of a model."""

FEW_COMPONENTS = 8
"""Components up to which those of a state without variables are told one by one."""


class VariableErrors(NamedTuple):
    """Errors of one variable.

    Attributes:
        units: of its values, "" where they are not known.
        absolute: error of each run by what made the forecast, in its unit.
        relative: the same, in its deviation over the training data, of a field the root mean square
            of those of its components.
    """

    units: str
    absolute: Errors
    relative: Errors

    @property
    def in_unit(self) -> float:
        """Error of forecasts that are not lost, in the unit of the variable."""
        return of_kept(self.absolute["forecast"])

    @property
    def in_deviations(self) -> float:
        """Error of forecasts that are not lost, in deviations of the variable."""
        return of_kept(self.relative["forecast"])


class Forecasts(NamedTuple):
    """Forecasts of runs by what made them, beside the truth.

    Attributes:
        states: (C, T, n) by name.
        truth: (C, T, n), NaN where it is missing.
        deviation: (n,) of the components over the training data.
        scale: (n,) the same, one for all components of a unit.
    """

    states: Mapping[str, Array]
    truth: Array
    deviation: Array
    scale: Array

    def errors(self) -> Errors:
        """Return error of each run over all components, in the deviation of their unit."""
        return self._errors(slice(None), self.scale)

    def errors_of_variables(self, layout: Layout) -> dict[str, VariableErrors]:
        """Return errors of each variable, by name."""
        errors = {}
        for name, units, columns in _variables(layout):
            absolute = self._errors(columns, 1.0)
            relative = self._errors(columns, self._deviation_of(columns))
            errors[name] = VariableErrors(units, absolute, relative)
        return errors

    def made_by(self, states: Array) -> "Forecasts":
        """Return name these forecasts "law", and put others (C, T, n) in their place."""
        named = {**self.states, "forecast": states, "law": self.states["forecast"]}
        return self._replace(states=named)

    def _deviation_of(self, columns: slice) -> float:
        """Return deviation of a variable; 1 where it is constant."""
        deviation = float(np.sqrt(np.square(self.deviation[columns]).mean()))
        if deviation > 0:
            return deviation
        return 1.0

    def _errors(self, columns: slice, scale: Array | float) -> Errors:
        truth = self.truth[..., columns] / scale
        errors = {}
        for name, states in self.states.items():
            errors[name] = _error(states[..., columns] / scale, truth)
        return errors


def forecasts_of(run: xr.Dataset, train: xr.Dataset, test: xr.Dataset) -> Forecasts:
    """Rollouts along runs, beside the projection of the truth, and forecasts that need no model: the
    nearest run of the training, that run shifted in time, runs interpolated in the context at equal
    times, and rest at the mean.
    """
    truth = test["state"].values
    deviation = np.nanstd(train["state"].values, axis=(0, 1))
    scale = per_unit(deviation, train)
    states = without_gaps(train)
    nearest, shifted, between = _of_training_runs(states / scale, truth / scale, train, test)
    rest = np.nanmean(states, axis=(0, 1))
    projected = run["projected"].values.reshape(truth.shape)
    # where a part of a state is missing, the identity leaves what is there
    projected = np.where(np.isnan(projected), np.nan_to_num(truth), projected)
    by_name = {
        "forecast": run["rom"].values.reshape(truth.shape),
        "projection": projected,
        "nearest run": nearest * scale,
        "nearest run, shifted": shifted * scale,
        AT_EQUAL_TIMES: between * scale,
        "rest": np.broadcast_to(rest, truth.shape),
    }
    return Forecasts(by_name, truth, deviation, scale)


def of_kept(errors: Array) -> float:
    """Return mean error of the forecasts that are not lost; infinite where all are."""
    kept = errors[np.isfinite(errors)]
    if len(kept) == 0:
        return np.inf
    return float(kept.mean())


def _of_training_runs(
    states: Array, truth: Array, train: xr.Dataset, test: xr.Dataset
) -> tuple[Array, Array, Array]:
    """Return the training run (C, T, n) nearest to each held-out one, as it is and shifted in time,
    and runs between those of the training.
    """
    runs = torch.from_numpy(states)
    contexts = torch.from_numpy(scaled_contexts(train, train))
    wanted = torch.from_numpy(scaled_contexts(test, train))
    starts = torch.from_numpy(truth[:, 0])
    nearest, shifted = nearest_and_shifted(runs, contexts, wanted, starts)
    between = interpolated_runs(runs, contexts, wanted)
    return nearest.numpy(), shifted.numpy(), between.numpy()


def _variables(layout: Layout) -> list[tuple[str, str, slice]]:
    """Return name, unit and components of each variable; of a state without variables and of few
    components, of each component.
    """
    if layout.is_plain and layout.size <= FEW_COMPONENTS:
        single = []
        for number, (name, units) in enumerate(zip(layout.names, layout.units, strict=True)):
            single.append((name, units, slice(number, number + 1)))
        return single
    variables = []
    begin = 0
    for variable in layout.variables:
        end = begin + variable.size
        variables.append((variable.name, variable.units, slice(begin, end)))
        begin = end
    return variables


def without_gaps(data: xr.Dataset) -> Array:
    """Return states (C, T, n) with straight lines over gaps: a gap in the data is no lost forecast."""
    states = data["state"].values
    if np.isfinite(states).all():
        return states
    runs = [pd.DataFrame(run, index=data["time"].values) for run in states]
    return np.stack([run.interpolate("index", limit_direction="both") for run in runs])


def _error(states: Array, truth: Array) -> Array:
    """Return error (C,) of each run: root mean square over components, mean over time."""
    distance = distances(states, truth)
    missing = np.isnan(truth).all(-1)
    lost = np.isnan(states).any(-1) & ~missing
    distance[lost] = np.inf
    return torch.from_numpy(distance).nanmean(-1).numpy()


def distances(states: Array, truth: Array) -> Array:
    """Root mean square (C, T) over the components, NaN where all are missing."""
    square = torch.from_numpy(np.square(states - truth))  # (C, T, n)
    return square.nanmean(-1).sqrt().numpy()
