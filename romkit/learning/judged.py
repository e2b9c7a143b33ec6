"""A learned model as its errors judge it: what words, pages and files about it read."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from romkit.core.types import Array
from romkit.data.context import contexts_of
from romkit.hidden import HiddenContext
from romkit.integrators import LearnedField
from romkit.laws import Estimator
from romkit.learning.advice import Evidence
from romkit.learning.bars import LEVEL, Bars, CalibratedLaw, measured
from romkit.learning.contexts import describe_coordinates, halfway
from romkit.learning.errors import Errors, VariableErrors, mean_kept
from romkit.learning.interpolation import InterpolatedRuns
from romkit.learning.symptoms import shifted
from romkit.metrics import pool_units
from romkit.projections import Projection
from romkit.verbs.calibration import Calibration


@dataclass(frozen=True, eq=False)
class Judged:
    """A reduced model with its errors; attributes as `romkit.Learned` describes them."""

    projection: Projection
    law: LearnedField
    settings: Estimator
    calibration: Calibration | None
    inside: float
    train: xr.Dataset
    test: xr.Dataset
    run: xr.Dataset
    errors: Errors
    errors_of_variables: Mapping[str, VariableErrors]
    errors_of_seen: Errors
    seconds: float
    held_out: bool = False
    period: float | None = None
    interpolated: InterpolatedRuns | None = None
    hidden: HiddenContext | None = None

    @functools.cached_property
    def error(self) -> float:
        """Error that is expected halfway between neighbouring contexts of the runs [deviations].

        A run that was left out leaves a gap of twice the width, so that the final model errs by less
        than `errors`. The scale of the intervals takes this into account: the errors of the final
        model on the runs around a context, widened by the gap between them as runs that were left out
        tell. This is its mean over these contexts. Where there are no intervals it is the mean of
        `errors["forecast"]`, and of a model with held-out runs, too, which leave its gaps as they are.
        """
        if self._halfway_errors is None:
            return self.mean_errors["forecast"]
        return float(self._halfway_errors.mean())

    @functools.cached_property
    def _halfway_errors(self) -> Array | None:
        """Errors (k,) expected halfway between neighbouring contexts of the runs; None where nothing
        tells them, or held-out runs do.
        """
        if self.held_out or self.intervals is None:
            return None
        contexts = contexts_of(self.train)
        width = np.ptp(contexts, axis=0)
        places = halfway(contexts, np.where(width > 0, width, 1.0))
        return self.intervals.expected(places, self.scale)

    @property
    def mean_errors(self) -> dict[str, float]:
        """Mean of each of `errors` over the runs whose forecast is not lost, infinite where all are:
        beside the forecast, of the projection and of forecasts that need no model.
        """
        return {name: mean_kept(errors) for name, errors in self.errors.items()}

    @property
    def scale(self) -> Array:
        """Deviations (n,) in which errors are measured."""
        return pool_units(self.run["state_std"].values.astype(float), self.train)

    @property
    def advice(self) -> str:
        """Sentences that say how far to trust the model, and what would help most."""
        return self.evidence.sentence()

    @functools.cached_property
    def evidence(self) -> Evidence:
        """Errors and runs that the advice rests on."""
        in_phase, late = self._phase()
        return Evidence(
            errors=self.errors,
            seen=self.errors_of_seen,
            latent_dim=self.projection.latent_dim,
            train=self.train,
            test=self.test,
            has_inputs=bool(self.law.control_names),
            held_out=self.held_out,
            interpolated_in=self._interpolated_parameter,
            clocks=None if self.interpolated is None else self.interpolated.clock_range,
            in_phase=in_phase,
            late=late,
        )

    @property
    def _interpolated_parameter(self) -> str:
        """Coordinates in which runs are interpolated; "" where they are not."""
        if self.interpolated is None:
            return ""
        return describe_coordinates(self.interpolated.coordinates)

    def _phase(self) -> tuple[float, float]:
        """Return error of the forecasts by the law when pieces are shifted in time [deviations],
        and the largest shift of the last ones, in the unit of time.
        """
        forecasts = self.run["rom"].values / self.scale
        truths = self.run["truth"].values / self.scale
        shifts = []
        for forecast, truth in zip(forecasts, truths, strict=True):
            # the others are told of as lost
            if np.isfinite(forecast).all():
                shifts.append(shifted(forecast, truth))
        if not shifts:
            return np.inf, 0.0
        step = float(np.median(np.diff(self.run["time"].values)))
        error = float(np.mean([of_run.error for of_run in shifts]))
        return error, step * max((of_run.last for of_run in shifts), key=abs)

    @functools.cached_property
    def bars(self) -> Bars | None:
        """Widths of intervals where one forecasts, and what they rest on; None without any."""
        if self.intervals is None:
            return None
        inside = np.nan if self.interpolated is not None else self.inside
        bars = measured(self.intervals, self.test, LEVEL, inside)
        if self._halfway_errors is None:
            return bars
        # at the contexts of the runs they are narrower, where nobody needs a forecast
        calibration = self.intervals.calibration
        assert calibration is not None  # of intervals
        widths = calibration.factor(LEVEL) * self._halfway_errors
        return bars._replace(width=float(widths.mean()), widest=float(widths.max()))

    @property
    def intervals(self) -> CalibratedLaw | InterpolatedRuns | None:
        """Source of the intervals of forecasts; None without any."""
        if self.interpolated is not None:
            return self.interpolated if self.interpolated.calibration is not None else None
        if self.calibration is None:
            return None
        return CalibratedLaw(self.projection, self.law, self.calibration)
