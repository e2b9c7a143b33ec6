"""Attributes of a learned model that words and pages about it read."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import xarray as xr

from romkit.integrators import Estimator, LearnedField
from romkit.learning.advice import Evidence
from romkit.learning.bars import Bars
from romkit.learning.coordinates import Tried
from romkit.learning.errors import Errors, VariableErrors
from romkit.learning.interpolation import InterpolatedRuns
from romkit.learning.preference import Compared
from romkit.learning.trials import Trial
from romkit.plotting.style import Figure
from romkit.projections import Projection
from romkit.verbs.ensemble import Ensemble


class Judged(Protocol):
    """A reduced model with its errors, as `romkit.learning.Learned` describes them."""

    projection: Projection
    law: LearnedField
    settings: Estimator
    ensemble: Ensemble | None
    train: xr.Dataset
    test: xr.Dataset
    run: xr.Dataset
    errors: Errors
    errors_of_variables: Mapping[str, VariableErrors]
    errors_of_seen: Errors
    trials: Sequence[Trial]
    seconds: float
    fitted_to_all: bool
    period: float | None
    without_bars: str
    bars_before: Bars | None
    interpolated: InterpolatedRuns | None
    coordinates: Tried | None
    compared: Compared | None

    @property
    def intervals(self) -> Ensemble | InterpolatedRuns | None:
        """Source of the intervals of forecasts."""

    @property
    def error(self) -> float:
        """Error of forecasts at contexts that it has not seen."""

    @property
    def mean_errors(self) -> Mapping[str, float]:
        """Errors beside it, by name."""

    @property
    def bars(self) -> Bars | None:
        """Widths of intervals."""

    @property
    def evidence(self) -> Evidence:
        """Errors and runs that the advice rests on."""

    @property
    def advice(self) -> str:
        """Verdict, and what would help most."""

    def plot(self) -> Figure:
        """Truth, model and difference of held-out runs."""
