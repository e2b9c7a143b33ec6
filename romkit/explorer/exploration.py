"""What the explorer shows at a context, in numbers."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from romkit import checks
from romkit.errors import InputError
from romkit.explorer.any_context import AnyContext
from romkit.follow import follow
from romkit.integrators import LatentField
from romkit.metrics import idempotency_error
from romkit.projections import Projection
from romkit.reduced import check_match, trained_dynamics
from romkit.score import score
from romkit.simulate import simulate
from romkit.solvers import RK4
from romkit.systems import System, system_of

SAMPLES = 200
"""Output times of a view."""

BRANCH = 41
"""Contexts of the bifurcation diagram."""


class View(NamedTuple):
    """Full and reduced model at one context.

    Attributes:
        time: (T,).
        truth, reduced: (T, n) states, scaled by the deviations of the training data.
        latent: (T, m).
        portrait: (T, 2) the reduced orbit in the leading directions of the first view.
        error, projected: (T,) NRMSE of the reduced model and of the projection alone.
        lag: (T,) how far the reduced model is behind, in time units; NaN where there is no motion.
        idempotency: largest norm of P(P(x)) - P(x) along the run.
        valid_time: as of `romkit.score`.

    Example:
        >>> import romkit
        >>> from romkit.explorer import Exploration
        >>> exploration = Exploration(romkit.load("ncae-lorenz96"), romkit.systems.Lorenz96(transient=0.0, horizon=0.5))
        >>> view = exploration.view(exploration.middle)
        >>> view.truth.shape == view.reduced.shape, view.idempotency < 1e-6
        (True, True)
    """

    time: np.ndarray
    truth: np.ndarray
    reduced: np.ndarray
    latent: np.ndarray
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

    Raises:
        InputError: a projection without a system that romkit knows, a stack, or of another system; no context.

    Example:
        >>> import romkit
        >>> from romkit.explorer import Exploration
        >>> system = romkit.systems.Lorenz96(transient=0.0, horizon=0.5)
        >>> exploration = Exploration(romkit.load("ncae-lorenz96"), system)
        >>> list(exploration.middle)
        ['F']
        >>> exploration.view({"F": 3.15}).latent.shape
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
            self.system = system_of(xr.Dataset(attrs={"system": self.projection.normalization.signature.system}))
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
        self.engine, self._any_context = self._compiled()
        self._directions: np.ndarray | None = None

    @property
    def middle(self) -> dict[str, float]:
        """The context in the middle of the training range, by name."""
        return {p.name: (p.low + p.high) / 2 for p in self.system.context}

    def view(self, context: Mapping[str, float]) -> View:
        """Both models at a context."""
        truth = self._truth(context)
        reduced = (
            self._follow(truth) if self._any_context is None else self._any_context.follow(truth, self.at(context))
        )
        errors = score(truth, reduced)
        x = torch.from_numpy(truth["state"].values.copy())
        P = self.double(self.at(context))
        with torch.no_grad():
            projected = P(x)
            idempotency = idempotency_error(P, x).max()
        scale = reduced["state_std"].values
        full, rom = truth["state"].values[0] / scale, reduced["state"].values[0] / scale
        return View(
            time=truth["time"].values,
            truth=full,
            reduced=rom,
            latent=reduced["latent"].values[0],
            portrait=self.portrait(rom),
            error=errors["nrmse"].values[0],
            projected=np.sqrt(np.square(projected[0].numpy() / scale - full).mean(-1)),
            lag=_lag(full, rom, truth["time"].values),
            idempotency=float(idempotency),
            valid_time=float(errors["valid_time"][0]),
        )

    def branch(self, name: str, context: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """A bifurcation diagram of the reduced model: values of one parameter, and extremes of a component there.

        The component is the one that moves most. Each value (N,) has the local maxima (N,) of its orbit's second half.
        """
        parameter = next(p for p in self.system.context if p.name == name)
        values = np.linspace(parameter.low, parameter.high, BRANCH)
        states = self._follow(self._truth({**context, name: values}))["state"].values[:, SAMPLES // 2 :]
        component = int(np.nanargmax(np.nanstd(states, axis=(0, 1))))
        x = states[..., component]
        peak = (x[:, 1:-1] > x[:, :-2]) & (x[:, 1:-1] >= x[:, 2:])
        which, _ = np.nonzero(peak)
        return values[which], x[:, 1:-1][peak]

    def _truth(self, context: Mapping[str, object], engine: str | None = None) -> xr.Dataset:
        given = {"duration": self.duration, "dt": self.duration / SAMPLES, "context": dict(context)}
        return simulate(self.system, **given, engine=engine or self.engine)

    def _follow(self, truth: xr.Dataset) -> xr.Dataset:
        solver = RK4(self.system.dt)  # the samples shown are farther apart
        given = {"dynamics": self.dynamics, "system": self.system, "solver": solver, "engine": self.engine}
        return follow(self.projection, truth, **given)

    def _compiled(self) -> tuple[str, AnyContext | None]:
        """The engine of both models, and the reduced one for every context: compiled, where that is possible.

        It pays from the second view on.
        """
        try:
            truth = self._truth(self.middle, "compiled")
            if self.projection.basis is not None or not isinstance(self.dynamics, LatentField):
                return "compiled", None
            return "compiled", AnyContext(self.double, self.dynamics, self.system, truth, self.at(self.middle))
        except InputError:
            return "auto", None

    def at(self, context: Mapping[str, float]) -> torch.Tensor:
        """The context (1, p), from values by name."""
        return torch.tensor([[context[name] for name in self.system.context_names]], dtype=torch.float64)

    def portrait(self, states: np.ndarray) -> np.ndarray:
        """(T, 2) states (T, n) in the leading directions of the first that were given."""
        if self._directions is None:
            _, _, rows = np.linalg.svd(np.nan_to_num(states) - np.nanmean(states, axis=0), full_matrices=False)
            self._directions = np.pad(rows, ((0, 1), (0, 0)))[:2]  # a state may have one component alone
        return states @ self._directions.T


def _lag(truth: np.ndarray, reduced: np.ndarray, time: np.ndarray) -> np.ndarray:
    """τ(t) = ⟨x - x̂, ẋ⟩ / ‖ẋ‖², time units by which the reduced model is behind, to first order."""
    rate = np.gradient(truth, time, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return ((truth - reduced) * rate).sum(-1) / np.square(rate).sum(-1)
