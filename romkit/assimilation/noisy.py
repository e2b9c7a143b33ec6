"""Full and reduced models that forecast the members of an ensemble and what sensors see of them."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from romkit.core import runtime
from romkit.core.tensors import divisor, evenly
from romkit.core.types import Array, Entries
from romkit.engine import RungeKutta, compiled_if
from romkit.models.fields import FullModel, LatentModel, Model
from romkit.numerics import Nearest, left_out
from romkit.solvers import RK4, checked_step
from romkit.solvers.base import Run
from romkit.solvers.checked import ALLOWED

MANY = 1e6
"""Steps of a filter in its life, so that compiling pays."""

TINY = 1e-300
"""Number that nothing is divided by."""


View = tuple[Array, Array]
"""Observed components (N, s), and states (N, d) at other contexts."""

Viewed = Callable[[float, Tensor], Tensor]
"""Time and inputs (N, k) of `Noisy.view` -> its outputs (N, k)."""


class Forecasting:
    """A model of which some components are observed.

    Args:
        model: full or reduced.
        rows: (s,) numbers of the observed components.
    """

    def __init__(self, model: FullModel | LatentModel, rows: Tensor):
        self.model = model
        self.rows = rows.numpy()
        self.order = model.order
        self.names = model.names

    def encode(self, states: Sequence[Tensor], c: Array) -> Array:
        """First-order states, or latent ones, (N, d) of full ones."""
        return self.model.encode(torch.from_numpy(c), states).numpy()


class Exact(Forecasting):
    """A full model, which is taken to be without error."""

    def calibrate(self, w: Array, c: Array, times: Array) -> None:
        """Nothing."""

    def view(self, w: Array, c: Array, moved: Array) -> View:
        """Return the observed components (N, s), and the states at other contexts."""
        return w[:, self.rows], w

    def forecast(
        self, w: Array, c: Array, moved: Array, start: float, end: float, rng: Generator
    ) -> View:
        """`view` of members (N, d) at time `end`."""
        context = torch.from_numpy(c)
        times = torch.tensor([start, end], dtype=torch.float64)
        solver = self.model.solver(context)
        assert solver is not None  # of a model that is integrated
        field = self.model.field(context)
        with runtime.bars(False):
            states = solver(field, torch.from_numpy(w), times).states  # (N, 2, d)
        ends = states[:, -1].numpy()
        return self.view(ends, c, moved)


class Noisy(Forecasting):
    """A latent field, whose speed is corrected and whose other errors are noise.

    Args:
        model, rows: as of `Forecasting`.
        tolerance: relative error of states by steps of one length.

    Attributes:
        jitter: standard deviation of the time that is lost or won in one unit of time.
        noise: (d, d) root of the covariance of the other errors in one unit of time.
        step: length of a latent step: as long as the tolerance allows, and no longer than the
            interval of the training data.
    """

    def __init__(self, model: LatentModel, rows: Tensor, tolerance: float = 1e-5):
        super().__init__(model, rows)
        self._tolerance = tolerance
        self.size = model.size
        self.coordinates = model.reduced.coordinates
        projection = model.reduced.projection
        self.scale = projection.frame.context_scale.double().numpy()
        self.context_size = len(self.scale)
        self._motions: dict[int, Run] = {}
        self._views: dict[int, Viewed] = {}
        inputs = 2 * (self.size + self.context_size)
        outputs = self.coordinates.frame.size + self.size
        self._width = max(inputs, outputs)
        self._basis = None
        if projection.basis is not None:
            mean = projection.basis.mean[rows].numpy()
            modes = projection.basis.modes[rows].mT.numpy()
            self._basis = mean, modes

    def __getstate__(self) -> Entries:
        """Attributes without compiled loops, which each process compiles for itself."""
        return vars(self) | {"_motions": {}, "_views": {}}

    def view(
        self, w: Array, c: Array, moved: Array, noise: Array | None = None, t: float = 0.0
    ) -> View:
        """Return the observed components (N, s), and the latent states of the same full states at
        other contexts.

        What is across the motion of noise (N, d) is added to latent states before; that along it is
        one of the speed.
        """
        inputs = [w, c, moved]
        if noise is not None:
            inputs.append(noise)
        joined = np.concatenate(inputs, axis=1)
        # a field that the engine compiles gives as many numbers as it takes
        y = torch.zeros(len(w), self._width, dtype=torch.float64)
        y.numpy()[:, : joined.shape[1]] = joined
        # forecasts look at their members at each observation, others once
        viewed = self._viewed_once if noise is None else self._compiled_view(y)
        outputs = viewed(t, y).numpy()
        full = self.coordinates.frame.size
        x = outputs[:, :full]
        w = outputs[:, full : full + self.size]
        if self._basis is None:
            return x[:, self.rows], w
        mean, modes = self._basis
        return mean + x @ modes, w

    def forecast(
        self, w: Array, c: Array, moved: Array, start: float, end: float, rng: Generator
    ) -> View:
        """`view` of members (N, d) at time `end`, with noise."""
        root = np.sqrt(end - start)
        shape = (len(w), 1 + self.size)
        normal = rng.standard_normal(shape)
        jitter = self.jitter / root * normal[:, 0]
        speed = self.speed(c) + jitter
        noise = normal[:, 1:] @ (root * self.noise.T)
        life = MANY * self.step
        ends = self._moved(w, c, speed, start, end, life)
        return self.view(ends, c, moved, noise, end)

    def calibrate(
        self, w: Array, c: Array, times: Array, *, starts: int = 100, least: int = 4, part: int = 2
    ) -> None:
        """Measure speed and noise on training states (C, T, d) at contexts (C, p).

        An error of a run over a span is a lag of its context, a shift of its own, and a rest that is
        across the motion.

        `starts`: of runs, evenly in time, and `least` number of them at a context: those at
        neighbouring times have nearly the same errors.

        `part`: errors of a reduced model are measured over this part of a training trajectory.
        """
        lag = max(1, len(times) // part)
        span = float(times[lag] - times[0])
        self.step = self._checked_step(w, c, times)
        rates = np.gradient(w, times, axis=1)
        number = max(least, starts // len(w))
        begin = evenly(len(times) - lag, number).numpy()  # (s,)
        rate = rates[:, begin + lag]  # (C, s, d)
        # a run at rest has no direction along which an error could be a lag
        square = np.square(rate).sum(-1).clip(TINY)  # (C, s)
        error = self._errors(w, c, times, begin, lag)  # (C, s, d)
        along = (error * rate).sum((1, 2))
        lags = along / square.sum(1) / span  # (C,)
        predicted = self._learn_speed(c, lags)
        lagged = predicted[:, None, None] * rate * span
        error = error - lagged
        along = (error * rate).sum(-1)
        shift = along / square  # (C, s)
        squares = np.square(shift).mean(1)
        self.jitter = np.sqrt(np.median(squares) / span)
        across = error - shift[..., None] * rate
        across = across.reshape(-1, self.size)
        # root (d, d) of the covariance in one unit of time, by errors (N, d) after a span
        covariance = across.T @ across / len(across) / span
        # a variance that makes it definite
        self.noise = np.linalg.cholesky(covariance + 1e-20 * np.eye(len(covariance)))

    def _learn_speed(self, c: Array, lags: Array, *, narrowest: float = 1e-6) -> Array:
        """Learn the speed from lags (C,) at contexts (C, p); the lags that neighbours predict.

        `narrowest`: smallest width of the neighbourhood of a context, in its range.
        """
        contexts = torch.from_numpy(c / self.scale)
        if len(c) == 1:
            self._known = contexts, lags, Nearest(narrowest)
            return lags
        apart = torch.cdist(contexts, contexts).fill_diagonal_(torch.inf)
        nearest = np.median(apart.min(1).values.square())
        smoother = Nearest(max(float(np.sqrt(nearest)), narrowest))
        self._known = contexts, lags, smoother
        # a context is corrected by its neighbours alone, as a new one will be
        one_by_one = list(torch.arange(len(c)).unsqueeze(-1))
        return left_out(smoother, contexts, one_by_one).numpy() @ lags

    def speed(self, at: Array) -> Array:
        """Speeds (N,) at contexts (N, p), relative to that of the latent field."""
        contexts, lags, smoother = self._known
        weights = smoother.weights(contexts, torch.from_numpy(at / self.scale))
        return 1 + weights.numpy() @ lags

    def _checked_step(
        self,
        w: Array,
        c: Array,
        times: Array,
        *,
        tried: int = 24,
        intervals: int = 3,
    ) -> float:
        """Length of steps that are exact from training states (C, T, d) on, over a few intervals.

        It is found once, so that neither the interval of the observations nor that of the training
        decides how exact a forecast is, and held, so that one compiled loop takes all steps.

        `tried`, `intervals`: training states, about, from which the length of steps is
        found, and intervals of the training that are looked at: a filter goes from
        observation to observation.
        """
        states = w.reshape(-1, self.size)
        contexts = np.repeat(c, len(times), axis=0)
        spread = np.linspace(0, len(states) - 1, tried).round()
        chosen = np.unique(spread.astype(int))
        field = self.model.field(torch.from_numpy(contexts[chosen]))
        starts = torch.from_numpy(states[chosen])
        window = torch.tensor(times[: intervals + 1])
        with torch.no_grad(), runtime.bars(False):
            return checked_step(field, starts, window, rtol=self._tolerance / ALLOWED)

    def _errors(self, w: Array, c: Array, times: Array, begin: Array, lag: int) -> Array:
        """(C, s, d) errors of runs over the lag from the training states at samples (s,)."""
        starts = w[:, begin].reshape(-1, self.size)
        contexts = np.repeat(c, len(begin), axis=0)
        speed = np.ones(len(starts))
        life = times[lag] - times[0]
        ends = self._moved(starts, contexts, speed, times[0], times[lag], life)
        return w[:, begin + lag] - ends.reshape(len(c), len(begin), -1)

    def _moved(
        self, w: Array, c: Array, speed: Array, start: float, end: float, life: float
    ) -> Array:
        """Return states (N, d) at time `end`, by a solver that so many members need for as long as
        they live.
        """
        y = torch.from_numpy(np.concatenate([w, c, speed[:, None]], axis=1))
        times = torch.tensor([start, end], dtype=torch.float64)
        run = self._motion(y, life)
        states = run(y, times)  # (2, N, d + p + 1)
        return states[1, :, : self.size].numpy()

    def _motion(self, y: Tensor, life: float) -> Run:
        """Solver of the field with context and speed in the state, so that one compiled field
        serves all contexts: a filter steps once between observations, where this costs least.
        """
        members = len(y)
        sizes = [self.size, self.context_size, 1]
        if members in self._motions:
            return self._motions[members]

        def field(t: Tensor, y: Tensor) -> Tensor:
            w, c, speed = y.split(sizes, dim=-1)
            rate = self.model.field(c)(t, w)
            still = 0 * c, 0 * speed
            return torch.cat([speed * rate, *still], dim=-1)

        times = torch.tensor([0.0, life], dtype=torch.float64)
        run, _ = RK4(self.step).prepare(field, y, times, "auto", "")
        self._motions[members] = run
        return run

    def _compiled_view(self, y: Tensor) -> Viewed:
        """Noise, decoder at one context, then encoder at another, as a field, which the engine can
        compile.
        """
        if len(y) not in self._views:
            start = torch.zeros(1, dtype=torch.float64)
            kernel, _ = compiled_if("auto", RungeKutta, self._viewed, start, y, MANY)
            if kernel is None:
                self._views[len(y)] = self._viewed_once
            else:
                self._views[len(y)] = kernel.evaluate
        return self._views[len(y)]

    def _viewed_once(self, t: float, y: Tensor) -> Tensor:
        return self._viewed(torch.tensor(t), y)

    def _viewed(self, t: Tensor, y: Tensor) -> Tensor:
        sizes = [self.size, self.context_size, self.context_size, self.size]
        inputs = y[..., : sum(sizes)]
        w, c, moved, noise = inputs.split(sizes, dim=-1)
        assert isinstance(self.model, LatentModel)  # which has operators
        problem = self.model.reduced.fix_context(c).problem
        rate = self.model.field(c)(t, w)
        square = (rate * rate).sum(-1, keepdim=True)
        product = (noise * rate).sum(-1, keepdim=True)
        along = product / square.clamp(min=TINY)
        across = w + noise - along * rate
        decoder = self.coordinates.operator(c)
        encoder = self.coordinates.operator(moved)
        decoded = problem.decode(decoder, across)
        w = problem.encode(encoder, decoded)
        outputs = torch.cat([decoded[0], w], dim=-1)
        unused = y.shape[-1] - outputs.shape[-1]
        return torch.nn.functional.pad(outputs, (0, unused))


def forecasting(model: Model, rows: Tensor, noise: Array, window: int) -> Exact | Noisy:
    """Return forecasts by a full or a reduced model, whose steps follow from the noise (s,) of a
    window of so many observations.
    """
    if not isinstance(model, LatentModel):
        return Exact(model, rows)
    std = model.reduced.projection.frame.state_std.double()[rows]
    return Noisy(model, rows, unseen_error(torch.from_numpy(noise), std, window * len(rows)))


def unseen_error(
    noise: Tensor,
    std: Tensor,
    numbers: int,
    *,
    share: float = 0.1,
    tightest: float = 1e-8,
    loosest: float = 1e-3,
) -> float:
    """Return relative error of latent states that no sum of squares of so many numbers shows.

    `noise`, `std`: (s,) deviations of the observations' noise, and of the components.

    `share`: error of all numbers together, as the root of its sum of squares in deviations of the
        noise: a hundredth of what ends a search.

    `tightest`, `loosest`: bounds of the result, whatever the noise.
    """
    relative = float((noise / divisor(std)).min())
    return min(max(share * relative / numbers**0.5, tightest), loosest)
