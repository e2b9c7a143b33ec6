"""A reduced model: a projection, latent dynamics, and the full model that these look at; and the
model at contexts: its latent problem, and how to start and to solve it.
"""

import copy
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property, lru_cache
from typing import Any

import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis
from romkit.core import checks
from romkit.core.boundary import unchecked
from romkit.core.errors import InputError
from romkit.core.types import Entries, Field, Shape, TensorMap, frozen
from romkit.data import Contexts, Control
from romkit.engine.threads import one_thread
from romkit.integrators import (
    DYNAMICS,
    Galerkin,
    LatentDynamics,
    LatentField,
    PetrovGalerkin,
    Speed,
)
from romkit.integrators.contracted import contracted
from romkit.models import record
from romkit.models.extrapolation import add_extrapolation
from romkit.models.match import check_dynamics
from romkit.projections import Operator, Path, Projection
from romkit.solvers import Solution, Solver
from romkit.systems import System
from romkit.systems.motion import warn_lost
from romkit.systems.problem import PROBLEMS, Parts, Problem
from romkit.systems.sampled import Sampled
from romkit.systems.terms import Quadratic

CPU = torch.device("cpu")

IMAGES = 4
"""Systems seen through a basis that are kept, since they take seconds to make."""

ADVICE = "its law or manifold does not hold there: shorter runs, or another law"
"""Remedy for trajectories that a reduced model loses."""


@frozen
class ReducedModel:
    """Projection and latent dynamics, for any contexts; `at` binds some. Never changed.

    Attributes:
        projection: in float64 on the CPU.
        dynamics: how the latent state moves.
        system: the full model that the dynamics look at, in the coordinates of the basis where it
            has polynomial terms there; None if they look at none.
        device: of the integration.
    """

    projection: Projection
    dynamics: LatentDynamics
    system: System | None = None
    device: torch.device = CPU

    @classmethod
    def build(
        cls,
        projection: Projection,
        dynamics: LatentDynamics | None = None,
        system: System | None = None,
        device: str | torch.device | None = None,
    ) -> "ReducedModel":
        """Return model of what a user gave to `romkit.follow`.

        Raises:
            InputError: dynamics that do not fit the projection.
        """
        if dynamics is None:
            dynamics = trained_dynamics(projection)
        if device is None:
            device = CPU
        check_dynamics(dynamics, projection)
        system = _observe(dynamics, system, projection.basis)
        return cls(double_copy(projection), dynamics, system, torch.device(device))

    def at(self, contexts: Contexts, control: Control | None = None) -> "AtContexts":
        """Return the model at contexts of trajectories, and with inputs of a law that has some."""
        return AtContexts(self, contexts, control)

    def fix_context(self, c: Tensor) -> "AtContexts":
        """Return the model at contexts (C, p) that stay."""
        return AtContexts(self, constant(c))

    @property
    def order(self) -> int:
        """Parts of a latent state: 1 for z, 2 for (z, ż)."""
        if self.system is None:
            return self.dynamics.order
        return self.system.order

    @property
    def latent_size(self) -> int:
        """Numbers in a latent state, order · m."""
        return self.order * self.projection.latent_dim

    @property
    def middle(self) -> Tensor:
        """(1, p) context in the middle of the training range."""
        return self.projection.frame.context_shift.unsqueeze(0)

    @property
    def basis(self) -> Basis | None:
        """Basis in whose coordinates the latent problem is; None where it is in full states."""
        if self.system is not None and self.system.basis is None:
            return None
        return self.projection.basis

    @cached_property
    def placed(self) -> Projection:
        """The projection of full states, on the device."""
        if self.device.type == "cpu":
            return self.projection
        return copy.deepcopy(self.projection).to(self.device)

    @cached_property
    def solved(self) -> Projection:
        """The projection of the latent problem, on the device: of coordinates in `basis`."""
        if self.basis is None:
            return self.placed
        return self.placed.of_coordinates()

    @cached_property
    def coordinates(self) -> Projection:
        """The projection of coordinates in its own basis on the CPU; itself where there is none."""
        return self.projection.of_coordinates()


