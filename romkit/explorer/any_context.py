"""A reduced model that is compiled once for every context, because a slider asks for one after the other."""

import torch
import xarray as xr
from torch import Tensor

from romkit.data import trajectories
from romkit.integrators import LatentField
from romkit.projections import Projection
from romkit.solvers import RK4
from romkit.solvers.base import scored
from romkit.systems import System
from romkit.systems.problem import ConstantPath, Problem
from romkit.verbs.reduced import seen_through


class AnyContext:
    """The latent equation with the context among its coordinates, where it stays: (ẇ, ċ) = (g(w; c), 0).

    Args:
        projection: in float64.
        dynamics: a latent field.
        system: the full model.
        truth: one trajectory, at whose times states will be asked for.
        context: (1, p) of it.

    Raises:
        InputError: the field cannot be compiled.
    """

    def __init__(
        self, projection: Projection, dynamics: LatentField, system: System, truth: xr.Dataset, context: Tensor
    ):
        self.full, self.dynamics = projection, dynamics
        self.system = seen_through(projection.basis, system) if dynamics.tangential else system
        self.basis = projection.basis if self.system.basis is not None else None
        self.projection = projection if self.basis is None else projection.of_coordinates()
        self.solver, self.times = RK4(system.dt), torch.from_numpy(truth["time"].values.copy())
        start = self._start(truth, context)
        with torch.no_grad():
            self.run, _ = self.solver.prepare(self._field, start, self.times, "compiled", "reduced model")

    def follow(self, truth: xr.Dataset, context: Tensor) -> xr.Dataset:
        """As `romkit.follow`: `state` and `latent`, NaN from a divergence on."""
        with torch.no_grad():
            states, _ = scored(self.run(self._start(truth, context), self.times), self.solver.divergence_threshold)
            latent = states[..., : self.projection.latent_dim]
            decoded = self.full.operator(context).decode(latent)
        variables = {
            "state": (("trajectory", "time", "component"), decoded.numpy()),
            "latent": (("trajectory", "time", "latent_component"), latent.numpy()),
        }
        scale = ("component", self.full.normalization.state_std.numpy())
        return xr.Dataset(variables, {"time": truth["time"], "state_std": scale})

    def _problem(self, context: Tensor) -> Problem:
        return self.system.problem(ConstantPath(self.projection.operator(context)), context)

    def _start(self, truth: xr.Dataset, context: Tensor) -> Tensor:
        problem, first = self._problem(context), truth.isel(time=slice(0, 1))
        parts = tuple(trajectories(first, name)[:, 0] for name in ("state", "velocity")[: problem.order])
        if self.basis is not None:
            parts = (self.basis.encode(parts[0]), *map(self.basis.encode_tangent, parts[1:]))
        with torch.no_grad():
            return torch.cat([self.dynamics.start(problem, self.times[0], parts), context], dim=-1)

    def _field(self, t: Tensor, y: Tensor) -> Tensor:
        p = len(self.system.context)
        w, context = y[..., : y.shape[-1] - p], y[..., y.shape[-1] - p :]
        return torch.cat([self.dynamics.field(self._problem(context))(t, w), torch.zeros_like(context)], dim=-1)
