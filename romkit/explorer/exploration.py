"""What the explorer shows at a context, in numbers."""

import copy
import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.explorer.any_context import AnyContext
from romkit.integrators import LatentField
from romkit.metrics import idempotency_error
from romkit.projections import Projection
from romkit.solvers import RK4
from romkit.systems import System, system_of
from romkit.verbs.reduced import check_match, trained_dynamics
from romkit.verbs.runs import follow, score, simulate

SAMPLES = 200
"""Output times of a view."""

BRANCH = 41
"""Contexts of the bifurcation diagram."""

POINTS, MARGIN = 9, 0.1
"""Of the manifold's grid each way, and how far it goes beyond the orbit, as a share of that."""

SHOWN = 400
"""Components that a picture of a field has at most."""

REMEMBERED = 8
"""Runs of the full model that need not be made again."""


class Orbit(NamedTuple):
    """The reduced model at one context.

    Attributes:
        time: (T,).
        states: (T, r) components evenly spread over all, at most `SHOWN`, scaled by the deviations of the training
            data.
        latent: (T, m).
        portrait: (T, 2) the orbit in the leading directions of the full model's last one.
        manifold: (L, K, 2) grid lines of the manifold about the orbit, in these directions: of the plane of the first
            two latent coordinates, with the others at their means.

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
        run: of the full model.
        orbit: of the reduced model, which starts where that does.
        truth: (T, n) states of the full model, scaled.
        directions: (n, 2) those that vary most in it.
        portrait: (T, 2) its orbit in them.
        error, projected: (T,) NRMSE of the reduced model and of the projection alone.
        lag: (T,) how far the reduced model is behind, in time units; NaN where there is no motion.
        idempotency: largest norm of P(P(x)) - P(x) along the run.
        valid_time: as of `romkit.score`.

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


@dataclass
class Exploration:
    """A system and its reduced model, to be asked at one context after the other.

    Args:
        system: the full model; by default the one that the projection was trained on.
        projection: a single one.
        duration: of the runs; a fifth of the system's horizon by default.

    Attributes:
        seconds: that the full model takes for one.

    Raises:
        InputError: a projection without a system that romkit knows, a stack, or of another system; no context.

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
    duration: float | None = None

    def __post_init__(self):
        if self.projection.seeds is not None:
            fix = "take one of it, romkit.projections.unstack(projection)[0]"
            raise InputError("projection", expected="a single one", got="a stack", fix=fix)
        if self.system is None:
            trained_on = self.projection.report.get("data", {})  # with the parameters of the system
            named = {"system": self.projection.normalization.signature.system}
            self.system = system_of(xr.Dataset(attrs={**trained_on, **named}))
        if self.system is None:
            fix = "give the system it was trained on"
            raise InputError("system", expected="a full model to compare with", got="none", fix=fix)
        if not self.system.context:
            fix = "romkit.rollout(system, projection) shows what there is"
            raise InputError("system", expected="one with a context to explore", got=self.system.name, fix=fix)
        check_match(self.system, self.projection)
        self.duration = self.system.horizon / 5 if self.duration is None else checks.positive("duration", self.duration)
        self.double = copy.deepcopy(self.projection).double()
        self.dynamics = trained_dynamics(self.projection)
        self._run = functools.lru_cache(maxsize=REMEMBERED)(self._simulate)
        self.engine = self._engine()
        began = time.perf_counter()
        self.run(self.middle)
        self.seconds = time.perf_counter() - began
        self._any_context = self._compiled()

    @property
    def middle(self) -> dict[str, float]:
        """The context in the middle of the training range, by name."""
        return {p.name: (p.low + p.high) / 2 for p in self.system.context}

    def run(self, context: Mapping[str, float]) -> xr.Dataset:
        """The full model at a context, one trajectory."""
        return self._run(tuple(float(context[name]) for name in self.system.context_names))

    def view(self, context: Mapping[str, float]) -> View:
        """Both models at a context."""
        run = self.run(context)
        reduced = self._reduced(context, run)
        errors = score(run, reduced)
        x = torch.from_numpy(run["state"].values.copy())
        P = self.double(self.at(context))
        with torch.no_grad():
            projected = P(x)
            idempotency = idempotency_error(P, x).max()
        scale = reduced["state_std"].values
        full = run["state"].values[0] / scale
        directions = _leading(full)
        orbit = self._orbit(context, reduced, directions)
        return View(
            run=run,
            orbit=orbit,
            truth=full,
            directions=directions,
            portrait=full @ directions,
            error=errors["nrmse"].values[0],
            projected=np.sqrt(np.square(projected[0].numpy() / scale - full).mean(-1)),
            lag=_lag(full, reduced["state"].values[0] / scale, run["time"].values),
            idempotency=float(idempotency),
            valid_time=float(errors["valid_time"][0]),
        )

    def orbit(self, context: Mapping[str, float], view: View) -> Orbit:
        """The reduced model alone, from where the full one of a view starts: at once, however slow that is."""
        return self._orbit(context, self._reduced(context, view.run), view.directions)

    def branch(self, name: str, view: View) -> tuple[np.ndarray, np.ndarray]:
        """A bifurcation diagram of the reduced model: values of one parameter, and extremes of a component there.

        The component is the one of the full model that moves most in a view, whose other parameters stay and where
        orbits start. Each value (N,) has the local maxima (N,) of its orbit's second half, or its largest value, where
        it has none.
        """
        parameter = next(p for p in self.system.context if p.name == name)
        context = {p.name: float(view.run[p.name].values[0]) for p in self.system.context}
        component = int(np.nan_to_num(view.truth[SAMPLES // 2 :].std(axis=0)).argmax())
        found = []
        for value in np.linspace(parameter.low, parameter.high, BRANCH):
            x = self._reduced({**context, name: value}, view.run)["state"].values[0, SAMPLES // 2 :, component]
            peaks = x[1:-1][(x[1:-1] > x[:-2]) & (x[1:-1] >= x[2:])]
            peaks = peaks if peaks.size else x.max(keepdims=True)
            found.append(np.stack([np.full_like(peaks, value), peaks]))
        return tuple(np.concatenate(found, axis=1))

    def _reduced(self, context: Mapping[str, float], run: xr.Dataset) -> xr.Dataset:
        """The reduced model from where a run of the full model starts, at a context of its own."""
        if self._any_context is not None:
            return self._any_context.follow(run, self.at(context))
        there = run.assign_coords({name: ("trajectory", [value]) for name, value in context.items()})
        solver = RK4(self.system.dt)  # the samples shown are farther apart
        given = {"dynamics": self.dynamics, "system": self.system, "solver": solver, "engine": self.engine}
        return follow(self.projection, there, **given)

    def _orbit(self, context: Mapping[str, float], reduced: xr.Dataset, directions: np.ndarray) -> Orbit:
        scale, states, latent = reduced["state_std"].values, reduced["state"].values[0], reduced["latent"].values[0]
        every = slice(None, None, stride(len(scale)))
        with torch.no_grad():
            points = self.double(self.at(context)[0]).decode(torch.from_numpy(_grid(latent))).numpy()
        seen = directions / scale[:, None]
        shown = states[:, every] / scale[every]
        lines = points @ seen
        across = lines.swapaxes(0, 1) if len(lines) > 1 else lines[:0]
        return Orbit(reduced["time"].values, shown, latent, states @ seen, np.concatenate([lines, across]))

    def _simulate(self, context: tuple[float, ...], engine: str | None = None) -> xr.Dataset:
        named = dict(zip(self.system.context_names, context, strict=True))
        given = {"duration": self.duration, "dt": self.duration / SAMPLES, "context": named}
        return simulate(self.system, **given, engine=engine or self.engine)

    def _engine(self) -> str:
        """That of the full model: compiled, where that is possible, which pays from the second view on."""
        try:
            self._simulate(tuple(self.middle.values()), "compiled")
        except InputError:
            return "auto"
        return "compiled"

    def _compiled(self) -> AnyContext | None:
        """The reduced model for every context, where it can be compiled."""
        if not isinstance(self.dynamics, LatentField):
            return None
        try:
            return AnyContext(self.double, self.dynamics, self.system, self.run(self.middle), self.at(self.middle))
        except InputError:
            return None

    def at(self, context: Mapping[str, float]) -> torch.Tensor:
        """The context (1, p), from values by name."""
        return torch.tensor([[context[name] for name in self.system.context_names]], dtype=torch.float64)


def stride(size: int) -> int:
    """Between the components that are shown."""
    return -(-size // SHOWN)


def _grid(latent: np.ndarray) -> np.ndarray:
    """(K, K, m) points over the first two of the latent coordinates (T, m) of an orbit; (1, K, 1) of one."""
    found = latent[np.isfinite(latent).all(axis=1)]
    low, high = found[:, :2].min(axis=0), found[:, :2].max(axis=0)
    low, high = low - MARGIN * (high - low), high + MARGIN * (high - low)
    ways = [np.linspace(*ends, POINTS) for ends in zip(low, high, strict=True)]
    first = np.stack(np.meshgrid(*ways), axis=-1).reshape(-1, POINTS, len(ways))
    rest = np.broadcast_to(found[:, 2:].mean(axis=0), (*first.shape[:2], latent.shape[1] - len(ways)))
    return np.concatenate([first, rest], axis=-1)


def _leading(states: np.ndarray) -> np.ndarray:
    """(n, 2) directions in which states (T, n) vary most; zero where there is no second one."""
    centred = np.nan_to_num(states - np.nanmean(states, axis=0))
    _, moments = np.linalg.eigh(centred @ centred.T)  # of T x T, where n may be large
    found = centred.T @ moments[:, :-3:-1]
    sizes = np.linalg.norm(found, axis=0)
    return np.divide(found, sizes, out=np.zeros_like(found), where=sizes > 1e-8 * sizes[0])


def _lag(truth: np.ndarray, reduced: np.ndarray, times: np.ndarray) -> np.ndarray:
    """τ(t) = ⟨x - x̂, ẋ⟩ / ‖ẋ‖², time units by which the reduced model is behind, to first order."""
    rate = np.gradient(truth, times, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return ((truth - reduced) * rate).sum(-1) / np.square(rate).sum(-1)
