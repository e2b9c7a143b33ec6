"""Ensemble Kalman filter of state and context, on a full or a reduced model: tracking in time, with
an alarm.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
import torch
import xarray as xr
from annotated_types import Ge, Le
from numpy.random import Generator
from torch import Tensor

from romkit.assimilation.calibrating import noises_of
from romkit.assimilation.members import (
    TESTS,
    Setup,
    State,
    analyse,
    begin,
    draw,
    look,
    measured,
    predict,
    revive,
    widen,
)
from romkit.assimilation.noisy import Exact, Noisy, forecasting
from romkit.assimilation.observations import Sensors, names_of, rows_of, units_of
from romkit.core import checks, runtime
from romkit.core.boundary import Count, Integer, Numbers, Part, Positive, Seed, validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array, Names
from romkit.data import even_step
from romkit.data.contexts import context_array
from romkit.data.spelling import complete_keys
from romkit.data.trajectories import Trajectories
from romkit.data.units import Units
from romkit.engine.threads import one_thread
from romkit.models import Dynamics
from romkit.models.fields import find_model
from romkit.projections import Projection
from romkit.systems import System

LIBRARY = 2000
"""Most training states that an observation is compared with."""

RUNS = 50
"""Fewest runs on training trajectories whose extremes give the thresholds of the tests."""


class Track(NamedTuple):
    """Estimate of the context at one time.

    Attributes:
        estimate: (p,) in physical units.
        std: (p,) its standard deviation.
        alarm: the observations do not come from the model at any context of the training range.
        jump: the context has jumped, so that members spread, or the state is another, so that they
            start anew where a training state is nearer to the observation.
    """

    estimate: Array
    std: Array
    alarm: bool
    jump: bool


class Tracker:
    """Ensemble Kalman filter of state and context, one observation at a time.

    The update is a symmetric square root (ETKF), followed by a random reflection that leaves mean
    and covariance as they are. Members start from training states that resemble the first
    observation. Three tests look at the last `window` observations: whether innovations are larger
    than their covariance says ("residual"), whether the estimate is out of the training range
    ("range"), and whether the sum of its changes is larger than that of their variances says
    ("jump"). After the first fails, members start anew if a training state is nearer to the
    observation than they are, after the third their contexts spread. The second raises the alarm,
    and so does the first if it fails again.

    Args:
        source: a projection, whose latent state is filtered, or a full system.
        noise: standard deviation of the observations, one number or (s,), in the unit of the state;
            or the covariance (s, s) of sensors that err together.
        training: trajectories at contexts of the range, at even times. Members start from its
            states; the errors of a reduced model (its speed, by context; scatter of speed and
            state; distance of the manifold) and thresholds of tests are measured on it.
        dynamics: of a projection, as in `romkit.follow`, with a latent field.
        system: the full model, for dynamics that look at it.
        sensors: names or numbers of the observed components; all by default.
        drift: standard deviation of the change of each free parameter in one unit of time, a random
            walk: one number or (p,), in physical units.
        members: of the ensemble, ten thousand at most: matrices have a row and a column for each.
        inflation: factor of the deviations of members after each observation.
        false_alarms: share of runs in which a test fails by chance; None for no tests. It holds for
            runs like the training trajectories, as long as they are, with all sensors at the
            interval below (`alarms_hold_for`), at a context that stays.
        interval: between observations when thresholds are measured; that of the training data by
            default.
        window: observations that a test looks at.
        seed: of members, noise and reflections.
        **context: parameters that are known, `F=8.0`; the others are estimated.

    Attributes:
        parameters: names of the parameters that are estimated.
        names: of the components of the state, or of the latent state.
        state_size: d.
        members: (N, d + p) states, or latent states, and parameters.
        tests: the values of the tests by name, NaN until the window is full.
        limits: their thresholds.
        alarms_hold_for: `duration` of a run, `interval` between its observations and `window` for
            which `false_alarms` was measured; None without tests.
        residual: root mean square of the last innovation in standard deviations of the
            observations' errors, and its expectation.
        map: (N, N) members after the last observation by those before, inflation left out; None
            where they started anew.

    Raises:
        InputError: what cannot be used.

    Source: Bishop, Etherton, Majumdar (2001); Sakov & Oke (2008) for reflections; Willsky & Jones
    (1976) for jumps.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> training = system.dataset(F=[3.14, 3.15, 3.16], duration=0.2)
        >>> flow = romkit.load("flow-lorenz96")
        >>> tracker = romkit.Tracker(flow, noise=0.1, training=training, system=system, false_alarms=None)
        >>> track = tracker.update(0.0, training.state.values[1, 0])
        >>> tracker.parameters, track.estimate.shape, track.alarm
        (['F'], (1,), False)
    """

    @validated
    def __init__(
        self,
        source: System | Projection,
        *,
        noise: Numbers,
        training: xr.Dataset,
        dynamics: Dynamics | None = None,
        system: System | None = None,
        sensors: Sequence[object] | None = None,
        drift: Numbers = 0.0,
        members: Annotated[Integer, Ge(4), Le(10_000)] = 24,
        inflation: Annotated[Positive, Ge(1.0)] = 1.0,
        false_alarms: Part | None = 0.01,
        interval: Positive | None = None,
        window: Count = 20,
        seed: Seed = 0,
        **context: object,
    ):
        names = names_of(source)
        context_names = _context_names(source)
        rows = torch.tensor(rows_of(names, sensors))
        self._sensors = Sensors.pick(source, rows.tolist())
        context = complete_keys(context, context_names)
        self.parameters = [name for name in context_names if name not in context]
        free = [context_names.index(name) for name in self.parameters]
        correlated = _covariance(noise, len(rows)) if noise.ndim == 2 else None
        if correlated is not None:
            noise = torch.from_numpy(correlated).diagonal().sqrt()
        noise = noises_of(noise, rows).numpy()
        drift = _checked_drift(drift, len(free))
        data = _training(training, context_names, names, units_of(source))
        c = _contexts(data, context_names, context)
        model = forecasting(find_model(source, dynamics, system), rows, noise, window)
        with torch.no_grad(), one_thread():
            library, views, error, size = _learned(model, data, c, free, rows)
        self._seed = seed
        deviation = np.sqrt(noise**2 + error)
        self._setup = Setup(
            model,
            self.parameters,
            free,
            c[0],
            noise,
            drift,
            members,
            inflation,
            window,
            library,
            views,
            deviation,
            size,
            correlated,
        )
        self.names = model.names
        self.limits = dict.fromkeys(TESTS, np.inf)
        self.alarms_hold_for = None
        trained = c[:, free]
        if false_alarms is not None:
            self._measure(data, trained, rows, interval, false_alarms)
        self._ends = trained.min(0), trained.max(0)
        self.restart(seed)

    @property
    def members(self) -> Array:
        """Members of the ensemble, a row for each: the state, then the parameters."""
        return self._state.members

    @property
    def map(self) -> Array | None:
        """Matrix of the last update, by which a smoother changes earlier states; None without one."""
        return self._state.map

    @property
    def residual(self) -> tuple[float, float]:
        """Residuals of the last update, which the tests of alarm and jump look at."""
        return self._state.residual

    @property
    def tests(self) -> dict[str, float]:
        """Statistics of the tests of alarm and jump, by name."""
        return self._state.tests

    @property
    def state_size(self) -> int:
        """Number of entries of a member that are the state."""
        return self._setup.size

    def restart(self, seed: Seed = 0) -> None:
        """Forget all observations."""
        self._state = State.initial(self._setup, seed)

    @torch.no_grad()
    @one_thread()
    def update(self, t: float, values: object) -> Track:
        """Take an observation (s,) at time t, NaN where it is missing, and give the estimate there.

        Of a labelled observation the components go by their names, and are converted to the units
        of the model.

        Before the first number is seen, members are drawn from all training states.

        Raises:
            InputError: another number of values, values that are infinite or far from all training
                states, a time that is not finite or not later than the last one.
        """
        setup = self._setup
        state = self._state
        t = _checked_time(t, state.time)
        values = _checked_values(self._sensors.read(values), setup)
        seen = np.isfinite(values)
        views = self._forecast(t, values, seen)
        state.time = t
        state.residual = np.nan, np.nan
        jump = False
        if seen.any():
            scaled = setup.whitened(values, seen)
            anew = state.map is None
            number = int(seen.sum())
            analyse(setup, state, scaled, setup.whitened(views, seen), number)
            if anew:
                # members before do not lead to those that started anew
                state.map = None
            jump = self._test(values, seen)
        c = state.members[:, setup.size :]
        spread = c.std(0, ddof=1)
        return Track(c.mean(0), spread, state.alarm, jump)

    def _forecast(self, t: float, values: Array, seen: Array) -> Array:
        """Members at a time, and what sensors see of them (N, s)."""
        setup = self._setup
        state = self._state
        if state.informed:
            views = predict(setup, state, t)
            state.map = np.eye(setup.count)
            return revive(setup, state, views, values, seen)
        if seen.any():
            begin(setup, state, values, seen)
            state.informed = True
        else:
            draw(setup, state)
        return look(setup, state)

    def _test(self, values: Array, seen: Array) -> bool:
        """Set the values of the tests and the alarm; whether the context has jumped, so that members
        spread or start anew.
        """
        setup = self._setup
        state = self._state
        if state.taken < 2 * setup.window:
            return False
        state.tests = measured(setup, state, self._ends)
        fails = {}
        for name, value in state.tests.items():
            fails[name] = value > self.limits[name]
        # the first failure may be a jump, from which the filter recovers
        is_unexplained_again = state.unexplained and fails["residual"]
        state.alarm = fails["range"] or is_unexplained_again
        state.unexplained = fails["residual"]
        if state.unexplained:
            distance = state.residual[0] ** 2 * seen.sum()
            begin(setup, state, values, seen, distance)
        elif fails["jump"]:
            widen(setup, state)
        return state.unexplained or fails["jump"]

    def _measure(
        self,
        data: Trajectories,
        c: Array,
        rows: Tensor,
        interval: float | None,
        share: float,
    ) -> None:
        """Thresholds by Gumbel's distribution of the largest value of each test in a run without a
        fault.
        """
        times = data.times.numpy()
        every = 1
        if interval is not None:
            step = times[1] - times[0]
            every = max(1, round(interval / step))
        times = times[::every]
        observed = data.states[:, ::every, rows].numpy()  # (C, T, s)
        longest = (len(times) - 1) // 2
        window = min(self._setup.window, longest)
        self._setup = replace(self._setup, window=window)
        rng = np.random.default_rng(self._seed)
        own = data.contexts.initial.numpy()
        known = self._setup.known
        largest = []
        for k in runtime.track(range(max(RUNS, len(observed))), "thresholds"):
            self.restart(k)
            member = k % len(observed)
            self._setup = replace(self._setup, known=own[member])
            # the second test is then the error of the estimate
            self._ends = c[member], c[member]
            largest.append(self._largest(times, observed[member], rng))
        self._setup = replace(self._setup, known=known)
        limits = _exceeded(np.array(largest), share)
        self.limits = dict(zip(TESTS, limits, strict=True))
        self.alarms_hold_for = {
            "duration": float(times[-1] - times[0]),
            "interval": float(times[1] - times[0]),
            "window": window,
        }

    def _largest(self, times: Array, observed: Array, rng: Generator) -> Array:
        """Return largest value of each test in a run of observed states (T, s), with noise."""
        values = []
        for t, x in zip(times, observed, strict=True):
            self.update(t, x + self._setup.drawn_noise(rng))
            values.append([*self._state.tests.values()])
        return np.nanmax(values, axis=0)


def _covariance(noise: Tensor, sensors: int) -> Array:
    """Return the covariance (s, s) of the noise, which has to be one."""
    covariance = noise.double().numpy()
    got = f"shape {covariance.shape}"
    if covariance.shape == (sensors, sensors):
        got = "one that is not symmetric, or has no positive eigenvalues alone"
        if np.allclose(covariance, covariance.T) and np.linalg.eigvalsh(covariance).min() > 0:
            return covariance
    raise InputError(
        "noise",
        expected=f"a covariance ({sensors}, {sensors}) of the sensors",
        got=got,
        fix="give np.cov of repeated readings, (R + R.T) / 2 say, or standard deviations",
    )


def _exceeded(largest: Array, share: float) -> list[float]:
    """Return values that the largest ones of runs (N, k) exceed in this share, by Gumbel's
    distribution.

    Its place and width follow from quartiles: some contexts may be badly modelled.
    """
    low, middle, high = np.quantile(largest, [0.25, 0.5, 0.75], axis=0)
    unit = _gumbel(0.75) - _gumbel(0.25)
    width = (high - low) / unit
    beyond_median = _gumbel(1 - share) - _gumbel(0.5)
    limits = middle + width * beyond_median
    return limits.tolist()


def _gumbel(level: float) -> float:
    """Quantile of Gumbel's distribution."""
    return -np.log(-np.log(level))


