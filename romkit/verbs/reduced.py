"""A reduced model: a projection and a latent dynamics at contexts, and how far it extrapolates."""

import copy
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Annotated, Self

import dask.array as da
import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis
from romkit.core import checks, runtime
from romkit.core.errors import ExtrapolationWarning, InputError, warn
from romkit.data import Contexts, Control
from romkit.engine.threads import one_thread
from romkit.integrators import DYNAMICS, Estimator, Galerkin, LatentDynamics, LatentField
from romkit.integrators.contracted import contracted
from romkit.projections import Frame, Operator, Path, Projection
from romkit.solvers import Solution, Solver, Status
from romkit.systems import System
from romkit.systems.problem import PROBLEMS, Parts, Problem
from romkit.systems.through import Sampled

ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Rounding of the ends of a training range in float32, relative to the context."""

HALF_WIDTHS = "half widths of its range"


def with_extrapolation(
    run: xr.Dataset,
    projection: Projection,
    distance: Callable[[Tensor], Tensor] | None,
    contexts: Tensor,
) -> xr.Dataset:
    """Add to a run its distance from the training range and from the samples of a law; warn where
    it leaves them.

    Args:
        run: with `latent`, as `romkit.follow` makes it.
        projection: whose frame has the training range.
        distance: (..., T) distance of latent states (..., T, m) from the samples of a law or of a
            sampled system; None for dynamics that see the whole full model.
        contexts: (C, p) or (C, T, p) in physical units.

    Returns:
        The run with `context_distance`, in half widths of the training range beyond its ends, 0
        inside it, and relative to its value where a parameter had a single one; and
        `state_distance`, 1 where the samples of a law end, or the residual of sampled rows is ten
        times that of training data.
    """
    frame = projection.frame
    shift, scale = frame.context_shift, frame.context_scale
    half = shift.new_tensor([name not in frame.fixed for name in frame.context_names])
    scaled = frame.normalise_context(contexts.to(shift))
    beyond = (scaled.abs() - half - ROUNDING * (1 + shift.abs() / scale)).clamp(min=0)
    apart = beyond.amax(-1) if beyond.shape[-1] else contexts.new_zeros(contexts.shape[:-1])
    dims = ("trajectory", "time")[: apart.ndim]
    named = {"units": "1", "long_name": "distance from the training range, in half widths"}
    run = run.assign(context_distance=(dims, apart.double().numpy(), named))
    said = _context_in_words(beyond, frame, shift)
    if distance is not None:
        z = torch.from_numpy(run["latent"].values)
        apart = distance(z.nan_to_num(nan=0.0)).masked_fill(z.isnan().any(-1), torch.nan)
        named = {
            "units": "1",
            "long_name": "distance from what the latent field is made of, 1 where that ends",
        }
        run = run.assign(state_distance=(run["latent"].dims[:-1], apart.detach().numpy(), named))
        said += _state_in_words(run["state_distance"])
    if said:
        fix = "context_distance and state_distance of the result say how far"
        warn(
            f"the reduced model leaves what it was trained on: {'; '.join(said)}; {fix}",
            ExtrapolationWarning,
        )
    return run


def _context_in_words(beyond: Tensor, frame: Frame, value: Tensor) -> list[str]:
    worst = zip(
        frame.context_names, beyond.flatten(0, -2).amax(0).tolist(), value.tolist(), strict=True
    )
    return [
        f"{name}, which was {value:g} alone"
        if name in frame.fixed
        else f"{name} by up to {far:.2g} {HALF_WIDTHS}"
        for name, far, value in worst
        if far > 0
    ]


def _state_in_words(distance: xr.DataArray) -> list[str]:
    away = distance > 1
    if not bool(away.any()):
        return []
    trajectories = int(away.any([dim for dim in away.dims if dim != "trajectory"]).sum())
    ever = away.any([dim for dim in away.dims if dim != "time"])
    first, far = float(distance["time"][int(ever.values.argmax())]), float(distance.max())
    number = distance.sizes.get("trajectory", 1)
    of = f" of {trajectories} of {number} trajectories" if number > 1 else ""
    return [f"the state{of} from t={first:.4g} on (distance up to {far:.2g})"]


class ReducedModel:
    """Projection and latent dynamics at contexts, ready to integrate in float64; behind `follow`
    and `forecast`.

    Arguments are those of `romkit.follow`, with the contexts of the trajectories.

    Attributes:
        placed: the projection on the device of the integration; all else but the problem is on the
            CPU.
        problem: of the dynamics, on that device.
        solved: the projection in the problem: of coordinates in `basis`, where no more of the full
            model is needed.
    """

    def __init__(
        self,
        projection: Projection,
        dynamics: LatentDynamics | None,
        contexts: Contexts,
        system: System | None,
        control: Control | None = None,
        device: torch.device | None = None,
    ):
        self.given, self.device = projection, torch.device("cpu") if device is None else device
        self.projection = (
            copy.deepcopy(projection).cpu().double()
        )  # laws of projections then hold to rounding
        on_cpu = self.device.type == "cpu"
        self.placed = self.projection if on_cpu else copy.deepcopy(self.projection).to(self.device)
        self.dynamics = trained_dynamics(projection) if dynamics is None else dynamics
        _check_dynamics(self.dynamics, projection)
        self.control = control
        if projection.basis is not None and self.dynamics.needs == "nothing":
            system = None  # its image in the basis takes seconds and is not used
        if self.dynamics.needs != "full":
            system = in_coordinates(projection.basis, system)
        self.image = getattr(system, "image", None)
        self.basis = projection.basis if system is None or system.basis is not None else None
        self.solved, self.system = self._in_coordinates(self.projection), system
        self._set_contexts(contexts)

    @classmethod
    def with_field(
        cls, projection: Projection, dynamics: LatentDynamics | None, system: System | None
    ) -> Self:
        """Model whose dynamics have a latent field, in the middle of the contexts; `at` moves it to
        others.

        Raises:
            InputError: other dynamics.
        """
        middle = projection.frame.context_shift.double().unsqueeze(0)
        model = cls(projection, dynamics, Contexts(middle, middle), system)
        if not isinstance(model.dynamics, LatentField):
            fix, got = "take Galerkin, PetrovGalerkin or a law", type(model.dynamics).__name__
            raise InputError("dynamics", expected="one with a latent field", got=got, fix=fix)
        return model

    def _set_contexts(self, contexts: Contexts) -> None:
        self.contexts, seeds = contexts, self.given.seeds
        self.lead = (*(() if seeds is None else (seeds,)), contexts.initial.shape[0])
        self.problem = self._problem(self.system)
        constant = self.system is not None and contexts.path is None
        self.quadratic = (
            self.system.quadratic(contexts.initial.to(self.device)) if constant else None
        )

    def at(self, contexts: Contexts) -> "ReducedModel":
        """Copy of the model at other contexts."""
        model = copy.copy(self)
        model._set_contexts(contexts)
        return model

    def start(self, t: Tensor, parts: Parts) -> Tensor:
        """Latent state (..., order · m) at time t of trajectories that start at full states, each
        (C, n).
        """
        with torch.no_grad(), one_thread():
            parts = tuple(part.to(self.device) for part in parts)
            if self.basis is not None:
                parts = (self.basis.encode(parts[0]), *map(self.basis.encode_tangent, parts[1:]))
            expanded = tuple(part.expand(*self.lead, -1) for part in parts)
            return self.dynamics.start(self.problem, t.to(self.device), expanded)

    def follow(
        self,
        start: Tensor,
        times: Tensor,
        *,
        solver: Solver | None,
        engine: str,
        chunks: Sequence[tuple[int, ...]] | None = None,
    ) -> xr.Dataset:
        """Latent and decoded states at `times` (T,), as a dataset with the cost in its attributes.

        With `chunks` of trajectories and times, decoded states are in such of dask, made when they
        are computed.
        """
        with torch.no_grad(), one_thread():
            solution = self.solve(start, times, solver=solver, engine=engine)
            contexts, lead = self.contexts.over_time, self.lead[:-1]
            if chunks is None:
                P = self.operator(self.placed, contexts.to(self.device))
                decoded = [
                    part.numpy(force=True) for part in self.problem.decode(P, solution.states)
                ]
            solution = solution._replace(states=solution.states.cpu(), status=solution.status.cpu())
            if chunks is not None:
                P, kind = self.operator(self.projection, contexts), type(self.problem)
                w = da.from_array(solution.states.numpy(), chunks=(*lead, *chunks, -1))
                parts = [
                    functools.partial(_decoded, problem=kind(None), part=k)
                    for k in range(kind.order)
                ]
                decoded = [P.in_chunks(part, w, P.state_size) for part in parts]
        run = self._labelled(solution, decoded)
        return with_extrapolation(run, self.projection, self._distance(times), contexts)

    def solve(
        self, start: Tensor, times: Tensor, *, solver: Solver | None = None, engine: str = "auto"
    ) -> Solution:
        """Latent states at `times` (T,), on the device."""
        start = start.to(self.device)
        return self.dynamics.solve(self.contracted(), start, times, solver=solver, engine=engine)

    def contracted(self) -> Problem:
        """The problem in the form that costs least to integrate."""
        return contracted(self.problem, self.dynamics, self.quadratic)

    def operator(self, projection: Projection, contexts: Tensor) -> Operator:
        """A projection at contexts (C, p) or (C, T, p)."""
        return projection.operator(contexts if projection.seeds is None else contexts.unsqueeze(0))

    def _distance(self, times: Tensor) -> Callable[[Tensor], Tensor] | None:
        """Distance (..., T) of latent states (..., T, m) from the samples of their field, 1 where
        these end.
        """
        domain = self.dynamics.domain
        if domain is not None or not isinstance(self.image, Sampled):
            return None if domain is None else domain.distance
        c = self.contexts.over_time
        c = (c if c.ndim == 3 else c.unsqueeze(1)).expand(*self.lead, len(times), -1)

        def distance(z: Tensor) -> Tensor:
            y = self.operator(self.solved, self.contexts.over_time).decode(z)
            each = zip(times, y.unbind(-2), c.unbind(-2), strict=True)
            return torch.stack([self.image.distance(*at) for at in each], dim=-1)

        return distance

    def _in_coordinates(self, projection: Projection) -> Projection:
        return projection if self.basis is None else projection.of_coordinates()

    def _problem(self, system: System | None) -> Problem:
        initial, solved = self.contexts.initial.to(self.device), self._in_coordinates(self.placed)
        c = initial.expand(*self.lead, -1)
        path = Path.constant(self.operator(solved, initial))
        if self.contexts.path is not None:
            # contiguous, because derivatives along the path need numbers with memory of their own
            c = lambda t: self.contexts.path(t).to(self.device).expand(*self.lead, -1).contiguous()  # noqa: E731
            path = Path(solved, c, self.contexts.times)
            if self.dynamics.order == 2:
                expected, fix = (
                    "a law of order 1 for a context that moves",
                    "fit it to data without acceleration",
                )
                raise InputError("dynamics", expected=expected, got="one of order 2", fix=fix)
        if system is not None:
            return replace(system.problem(path, c), control=self.control)
        return PROBLEMS[self.dynamics.order](path, control=self.control)

    def _labelled(self, solution: Solution, decoded: Sequence[np.ndarray | da.Array]) -> xr.Dataset:
        frame = self.projection.frame
        lead = ("trajectory",) if self.projection.seeds is None else ("seed", "trajectory")
        full, coded = (*lead, "time", "component"), (*lead, "time", "latent_component")
        units = frame.state_units[0] if len(set(frame.state_units)) == 1 else "mixed"
        latent = solution.states[..., : self.projection.latent_dim]
        flags = {"units": "1", "long_name": "status of the reduced model"}
        flags |= {
            "flag_values": [*map(int, Status)],
            "flag_meanings": " ".join(s.name.lower() for s in Status),
        }
        variables = {
            "state": (full, decoded[0], {"units": units, "long_name": "reduced model"}),
            "latent": (coded, latent.numpy(), {"units": "1", "long_name": "latent state"}),
            "status": (lead, solution.status.numpy(), flags),
        }
        for velocity in decoded[1:]:
            variables["velocity"] = (full, velocity, {"long_name": "velocity of the reduced model"})
        std = frame.state_std.numpy()
        coords = {
            "time": (
                "time",
                solution.times.numpy(),
                {"long_name": "time", "units": frame.fields.time_units},
            ),
            "component": list(frame.state_names),
            "state_std": (
                "component",
                std,
                {"units": units, "long_name": "standard deviation in training"},
            ),
        }
        dims = ("trajectory", "time")[: self.contexts.over_time.ndim - 1]
        for k, (name, unit) in enumerate(
            zip(frame.context_names, frame.context_units, strict=True)
        ):
            coords[name] = (dims, self.contexts.over_time[..., k].numpy(), {"units": unit})
        layout = {"layout": frame.layout} if frame.layout else {}
        return xr.Dataset(variables, coords, self._provenance() | solution.cost | layout)

    def _provenance(self) -> dict[str, object]:
        record = {
            "projection": self.given.name,
            "projection_config": self.given.config,
            "training": {key: value for key, value in self.given.report.items() if key != "losses"},
            "dynamics": type(self.dynamics).__name__,
            "dynamics_settings": str(self.dynamics),
            "device": runtime.device_name(self.device),
            "versions": runtime.versions(),
        }
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in record.items()
        }


def _decoded(P: Operator, w: np.ndarray, problem: Problem, part: int) -> np.ndarray:
    """A part of the full state, 0 or 1, of latent states (..., order · m)."""
    return problem.decode(P, torch.from_numpy(w))[part].numpy()


def trained_dynamics(projection: Projection) -> LatentDynamics:
    """Latent dynamics of the rollouts in training; Galerkin if there were none."""
    first = (projection.report.get("seeds") or [projection.report])[0]
    recipe = first.get("recipe", {})  # models of romkit 0.1 have a flat one, and followed none
    followed = isinstance(recipe, dict) and (recipe.get("rollouts") or recipe.get("phase"))
    if not followed:
        return Galerkin()
    name = followed.get("dynamics") if isinstance(followed, dict) else followed
    return DYNAMICS[checks.one_of("dynamics of the training", name, DYNAMICS)]()


def in_coordinates(basis: Basis | None, system: System | None) -> System | None:
    """System in the coordinates of a basis, if it has polynomial terms, else the system itself.

    The tensors of the terms take seconds, so the basis keeps them for systems that cannot change.
    """
    if basis is None or system is None or system.basis is not None or not system.terms():
        return system
    if not _is_immutable(system):
        return system.through(basis)
    if system not in basis.images:
        basis.images[system] = system.through(basis)
    return basis.images[system]


def _is_immutable(system: System) -> bool:
    """Whether a system is a frozen dataclass of numbers and text, so that an equal system has equal
    tensors.
    """
    parameters = vars(type(system)).get("__dataclass_params__")
    frozen = parameters is not None and parameters.frozen
    return frozen and all(
        isinstance(getattr(system, f.name), int | float | str | None) for f in fields(system)
    )


def _fitted(argument: str, dynamics: object) -> LatentDynamics:
    if isinstance(dynamics, LatentDynamics):
        return dynamics
    if isinstance(dynamics, Estimator):
        fix = "give the result of its fit(projection, data)"
        raise InputError(argument, expected="a fitted law", got=f"settings, {dynamics!r}", fix=fix)
    fix = "give an instance, romkit.integrators.Galerkin() say, or what the fit of SINDy or NeuralODE returned"
    raise InputError(argument, expected="latent dynamics", got=checks.shown(dynamics), fix=fix)


def _check_dynamics(dynamics: LatentDynamics, projection: Projection) -> None:
    """Raise where a law has another order of the context, or rows were chosen behind another basis."""
    own, given = dynamics.context_names, projection.frame.context_names
    if own != given and sorted(own) == sorted(given):
        fix = "fit it to data in this order: romkit.data.describe(data, context=[...])"
        expected, got = f"a law with the context {', '.join(given)}", f"one with {', '.join(own)}"
        raise InputError("dynamics", expected=expected, got=got, fix=fix)
    mesh, basis = dynamics.mesh, projection.basis
    if mesh is not None and basis is not None and not torch.equal(basis.modes, mesh.basis.modes):
        got, fix = (
            f"one behind the {basis}",
            "use the projection, or the basis, that the mesh was chosen with",
        )
        raise InputError(
            "projection", expected=f"a model behind the {mesh.basis} of the mesh", got=got, fix=fix
        )


Dynamics = Annotated[LatentDynamics, _fitted]
"""Latent dynamics as an argument; settings of a law that is not fitted yet are refused."""


def check_match(system: System, projection: Projection) -> None:
    """Raise InputError unless the projection has the states and contexts of the system.

    The projection for a system in coordinates of a basis is behind this basis, or of its
    coordinates.
    """
    frame = projection.frame
    if system.basis is not None and projection.basis is not None:
        if projection.basis is not system.basis:
            expected, fix = (
                f"a model behind the {system.basis} of the system",
                "fit it with basis=system.basis",
            )
            raise InputError(
                "projection", expected=expected, got=f"one behind {projection.basis}", fix=fix
            )
        frame = frame.of_coordinates()
    pairs = {
        "state components": (frame.state_names, tuple(system.state_names)),
        "context parameters": (frame.context_names, system.context_names),
    }
    for what, (own, given) in pairs.items():
        if own != given:
            expected = f"one of {system.name!r}, with {what} {_short(given)}"
            got = f"one of {frame.system or 'other data'!r}, with {_short(own)}"
            fix = "load or fit a projection of this system"
            raise InputError("projection", expected=expected, got=got, fix=fix)


def _short(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} ... {names[-1]} ({len(names)})"
