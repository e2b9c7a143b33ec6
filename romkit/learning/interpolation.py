"""Runs interpolated in the context at equal times: forecasts without a law, with intervals.

They hold for the starts and the times of the runs alone.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import tensors
from romkit.core.boundary import Part, Positive, unchecked, validated
from romkit.core.display import append_unit
from romkit.core.errors import ExtrapolationWarning, InputError, warn
from romkit.core.types import Array
from romkit.data import (
    DIMS,
    Contexts,
    context_matrix,
    context_names,
    open_dataset,
    save_dataset,
    trajectories,
)
from romkit.data.context import contexts_of
from romkit.data.coordinates import coordinates_of
from romkit.data.units import strip_origin, time_units
from romkit.laws.decoding import COMPONENTS
from romkit.learning.clocks import COMPONENTS as OF_CLOCKS
from romkit.learning.clocks import (
    fit_clock,
    interpolate_phases,
    is_settling,
    measure_clocks,
    sample_phases,
)
from romkit.learning.contexts import (
    FEWEST,
    are_interior,
    describe_context,
    inner_groups,
    number_of_contexts,
    scaled,
    scaled_contexts,
)
from romkit.learning.errors import bridge_gaps
from romkit.learning.expected import (
    SPLINE,
    changes,
    combined,
    expected_changes,
    expected_errors,
    likely,
    make_kriging,
)
from romkit.metrics import deviations, pool_units
from romkit.models.extrapolation import add_extrapolation
from romkit.models.record import coords_of, rebase_times
from romkit.numerics import Kriging, Smoother
from romkit.projections import Projection
from romkit.verbs.calibration import Calibration
from romkit.verbs.ensemble import add_interval
from romkit.verbs.forecast import forecast_start
from romkit.verbs.simulate import output_times

NEAR = 0.1
"""Distance of a start from that of the runs [deviations] up to which it always counts as theirs."""

FIX = "take the law, model.of_law().forecast(...)"

RUNS, CALIBRATION = "interpolated.nc", "calibration.nc"

CLOCK = "log_clock"
"""Name of the logarithms of clocks in a file."""


@dataclass(frozen=True)
class Interpolation:
    """Way between runs.

    Attributes:
        smoother: of the runs: splines through them, or of steady fields another one.
        by_clocks: whether each run has a clock, at equal phases of which they are interpolated.
    """

    smoother: Smoother = SPLINE
    by_clocks: bool = False

    def errors(self, data: xr.Dataset, rows: Tensor) -> Array:
        """Interpolate between the other runs: errors (k,) of these [deviations], of as many
        components as laws are judged by.
        """
        chosen = tensors.evenly(data.sizes["component"], COMPONENTS)
        states = torch.from_numpy(bridge_gaps(data))[..., chosen]
        relative = states / torch.from_numpy(deviations(data))[chosen]
        contexts = torch.from_numpy(scaled_contexts(data, data))
        is_kept = torch.ones(len(states), dtype=torch.bool)
        is_kept[rows] = False
        kept = contexts[is_kept]
        runs = relative[is_kept]
        if self.by_clocks:
            times = data["time"].values.astype(float)
            clocks = measure_clocks(runs.numpy(), times, kept.numpy())
            at_phases_of_others = interpolate_phases(
                runs.numpy(), times, clocks, kept, contexts[rows], times, self.smoother
            )
            between = torch.from_numpy(at_phases_of_others)
        else:
            between = combined(self.smoother.weights(kept, contexts[rows]), runs)
        is_observed = trajectories(data, "state").isfinite()[rows][..., chosen]
        error = torch.where(is_observed, between - relative[rows], torch.nan)
        return error.square().nanmean(-1).sqrt().nanmean(-1).numpy()

    def fitted(
        self, projection: Projection, data: xr.Dataset, *, with_bars: bool = True
    ) -> "InterpolatedRuns":
        """Interpolate between all runs."""
        clocks = None
        if self.by_clocks:
            times, contexts = data["time"].values.astype(float), scaled_contexts(data, data)
            # those that clocks are told by: all of them in deviations would be a copy of the runs
            few = tensors.evenly(data.sizes["component"], OF_CLOCKS).numpy()
            states = bridge_gaps(data)[..., few] / deviations(data)[few]
            clocks = measure_clocks(states, times, contexts)
        return InterpolatedRuns.fit(projection, data, with_bars, clocks, self.smoother)

    def __str__(self) -> str:
        """Return name the way in words."""
        phases = "phases of clocks" if self.by_clocks else "times"
        return f"runs interpolated at equal {phases}"


def obstacle(data: xr.Dataset) -> str:
    """Say what keeps runs from being interpolated; empty where nothing does."""
    if "control" in data:
        return "runs with inputs"
    if context_matrix(data).ndim == 3:
        return "contexts that move"
    is_known = np.isfinite(data["state"].values).any(-1)  # (C, T)
    if _ends_early(data, is_known).any():
        return "runs that end early"
    return ""


def _ends_early(data: xr.Dataset, is_known: Array, *, end: float = 0.1) -> Array:
    """Tell which runs (C,) end before the others, and move at their end.

    `end`: share of the time of the runs by which one may end before the others, and stays where
    it is.
    """
    times = data["time"].values.astype(float)
    last = np.where(is_known, times, -np.inf).max(1)  # (C,)
    is_short = last < times[-1] - end * (times[-1] - times[0])
    relative = bridge_gaps(data) / deviations(data)
    moves = [not is_settling(relative[run, rows]) for run, rows in enumerate(is_known)]
    return is_short & np.array(moves)


def _filled(data: xr.Dataset) -> xr.Dataset:
    """Return states of runs alone, with straight lines over gaps."""
    return data[["state"]].assign(state=(DIMS, bridge_gaps(data), data["state"].attrs))


@dataclass(frozen=True, eq=False)
class InterpolatedRuns:
    """Forecasts between runs at equal times, by thin-plate splines in the context.

    Attributes:
        projection: gives names, units and ranges of the training data.
        runs: that are interpolated, without gaps.
        tolerance: distance from the start of the runs up to which a start counts as theirs
            [deviations], root mean square over components.
        kernel: how alike runs are at contexts that are near, by which intervals are wider where an
            interpolation errs more in relation to how it depends on single runs; None with too few
            runs to tell.
        calibration: of the intervals, of errors in units of this dependence; None without any.
        clocks: logarithms (C,) of the clocks of the runs, at equal phases of which they are
            interpolated; None at equal times.
        smoother: of the runs: splines through them, or of steady fields another one.
    """

    projection: Projection
    runs: xr.Dataset
    tolerance: float
    kernel: Kriging | None
    calibration: Calibration | None
    clocks: Array | None = None
    smoother: Smoother = SPLINE

    @classmethod
    def fit(
        cls,
        projection: Projection,
        train: xr.Dataset,
        with_bars: bool,
        clocks: Array | None = None,
        smoother: Smoother = SPLINE,
    ) -> "InterpolatedRuns":
        """Interpolate the training runs, with intervals by the errors on runs of each context
        between others from all but these.
        """
        model = cls(projection, _filled(train), NEAR, None, None, clocks, smoother)
        if not with_bars:
            return model
        # with one less, an inner context is left that shows how much runs matter
        if number_of_contexts(train) > FEWEST:
            model = replace(model, kernel=likely(model._align_phases(0.0), model._known))
        errors, units, farthest = model._left_out(train)
        calibration = None
        if sum(map(len, errors)) > 1:
            relative = np.concatenate(errors)  # (V, T, n)
            unit = np.concatenate(units)
            del errors, units
            spread = np.broadcast_to(0.0, relative.shape)
            times = train["time"].values.astype(float)
            calibration = Calibration.fit(
                times, relative, spread, model._deviation, typical=True, unit=unit
            )
        return replace(model, tolerance=max(NEAR, farthest), calibration=calibration)

    @validated
    def follow(self, data: xr.Dataset, *, level: Part = 0.9) -> xr.Dataset:
        """Return runs at the contexts and times of a dataset, with an interval where there is a
        calibration.
        """
        contexts = torch.from_numpy(contexts_of(data))
        return self._run(contexts, _times(data), _times(data), level)

    @validated
    def forecast(
        self,
        *,
        duration: Positive,
        dt: Positive,
        initial_state: object = None,
        start: float = 0.0,
        level: Part = 0.9,
        context: dict[str, object] | None = None,
        **named: object,
    ) -> xr.Dataset:
        """Return the run at a context from a time of the runs on, as `romkit.forecast` has it.

        Args:
            duration: of the forecast, at most to the end of the runs.
            dt: interval of the output.
            initial_state: to be compared with that of the runs; by default theirs.
            start: time of the first state since the first sample of the runs.
            level: share of the truth that is to be within the interval.
            context: as of `romkit.forecast`.
            **named: the context by name.

        Raises:
            InputError: times beyond those of the runs, or a start that is none of theirs.
        """
        frame = self.projection.frame
        since_start = output_times(duration, dt)
        times = _times(self.runs)[0] + start + since_start
        self._check_times(times, start)
        values = named | (context or {})
        units = frame.context_units
        contexts = unchecked(Contexts.build)(frame.context_names, values, since_start, units)
        if contexts.path is not None:
            names = ", ".join(contexts.moving)
            raise InputError(names, expected="numbers", got="a function of time", fix=FIX)
        wanted = contexts.initial
        if initial_state is not None:
            starts = self._full(initial_state)
            wanted = unchecked(contexts.expanded)(max(len(wanted), len(starts))).initial
            self._check_starts(starts, wanted, times[:1])
        self._warn_extrapolation(wanted)
        self._warn_past_slower(wanted, float(times[-1] - _times(self.runs)[0]))
        run = rebase_times(self._run(wanted, times, since_start, level))
        if len(wanted) == 1:
            return run.squeeze("trajectory")
        return run

    def save(self, folder: Path) -> None:
        """Write the runs and the calibration into a folder without any."""
        facts = {"tolerance": self.tolerance}
        if self.kernel is not None:
            facts |= {"reach": self.kernel.reach, "noise": self.kernel.noise}
        runs = self.runs.assign_attrs(facts)
        if self.clocks is not None:
            runs = runs.assign({CLOCK: ("trajectory", self.clocks)})
        save_dataset(runs, folder / RUNS)
        if self.calibration is not None:
            save_dataset(self.calibration.to_dataset(), folder / CALIBRATION)

    @classmethod
    def load(cls, folder: Path, projection: Projection) -> "InterpolatedRuns":
        """Read what `save` wrote."""
        runs = open_dataset(folder / RUNS)
        calibration = None
        if (folder / CALIBRATION).exists():
            calibration = Calibration.from_dataset(open_dataset(folder / CALIBRATION))
        tolerance = float(runs.attrs["tolerance"])
        kernel = None
        if "reach" in runs.attrs:
            kernel = make_kriging(float(runs.attrs["reach"]), float(runs.attrs["noise"]))
        clocks = None
        if CLOCK in runs:
            clocks = runs[CLOCK].values
            runs = runs.drop_vars(CLOCK)
        return cls(projection, runs, tolerance, kernel, calibration, clocks)

    @property
    def coordinates(self) -> dict[str, str]:
        """Name of the coordinate of each parameter in which runs are interpolated."""
        names = context_names(self.runs)
        return dict(zip(names, coordinates_of(self.runs), strict=True))

    @property
    def clock_range(self) -> tuple[float, float] | None:
        """Clocks of the fastest and of the slowest run, in the median one; None without clocks."""
        if self.clocks is None:
            return None
        fastest, slowest = np.exp([self.clocks.min(), self.clocks.max()])
        return float(fastest), float(slowest)

    @functools.cached_property
    def _deviation(self) -> Array:
        """(n,) in which errors are measured."""
        return pool_units(self.projection.frame.state_std.double().numpy(), self.runs)

    @property
    def _known(self) -> Tensor:
        """Contexts (C, p) of the runs, scaled."""
        return torch.from_numpy(scaled_contexts(self.runs, self.runs))

    def _align_phases(self, clock: float) -> Tensor:
        """Return states (C, T, n) of the runs, in deviations, at equal times, or at the phases that
        a run with this clock has at these.
        """
        states = self.runs["state"].values
        if self.clocks is None:
            return torch.from_numpy(states / self._deviation)
        times = _times(self.runs).numpy()
        phases = (times - times[0]) * np.exp(-clock)
        at_equal = sample_phases(states, times, self.clocks, phases)
        at_equal /= self._deviation
        return torch.from_numpy(at_equal)

    def _left_out(self, train: xr.Dataset) -> tuple[list[Array], list[Array], float]:
        """Return errors (k, T, n) on the runs of each context between others, from all but these, in
        the sizes of errors there, these sizes, and the largest distance of these runs, in
        deviations.
        """
        relative, units = [], []
        farthest = [0.0]
        for left_out in inner_groups(train):
            kept = np.setdiff1d(np.arange(train.sizes["trajectory"]), left_out)
            clocks = None if self.clocks is None else self.clocks[kept]
            fewer = replace(self, runs=self.runs.isel(trajectory=kept), clocks=clocks)
            missed = train.isel(trajectory=left_out)
            error = _truth(missed) - fewer._states(missed)
            square = torch.from_numpy(np.square(error / self._deviation))
            distance = square.nanmean(-1).sqrt().numpy()  # NaN where nothing was observed
            farthest.append(np.nanmax(distance))
            sizes = fewer._sizes(torch.from_numpy(contexts_of(missed)), _times(missed))
            error /= sizes
            relative.append(error)
            units.append(sizes)
        return relative, units, float(np.nanmax(farthest))

    def expected(self, contexts: Array, deviation: Array) -> Array:
        """Return expected errors (k,) of runs at contexts (k, p), by the scale of the intervals and in
        deviations (n,): root mean square over components, mean over time.
        """
        times = _times(self.runs)
        assert self.calibration is not None  # of intervals
        common = self.calibration.growth[:, None] * self.calibration.profile / deviation  # (T, n)
        errors = []
        for context in torch.from_numpy(contexts):
            (size,) = self._sizes(context[None], times)  # (T, n)
            errors.append(np.sqrt(np.square(common * size).mean(-1)).mean())
        return np.array(errors)

    def _sizes(self, contexts: Tensor, times: Tensor) -> Array:
        """Return sizes (k, T, n) of errors at contexts (k, p) and times, in deviations: of what
        each run changes there, times the expected error in units of the expected change; 1 with too
        few runs to tell.
        """
        from scipy.interpolate import interp1d  # slow to import, and seldom needed

        if self.kernel is None:
            return np.ones((len(contexts), len(times), self.runs.sizes["component"]))
        known = self._known
        wanted = torch.from_numpy(scaled(contexts.numpy(), self.runs))
        groups = inner_groups(self.runs)
        # a gap that a run was left out of is wider than others, and tells of larger errors
        error = expected_errors(self.kernel, known, wanted, self.smoother)
        expected = error / expected_changes(self.kernel, known, wanted, groups, self.smoother)
        at_samples = self._changes(wanted, groups) * expected[:, None, None]
        samples = _times(self.runs).numpy()
        # times may leave the samples by rounding
        within = np.clip(times.numpy(), samples[0], samples[-1])
        return interp1d(samples, at_samples, axis=1)(within)

    def _changes(self, wanted: Tensor, groups: Sequence[Array]) -> Array:
        """Change (k, T, n) of the interpolation at the times of the runs without those of each
        group, in deviations.
        """
        contexts = self._known
        if self.clocks is None:
            runs = self._align_phases(0.0)
            return changes(runs, contexts, wanted, groups, smoother=self.smoother)
        shifts = []
        own = fit_clock(self.clocks, contexts, wanted)
        of_clocks = torch.from_numpy(self.clocks)
        since = (_times(self.runs) - _times(self.runs)[0])[:, None]  # (T, 1)
        for context, clock in zip(wanted, own, strict=True):
            runs = self._align_phases(float(clock))
            (course,) = combined(self.smoother.weights(contexts, context[None]), runs)
            # later by a share of the time since the start, as the clock without a run has it
            (rate,) = torch.gradient(course, spacing=(since[:, 0],), dim=0)
            by_clock = since * rate
            where = contexts, context[None], groups
            shifts.append(changes(runs, *where, of_clocks, by_clock, self.smoother))
        return np.concatenate(shifts)

    def _states(self, data: xr.Dataset) -> Array:
        """Return states (k, T, n) at the contexts and times of data."""
        return self._interpolate(torch.from_numpy(contexts_of(data)), _times(data)).numpy()

    def _interpolate(self, contexts: Tensor, times: Tensor) -> Tensor:
        """Return states (k, T, n) at contexts (k, p) and times of the runs."""
        from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

        states = torch.from_numpy(self.runs["state"].values)
        wanted = torch.from_numpy(scaled(contexts.numpy(), self.runs))
        samples = _times(self.runs)
        if self.clocks is not None:
            at_times = interpolate_phases(
                states.numpy(),
                samples.numpy(),
                self.clocks,
                self._known,
                wanted,
                times.numpy(),
                self.smoother,
            )
            return torch.from_numpy(at_times)
        at_samples = combined(self.smoother.weights(self._known, wanted), states)
        if len(times) == len(samples) and bool((times == samples).all()):
            return at_samples
        spline = CubicSpline(samples.numpy(), at_samples.numpy(), axis=1)
        return torch.from_numpy(spline(times.numpy()))

    def _run(self, contexts: Tensor, times: Tensor, labels: Tensor, level: float) -> xr.Dataset:
        """Return states at contexts and times of the runs, in a dataset whose times are labels."""
        frame = self.projection.frame
        states = self._interpolate(contexts, times).numpy()
        attrs = {"units": self.runs["state"].attrs.get("units", "1"), "long_name": "interpolation"}
        run = xr.Dataset({"state": (DIMS, states, attrs)}, coords_of(frame, contexts, labels))
        if frame.layout:
            run.attrs["layout"] = frame.layout
        run = add_extrapolation(run, frame, contexts, None)
        if self.calibration is None:
            return run
        lead = (times - _times(self.runs)[0]).numpy()
        scale = self.calibration.scale(lead, np.zeros_like(states))
        half = self.calibration.factor(level) * scale * self._sizes(contexts, times)
        return add_interval(run, half, level)

    def _full(self, initial_state: object) -> Tensor:
        """Return first states (k, n) in the units of the data."""
        states = forecast_start(self.projection, initial_state, None)["initial_state"]
        assert states is not None  # as one is given
        n = self.runs.sizes["component"]
        if states.shape[-1] != n:
            expected = f"a full state of {n} components"
            got = f"{states.shape[-1]}"
            raise InputError("initial_state", expected=expected, got=got, fix=FIX)
        return torch.atleast_2d(states).double()

    def _warn_extrapolation(self, contexts: Tensor) -> None:
        """Warn of contexts (k, p) of several parameters that are within the range of each, but not
        between the runs.
        """
        known = scaled_contexts(self.runs, self.runs)
        wanted = scaled(contexts.numpy(), self.runs)
        # ranges are said by the distance of the result
        is_within = ((wanted >= 0) & (wanted <= 1)).all(-1)
        is_outside = is_within & ~are_interior(wanted, known)
        if is_outside.any():
            names = ", ".join(self.projection.frame.context_names)
            warn(
                f"{names} lie within their ranges, but not between the contexts of the runs: the "
                "interpolation goes beyond them, and may err by more than its bars; runs nearer to "
                "the corner would help",
                ExtrapolationWarning,
            )

    def _warn_past_slower(self, contexts: Tensor, last: float, *, same_clock: float = 0.01) -> None:
        """Warn of forecasts at contexts (k, p) whose last time since the start has a phase at which
        the next slower run has ended, unless that rests there.

        `same_clock`: logarithm of the ratio of two clocks up to which one is not called
        slower.
        """
        if self.clocks is None:
            return
        wanted = torch.from_numpy(scaled(contexts.numpy(), self.runs))
        samples = _times(self.runs).numpy()
        span = samples[-1] - samples[0]
        courses = self.runs["state"].values / self._deviation
        earliest = np.inf
        shortest = 0
        for clock in fit_clock(self.clocks, self._known, wanted):
            slower = np.flatnonzero(self.clocks > clock + same_clock)
            if len(slower) == 0:
                continue
            nearest = slower[self.clocks[slower].argmin()]
            end = span * np.exp(clock - self.clocks[nearest])
            if end < earliest and not is_settling(courses[nearest]):
                earliest = end
                shortest = nearest
        if last > earliest:
            run = describe_context(self.runs, int(shortest))
            warn(
                f"forecast: from time {samples[0] + earliest:.4g} on the next slower run, {run}, has "
                "no later phase, and faster ones stand in for it, which bars do not count: end "
                f"there, or give a longer run at {run}",
                ExtrapolationWarning,
            )

    def _check_times(self, times: Tensor, start: float) -> None:
        """Refuse times that the runs do not have."""
        samples = _times(self.runs)
        step = float(samples.diff().median())
        rounding = 1e-6 * step
        if start < 0:
            raise InputError("start", expected="0 or more", got=f"{start:.4g}", fix=FIX)
        if times[-1] > samples[-1] + rounding:
            longest = float(samples[-1] - samples[0]) - start
            length = float(times[-1] - times[0])
            # a count of days has an origin, a duration has none
            unit = append_unit(strip_origin(time_units(self.runs)))
            expected = f"at most {longest:.4g}{unit}, where the interpolated runs end"
            raise InputError("duration", expected=expected, got=f"{length:.4g}", fix=FIX)

    def _check_starts(self, starts: Tensor, contexts: Tensor, time: Tensor) -> None:
        """Refuse starts that are none of the runs at these contexts."""
        of_runs = self._interpolate(contexts, time)[:, 0]
        relative = (starts - of_runs) / torch.from_numpy(self._deviation)
        distance = float(relative.square().mean(-1).sqrt().max())
        if distance > self.tolerance:
            since = float(time - _times(self.runs)[0])
            expected = (
                f"the start of the runs at this context and time {since:.4g}, within "
                f"{self.tolerance:.2g} deviations"
            )
            raise InputError(
                "initial_state", expected=expected, got=f"{distance:.2g} from it", fix=FIX
            )


def _times(data: xr.Dataset) -> Tensor:
    return torch.from_numpy(data["time"].values.astype(float))


def _truth(data: xr.Dataset) -> Array:
    """Return states (C, T, n), NaN where they are missing."""
    return trajectories(data, "state").double().numpy()
