"""The speed of Galerkin rollouts, measured on runs that come back."""

import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data import times_of, trajectories
from romkit.data.context import context_columns
from romkit.data.trajectories import check_context
from romkit.engine.threads import one_thread
from romkit.integrators import Galerkin, PetrovGalerkin, Speed
from romkit.models.reduced import AtContexts, ReducedModel, trained_dynamics
from romkit.projections import Projection
from romkit.projections.storage import check_single
from romkit.solvers import Adaptive
from romkit.solvers.base import is_time_dependent
from romkit.systems import System

RETURNS = 3
"""Times that a run has to come back to where it was, to be timed."""

FEWEST = 3
"""Runs that can be timed, at least."""

SETTLED = 0.005
"""Largest change of 1 - s from block to block of a model on its orbit, relative, or absolute in
units of `RESOLUTION`.
"""

RESOLUTION = 1e-6
"""Speeds are not told apart below."""


TIGHT = Adaptive(rtol=1e-8)


@validated
def timed(projection: Projection, system: System, data: xr.Dataset) -> Projection:
    """Copy of a projection whose rollouts run at the speed of the full model.

    ż = s(c) · (Galerkin field), or Petrov-Galerkin, as in training. The ratio of the true to the
    reduced speed on their orbits, one number at each context of the data, is fitted by a polynomial
    of the context, by pieces where it jumps.
    The speed is part of the projection: saved, exported, and recorded in runs.

    Args:
        projection: a single, trained one.
        system: of first order, whose field does not depend on time.
        data: long runs on the attractor, at several contexts; each comes back three times at least.

    Raises:
        InputError: data that do not come back, or whose timing is no smooth function of the context.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=200.0)
        >>> data = system.dataset(F=[3.17, 3.175, 3.18, 3.185, 3.19], duration=20)
        >>> model = romkit.timed(romkit.load("ncae-lorenz96"), system, data)
        >>> speed = model.report["speed"]  # 1.0003 to 1.002 from F = 3.17 to 3.19
        >>> speed["error"] < 1e-4
        True
    """
    # error of a speed at contexts left out that is worth having, relative to 1 - s
    worth = 0.5
    check_single(projection)
    dynamics = trained_dynamics(projection)
    if not isinstance(dynamics, Galerkin | PetrovGalerkin):
        raise InputError(
            "projection",
            expected="rollouts by Galerkin or Petrov-Galerkin",
            got=f"one of {type(dynamics).__name__}",
            fix="leave the speed out",
        )
    if system.order != 1:
        raise InputError(
            "system",
            expected="one of first order",
            got=f"{system.name}, of second order",
            fix="leave the speed out",
        )
    check_context("data", data, system.context_names)
    if any("time" in data[name].dims for name in system.context_names):
        raise InputError(
            "data",
            expected="constant contexts",
            got="some that move",
            fix="give runs at constant contexts",
        )
    contexts, speeds = _measured(projection, system, data)
    timed_rows = np.isfinite(speeds)
    if timed_rows.sum() < FEWEST:
        raise InputError(
            "data",
            expected=f"{FEWEST} runs or more that come back {RETURNS} times, each on its orbit",
            got=f"{timed_rows.sum()} of them",
            fix="give longer runs, after a longer transient, or leave the speed out",
        )
    speed = Speed.fitted(contexts[timed_rows], speeds[timed_rows])
    squares = np.square(speeds[timed_rows] - 1)
    deviation = float(np.sqrt(squares.mean()))
    if speed.error > worth * deviation + RESOLUTION:
        raise InputError(
            "data",
            expected="speeds smooth in the context",
            got=f"an error of {speed.error:.1e} at runs left out, where 1 - s is {deviation:.1e}",
            fix="give longer runs at more contexts, or leave the speed out",
        )
    copied = copy.deepcopy(projection)
    copied.report = {**projection.report, "speed": speed.pack()}
    return copied


def _measured(projection: Projection, system: System, data: xr.Dataset) -> tuple[Array, Array]:
    """Return contexts (C, p) of the data, and ratios (C,) of the true to the reduced speed there,
    NaN where that is not known.
    """
    # dynamics of romkit, which training follows, are dataclasses
    dynamics = replace(cast("Any", trained_dynamics(projection)), speed=None)
    model = ReducedModel.build(projection, dynamics, system)
    contexts = torch.from_numpy(context_columns(data, system.context_names))
    times = times_of(data)
    at = model.fix_context(contexts)
    start = torch.zeros(*at.lead, at.model.latent_size, dtype=torch.float64)
    if is_time_dependent(at.problem.field, times[0], at.decode(start)[0].detach()):
        raise InputError(
            "system",
            expected="a field that does not depend on time",
            got="one that looks at it",
            fix="leave the speed out: time has a meaning of its own there",
        )
    with torch.no_grad(), one_thread():
        states = trajectories(data, "state")
        latents = model.placed(contexts).encode(states).numpy()  # (C, T, m)
        starts = at.start(times[0], (states[:, 0],))
    periods = [_period(times, z) for z in latents]
    return contexts.numpy(), _speeds(at, starts, times, latents, periods)


