"""Numbers behind the explorer: the full and the reduced model at one context after the other."""

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data import times_of, trajectories
from romkit.integrators import LatentField
from romkit.metrics import idempotency_error, pool_units
from romkit.models import LatentFlow, ReducedModel, check_match, trained_dynamics
from romkit.projections import Projection
from romkit.projections.storage import check_single
from romkit.systems import System, system_of
from romkit.verbs.follow import follow
from romkit.verbs.score import score
from romkit.verbs.simulate import simulate

SAMPLES = 200
"""Number of output intervals of a view."""

BRANCH = 41
"""Number of contexts in the bifurcation diagram."""


class Orbit(NamedTuple):
    """Run of the reduced model at one context.

    Attributes:
        time: (T,) output times.
        states: (T, r) components evenly spread over the state, at most 400, divided by the
            standard deviations of the training data.
        latent: (T, m) latent coordinates.
        portrait: (T, 2) states in the leading directions of the view's full model.
        manifold: (L, K, 2) grid lines of the manifold around the orbit, in the same directions: the
            images of lines in the plane of the first two latent coordinates, with the others at
            their means.

    Example:
        >>> import romkit
        >>> from romkit.explorer import Exploration
        >>> exploration = Exploration(romkit.load("ncae-lorenz96"), romkit.systems.Lorenz96(transient=0.0, horizon=0.5))
        >>> view = exploration.view(exploration.middle)
        >>> orbit = exploration.orbit({"F": 3.14}, view)
        >>> orbit.portrait.shape
        (201, 2)
    """

    time: Array
    states: Array
    latent: Array
    portrait: Array
    manifold: Array


class View(NamedTuple):
    """Full and reduced model at one context.

    Attributes:
        run: the full model's trajectory as a dataset.
        orbit: the reduced model from the same initial state.
        truth: (T, n) states of the full model, divided by the standard deviations of the training
            data.
        directions: (n, 2) leading directions of `truth`, in which it varies most.
        portrait: (T, 2) `truth` in the leading directions.
        error, projected: (T,) NRMSE of the reduced model and of the projection alone.
        lag: (T,) delay of the reduced model in time units; NaN where there is no motion.
        idempotency: largest norm of P(P(x)) - P(x) along the run.
        valid_time: valid prediction time, see `romkit.score`.

    Example:
        >>> import romkit
        >>> from romkit.explorer import Exploration
        >>> exploration = Exploration(romkit.load("ncae-lorenz96"), romkit.systems.Lorenz96(transient=0.0, horizon=0.5))
        >>> view = exploration.view(exploration.middle)
        >>> view.truth.shape == view.orbit.states.shape, view.idempotency < 1e-6
        (True, True)
    """

    run: xr.Dataset
    orbit: Orbit
    truth: Array
    directions: Array
    portrait: Array
    error: Array
    projected: Array
    lag: Array
    idempotency: float
    valid_time: float


