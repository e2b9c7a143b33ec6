"""Ensemble Kalman filter of state and context, on a full or a reduced model: tracking in time, with
an alarm.
"""

import functools
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import torch
import xarray as xr
from annotated_types import Ge, Le
from numpy.random import Generator
from scipy.linalg import solve_triangular
from torch import Tensor

from romkit.assimilation.calibrating import noises_of
from romkit.assimilation.noisy import Exact, Noisy, forecasting
from romkit.assimilation.observations import Sensors, described, rows_of, units_of
from romkit.core import checks, runtime, tensors
from romkit.core.boundary import Count, Integer, Numbers, Part, Positive, Seed, validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array, ArrayPair, Entries, NameSequence, Operation
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


TESTS = ("residual", "range", "jump")


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
            interval below (`alarms_hold_for`), at a constant context.
        interval: between observations when thresholds are measured; that of the training data by
            default.
        window: observations that a test looks at.
        seed: of members, noise and reflections.
        **context: parameters that are known, `F=8.0`; the others are estimated.

    Attributes:
        parameters: names of the parameters that are estimated.
        names: of the components of the state, or of the latent state.
        state_size: d, number of entries of a member that are the state.
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
        names = tuple(described(source).state_names)
        context_names = tuple(described(source).context_names)
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
        self._model, self._free, self._known = model, free, c[0]
        self._noise, self._correlated, self._drift = noise, correlated, drift
        self._count, self._inflation, self._window = members, inflation, window
        # training states with free parameters (L, d + f), what sensors see of them (L, s), and
        # standard deviations (s,) of observations: noise and error of the model's manifold
        self._library, self._views, self._error = library, views, error
        self._deviation = np.sqrt(noise**2 + error)
        self.names, self.state_size = model.names, size
        self.limits = dict.fromkeys(TESTS, np.inf)
        self.alarms_hold_for = None
        trained = c[:, free]
        if false_alarms is not None:
            self._set_limits(data, trained, rows, interval, false_alarms, seed)
        self._ends = trained.min(0), trained.max(0)
        self.restart(seed)

    def restart(self, seed: Seed = 0) -> None:
        """Forget all observations."""
        self._rng = np.random.default_rng(seed)
        self.members = self._library[:0]
        self.map: Array | None = None
        self.residual = np.nan, np.nan
        self.tests = dict.fromkeys(TESTS, np.nan)
        # numbers of the last observations, by which tests are made, and how many there are
        self._record = np.empty((self._window, 2 + 2 * len(self._free)))
        self._taken = 0
        self._time: float | None = None
        # whether an observation had numbers, whether the alarm is on, and the residual unexplained
        self._informed = self._alarm = self._unexplained = False

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
        last = self._time
        # time of an observation, later than the last one
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
        t = float(t)
        values = self._checked_values(self._sensors.read(values))
        seen = np.isfinite(values)
        if self._informed and last is not None:
            views = self._forecast(last, t, values, seen)
        else:
            views = self._start(values, seen)
        self._informed |= bool(seen.any())
        self._time = t
        self.residual = np.nan, np.nan
        jump = False
        if seen.any():
            scaled, scaled_views = self._whitened(values, seen), self._whitened(views, seen)
            self._analyse(scaled, scaled_views, int(seen.sum()))
            jump = self._test(values, seen)
        c = self.members[:, self.state_size :]
        return Track(c.mean(0), c.std(0, ddof=1), self._alarm, jump)

    def _checked_values(self, values: object, *, farthest: float = 1e9) -> Array:
        """Return an observation (s,) as numbers, NaN where it is missing.

        `farthest`: distance of an observation from the training states, in standard deviations,
        that is refused: its square would leave no digits to anything else.
        """
        numbers = tensors.array("values", values).astype(np.float64)
        got = ""
        if numbers.shape != self._noise.shape:
            got = f"shape {numbers.shape}"
        else:
            far = np.abs(numbers - self._views.mean(0)) / self._deviation > farthest
            if far.any():
                got = f"{numbers[far][0]:g}"
        if got:
            raise InputError(
                "values",
                expected=f"{len(self._noise)} numbers like those of training, one for each sensor",
                got=got,
                fix="give NaN where a sensor fails, or none is",
            )
        return numbers

    def _test(self, values: Array, seen: Array) -> bool:
        """Set the values of the tests and the alarm; whether the context has jumped, so that
        members spread or start anew.
        """
        if self._taken < 2 * self._window:
            return False
        self._measure(self._ends)
        fails = {name: value > self.limits[name] for name, value in self.tests.items()}
        # the first failure may be a jump, from which the filter recovers
        self._alarm = fails["range"] or (self._unexplained and fails["residual"])
        self._unexplained = fails["residual"]
        if self._unexplained:
            self._restart_nearby(values, seen, self.residual[0] ** 2 * seen.sum())
        elif fails["jump"]:
            self._widen()
        return self._unexplained or fails["jump"]

    def _set_limits(
        self,
        data: Trajectories,
        c: Array,
        rows: Tensor,
        interval: float | None,
        share: float,
        seed: int,
    ) -> None:
        """Set thresholds by Gumbel's distribution of the largest value of each test in a run
        without a fault.
        """
        times = data.times.numpy()
        every = 1
        if interval is not None:
            every = max(1, round(interval / (times[1] - times[0])))
        times = times[::every]
        observed = data.states[:, ::every, rows].numpy()  # (C, T, s)
        self._window = min(self._window, (len(times) - 1) // 2)
        rng = np.random.default_rng(seed)
        own, known = data.contexts.initial.numpy(), self._known
        largest = []
        for k in runtime.track(range(max(RUNS, len(observed))), "thresholds"):
            self.restart(k)
            member = k % len(observed)
            self._known = own[member]
            # the second test is then the error of the estimate
            self._ends = c[member], c[member]
            tests = []
            for t, x in zip(times, observed[member], strict=True):
                self.update(t, x + self._drawn_noise(rng))
                tests.append([*self.tests.values()])
            largest.append(np.nanmax(tests, axis=0))
        self._known = known
        # values that the largest ones exceed in this share, by Gumbel's distribution, whose place
        # and width follow from quartiles: some contexts may be badly modelled
        low, middle, high = np.quantile(largest, [0.25, 0.5, 0.75], axis=0)
        gumbel = -np.log(-np.log([0.25, 0.5, 0.75, 1 - share]))
        width = (high - low) / (gumbel[2] - gumbel[0])
        limits = middle + width * (gumbel[3] - gumbel[1])
        self.limits = dict(zip(TESTS, limits.tolist(), strict=True))
        self.alarms_hold_for = {
            "duration": float(times[-1] - times[0]),
            "interval": float(times[1] - times[0]),
            "window": self._window,
        }

    # -- what sensors see --------------------------------------------------------------------------

    def _whitened(self, numbers: Array, seen: Array) -> Array:
        """Numbers (..., s) that sensors see, in units of deviations that are independent; what is
        missing weighs nothing.
        """
        numbers = np.where(seen, numbers, 0.0)
        if self._correlated is None:
            return numbers * (seen / self._deviation)
        covariance = self._correlated + np.diag(self._error)
        # numbers that are missing are independent of the others, whose marginal stays
        covariance = np.where(np.outer(seen, seen), covariance, np.eye(len(seen)))
        root = np.linalg.cholesky(covariance)
        return solve_triangular(root, numbers.T, lower=True).T

    def _drawn_noise(self, rng: Generator) -> Array:
        """Draw noise (s,) of the sensors."""
        normal = rng.standard_normal(len(self._noise))
        if self._correlated is None:
            return self._noise * normal
        return np.linalg.cholesky(self._correlated) @ normal

    # -- forecasts ---------------------------------------------------------------------------------

    def _forecast(self, start: float, end: float, values: Array, seen: Array) -> Array:
        """Forecast members, and return what sensors see of them (N, s). Copies of others take the
        place of members that diverge; if none is left, all start anew.
        """
        std = np.sqrt(end - start) * self._drift
        move = functools.partial(self._model.forecast, start=start, end=end, rng=self._rng)
        views = self._walk(std, move)
        self.map = np.eye(self._count)
        alive = np.isfinite(np.hstack([self.members, views])).all(1)
        if not alive.any():
            return self._start(values, seen)
        copied = self._rng.choice(np.flatnonzero(alive), (~alive).sum())
        self.members[~alive] = self.members[copied]
        views[~alive] = views[copied]
        return views

    def _walk(self, std: Array, move: Operation) -> Array:
        """Change the contexts of members by random numbers, and states by `view` or `forecast`;
        what sensors see of them (N, s).
        """
        w, c = self._parted()
        steps = self._rng.standard_normal((self._count, len(self._free)))
        # the mean does not walk, so that the estimate has no noise of its own
        steps = steps - steps.mean(0)
        moved = c.copy()
        moved[:, self._free] += std * steps
        views, w = move(w, c, moved)
        self.members = np.concatenate([w, moved[:, self._free]], axis=1)
        return views

    def _parted(self) -> ArrayPair:
        """Return states (N, d) and contexts (N, p) of the members, known parameters included."""
        w, free = np.split(self.members, [self.state_size], axis=1)
        c = np.repeat(self._known[None], len(w), axis=0)
        c[:, self._free] = free
        return w, c

    def _start(self, values: Array, seen: Array) -> Array:
        """Start from training states that resemble an observation, or from all where there are no
        numbers; what sensors see of the members (N, s).
        """
        if seen.any():
            self._restart_nearby(values, seen)
        else:
            self._draw(np.arange(len(self._library)))
        w, c = self._parted()
        return self._model.view(w, c, c)[0]

    def _restart_nearby(
        self, values: Array, seen: Array, limit: float = np.inf, *, analogues: float = 0.05
    ) -> None:
        """Start from training states that resemble an observation, if one is nearer than the limit.

        `analogues`: share of the training states, those nearest to the observation, that members
        start from.
        """
        self._taken = 0
        # squared distances (L,) of training states, in deviations
        apart = (self._whitened(self._views - values, seen) ** 2).sum(1)
        if apart.min() < limit:
            count = max(self._count, int(analogues * len(apart)))
            self._draw(np.argsort(apart)[:count])

    def _draw(self, numbers: Array) -> None:
        """Draw members from the training states of these numbers."""
        chosen = self._rng.choice(numbers, self._count, replace=len(numbers) < self._count)
        self.members = self._library[chosen]
        self.map = None

    def _widen(self, *, wider: float = 0.5) -> None:
        """Spread the contexts of members by that of training, while their full states stay.

        `wider`: spread of the contexts after a jump, relative to that of the training contexts.
        """
        self._walk(wider * self._library[:, self.state_size :].std(0), self._model.view)
        self._taken = 0
        self.map = None

    # -- observations ------------------------------------------------------------------------------

    def _analyse(self, values: Array, views: Array, number: int) -> None:
        """Update members by so many observed numbers (s,), which they see as (N, s), both in units
        of their deviations (ETKF).
        """
        n = self._count - 1
        basis = _mean_free(self._count)  # (N, n)
        anomalies = basis.T @ views  # (n, s)
        parameters = basis.T @ self.members[:, self.state_size :]  # (n, f)
        innovation = values - views.mean(0)
        gram = anomalies @ anomalies.T
        spread, axes = np.linalg.eigh(gram + n * np.eye(n))
        root = (axes / np.sqrt(spread)) @ axes.T  # (n I + Y Yᵀ)^-1/2
        projected = root @ (anomalies @ innovation)
        gain = projected @ root  # (n,) weights of the mean
        # a random reflection keeps mean and covariance: no member keeps its place for ever
        mirror = self._rng.standard_normal(n)
        normal = 2 / (mirror @ mirror) * mirror
        transform = np.sqrt(n) * (root - np.outer(normal, mirror @ root))  # (n, n)
        deviations = basis @ transform @ basis.T  # (N, N)
        step = 1 / self._count + gain @ basis.T + deviations
        self.members = (step + (self._inflation - 1) * deviations) @ self.members
        # members before do not lead to those that started anew
        self.map = None if self.map is None else step

        square = innovation @ innovation
        expected = 1 + gram.trace() / n / number
        self.residual = np.sqrt(square / number), np.sqrt(expected)
        lost = ((parameters**2).sum(0) - ((transform @ parameters) ** 2).sum(0)) / n
        chi = square - projected @ projected
        row = self._taken % self._window
        self._record[row] = np.hstack([chi, number, gain @ parameters, lost])
        self._taken += 1

    def _measure(self, ends: ArrayPair, *, tiny: float = 1e-300) -> None:
        """Set the values of the three tests on the last observations; `ends` (f,) are those of the
        range.
        """
        total = self._record.sum(0)
        chi, freedom = total[:2]
        change, lost = np.split(total[2:], 2)
        c = self.members[:, self.state_size :]
        mean, std = c.mean(0), c.std(0).clip(tiny)
        low, high = ends
        beyond = np.maximum(low - mean, mean - high) / std
        moved = np.abs(change) / np.sqrt(lost.clip(tiny))
        residual = (chi - freedom) / np.sqrt(2 * freedom)
        values = residual, beyond.max(initial=-np.inf), moved.max(initial=0.0)
        self.tests = dict(zip(TESTS, map(float, values), strict=True))


@functools.cache
def _mean_free(n: int) -> Array:
    """Orthonormal basis (n, n - 1) of vectors whose mean is zero."""
    columns = np.column_stack([np.ones(n), np.eye(n)[:, 1:]])
    return np.linalg.qr(columns)[0][:, 1:]


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


def _contexts(data: Trajectories, context_names: NameSequence, known: Entries) -> Array:
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
    """Library (L, d + f), what sensors see of it (L, s), mean square error of the manifold (s,),
    and d; the errors of the model on training data are measured on the way, at their own contexts.
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
    training: xr.Dataset, context: NameSequence, names: NameSequence, units: Units
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