def _checked_time(t: object, last: float | None) -> float:
    """Time of an observation, later than the last one."""
    if not np.isscalar(t) or not np.isreal(t) or not np.isfinite(t):
        raise InputError(
            "t",
            expected="a finite number",
            got=checks.shown(t),
            fix="give the time of the observation, 0.5 say",
        )
    if last is not None and t <= last:
        raise InputError(
            "t",
            expected=f"a time later than {last:g}",
            got=f"{t:g}",
            fix="give observations in the order of time, or call restart",
        )
    return float(t)


def _checked_values(values: object, setup: Setup, *, farthest: float = 1e9) -> Array:
    """Return an observation (s,) as numbers, NaN where it is missing.

    `farthest`: distance of an observation from the training states, in standard deviations,
    that is refused: its square would leave no digits to anything else.
    """
    try:
        values = np.ma.asarray(values)
    except (TypeError, ValueError) as error:  # a sparse tensor, lists of several lengths
        raise InputError(
            "values", expected="numbers", got=checks.shown(values), fix="give what the sensors see"
        ) from error
    if values.dtype.kind not in "fiu":
        raise InputError(
            "values",
            expected="numbers",
            got=f"values of type {values.dtype}",
            fix="give what the sensors see",
        )
    if values.shape != setup.noise.shape:
        raise InputError(
            "values",
            expected=f"{len(setup.noise)} numbers, one for each sensor",
            got=f"shape {values.shape}",
            fix="give NaN where one is missing",
        )
    values = values.astype(np.float64).filled(np.nan)
    typical = setup.views.mean(0)
    far = np.abs(values - typical) / setup.deviation > farthest
    if far.any():
        raise InputError(
            "values",
            expected="numbers like those of training",
            got=f"{values[far][0]:g}",
            fix="give NaN where a sensor fails",
        )
    return values


