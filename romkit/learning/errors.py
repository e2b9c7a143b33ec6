"""Errors of forecasts at contexts that a model has not seen, of all variables and of each, beside
those of forecasts that need no model.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import xarray as xr

from romkit.core.types import Array
from romkit.data.layout import Layout, layout_of
from romkit.laws.baselines import interpolated_runs, nearest_and_shifted
from romkit.learning.contexts import scaled_contexts
from romkit.metrics import component_deviation, deviations, pool_units, reduce_chunks

Errors = Mapping[str, Array]
"""Error of each run by what made the forecast [deviations of the training data]."""

AT_EQUAL_TIMES = "runs interpolated at equal times"
"""Name of the forecast that splines in the context make, whatever makes that of a model."""


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
        return mean_kept(self.absolute["forecast"])

    @property
    def in_deviations(self) -> float:
        """Error of forecasts that are not lost, in deviations of the variable."""
        return mean_kept(self.relative["forecast"])


class Forecasts(NamedTuple):
    """Forecasts of runs beside the truth, and the errors of these and of others.

    Attributes:
        state: (C, T, n) of the forecasts.
        truth: (C, T, n), NaN where it is missing.
        errors: of each run by what made the forecast, over all components [deviations of their unit].
        errors_of_variables: the same of each variable, by name.
        measure: that they are errors in.
    """

    state: Array
    truth: Array
    errors: Errors
    errors_of_variables: Mapping[str, VariableErrors]
    measure: "Measure"

    def made_by(self, states: Array) -> "Forecasts":
        """Return these forecasts under the name "law", and others (C, T, n) in their place."""
        measured = _join_names(
            [self._law_errors(), self.measure.of({"forecast": states}, self.truth)]
        )
        return self._replace(
            state=states, errors=measured.errors, errors_of_variables=measured.of_variables
        )

    def _law_errors(self) -> "Measured":
        def renamed(errors: Errors) -> Errors:
            baselines = {name: values for name, values in errors.items() if name != "forecast"}
            return baselines | {"law": errors["forecast"]}

        of_variables = {}
        for name, (units, absolute, relative) in self.errors_of_variables.items():
            of_variables[name] = VariableErrors(units, renamed(absolute), renamed(relative))
        return Measured(renamed(self.errors), of_variables)


class Measured(NamedTuple):
    """Errors of forecasts over all components, and of each variable."""

    errors: Errors
    of_variables: Mapping[str, VariableErrors]


class Measure(NamedTuple):
    """Scales of errors.

    Attributes:
        deviation: (n,) of the components over the training data.
        scale: (n,) the same, one for all components of a unit.
        layout: of the variables.
    """

    deviation: Array
    scale: Array
    layout: Layout

    @classmethod
    def build(cls, data: xr.Dataset) -> "Measure":
        """Measure in the deviations of data."""
        deviation = component_deviation(data)
        return cls(deviation, pool_units(deviation, data), layout_of(data))

    def of(self, several: Mapping[str, Array], truth: Array) -> Measured:
        """Measure states (C, T, n) by name."""
        errors = {}
        for name, states in several.items():
            errors[name] = _error(states, truth, self.scale)
        of_variables = {}
        for name, units, columns in _variables(self.layout):
            absolute = {}
            for made_by, states in several.items():
                absolute[made_by] = _error(states[..., columns], truth[..., columns])
            deviation = self._variable_deviation(columns)
            relative = {made_by: error / deviation for made_by, error in absolute.items()}
            of_variables[name] = VariableErrors(units, absolute, relative)
        return Measured(errors, of_variables)

    def _variable_deviation(self, columns: slice) -> float:
        """Return deviation of a variable; 1 where it is constant."""
        deviation = float(np.sqrt(np.square(self.deviation[columns]).mean()))
        if deviation > 0:
            return deviation
        return 1.0


def _join_names(several: Sequence[Measured]) -> Measured:
    """Join errors of the same runs by other forecasts."""
    errors: dict[str, Array] = {}
    of_variables: dict[str, VariableErrors] = {}
    for measured in several:
        errors |= measured.errors
        for name, (units, absolute, relative) in measured.of_variables.items():
            before = of_variables.get(name, VariableErrors(units, {}, {}))
            of_variables[name] = VariableErrors(
                units, {**before.absolute, **absolute}, {**before.relative, **relative}
            )
    return Measured(errors, of_variables)


def together(several: Sequence[Forecasts], state: Array, truth: Array) -> Forecasts:
    """Join forecasts of other runs, whose states (C, T, n) and truth are joined already."""

    def joined(of_parts: Sequence[Errors]) -> Errors:
        return {name: np.concatenate([e[name] for e in of_parts]) for name in of_parts[0]}

    of_variables = {}
    for name, (units, _, _) in several[0].errors_of_variables.items():
        of_variable = [forecasts.errors_of_variables[name] for forecasts in several]
        absolute = joined([errors.absolute for errors in of_variable])
        of_variables[name] = VariableErrors(
            units, absolute, joined([errors.relative for errors in of_variable])
        )
    errors = joined([forecasts.errors for forecasts in several])
    return Forecasts(state, truth, errors, of_variables, several[0].measure)


def forecasts_of(
    run: xr.Dataset, train: xr.Dataset, test: xr.Dataset, measure: Measure | None = None
) -> Forecasts:
    """Rollouts along runs, beside the projection of the truth, and forecasts that need no model: the
    nearest run of the training, that run shifted in time, runs interpolated in the context at equal
    times, and rest at the mean.

    Args:
        run: the rollouts.
        train: runs of the training.
        test: the truth.
        measure: of the errors; by default deviations of the training.
    """
    measure = measure or Measure.build(train)
    truth = test["state"].values
    forecast = run["rom"].values.reshape(truth.shape)
    projected = run["projected"].values.reshape(truth.shape)
    # where a part of a state is missing, the identity leaves what is there
    projected = np.where(np.isnan(projected), np.nan_to_num(truth), projected)
    states = bridge_gaps(train)
    mean = np.broadcast_to(reduce_chunks(np.nanmean, states), truth.shape)
    of_model = {"forecast": forecast, "projection": projected, "rest": mean}
    measured_parts = [measure.of(of_model, truth)]
    del projected
    measured_parts.append(measure.of(_nearest_training_runs(states, truth, train, test), truth))
    measured = _join_names(measured_parts)
    return Forecasts(forecast, truth, measured.errors, measured.of_variables, measure)


def mean_kept(errors: Array) -> float:
    """Return mean error of the forecasts that are not lost; infinite where all are."""
    kept = errors[np.isfinite(errors)]
    if len(kept) == 0:
        return np.inf
    return float(kept.mean())


def _nearest_training_runs(
    states: Array, truth: Array, train: xr.Dataset, test: xr.Dataset
) -> dict[str, Array]:
    """Return the training run (C, T, n) nearest to each held-out one, as it is and shifted in time,
    and runs between those of the training.
    """
    runs = torch.from_numpy(states)
    contexts = torch.from_numpy(scaled_contexts(train, train))
    wanted = torch.from_numpy(scaled_contexts(test, train))
    starts, scale = torch.from_numpy(truth[:, 0]), torch.from_numpy(deviations(train))
    nearest, shifted = nearest_and_shifted(runs, contexts, wanted, starts, scale)
    between = interpolated_runs(runs, contexts, wanted)
    named = {"nearest run": nearest, "nearest run, shifted": shifted, AT_EQUAL_TIMES: between}
    return {name: states.numpy() for name, states in named.items()}


def _variables(layout: Layout, *, few_components: int = 8) -> list[tuple[str, str, slice]]:
    """Return name, unit and components of each variable; of a state without variables and of few
    components, of each component.

    `few_components`: components up to which those of a state without variables are told one by
    one.
    """
    if layout.is_plain and layout.size <= few_components:
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


def bridge_gaps(data: xr.Dataset) -> Array:
    """Return states (C, T, n) with straight lines over gaps: a gap in the data is no lost forecast."""
    states = data["state"].values
    if np.isfinite(states).all():
        return states
    runs = [pd.DataFrame(run, index=data["time"].values) for run in states]
    return np.stack([run.interpolate("index", limit_direction="both") for run in runs])


def _error(states: Array, truth: Array, scale: Array | float = 1.0) -> Array:
    """Return error (C,) of each run: root mean square over components, mean over time [scale]."""
    errors = np.empty(len(truth))
    for k in range(len(truth)):  # one by one, since fields are large
        distance = distances(states[k] / scale, truth[k] / scale)  # (T,)
        missing = np.isnan(truth[k]).all(-1)
        lost = np.isnan(states[k]).any(-1) & ~missing
        distance[lost] = np.inf
        errors[k] = torch.from_numpy(distance).nanmean()
    return errors


def distances(states: Array, truth: Array) -> Array:
    """Root mean square (..., T) over the components, NaN where all are missing."""
    square = torch.from_numpy(np.square(states - truth))  # (..., T, n)
    return square.nanmean(-1).sqrt().numpy()