@frozen
class AtContexts:
    """A reduced model at contexts of C trajectories, ready to integrate in float64.

    Attributes:
        model: the model.
        contexts: constant, or functions of time.
        control: inputs of a law that was fitted with some.
    """

    model: ReducedModel
    contexts: Contexts
    control: Control | None = None

    @property
    def lead(self) -> Shape:
        """Leading axes of states: (C,), or (S, C) of a stack of seeds."""
        seeds = self.model.projection.seeds
        trajectories = self.contexts.initial.shape[0]  # `len` would fix it in torch.export
        if seeds is None:
            return (trajectories,)
        return seeds, trajectories

    # -- the problem -------------------------------------------------------------------------------

    @cached_property
    def problem(self) -> Problem:
        """The latent problem, on the device."""
        c, path = self._context_and_path()
        system = self.model.system
        if system is None:
            return PROBLEMS[self.model.dynamics.order](path, control=self.control)
        # the field of a system is smooth on the scale of its own step, which bounds those of the
        # default solver where it depends on time
        step = system.step or system.dt
        return replace(system.problem(path, c), control=self.control, step=step)

    @cached_property
    def contracted(self) -> Problem:
        """The problem in the form that costs least to integrate."""
        # paid once a run and not in each step
        return contracted(self.problem, self.model.dynamics, self.quadratic)

    @cached_property
    def quadratic(self) -> Quadratic | None:
        """The field in coordinates, where its coefficients are at hand."""
        system = self.model.system
        if system is None or self.contexts.path is not None:
            return None
        return system.quadratic(self.contexts.initial.to(self.model.device))

    @cached_property
    def field(self) -> Field:
        """ẇ = g(t, w) of dynamics with a latent field, in the form that costs least."""
        dynamics = self.model.dynamics
        assert isinstance(dynamics, LatentField)
        return dynamics.field(self.contracted)

    def _context_and_path(self) -> tuple[Tensor | TensorMap, Path]:
        model = self.model
        if self.contexts.path is None:
            initial = self.contexts.initial.to(model.device)
            operator = self.operator(model.solved, initial)
            return initial.expand(*self.lead, -1), Path.constant(operator)
        if model.dynamics.order == 2:
            raise InputError(
                "dynamics",
                expected="a law of order 1 for a context that moves",
                got="one of order 2",
                fix="fit it to data without acceleration",
            )

        def context(t: Tensor) -> Tensor:
            assert self.contexts.path is not None  # of a context that moves
            c = self.contexts.path(t).to(model.device)
            # contiguous: derivatives along the path need numbers with memory of their own
            return c.expand(*self.lead, -1).contiguous()

        times = self.contexts.times
        assert times is not None  # as of a path
        return context, Path(model.solved, context, times)

    # -- states ------------------------------------------------------------------------------------

    def operator(self, projection: Projection, contexts: Tensor) -> Operator:
        """Return a projection at contexts (C, p) or (C, T, p)."""
        if projection.seeds is not None:
            contexts = contexts.unsqueeze(0)  # for all seeds
        return projection.operator(contexts)

    @cached_property
    def full(self) -> Operator:
        """P of full states at the contexts over time, on the device."""
        contexts = self.contexts.over_time.to(self.model.device)
        return self.operator(self.model.placed, contexts)

    def encode(self, parts: Parts) -> Tensor:
        """Return encoded states (..., order · m) of full ones."""
        return self.problem.encode(self.full, parts)

    def decode(self, w: Tensor) -> Parts:
        """Full states, (x,) or (q, q̇), of latent ones (..., order · m)."""
        return self.problem.decode(self.full, w)

    # -- runs --------------------------------------------------------------------------------------

    def start(self, t: Tensor, parts: Parts) -> Tensor:
        """Latent state (..., order · m) at time t of trajectories that start at full states, each
        (C, n).
        """
        model = self.model
        with torch.no_grad(), one_thread():
            state, *velocities = (x.to(model.device) for x in parts)
            if model.basis is not None:
                state = model.basis.encode(state)
                velocities = [model.basis.encode_tangent(velocity) for velocity in velocities]
            parts = (state, *velocities)
            start = tuple(x.expand(*self.lead, -1) for x in parts)
            return model.dynamics.start(self.problem, t.to(model.device), start)

    def solve(
        self, start: Tensor, times: Tensor, *, solver: Solver | None = None, engine: str = "auto"
    ) -> Solution:
        """Latent states at `times` (T,), on the device."""
        start = start.to(self.model.device)
        solve = self.model.dynamics.solve
        return solve(self.contracted, start, times, solver=solver, engine=engine)

    def follow(
        self,
        start: Tensor,
        times: Tensor,
        *,
        solver: Solver | None,
        engine: str,
        chunks: Sequence[Shape] | None = None,
    ) -> xr.Dataset:
        """Latent and decoded states at `times` (T,), as a dataset with the cost in its attributes.

        With `chunks` of trajectories and times, decoded states are in such of dask, made when they
        are computed.
        """
        with torch.no_grad(), one_thread():
            solution = self.solve(start, times, solver=solver, engine=engine)
            # without chunks on the device, where the operator is; with them when they are computed
            if chunks is None:
                decoded: list[Any] = [x.numpy(force=True) for x in self.decode(solution.states)]
            solution = solution._replace(states=solution.states.cpu(), status=solution.status.cpu())
            if chunks is not None:
                P = self.operator(self.model.projection, self.contexts.over_time)
                decoded = record.decode_chunks(P, self.problem, solution.states, chunks)
        warn_lost(solution.states, solution.status, start, "reduced model", times, ADVICE)
        projection = self.model.projection
        over_time = self.contexts.over_time
        run = record.labelled(projection, over_time, solution, decoded)
        run.attrs |= record.provenance(projection, self.model.dynamics, self.model.device)
        return add_extrapolation(run, projection.frame, over_time, self._distance(times))

    def _distance(self, times: Tensor) -> TensorMap | None:
        """Return distance (..., T) of latent states (..., T, m) from the samples of their field, 1
        where these end; None where the field is of the whole full model.
        """
        model = self.model
        if model.dynamics.domain is not None:
            return model.dynamics.domain.distance
        image = getattr(model.system, "image", None)
        if not isinstance(image, Sampled):
            return None
        P = self.operator(model.coordinates, self.contexts.over_time)
        c = self.contexts.over_time
        if c.ndim == 2:
            c = c.unsqueeze(1)
        c = c.expand(*self.lead, len(times), -1)  # (..., C, T, p)

        def distance(z: Tensor) -> Tensor:
            y = P.decode(z)  # (..., C, T, r)
            distances = [
                image.distance(t, states, contexts)
                for t, states, contexts in zip(times, y.unbind(-2), c.unbind(-2), strict=True)
            ]
            return torch.stack(distances, dim=-1)

        return distance


