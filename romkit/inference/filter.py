"""Ensemble Kalman filter of state and context, on a full or a reduced model: tracking in time, with
an alarm.
"""

import functools
import time
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Annotated, NamedTuple

import numpy as np
import torch
import xarray as xr
from annotated_types import Ge
from torch import Tensor

from romkit.core import checks, runtime
from romkit.core.boundary import Count, Integer, Numbers, Part, Positive, Seed, validated
from romkit.core.errors import InputError
from romkit.data import even_step
from romkit.data.context import context_array
from romkit.data.trajectories import Trajectories
from romkit.engine import RungeKutta, compiled_if
from romkit.engine.threads import one_thread
from romkit.inference.calibration import noises_of
from romkit.inference.observations import Observations, rows_of
from romkit.models import Dynamics, ReducedModel, check_field
from romkit.projections import Projection
from romkit.solvers import RK4
from romkit.solvers.base import Run
from romkit.systems import System

ANALOGUES = 0.05
"""Share of the training states, those nearest to the first observation, that members start from."""

LIBRARY = 2000
"""Most training states that an observation is compared with."""

LAG = 2
"""Errors of a reduced model are measured over this part of a training trajectory."""

MANY = 1e6
"""Steps of a filter in its life, so that compiling pays."""

RUNS = 50
"""Fewest runs on training trajectories whose extremes give the thresholds of the tests."""

WIDER = 0.5
"""Spread of the contexts after a jump, relative to that of the training contexts."""

TESTS = ("residual", "range", "jump")


