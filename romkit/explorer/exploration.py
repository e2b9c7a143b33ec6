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
from romkit.data import times_of, trajectories
from romkit.integrators import LatentField
from romkit.metrics import idempotency_error
from romkit.models import LatentFlow, ReducedModel, check_match, trained_dynamics
from romkit.projections import Projection
from romkit.solvers import RK4
from romkit.systems import System, system_of
from romkit.verbs import runs

SAMPLES = 200
"""Number of output intervals of a view."""

BRANCH = 41
"""Number of contexts in the bifurcation diagram."""

POINTS, MARGIN = 9, 0.1
"""Points of the manifold's grid each way, and its width beyond the orbit, as a share of the orbit's
width.
"""

SHOWN = 400
"""Largest number of components in the picture of a field."""

REMEMBERED = 8
"""Number of runs of the full model that are kept."""


class Orbit(NamedTuple):
    """Run of the reduced model at one context.

    Attributes:
        time: (T,) output times.
        states: (T, r) components evenly spread over the state, at most `SHOWN`, divided by the
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

    time: np.ndarray
    states: np.ndarray
    latent: np.ndarray
    portrait: np.ndarray
    manifold: np.ndarray


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
    truth: np.ndarray
    directions: np.ndarray
    portrait: np.ndarray
    error: np.ndarray
    projected: np.ndarray
    lag: np.ndarray
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
            self.system = self._trained_on()
        self._check()
        self.duration = self.system.horizon / 5 if self.duration is None else self.duration
        self.dynamics = trained_dynamics(self.projection)
        self._model = ReducedModel.of(self.projection, self.dynamics, self.system)
        self.double = self._model.projection
        self._run = functools.lru_cache(maxsize=REMEMBERED)(self._simulate)
        try:  # compiling pays from the second view on
            self.engine = "compiled"
            self._simulate(tuple(self.middle.values()))
        except InputError:
            self.engine = "auto"
        began = time.perf_counter()
        run = self.run(self.middle)
        self.seconds = time.perf_counter() - began
        self._flow = self._compiled_flow(run)

    def _trained_on(self) -> System | None:
        """The system that the training data name, with its parameters."""
        attrs = self.projection.report.get("data", {})
        attrs = {**attrs, "system": self.projection.frame.system}
        return system_of(xr.Dataset(attrs=attrs))

    def _check(self) -> None:
        if self.projection.seeds is not None:
            fix = "take one of it, romkit.projections.unstack(projection)[0]"
            raise InputError("projection", expected="a single one", got="a stack", fix=fix)
        if self.system is None:
            expected, fix = "a full model to compare with", "give the system it was trained on"
            raise InputError("system", expected=expected, got="none", fix=fix)
        if not self.system.context:
            expected, got = "one with a context to explore", self.system.name
            fix = "romkit.rollout(system, projection) shows what there is"
            raise InputError("system", expected=expected, got=got, fix=fix)
        check_match(self.system, self.projection)

    def _compiled_flow(self, run: xr.Dataset) -> LatentFlow | None:
        """The reduced model compiled for every context, since a slider asks for one after the
        other; None where its field cannot be compiled.
        """
        if not isinstance(self.dynamics, LatentField):
            return None
        flow = LatentFlow(self._model, solver=RK4(self.system.dt), engine="compiled")
        try:
            self._flowed(flow, run, self.at(self.middle))
        except InputError:
            return None
        return flow

    @property
    def middle(self) -> dict[str, float]:
        """Context in the middle of the training range, by name."""
        return {p.name: (p.low + p.high) / 2 for p in self.system.context}

    def at(self, context: Mapping[str, float]) -> Tensor:
        """Context (1, p), from values by name."""
        return torch.tensor(
            [[context[name] for name in self.system.context_names]], dtype=torch.float64
        )

    def run(self, context: Mapping[str, float]) -> xr.Dataset:
        """One trajectory of the full model at a context."""
        return self._run(tuple(float(context[name]) for name in self.system.context_names))

    def view(self, context: Mapping[str, float]) -> View:
        """Both models at a context."""
        run = self.run(context)
        follower = self._reduced(context, run)
        errors = runs.score(run, follower)
        P, x = self.double(self.at(context)), torch.from_numpy(run["state"].values.copy())
        with torch.no_grad():
            projected, idempotency = P(x), idempotency_error(P, x).max()
        scale = follower["state_std"].values
        full, reduced = (each["state"].values[0] / scale for each in (run, follower))
        directions = _leading(full)
        return View(
            run=run,
            orbit=self._orbit(context, follower, directions),
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
        """Reduced model alone, from the initial state of a view: does not wait for the full model."""
        return self._orbit(context, self._reduced(context, view.run), view.directions)

    def branch(self, name: str, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Bifurcation diagram of the reduced model: values (N,) of one parameter, and extremes (N,)
        of a component.

        The component is the one that moves most in the full model of a view; the other parameters
        and the initial state are those of the view. The extremes at a value are the local maxima of
        the orbit's second half, or its largest value where it has none.
        """
        parameter = next(p for p in self.system.context if p.name == name)
        context = {p.name: float(view.run[p.name].values[0]) for p in self.system.context}
        late = slice(SAMPLES // 2, None)  # after the transient
        component = int(np.nan_to_num(view.truth[late].std(axis=0)).argmax())
        values, extremes = [], []
        for value in np.linspace(parameter.low, parameter.high, BRANCH):
            run = self._reduced({**context, name: value}, view.run)
            peaks = _maxima(run["state"].values[0, late, component])
            values.append(np.full_like(peaks, value))
            extremes.append(peaks)
        return np.concatenate(values), np.concatenate(extremes)

    def _simulate(self, context: tuple[float, ...]) -> xr.Dataset:
        named = dict(zip(self.system.context_names, context, strict=True))
        sampling = {"duration": self.duration, "dt": self.duration / SAMPLES}
        return runs.simulate(self.system, **sampling, context=named, engine=self.engine)

    def _reduced(self, context: Mapping[str, float], run: xr.Dataset) -> xr.Dataset:
        """Reduced model from the initial state of a run of the full model, whose context may be
        another one.
        """
        if self._flow is not None:
            return self._flowed(self._flow, run, self.at(context))
        moved = run.assign_coords(
            {name: ("trajectory", [value]) for name, value in context.items()}
        )
        solver = RK4(self.system.dt)  # the samples shown are farther apart
        given = {
            "dynamics": self.dynamics,
            "system": self.system,
            "solver": solver,
            "engine": self.engine,
        }
        return runs.follow(self.projection, moved, **given)

    def _flowed(self, flow: LatentFlow, run: xr.Dataset, c: Tensor) -> xr.Dataset:
        """Reduced model at a context (1, p) from the initial state of a run, as by `romkit.follow`;
        NaN from a divergence on.
        """
        model, times = self._model.at_constant(c), times_of(run)
        names = ("state", "velocity")[: self._model.order]
        first = run.isel(time=slice(1))
        parts = tuple(trajectories(first, name)[:, 0] for name in names)
        latent = flow(model.start(times[0], parts), c, times)[..., : self.projection.latent_dim]
        with torch.no_grad():
            decoded = self.double.operator(c).decode(latent)
        variables = {
            "state": (("trajectory", "time", "component"), decoded.numpy()),
            "latent": (("trajectory", "time", "latent_component"), latent.numpy()),
        }
        scale = ("component", self.double.frame.state_std.numpy())
        return xr.Dataset(variables, {"time": run["time"], "state_std": scale})

    def _orbit(
        self, context: Mapping[str, float], follower: xr.Dataset, directions: np.ndarray
    ) -> Orbit:
        scale, states, latent = (follower[name].values for name in ("state_std", "state", "latent"))
        states, latent, every = states[0], latent[0], slice(None, None, stride(len(scale)))
        with torch.no_grad():
            points = (
                self.double(self.at(context)[0]).decode(torch.from_numpy(_grid(latent))).numpy()
            )
        seen = directions / scale[:, None]
        lines = points @ seen
        across = lines.swapaxes(0, 1) if len(lines) > 1 else lines[:0]
        manifold = np.concatenate([lines, across])
        return Orbit(
            follower["time"].values,
            states[:, every] / scale[every],
            latent,
            states @ seen,
            manifold,
        )


def _maxima(x: np.ndarray) -> np.ndarray:
    """Local maxima of a curve (T,), or its largest value where it has none."""
    inner = x[1:-1]
    peaks = inner[(inner > x[:-2]) & (inner >= x[2:])]
    return peaks if peaks.size else x.max(keepdims=True)


def stride(size: int) -> int:
    """Distance between the components that are shown of a state of this size."""
    return -(-size // SHOWN)


def _grid(latent: np.ndarray) -> np.ndarray:
    """Points (K, K, m) around an orbit (T, m), over its first two latent coordinates; (1, K, 1) of
    one coordinate.
    """
    finite = latent[np.isfinite(latent).all(axis=1)]
    low, high = finite[:, :2].min(axis=0), finite[:, :2].max(axis=0)
    margin = MARGIN * (high - low)
    axes = [
        np.linspace(start, end, POINTS)
        for start, end in zip(low - margin, high + margin, strict=True)
    ]
    plane = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, POINTS, len(axes))  # (K, K, 2)
    other_means = finite[:, 2:].mean(axis=0)
    other = np.broadcast_to(other_means, (*plane.shape[:2], len(other_means)))
    return np.concatenate([plane, other], axis=-1)


def _leading(states: np.ndarray) -> np.ndarray:
    """Directions (n, 2) in which states (T, n) vary most; zero where there is no second one."""
    centred = np.nan_to_num(states - np.nanmean(states, axis=0))
    _, moments = np.linalg.eigh(centred @ centred.T)  # T x T, since n may be large
    found = centred.T @ moments[:, :-3:-1]
    sizes = np.linalg.norm(found, axis=0)
    return np.divide(found, sizes, out=np.zeros_like(found), where=sizes > 1e-8 * sizes[0])


def _lag(truth: np.ndarray, reduced: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Delay τ(t) = ⟨x - x̂, ẋ⟩ / ‖ẋ‖² of the reduced model in time units, to first order."""
    rate = np.gradient(truth, times, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return ((truth - reduced) * rate).sum(-1) / np.square(rate).sum(-1)