@validated
@dataclass
class Exploration:
    """Full and reduced model of a system, evaluated at one context after the other.

    Args:
        projection: a single projection, not a stack.
        system: the full model; by default the system that the projection was trained on.
        duration: length of the runs; a fifth of the system's horizon by default.

    Attributes:
        seconds: time that one run of the full model takes.

    Raises:
        InputError: a stack, a projection of another system or of none that romkit knows, or a
            system without context.

    Example:
        >>> import romkit
        >>> from romkit.explorer import Exploration
        >>> system = romkit.systems.Lorenz96(transient=0.0, horizon=0.5)
        >>> exploration = Exploration(romkit.load("ncae-lorenz96"), system)
        >>> list(exploration.middle)
        ['F']
        >>> exploration.view({"F": 3.15}).orbit.latent.shape
        (201, 2)
    """

    projection: Projection
    system: System | None = None
    duration: Positive | None = None

    def __post_init__(self):
        if self.system is None:
            # its sizes count too: of a chain of another length there is another system
            attrs = self.projection.report.get("data", {})
            attrs = {**attrs, "system": self.projection.frame.system}
            self.system = system_of(xr.Dataset(attrs=attrs))
        self._check()
        if self.duration is None:
            self.duration = self.system.horizon / 5
        self.dynamics = trained_dynamics(self.projection)
        self._model = ReducedModel.build(self.projection, self.dynamics, self.system)
        self.double = self._model.projection
        # sliders come back to where they were, and full models are slow
        self._run = functools.lru_cache(maxsize=8)(self._simulate)
        try:  # compiling pays from the second view on
            self.engine = "compiled"
            self._simulate(tuple(self.middle.values()))
        except InputError:
            self.engine = "auto"
        # timed once it is compiled: the page chooses by this number what follows a moving slider
        began = time.perf_counter()
        run = self.run(self.middle)
        self.seconds = time.perf_counter() - began
        self._flow = self._compiled_flow(run)

    def _check(self) -> None:
        check_single(self.projection)
        if self.system is None:
            raise InputError(
                "system",
                expected="a full model to compare with",
                got="none",
                fix="give the system it was trained on",
            )
        if not self.system.context:
            raise InputError(
                "system",
                expected="one with a context to explore",
                got=self.system.name,
                fix="romkit.rollout(system, projection) shows what there is",
            )
        check_match(self.system, self.projection)

    def _compiled_flow(self, run: xr.Dataset) -> LatentFlow | None:
        """Return the reduced model compiled for every context, since a slider asks for one after
        the other; None where its field cannot be compiled.
        """
        if not isinstance(self.dynamics, LatentField):
            return None
        flow = LatentFlow(self._model, engine="compiled")
        try:
            self._flowed(flow, run, self.at(self.middle))
        except InputError:
            return None
        return flow

    @property
    def middle(self) -> dict[str, float]:
        """Context in the middle of the training range, by name."""
        middle = {}
        for parameter in self.system.context:
            middle[parameter.name] = (parameter.low + parameter.high) / 2
        return middle

    def at(self, context: Mapping[str, float]) -> Tensor:
        """Return context (1, p), from values by name."""
        row = [context[name] for name in self.system.context_names]
        return torch.tensor([row], dtype=torch.float64)

    def run(self, context: Mapping[str, float]) -> xr.Dataset:
        """Return one trajectory of the full model at a context."""
        row = (float(context[name]) for name in self.system.context_names)
        return self._run(tuple(row))

    def view(self, context: Mapping[str, float]) -> View:
        """Return both models at a context."""
        run = self.run(context)
        follower = self._reduced(context, run)
        errors = score(run, follower)
        P = self.double(self.at(context))
        x = torch.from_numpy(run["state"].values.copy())  # (1, T, n)
        with torch.no_grad():
            projected = P(x)
            idempotency = idempotency_error(P, x).max()
        # in deviations, so that components of several units share one colour scale
        scale = pool_units(follower["state_std"].values, run)
        full = run["state"].values[0] / scale
        reduced = follower["state"].values[0] / scale
        directions = _leading(full)  # (n, 2)
        return View(
            run=run,
            orbit=self._orbit(context, follower, scale, directions),
            truth=full,
            directions=directions,
            portrait=full @ directions,
            error=errors["nrmse"].values[0],
            projected=np.sqrt(np.square(projected[0].numpy() / scale - full).mean(-1)),
            lag=_lag(full, reduced, run["time"].values),
            idempotency=float(idempotency),
            valid_time=float(errors["valid_time"][0]),
        )

    def orbit(self, context: Mapping[str, float], view: View) -> Orbit:
        """Return the reduced model alone, from the initial state of a view: does not wait for the
        full model.
        """
        follower = self._reduced(context, view.run)
        scale = pool_units(follower["state_std"].values, view.run)
        return self._orbit(context, follower, scale, view.directions)

    def branch(self, name: str, view: View) -> tuple[Array, Array]:
        """Return the bifurcation diagram of the reduced model: values (N,) of one parameter, and
        extremes (N,) of a component.

        The component is the one that moves most in the full model of a view; the other parameters
        and the initial state are those of the view. The extremes at a value are the local maxima of
        the orbit's second half, or its largest value where it has none.
        """
        context = {}
        for parameter in self.system.context:
            context[parameter.name] = float(view.run[parameter.name].values[0])
        late = slice(SAMPLES // 2, None)  # after the transient
        deviation = np.nan_to_num(view.truth[late].std(axis=0))
        component = int(deviation.argmax())
        values, extremes = [], []
        for value in self._diagram(name):
            run = self._reduced({**context, name: value}, view.run)
            peaks = _maxima(run["state"].values[0, late, component])
            values.append(np.full_like(peaks, value))
            extremes.append(peaks)
        return np.concatenate(values), np.concatenate(extremes)

    def calm(self, name: str, branch: tuple[Array, Array], *, sudden: float = 5.0) -> float:
        """Return value of a parameter far from where the motion changes its kind: the middle of the
        longer side of the largest jump in a bifurcation diagram, or of the range where there is
        none.

        `sudden`: change between two contexts, in the median change, that counts as a jump.
        """
        values, extremes = branch
        grid = self._diagram(name)
        highest = np.array(
            [np.nanmax(extremes[values == value], initial=-np.inf) for value in grid]
        )
        middle = float(grid[BRANCH // 2])
        if not np.isfinite(highest).all():
            return middle
        changes = np.abs(np.diff(highest))  # (BRANCH - 1,)
        jump = int(changes.argmax())
        if changes[jump] <= sudden * np.median(changes):
            return middle
        below, above = grid[: jump + 1], grid[jump + 1 :]
        side = below if len(below) >= len(above) else above
        return float(side[len(side) // 2])

    def _diagram(self, name: str) -> Array:
        """Return values (BRANCH,) of a parameter in the bifurcation diagram."""
        parameter = next(entry for entry in self.system.context if entry.name == name)
        return np.linspace(parameter.low, parameter.high, BRANCH)

    def _simulate(self, context: tuple[float, ...]) -> xr.Dataset:
        named = dict(zip(self.system.context_names, context, strict=True))
        return simulate(
            self.system,
            duration=self.duration,
            dt=self.duration / SAMPLES,
            context=named,
            engine=self.engine,
        )

    def _reduced(self, context: Mapping[str, float], run: xr.Dataset) -> xr.Dataset:
        """Return the reduced model from the initial state of a run of the full model, whose context
        may be another one.
        """
        # recorded once for all contexts; `follow` would record it anew at each
        if self._flow is not None:
            return self._flowed(self._flow, run, self.at(context))
        moved = run.assign_coords(
            {name: ("trajectory", [value]) for name, value in context.items()}
        )
        return follow(
            self.projection, moved, dynamics=self.dynamics, system=self.system, engine=self.engine
        )

    def _flowed(self, flow: LatentFlow, run: xr.Dataset, c: Tensor) -> xr.Dataset:
        """Return the reduced model at a context (1, p) from the initial state of a run, as by
        `romkit.follow`; NaN from a divergence on.
        """
        model = self._model.fix_context(c)
        times = times_of(run)
        names = ("state", "velocity")[: self._model.order]
        start = run.isel(time=slice(1))
        state_and_velocity = tuple(trajectories(start, name)[:, 0] for name in names)
        states = flow(model.start(times[0], state_and_velocity), c, times)  # (1, T, order · m)
        latent = states[..., : self.projection.latent_dim]
        with torch.no_grad():
            decoded = self.double.operator(c).decode(latent)
        variables = {
            "state": (("trajectory", "time", "component"), decoded.numpy()),
            "latent": (("trajectory", "time", "latent_component"), latent.numpy()),
        }
        scale = ("component", self.double.frame.state_std.numpy())
        return xr.Dataset(variables, {"time": run["time"], "state_std": scale})

    def _orbit(
        self, context: Mapping[str, float], follower: xr.Dataset, scale: Array, directions: Array
    ) -> Orbit:
        states = follower["state"].values[0]  # (T, n)
        latent = follower["latent"].values[0]  # (T, m)
        P = self.double(self.at(context)[0])
        with torch.no_grad():
            points = P.decode(torch.from_numpy(_grid(latent))).numpy()  # (L, K, n)
        plane = directions / scale[:, None]  # (n, 2)
        lines = points @ plane  # (L, K, 2)
        if len(lines) > 1:
            across = lines.swapaxes(0, 1)
        else:
            across = lines[:0]
        shown = slice(None, None, stride(len(scale)))
        return Orbit(
            time=follower["time"].values,
            states=states[:, shown] / scale[shown],
            latent=latent,
            portrait=states @ plane,
            manifold=np.concatenate([lines, across]),
        )


def _maxima(x: Array) -> Array:
    """Return the local maxima of a curve (T,), or its largest value where it has none."""
    inner = x[1:-1]
    # a plateau counts once, at its begin
    peaks = inner[(inner > x[:-2]) & (inner >= x[2:])]
    return peaks if peaks.size else x.max(keepdims=True)


def stride(size: int, *, shown: int = 400) -> int:
    """Return distance between the components that are shown of a state of this size.

    `shown`: largest number of components in the picture of a field.
    """
    return -(-size // shown)


def _grid(latent: Array, *, points: int = 9, beyond: float = 0.1) -> Array:
    """Return points (K, K, m) around an orbit (T, m), over its first two latent coordinates; (1, K,
    1) of one coordinate.

    `points`, `beyond`: points each way, and width beyond the orbit, as a share of its width.
    """
    finite = latent[np.isfinite(latent).all(axis=1)]
    low, high = finite[:, :2].min(axis=0), finite[:, :2].max(axis=0)
    margin = beyond * (high - low)
    axes = []
    for start, end in zip(low - margin, high + margin, strict=True):
        axes.append(np.linspace(start, end, points))
    plane = np.stack(np.meshgrid(*axes), axis=-1)
    plane = plane.reshape(-1, points, len(axes))  # (K, K, 2), or (1, K, 1)
    means = finite[:, 2:].mean(axis=0)
    beyond_plane = np.broadcast_to(means, (*plane.shape[:2], len(means)))
    return np.concatenate([plane, beyond_plane], axis=-1)


def _leading(states: Array) -> Array:
    """Return the directions (n, 2) in which states (T, n) vary most; zero where there is no second
    one.
    """
    centred = np.nan_to_num(states - np.nanmean(states, axis=0))
    _, moments = np.linalg.eigh(centred @ centred.T)  # T x T, since n may be large
    directions = centred.T @ moments[:, :-3:-1]  # (n, 2), the largest eigenvalue first
    sizes = np.linalg.norm(directions, axis=0)
    moves = sizes > 1e-8 * sizes[0]
    return np.divide(directions, sizes, out=np.zeros_like(directions), where=moves)


def _lag(truth: Array, reduced: Array, times: Array) -> Array:
    """Delay τ(t) = ⟨x - x̂, ẋ⟩ / ‖ẋ‖² of the reduced model in time units, to first order."""
    rate = np.gradient(truth, times, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return ((truth - reduced) * rate).sum(-1) / np.square(rate).sum(-1)