class _Full:
    """A full model, which is taken to be without error."""

    def __init__(self, system: System, rows: Tensor):
        self.system, self.rows, self.order = system, rows.numpy(), system.order
        self.names = system.phase_names

    def calibrate(self, w: np.ndarray, c: np.ndarray, times: np.ndarray) -> None:
        """Nothing."""

    def states(self, parts: Sequence[Tensor], c: np.ndarray) -> np.ndarray:
        """First-order states (N, d)."""
        return torch.cat(tuple(parts), dim=-1).numpy()

    def seen(
        self, w: np.ndarray, c: np.ndarray, moved: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The observed components (N, s), and the states at other contexts."""
        return w[:, self.rows], w

    def forecast(
        self,
        w: np.ndarray,
        c: np.ndarray,
        moved: np.ndarray,
        start: float,
        end: float,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`seen` of members (N, d) at time `end`."""
        context, times = torch.from_numpy(c), torch.tensor([start, end], dtype=torch.float64)
        solver = self.system.solver or self.system.make_solver(context)
        field = self.system.phase_field(context)
        with runtime.bars(False):
            w = solver(field, torch.from_numpy(w), times).states[:, -1].numpy()
        return self.seen(w, c, moved)


class _Reduced:
    """A latent field, whose speed is corrected and whose other errors are noise.

    Attributes:
        speed: of contexts (N, p), relative to that of the latent field.
        jitter: standard deviation of the time that is lost or won in one unit of time.
        noise: (d, d) root of the covariance of the other errors in one unit of time.
    """

    def __init__(
        self, projection: Projection, dynamics: Dynamics | None, system: System | None, rows: Tensor
    ):
        self.model = ReducedModel.of(projection, dynamics, system)
        check_field(self.model.dynamics)
        self.order, self.scale = (
            self.model.order,
            projection.frame.context_scale.double().numpy(),
        )
        self.size, self.context_size = self.order * projection.latent_dim, len(self.scale)
        self.names = [f"z{k}" for k in range(self.size)]
        self.coordinates, basis = self.model.coordinates, projection.basis
        self.rows, self.motions, self.views = rows.numpy(), {}, {}
        self.width = max(
            2 * (self.size + self.context_size), self.coordinates.frame.size + self.size
        )
        self.basis = (
            None if basis is None else (basis.mean[rows].numpy(), basis.modes[rows].mT.numpy())
        )

    def states(self, parts: Sequence[Tensor], c: np.ndarray) -> np.ndarray:
        """Latent states (N, d) of full ones."""
        return (
            self.model.at_constant(torch.from_numpy(c))
            .start(torch.zeros((), dtype=torch.float64), tuple(parts))
            .numpy()
        )

    def seen(
        self,
        w: np.ndarray,
        c: np.ndarray,
        moved: np.ndarray,
        noise: np.ndarray | None = None,
        t: float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The observed components (N, s), and the latent states of the same full states at other
        contexts.

        What is across the motion of noise (N, d) is added to latent states before; that along it is
        one of the speed.
        """
        parts, size = (
            (w, c, moved) if noise is None else (w, c, moved, noise),
            self.coordinates.frame.size,
        )
        given = np.concatenate(parts, axis=1)
        y = torch.zeros(len(w), self.width, dtype=torch.float64)
        y.numpy()[:, : given.shape[1]] = given
        found = self._view(y)(t, y).numpy()
        x, w = found[:, :size], found[:, size : size + self.size]
        return x[:, self.rows] if self.basis is None else self.basis[0] + x @ self.basis[1], w

    def forecast(
        self,
        w: np.ndarray,
        c: np.ndarray,
        moved: np.ndarray,
        start: float,
        end: float,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`seen` of members (N, d) at time `end`, with noise."""
        span, drawn = end - start, rng.standard_normal((len(w), 1 + self.size))
        speed = self.speed(c) + self.jitter / np.sqrt(span) * drawn[:, 0]
        noise = drawn[:, 1:] @ (np.sqrt(span) * self.noise.T)
        return self.seen(self._moved(w, c, speed, start, end), c, moved, noise, end)

    def calibrate(self, w: np.ndarray, c: np.ndarray, times: np.ndarray) -> None:
        """Measure speed and noise on training states (C, T, d) at contexts (C, p)."""
        self.step, lag = float(times[1] - times[0]), max(1, len(times) // LAG)
        span, number = times[lag] - times[0], len(times) - lag
        first, rows = w[:, :-lag].reshape(-1, self.size), np.repeat(c, number, axis=0)
        found = self._moved(first, rows, np.ones(len(rows)), times[0], times[lag])
        error, rate = (
            w[:, lag:] - found.reshape(len(c), number, -1),
            np.gradient(w, times, axis=1)[:, lag:],
        )
        square = (rate**2).sum(-1)
        late = (error * rate).sum((1, 2)) / square.sum(1) / span
        apart = self._apart(c, c) + np.diag(np.full(len(c), np.inf if len(c) > 1 else 0.0))
        width = max(float(np.median(apart.min(1))), 1e-12)
        self.speed = lambda at: 1 + _near(self._apart(at, c), width) @ late
        left = (
            error - (_near(apart, width) @ late)[:, None, None] * rate * span
        )  # each by its neighbours alone
        shift = (left * rate).sum(-1) / square
        left = (left - shift[..., None] * rate).reshape(-1, self.size)
        self.jitter = np.sqrt(np.median((shift**2).mean(1)) / span)
        self.noise = np.linalg.cholesky(
            left.T @ left / len(left) / span + 1e-20 * np.eye(self.size)
        )

    def _apart(self, at: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Squared distances (N, C) of contexts."""
        return (((at[:, None] - c) / self.scale) ** 2).sum(-1)

    def _moved(
        self, w: np.ndarray, c: np.ndarray, speed: np.ndarray, start: float, end: float
    ) -> np.ndarray:
        """States (N, d) at time `end`."""
        y = torch.from_numpy(np.concatenate([w, c, speed[:, None]], axis=1))
        return self._motion(y)(y, torch.tensor([start, end], dtype=torch.float64))[
            1, :, : self.size
        ].numpy()

    def _motion(self, y: Tensor) -> Run:
        """Solver of the field with context and speed in the state, so that one compiled field
        serves all contexts.
        """
        if len(y) not in self.motions:

            def field(t: Tensor, y: Tensor) -> Tensor:
                w, c, speed = y.split([self.size, self.context_size, 1], dim=-1)
                rate = self.model.dynamics.field(self.model.at_constant(c).problem)
                return torch.cat([speed * rate(t, w), 0 * c, 0 * speed], dim=-1)

            times = torch.tensor([0.0, MANY * self.step], dtype=torch.float64)
            self.motions[len(y)], _ = RK4(self.step).prepare(field, y, times, "auto", "")
        return self.motions[len(y)]

    def _view(self, y: Tensor) -> Callable[[float, Tensor], Tensor]:
        """Noise, decoder at one context, then encoder at another, as a field, which the engine can
        compile.
        """
        if len(y) not in self.views:

            def field(t: Tensor, y: Tensor) -> Tensor:
                sizes = [self.size, self.context_size, self.context_size, self.size]
                w, c, moved, noise = y[..., : sum(sizes)].split(sizes, dim=-1)
                problem = self.model.at_constant(c).problem
                rate = self.model.dynamics.field(problem)(t, w)
                along = (noise * rate).sum(-1, keepdim=True) / (rate * rate).sum(
                    -1, keepdim=True
                ).clamp(min=1e-300)
                parts = problem.decode(self.coordinates.operator(c), w + noise - along * rate)
                w = problem.encode(self.coordinates.operator(moved), parts)
                found = torch.cat([parts[0], w], dim=-1)
                return torch.nn.functional.pad(found, (0, y.shape[-1] - found.shape[-1]))

            kernel, _ = compiled_if(
                "auto", RungeKutta, field, torch.zeros(1, dtype=torch.float64), y, MANY
            )
            self.views[len(y)] = (
                (lambda t, y: field(torch.tensor(t), y)) if kernel is None else kernel.evaluate
            )
        return self.views[len(y)]


def _near(apart: np.ndarray, width: float) -> np.ndarray:
    """Weights (N, C) of neighbours at these squared distances."""
    found = np.exp((apart.min(1, keepdims=True) - apart) / (2 * width))
    return found / found.sum(1, keepdims=True)


class Track(NamedTuple):
    """Estimate of the context at one time.

    Attributes:
        estimate: (p,) in physical units.
        std: (p,) its standard deviation.
        alarm: the observations do not come from the model at any context of the training range.
        jump: the context has jumped, so that members spread, or the state is another, so that they
            start anew where a training state is nearer to the observation.
    """

    estimate: np.ndarray
    std: np.ndarray
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
        noise: standard deviation of the observations, one number or (s,), in the unit of the state.
        training: trajectories at contexts of the range, at even times. Members start from its
            states; the errors of a reduced model (its speed, by context; scatter of speed and
            state; distance of the manifold) and thresholds of tests are measured on it.
        dynamics: of a projection, as in `romkit.follow`, with a latent field.
        system: the full model, for dynamics that look at it.
        sensors: names or numbers of the observed components; all by default.
        drift: standard deviation of the change of each free parameter in one unit of time, a random
            walk: one number or (p,), in physical units.
        members: of the ensemble.
        inflation: factor of the deviations of members after each observation.
        false_alarms: share of runs as long as the training trajectories in which a test fails by
            chance; None for no tests.
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
        >>> training = system.dataset(F=[3.14, 3.15, 3.16], duration=1.0)
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
        members: Annotated[Integer, Ge(4)] = 24,
        inflation: Annotated[Positive, Ge(1.0)] = 1.0,
        false_alarms: Part | None = 0.01,
        interval: Positive | None = None,
        window: Count = 20,
        seed: Seed = 0,
        **context: object,
    ):
        projection = isinstance(source, Projection)
        owner = source.frame if projection else source
        names, every = tuple(owner.state_names), tuple(owner.context_names)
        rows = torch.tensor(rows_of(names, sensors))
        for name in context:
            checks.one_of("context", name, every)
        self.parameters = [name for name in every if name not in context]
        self._free = [every.index(name) for name in self.parameters]
        self._noise, drift = noises_of(noise, rows).numpy(), torch.as_tensor(drift).double().numpy()
        if drift.shape not in ((), (len(self._free),)):
            expected = f"one number, or one for each of {len(self._free)} free parameters"
            raise InputError(
                "drift", expected=expected, got=f"shape {drift.shape}", fix="give one number"
            )
        self._drift = np.broadcast_to(drift, len(self._free))
        data = _training(training, every, names)
        self._model = (
            _Reduced(source, dynamics, system, rows) if projection else _Full(source, rows)
        )
        self.names = self._model.names
        self._count, self._inflation, self._window, self._seed = members, inflation, window, seed
        times, c = data.times.numpy(), data.contexts.initial.numpy().copy()
        c[:, [every.index(name) for name in context]] = context_array(list(context), context)
        self._known, self.limits = c[0], dict.fromkeys(TESTS, np.inf)
        with torch.no_grad(), one_thread():
            self._learn(data, c, rows)
        if false_alarms is not None:
            every = max(1, round((interval or times[1] - times[0]) / (times[1] - times[0])))
            self._measure(
                times[::every],
                data.states[:, ::every, rows].numpy(),
                c[:, self._free],
                false_alarms,
            )
        self._ends = c[:, self._free].min(0), c[:, self._free].max(0)
        self.restart(seed)

    def _learn(self, data: Trajectories, c: np.ndarray, rows: Tensor) -> None:
        """States that members start from, and errors of the model on training data."""
        parts = [part.flatten(0, 1) for part in (data.states, data.velocities)[: self._model.order]]
        each = np.repeat(c, len(data.times), axis=0)
        w = self._model.states(parts, each)
        self.state_size = w.shape[1]
        self._model.calibrate(w.reshape(len(c), -1, self.state_size), c, data.times.numpy())
        chosen = np.linspace(0, len(w) - 1, min(len(w), LIBRARY)).astype(int)
        w, each = w[chosen], each[chosen]
        self._library, self._seen = (
            np.column_stack([w, each[:, self._free]]),
            self._model.seen(w, each, each)[0],
        )
        error = self._seen - parts[0][chosen][:, rows].numpy()
        self._deviation = np.sqrt(self._noise**2 + (error**2).mean(0))

    def _measure(
        self, times: np.ndarray, observed: np.ndarray, c: np.ndarray, share: float
    ) -> None:
        """Thresholds by Gumbel's distribution of the largest value of each test in a run without a
        fault.
        """
        self._window = min(self._window, (len(times) - 1) // 2)
        rng, largest = np.random.default_rng(self._seed), []
        for k in runtime.track(range(max(RUNS, len(observed))), "thresholds"):
            self.restart(k)
            self._ends, found = (
                (c[k % len(c)],) * 2,
                [],
            )  # so that the second test is the error of the estimate
            for t, x in zip(times, observed[k % len(observed)], strict=True):
                self.update(t, x + self._noise * rng.standard_normal(x.shape))
                found.append([*self.tests.values()])
            largest.append(np.nanmax(found, axis=0))
        low, middle, high = np.quantile(
            largest, [0.25, 0.5, 0.75], axis=0
        )  # some contexts may be badly modelled
        spread = (high - low) / (np.log(-np.log(0.25)) - np.log(-np.log(0.75)))
        limits = middle + spread * (np.log(np.log(2)) - np.log(-np.log(1 - share)))
        self.limits = dict(zip(TESTS, limits.tolist(), strict=True))

    def restart(self, seed: Seed = 0) -> None:
        """Forget all observations."""
        self._rng, self._time, self._alarm, self._unexplained = (
            np.random.default_rng(seed),
            None,
            False,
            False,
        )
        self._record, self._taken = np.empty((self._window, 2 + 2 * len(self._free))), 0
        self.tests = dict.fromkeys(TESTS, np.nan)

    @torch.no_grad()
    @one_thread()
    def update(self, t: float, values: object) -> Track:
        """Take an observation (s,) at time t, NaN where it is missing, and give the estimate there.

        Raises:
            InputError: another number of values, a time that is not later than the last one, no
                value at the first.
        """
        values = np.asarray(values, dtype=np.float64)
        there = np.isfinite(values)
        if values.shape != self._noise.shape:
            expected, fix = (
                f"{len(self._noise)} numbers, one for each sensor",
                "give NaN where one is missing",
            )
            raise InputError("values", expected=expected, got=f"shape {values.shape}", fix=fix)
        if self._time is None:
            if not there.any():
                fix = "begin at the first time with numbers"
                raise InputError(
                    "values", expected="numbers at the first time", got="none", fix=fix
                )
            self._begin(values, there)
        elif t <= self._time:
            fix = "give observations in the order of time, or call restart"
            raise InputError(
                "t", expected=f"a time later than {self._time:g}", got=f"{t:g}", fix=fix
            )
        else:
            given = {"start": self._time, "end": t, "rng": self._rng}
            seen = self._walk(
                np.sqrt(t - self._time) * self._drift,
                functools.partial(self._model.forecast, **given),
            )
            lost = ~(np.isfinite(self.members).all(1) & np.isfinite(seen).all(1))
            if not lost.all():  # those that diverged go on as others
                kept = self._rng.choice(np.flatnonzero(~lost), lost.sum())
                self.members[lost], seen[lost] = self.members[kept], seen[kept]
            elif there.any():
                self._begin(values, there)
                self._time = None
        if self._time is None:
            w, c = self._parts()
            seen, _ = self._model.seen(w, c, c)
        self._time, jump = t, False
        self.map, self.residual = np.eye(self._count), (np.nan, np.nan)
        if there.any():
            unit = there / self._deviation  # what is missing weighs nothing
            self._analyse(np.where(there, values, 0.0) * unit, seen * unit, int(there.sum()))
            jump = self._test(values, there)
        c = self.members[:, self.state_size :]
        return Track(c.mean(0), c.std(0, ddof=1), self._alarm, jump)

    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        """States (N, d) of the members, and contexts (N, p), known parameters included."""
        c = np.repeat(self._known[None], self._count, axis=0)
        c[:, self._free] = self.members[:, self.state_size :]
        return self.members[:, : self.state_size], c

    def _begin(self, values: np.ndarray, there: np.ndarray, limit: float = np.inf) -> None:
        """Members from training states that resemble an observation, if one is nearer than the
        limit.
        """
        apart, self._taken = (((self._seen - values) / self._deviation)[:, there] ** 2).sum(1), 0
        if apart.min() >= limit:
            return
        near = np.argsort(apart)[: max(self._count, int(ANALOGUES * len(apart)))]
        self.members = self._library[
            self._rng.choice(near, self._count, replace=len(near) < self._count)
        ]
        self.map = None

    def _widen(self) -> None:
        """Spread the contexts of members by that of training, while their full states stay."""
        self._walk(WIDER * self._library[:, self.state_size :].std(0), self._model.seen)
        self._taken, self.map = 0, None

    def _walk(self, std: np.ndarray, move: Callable) -> np.ndarray:
        """Change the contexts of members by random numbers, and states by `seen` or `forecast`;
        what sensors see.
        """
        (w, c), walk = self._parts(), self._rng.standard_normal((self._count, len(self._free)))
        moved = c.copy()
        moved[:, self._free] += std * (walk - walk.mean(0))
        seen, w = move(w, c, moved)
        self.members = np.concatenate([w, moved[:, self._free]], axis=1)
        return seen

    def _analyse(self, values: np.ndarray, seen: np.ndarray, count: int) -> None:
        """The update by so many observations (s,), which members see as (N, s), both in units of
        their errors.
        """
        n, basis = self._count - 1, _mean_free(self._count)
        own, before, innovation = (
            basis.T @ seen,
            basis.T @ self.members[:, self.state_size :],
            values - seen.mean(0),
        )
        gram = own @ own.T
        spread, axes = np.linalg.eigh(gram + n * np.eye(n))
        root, mirror = (axes / np.sqrt(spread)) @ axes.T, self._rng.standard_normal(n)
        along = root @ (own @ innovation)
        gain, root = (
            along @ root,
            np.sqrt(n) * (root - np.outer(2 / (mirror @ mirror) * mirror, mirror @ root)),
        )
        turned, after = basis @ root @ basis.T, root @ before
        self.map = 1 / self._count + gain @ basis.T + turned
        self.members = (self.map + (self._inflation - 1) * turned) @ self.members
        square, gained = innovation @ innovation, ((before**2).sum(0) - (after**2).sum(0)) / n
        self.residual = np.sqrt(square / count), np.sqrt(1 + gram.trace() / n / count)
        self._record[self._taken % self._window] = np.hstack(
            [square - along @ along, count, gain @ before, gained]
        )
        self._taken += 1

    def _test(self, values: np.ndarray, there: np.ndarray) -> bool:
        """Values of the tests, and the alarm; whether the context has jumped, so that members
        spread or start anew.
        """
        if self._taken < 2 * self._window:
            return False
        (chi, count), change, gained = np.split(self._record.sum(0), [2, 2 + len(self._free)])
        c = self.members[:, self.state_size :]
        beyond = np.maximum(self._ends[0] - c.mean(0), c.mean(0) - self._ends[1]) / c.std(0).clip(
            1e-300
        )
        moved = np.abs(change) / np.sqrt(gained.clip(1e-300))
        found = (
            (chi - count) / np.sqrt(2 * count),
            beyond.max(initial=-np.inf),
            moved.max(initial=0.0),
        )
        self.tests = dict(zip(TESTS, map(float, found), strict=True))
        failed = [name for name, value in self.tests.items() if value > self.limits[name]]
        again, self._unexplained = self._unexplained, "residual" in failed
        self._alarm = "range" in failed or (again and self._unexplained)
        if self._unexplained:
            self._begin(values, there, self.residual[0] ** 2 * there.sum())
        elif "jump" in failed:
            self._widen()
        return self._unexplained or "jump" in failed


def _training(training: xr.Dataset, context: Sequence[str], names: Sequence[str]) -> Trajectories:
    """Trajectories at even times and constant contexts, without missing states."""
    data = Trajectories.of(training, context, names)
    complete = bool(data.states.isfinite().all())
    if data.contexts.path is not None or not complete or even_step(data.times.numpy()) is None:
        got = (
            "a context that moves"
            if data.contexts.path is not None
            else "missing states" * (not complete)
        )
        expected, fix = (
            "complete trajectories at constant contexts and even times",
            "take a dataset of a system, say",
        )
        raise InputError("training", expected=expected, got=got or "other times", fix=fix)
    return data


@functools.cache
def _mean_free(n: int) -> np.ndarray:
    """Orthonormal basis (n, n - 1) of vectors whose mean is zero."""
    return np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]


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
        noise: standard deviation of the observations.
        training: trajectories, as of `romkit.Tracker`.
        sensors: observed components; all by default.
        smooth: estimates from all observations in place of those until then (the ensemble Kalman
            smoother).
        level: of the intervals.
        **settings: of `romkit.Tracker`, and known parameters; without `false_alarms=` there are no
            tests.

    Returns:
        Dataset with `estimate`, `std`, `lower`, `upper` (trajectory, time, parameter),
        `covariance`, the mean `latent` or `state`, `residual` and `expected_residual` (root mean
        square of innovations, in standard deviations of the observations' errors), and with tests
        `explained` (no alarm). Attributes have settings and seconds.

    Raises:
        InputError: what cannot be used.

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
    projection = isinstance(source, Projection)
    given = Observations.of(source if projection else source.state_names, observations, sensors)
    tracker = Tracker(source, noise=noise, training=training, sensors=sensors, **settings)
    started = time.perf_counter()
    runs = []
    for k in runtime.track(range(len(given.values)), "assimilation"):
        tracker.restart(settings["seed"] + k)
        runs.append(_run(tracker, given.times.tolist(), given.values[k].numpy(), smooth))
    mean, covariance, residual, alarm = (np.array(part) for part in zip(*runs, strict=True))
    size, over = tracker.state_size, ("trajectory", "time")
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    half = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(variance)
    variables = {
        "estimate": ((*over, "parameter"), mean[..., size:]),
        "std": ((*over, "parameter"), np.sqrt(variance)),
        "lower": ((*over, "parameter"), mean[..., size:] - half),
        "upper": ((*over, "parameter"), mean[..., size:] + half),
        "covariance": ((*over, "parameter", "parameter_2"), covariance),
        "residual": (over, residual[..., 0]),
        "expected_residual": (over, residual[..., 1]),
    }
    name, dim = ("latent", "latent_component") if projection else ("state", "component")
    variables[name] = ((*over, dim), mean[..., :size])
    if settings["false_alarms"] is not None:
        variables["explained"] = (over, ~alarm)
    coords = {
        "time": given.times.numpy(),
        "parameter": tracker.parameters,
        "parameter_2": tracker.parameters,
    }
    attrs = {
        "noise": noise.tolist(),
        "smooth": int(smooth),
        "level": level,
        "seconds": time.perf_counter() - started,
    }
    attrs |= {name: value for name, value in settings.items() if isinstance(value, int | float)}
    return xr.Dataset(variables, coords | ({} if projection else {dim: tracker.names}), attrs)


def _run(
    tracker: Tracker, times: list[float], values: np.ndarray, smooth: bool
) -> tuple[list, list, list, list]:
    """Means (T, d + p), covariances of parameters (T, p, p), residuals with expectations (T, 2),
    and alarms (T,).
    """
    kept, maps, residuals, alarms = [], [], [], []
    for t, x in zip(times, values, strict=True):
        alarms.append(tracker.update(t, x).alarm)
        kept.append(tracker.members if smooth else _moments(tracker.members, tracker.state_size))
        maps.append(tracker.map)
        residuals.append(tracker.residual)
    if smooth:
        later = np.eye(len(tracker.members))
        for k in range(len(kept) - 1, -1, -1):
            kept[k] = _moments(later @ kept[k], tracker.state_size)
            later = later @ maps[k] if maps[k] is not None else np.eye(len(later))
    return [mean for mean, _ in kept], [covariance for _, covariance in kept], residuals, alarms


def _moments(members: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean (d + p) of members, and covariance (p, p) of their parameters."""
    mean = members.mean(0)
    c = members[:, size:] - mean[size:]
    return mean, c.T @ c / (len(c) - 1)
