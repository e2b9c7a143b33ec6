"""Filtering and smoothing of observed trajectories."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from romkit.assimilation.filter import Tracker
from romkit.assimilation.observations import Observations
from romkit.core import runtime
from romkit.core.boundary import Numbers, Part, validated
from romkit.core.errors import DataWarning, warn
from romkit.core.types import Array, ArrayPair
from romkit.numerics import normal_factor
from romkit.projections import Projection
from romkit.systems import System


class Estimated(NamedTuple):
    """Estimates of a trajectory at T times.

    Attributes:
        mean: (T, d + f) states and free parameters.
        covariance: (T, f, f) of the parameters.
        residual: (T, 2) of innovations, with expectations.
        alarm: (T,).
    """

    mean: Array
    covariance: Array
    residual: Array
    alarm: Array


@validated
def assimilate(
    source: System | Projection,
    observations: xr.Dataset,
    *,
    noise: Numbers,
    training: xr.Dataset,
    sensors: Sequence[object] | None = None,
    smooth: bool = False,
    level: Part = 0.9,
    **settings: object,
) -> xr.Dataset:
    """Filter or smooth observed trajectories by an ensemble: state and context over time.

    Args:
        source: a projection, whose latent state is filtered, or a full system.
        observations: trajectories with `state`, NaN where it is missing.
        noise: standard deviation of the observations, or the covariance of sensors that err together.
        training: trajectories, as of `romkit.Tracker`.
        sensors: observed components; all by default.
        smooth: estimates from all observations in place of those until then (the ensemble Kalman
            smoother).
        level: of the intervals, for a constant context. They hold one that drifts, or has just
            jumped, less often.
        **settings: of `romkit.Tracker`, and known parameters; without `false_alarms=` there are no
            tests.

    Returns:
        Dataset with `estimate`, `std`, `lower`, `upper` (trajectory, time, parameter),
        `covariance`, the mean `latent` or `state`, `residual` and `expected_residual` (root mean
        square of innovations, in standard deviations of the observations' errors), and with tests
        `explained` (no alarm). Attributes have settings and seconds, and with tests the `duration`
        and `interval` of the runs for which the share `false_alarms` was measured; in a run that is
        k times longer, a share of 1 - (1 - false_alarms)^k has one, `false_alarms_of_run`.

    Raises:
        InputError: observations without times, at times that do not increase or are not finite, in
            other units, with infinite values, or other arguments that cannot be used.

    Source: Evensen & van Leeuwen (2000) for the smoother.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> training = system.dataset(F=[3.14, 3.15, 3.16], duration=1.0)
        >>> seen = training.isel(trajectory=[1])
        >>> found = romkit.assimilate(system, seen, noise=0.1, training=training)
        >>> dict(found.estimate.sizes)
        {'trajectory': 1, 'time': 100, 'parameter': 1}
    """
    settings = {"false_alarms": None, "seed": 0} | settings
    seen = Observations.read(source, observations, sensors, timed=True)
    tracker = Tracker(source, noise=noise, training=training, sensors=sensors, **settings)
    started = time.perf_counter()
    times = seen.times.numpy()
    runs = []
    for k in runtime.track(range(len(seen.values)), "assimilation"):
        tracker.restart(settings["seed"] + k)
        values = seen.values[k].numpy()
        runs.append(_run(tracker, times.tolist(), values, smooth))
    columns = zip(*runs, strict=True)
    estimated = Estimated(*map(np.array, columns))
    attrs = {
        "noise": (noise.diagonal().sqrt() if noise.ndim == 2 else noise).tolist(),
        "smooth": int(smooth),
        "level": level,
        "seconds": time.perf_counter() - started,
    }
    for name, value in settings.items():
        if isinstance(value, int | float):
            attrs[name] = value
    attrs |= _alarms(tracker, times, settings["false_alarms"])
    data = _dataset(estimated, tracker, level, isinstance(source, Projection))
    return data.assign_coords(time=times).assign_attrs(attrs)


def _dataset(estimated: Estimated, tracker: Tracker, level: float, latent: bool) -> xr.Dataset:
    """Return dataset of runs (C, T); the mean state is latent, or full."""
    size = tracker.state_size
    over = ("trajectory", "time")
    of_parameters = (*over, "parameter")
    state = estimated.mean[..., :size]
    mean = estimated.mean[..., size:]
    variance = np.diagonal(estimated.covariance, axis1=-2, axis2=-1)
    std = np.sqrt(variance)
    half = normal_factor(level) * std
    variables = {
        "estimate": (of_parameters, mean),
        "std": (of_parameters, std),
        "lower": (of_parameters, mean - half),
        "upper": (of_parameters, mean + half),
        "covariance": ((*of_parameters, "parameter_2"), estimated.covariance),
        "residual": (over, estimated.residual[..., 0]),
        "expected_residual": (over, estimated.residual[..., 1]),
    }
    coords = {"parameter": tracker.parameters, "parameter_2": tracker.parameters}
    if latent:
        variables["latent"] = ((*over, "latent_component"), state)
    else:
        variables["state"] = ((*over, "component"), state)
        coords["component"] = tracker.names
    if tracker.alarms_hold_for is not None:
        variables["explained"] = (over, ~estimated.alarm)
    return xr.Dataset(variables, coords)


def _alarms(
    tracker: Tracker, times: Array, share: float | None, *, other: float = 0.1
) -> dict[str, float]:
    """For which runs the share of false alarms holds, and what it is in this one.

    `other`: relative difference of the interval of observations from that of the tests that is
    told.
    """
    measured = tracker.alarms_hold_for
    if measured is None or len(times) < 2:
        return {}
    interval = float(np.median(np.diff(times)))
    if abs(interval / measured["interval"] - 1) > other:
        warn(
            f"false_alarms: expected observations every {measured['interval']:g}, for which their "
            f"share was measured, got one every {interval:g}; give interval={interval:g}",
            DataWarning,
        )
    duration = float(times[-1] - times[0])
    longer = max(1.0, duration / measured["duration"])
    return {
        "false_alarms_duration": measured["duration"],
        "false_alarms_interval": measured["interval"],
        "false_alarms_of_run": 1 - (1 - share) ** longer,
    }


def _run(
    tracker: Tracker, times: list[float], values: Array, smooth: bool
) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Return the fields of `Estimated` of one trajectory."""
    ensembles, maps, residuals, alarms = [], [], [], []
    for t, x in zip(times, values, strict=True):
        alarms.append(tracker.update(t, x).alarm)
        ensembles.append(tracker.members)
        maps.append(tracker.map)
        residuals.append(tracker.residual)
    if smooth:
        ensembles = _smoothed(ensembles, maps)
    means, covariances = [], []
    for members in ensembles:
        mean, covariance = _moments(members, tracker.state_size)
        means.append(mean)
        covariances.append(covariance)
    return means, covariances, residuals, alarms


def _smoothed(ensembles: list[Array], maps: list[Array | None]) -> list[Array]:
    """Members (N, d + f) at each time after all later observations, whose maps act on them too."""
    unchanged = np.eye(len(ensembles[0]))
    later = unchanged
    smoothed = []
    for members, step in zip(reversed(ensembles), reversed(maps), strict=True):
        smoothed.append(later @ members)
        if step is None:
            later = unchanged
        else:
            later = later @ step
    return smoothed[::-1]


def _moments(members: Array, size: int) -> ArrayPair:
    """Return mean (d + f) of members, and covariance (f, f) of their parameters."""
    mean = members.mean(0)
    c = members[:, size:] - mean[size:]
    covariance = c.T @ c / (len(c) - 1)
    return mean, covariance