def constant(c: Tensor) -> Contexts:
    """Return contexts (C, p) that stay."""
    # not by `Contexts.build`: filters and page call this at each observation and move of a slider
    return Contexts._make((c, c, None, (), None))


def double_copy(projection: Projection) -> Projection:
    """Copy in float64 on the CPU: laws of projections then hold to rounding."""
    return copy.deepcopy(projection).cpu().double()


def trained_dynamics(projection: Projection) -> LatentDynamics:
    """Latent dynamics of the rollouts in training, Galerkin if there were none; with its speed."""
    report: Any = projection.report
    if report.get("seeds"):
        report = report["seeds"][0]
    dynamics = _find_dynamics(report)
    speed = projection.report.get("speed")
    if isinstance(speed, dict) and isinstance(dynamics, Galerkin | PetrovGalerkin):
        return replace(dynamics, speed=Speed.unpack(speed))
    return dynamics


def _find_dynamics(report: Entries) -> LatentDynamics:
    """Dynamics that the recipe of a report names; files of strangers may hold anything there."""
    recipe = report.get("recipe", {})
    stage = None
    if isinstance(recipe, dict):
        stage = recipe.get("rollouts") or recipe.get("phase")
    name = stage or "galerkin"
    if isinstance(stage, dict):
        name = stage.get("dynamics")
    kind = DYNAMICS[checks.one_of("dynamics of the training", name, DYNAMICS)]
    return unchecked(kind)()


def _observe(dynamics: LatentDynamics, system: System | None, basis: Basis | None) -> System | None:
    """Return the system in the form that dynamics look at: in the coordinates of a basis, if it has
    polynomial terms.
    """
    if basis is None or system is None:
        return system
    if dynamics.needs == "nothing":
        return None  # its image in the basis takes seconds and would not be used
    if dynamics.needs == "full" or system.basis is not None:
        return system
    # without terms its image would be sampled, which a user asks for by system.through(basis, data)
    if not system.terms():
        return system
    if _is_immutable(system):
        return _image(system, basis)
    return system.through(basis)


@lru_cache(maxsize=IMAGES)
def _image(system: System, basis: Basis) -> System:
    return system.through(basis)


def _is_immutable(system: System) -> bool:
    """Tell whether a system is a frozen dataclass of numbers and text, so that an equal system has
    equal tensors.
    """
    # of the class itself: a subclass of a frozen dataclass may have attributes that change
    parameters = vars(type(system)).get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        return False
    settings = [getattr(system, field.name) for field in fields(system)]
    return all(isinstance(setting, int | float | str | None) for setting in settings)