def _period(times: Tensor, z: Array, *, near: float = 0.3, away: float = 0.7) -> float:
    """Return mean time between returns to the start of latents (T, m); infinite where they are too
    few.

    `near`, `away`: distances that count as back and as away, relative to the largest one of the
    run.
    """
    if not np.isfinite(z).all():
        return np.inf
    spread = z.std(axis=0).clip(1e-12)
    distance = np.linalg.norm((z - z[0]) / spread, axis=-1)
    returns, was_away = [], False
    for k, far in enumerate(distance / distance.max()):
        if far > away:
            was_away = True
        elif far < near and was_away:
            returns.append(k)
            was_away = False
    if len(returns) < RETURNS:
        return np.inf
    elapsed = times[returns[-1]] - times[0]
    return float(elapsed) / len(returns)


def _speeds(
    at: AtContexts,
    w: Tensor,
    times: Tensor,
    latents: Array,
    periods: list[float],
    *,
    blocks: int = 12,
    poor: float = 4.0,
    longer_by: float = 1.5,
) -> Array:
    """(C,) ratios of the true to the reduced speed, NaN where that is not known.

    The reduced model starts near the true orbit and comes to its own one, which may take longer
    than the data last. So it runs on, and is compared block by block until the ratio stays.

    `blocks`: lengths of a run within which a reduced model comes to its own orbit, at most.

    `poor`: distance of the two orbits, relative to its median over the runs, from which on one
    is no image of the other and has no speed.

    `longer_by`: length of a reduced run, relative to the true one, which it is compared with from
    some phase on.
    """
    count = len(times)
    step = float(times[-1] - times[0]) / (count - 1)
    steps = torch.arange(round(longer_by * count), dtype=torch.float64)
    longer = times[0] + step * steps
    clock = (times - times[0]).numpy()
    long_clock = (longer - longer[0]).numpy()
    has_period = np.isfinite(periods)
    ratios = np.ones(len(latents))
    settled = np.full(len(latents), np.nan)
    apart = np.full(len(latents), np.nan)
    for block in range(blocks):
        with torch.no_grad(), one_thread():
            reduced = at.solve(w, longer, solver=TIGHT).states  # (C, longer, m)
        w = reduced[:, -1]
        for k in np.flatnonzero(has_period & np.isnan(settled)):
            orbit = reduced[k].numpy()
            ratio, apart[k] = _ratio(clock, latents[k], long_clock, orbit, periods[k])
            tolerance = SETTLED * abs(ratio - 1) + RESOLUTION
            if block > 0 and abs(ratio - ratios[k]) <= tolerance:
                settled[k] = ratio
            ratios[k] = ratio
        if np.isfinite(settled[has_period]).all():
            break
    if np.isnan(apart).all():
        return settled
    # an orbit that is no image of the true one has no speed
    is_poor = apart > poor * np.nanmedian(apart)
    return np.where(is_poor, np.nan, settled)


def _ratio(
    clock: Array, truth: Array, longer: Array, orbit: Array, period: float, *, gauss_newton: int = 8
) -> tuple[float, float]:
    """Speed s of a reduced orbit z(τ₀ + s t) that fits the truth (T, m) at times t (T,), and the
    distance that is left, in deviations.

    Least squares by Gauss-Newton over windows that double, so that no phase is off by a turn.

    `gauss_newton`: steps of Gauss-Newton in each window.
    """
    if not np.isfinite(orbit).all():
        return np.nan, np.nan
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    motion = CubicSpline(longer, orbit)
    rate = motion.derivative()
    scale = truth.std(axis=0).clip(1e-12)
    within = longer < 2 * period
    # the phase of the first state, to begin with
    apart = (orbit[within] - truth[0]) / scale
    gaps = np.square(apart).sum(axis=-1)
    offset = float(longer[within][gaps.argmin()])
    s = 1.0
    window = period
    while True:
        rows = clock <= window
        for _ in range(gauss_newton):
            t = clock[rows]
            # the spline is not asked beyond its ends
            tau = (offset + s * t).clip(0, longer[-1])
            residual = (motion(tau) - truth[rows]) / scale  # (T, m)
            slope = rate(tau) / scale
            drift = slope * t[:, None]
            columns = np.stack([slope, drift], axis=-1).reshape(-1, 2)
            change, *_ = np.linalg.lstsq(columns, -residual.reshape(-1), rcond=None)
            offset = offset + change[0]
            s = s + change[1]
        if window >= clock[-1]:
            return float(s), float(np.sqrt(np.square(residual).mean()))
        window = 2 * window