def _context_names(source: System | Projection) -> Names:
    if isinstance(source, Projection):
        return tuple(source.frame.context_names)
    return tuple(source.context_names)


def _checked_drift(drift: Tensor, free: int) -> Array:
    """Drift (f,) of the free parameters."""
    drift = torch.as_tensor(drift).double().numpy()
    if drift.shape not in ((), (free,)):
        raise InputError(
            "drift",
            expected=f"one number, or one for each of {free} free parameters",
            got=f"shape {drift.shape}",
            fix="give one number",
        )
    return np.broadcast_to(drift, free)


def _contexts(data: Trajectories, context_names: Sequence[str], known: dict[str, object]) -> Array:
    """Return contexts (C, p) of the training, with the values of the known parameters."""
    for name in known:
        checks.one_of("context", name, context_names)
    c = data.contexts.initial.numpy().copy()
    columns = [context_names.index(name) for name in known]
    c[:, columns] = context_array(list(known), known)
    return c


def _learned(
    model: Exact | Noisy, data: Trajectories, c: Array, free: list[int], rows: Tensor
) -> tuple[Array, Array, Array, int]:
    """Library (L, d + f), what sensors see of it (L, s), mean square error of the manifold (s,), and
    d; the errors of the model on training data are measured on the way, at their own contexts.
    """
    initial = data.contexts.initial.numpy()
    fields = (data.states, data.velocities)[: model.order]
    states = [values.flatten(0, 1) for values in fields]  # (C T, n)
    own_contexts = np.repeat(initial, len(data.times), axis=0)
    w = model.encode(states, own_contexts)
    size = w.shape[1]
    runs = w.reshape(len(initial), -1, size)
    model.calibrate(runs, initial, data.times.numpy())
    count = min(len(w), LIBRARY)
    places = np.linspace(0, len(w) - 1, count)
    chosen = places.astype(int)
    own_contexts = own_contexts[chosen]
    views, _ = model.view(w[chosen], own_contexts, own_contexts)
    observed = states[0][chosen][:, rows].numpy()
    squares = np.square(views - observed)  # (L, s)
    _warn_foreign_runs(squares.mean(1), observed.var(0).mean(), chosen // len(data.times), data)
    error = squares.mean(0)
    # members begin from these states at the parameters that are known
    contexts = np.repeat(c, len(data.times), axis=0)[chosen]
    w = model.encode([values[chosen] for values in states], contexts)
    views, _ = model.view(w, contexts, contexts)
    library = np.column_stack([w, contexts[:, free]])
    return library, views, error, size


def _warn_foreign_runs(squares: Array, variance: float, runs: Array, data: Trajectories) -> None:
    """Warn of training runs, whose numbers (L,) say which they are, that the manifold of a model
    leaves by more than the deviation of all runs: mean squares of what it leaves are (L,).
    """
    squares_of_runs = np.bincount(runs, squares) / np.bincount(runs)
    foreign = np.flatnonzero(squares_of_runs > variance)
    if not len(foreign):
        return
    first = foreign[0]
    values = checks.shown(data.contexts.initial[first].tolist())
    deviations = np.sqrt(squares_of_runs[first] / variance)
    warn(
        f"training: expected runs on the model's manifold, got {len(foreign)} of "
        f"{len(squares_of_runs)} that it leaves by more than their deviation, by {deviations:.2g} "
        f"of them at {values}; fit the projection to such runs, or leave them out",
        DataWarning,
    )


def _training(
    training: xr.Dataset, context: Sequence[str], names: Sequence[str], units: Units
) -> Trajectories:
    """Return trajectories at even times and constant contexts, without missing states."""
    data = Trajectories.read(training, context, names, units=units)
    if data.contexts.path is not None:
        got = "a context that moves"
    elif not bool(data.states.isfinite().all()):
        got = "missing states"
    elif even_step(data.times.numpy()) is None:
        got = "other times"
    else:
        return data
    raise InputError(
        "training",
        expected="complete trajectories at constant contexts and even times",
        got=got,
        fix="take a dataset of a system, say",
    )
