"""Observed components that a reduced model predicts for contexts and latent states, with
derivatives.
"""

import copy
from collections.abc import Sequence

import torch
import xarray as xr
from torch import Tensor

from romkit.core import runtime
from romkit.core.errors import InputError
from romkit.engine.threads import one_thread
from romkit.integrators import LatentDynamics, LatentField
from romkit.models import LatentFlow, ReducedModel, check_match
from romkit.projections import Projection
from romkit.solvers import Solver
from romkit.systems import System, system_of

STEP = 1e-5
"""Step of central differences, in half widths of the context's range and in latent coordinates."""


class Prediction:
    """Numbers of a sample, (M, N), as functions of contexts d (M, p), normalised, and latent states
    w (M, q).

    With dynamics a sample is a window and N counts its times and components; without, a sample is a
    snapshot.

    Args:
        projection, dynamics, system, solver, engine: as of `romkit.follow`; without dynamics no
            system is needed.
        times: (T,) of a window.
        rows: (s,) numbers of the observed components.
        training: whose system dynamics look at that are given none.

    Raises:
        InputError: a stack of projections, or one without a context.
    """

    def __init__(
        self,
        projection: Projection,
        times: Tensor,
        rows: Tensor,
        training: xr.Dataset,
        dynamics: LatentDynamics | None,
        system: System | None,
        solver: Solver | None,
        engine: str,
    ):
        if projection.seeds is not None:
            raise InputError(
                "projection",
                expected="a single one",
                got="a stack of seeds",
                fix="take one of them",
            )
        self.frame, self.times, self.rows = projection.frame, times - times[0], rows
        self.dynamics, self.solver, self.engine = dynamics, solver, engine
        self.shift, self.scale = (
            self.frame.context_shift.double(),
            self.frame.context_scale.double(),
        )
        if not len(self.shift):
            fix = "fit one on data with a context"
            raise InputError(
                "projection", expected="one with a context", got="one without", fix=fix
            )
        if system is None and dynamics is not None and dynamics.needs != "nothing":
            system = system_of(training)
        if dynamics is None:
            self.projection, self.order = copy.deepcopy(projection).cpu().double(), 1
        else:
            if system is not None:
                check_match(system, projection)
            self.model = ReducedModel.of(projection, dynamics, system)
            self.projection, self.order = self.model.projection, self.model.order
            if isinstance(dynamics, LatentField):
                self.flow = LatentFlow(self.model, solver=solver, engine=engine, fixed=True)
        self.coordinates, basis = self.projection.of_coordinates(), projection.basis
        self.basis = (
            None if basis is None else (basis.mean[rows], basis.modes[rows].mT)
        )  # no full state is decoded

    def context(self, d: Tensor) -> Tensor:
        """Contexts in physical units."""
        return self.shift + self.scale * d

    def encode(self, d: Tensor, parts: Sequence[Tensor]) -> Tensor:
        """Latent states (M, q) of full states, or of states and velocities, each (M, n)."""
        with torch.no_grad(), one_thread():
            c = self.context(d)
            if self.dynamics is None:
                return self.projection.operator(c).encode(parts[0])
            return self.model.at_constant(c).start(self.times[0], tuple(parts))

    def __call__(self, d: Tensor, w: Tensor) -> Tensor:
        with torch.no_grad(), one_thread(), runtime.bars(False):
            c = self.context(d)
            if isinstance(self.dynamics, LatentField):
                w = self.flow(w, c, self.times)
            elif self.dynamics is not None:
                model = self.model.at_constant(c)
                w = model.solve(w, self.times, solver=self.solver, engine=self.engine).states
            y = self.coordinates.operator(c).decode(w[..., : self.projection.latent_dim])
            x = y[..., self.rows] if self.basis is None else self.basis[0] + y @ self.basis[1]
            return x.flatten(1)


def with_derivatives(function: Prediction, d: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Values (M, N) of a function of (d, w), and derivatives (M, N, p + q), by one call for all
    differences.
    """
    (m, p), q = d.shape, w.shape[-1]
    unit = torch.eye(p + q, dtype=d.dtype)
    moves = STEP * torch.cat([torch.zeros_like(unit[:1]), unit, -unit])
    every_d, every_w = (
        (d + moves[:, None, :p]).flatten(0, 1),
        (w + moves[:, None, p:]).flatten(0, 1),
    )
    found = function(every_d, every_w).unflatten(0, (-1, m))
    ahead, behind = found[1 : p + q + 1], found[p + q + 1 :]
    return found[0], ((ahead - behind) / (2 * STEP)).movedim(0, -1)
