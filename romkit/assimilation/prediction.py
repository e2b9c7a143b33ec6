"""Observed components that a reduced model predicts for contexts and latent states, with
derivatives.
"""

from collections.abc import Sequence

import torch
import xarray as xr
from torch import Tensor

from romkit.assimilation.noisy import unseen_error
from romkit.core import runtime
from romkit.core.errors import InputError
from romkit.core.types import Pair
from romkit.engine.threads import one_thread
from romkit.integrators import LatentDynamics, LatentField
from romkit.models import LatentFlow, ReducedModel, check_match, double_copy
from romkit.projections import Projection
from romkit.projections.storage import check_single
from romkit.solvers import Solver
from romkit.systems import System, system_of


class Prediction:
    """Map from normalised contexts d (M, p) and latent states w (M, q) to the numbers (M, N) of a
    sample.

    With dynamics a sample is a window and N counts its times and components; without, a sample is a
    snapshot.

    Args:
        projection, dynamics, system, solver, engine: as of `romkit.follow`; without dynamics no
            system is needed.
        times: (T,) of a window.
        rows: (s,) numbers of the observed components.
        training: whose system dynamics look at that are given none.
        noise: standard deviations (s,) of the components, from which the steps of dynamics follow.

    Raises:
        InputError: a stack of projections, or one without a context.
    """

    def __init__(
        self,
        projection: Projection,
        times: Tensor,
        rows: Tensor,
        training: xr.Dataset,
        noise: Tensor,
        dynamics: LatentDynamics | None,
        system: System | None,
        solver: Solver | None,
        engine: str,
    ):
        # refuse a stack, and a projection without a context
        # windows that an estimate solves, at least: iterations, each with its derivatives
        solves = 20
        check_single(projection)
        if not projection.frame.context_names:
            raise InputError(
                "projection",
                expected="one with a context",
                got="one without",
                fix="fit it to runs at several parameter values, declared as the context",
            )
        if system is None and dynamics is not None and dynamics.needs != "nothing":
            system = system_of(training)
        self.frame = projection.frame
        self.times = times - times[0]
        self.rows = rows
        self.dynamics, self.solver, self.engine = dynamics, solver, engine
        self.shift = self.frame.context_shift.double()
        self.scale = self.frame.context_scale.double()
        if dynamics is None:
            self.projection = double_copy(projection)
            self.order = 1
        else:
            if system is not None:
                check_match(system, projection)
            self.model = ReducedModel.build(projection, dynamics, system)
            self.projection = self.model.projection
            self.order = self.model.order
        if isinstance(dynamics, LatentField):
            # steps of one length: of changing steps, differences of solutions are rough
            std = self.frame.state_std.double()[rows]
            tolerance = unseen_error(noise, std, len(times) * len(rows))
            numbers = torch.arange(solves * len(times)).double()
            expected = numbers * float(self.times[-1]) / max(1, len(times) - 1)
            self.flow = LatentFlow(
                self.model, solver=solver, engine=engine, tolerance=tolerance, expected=expected
            )
        self.coordinates = self.projection.of_coordinates()
        self.basis = None
        basis = projection.basis
        if basis is not None:
            # observed rows alone, so that no full state is decoded
            self.basis = basis.mean[rows], basis.modes[rows].mT

    def context(self, d: Tensor) -> Tensor:
        """Return contexts in physical units."""
        return self.shift + self.scale * d

    def encode(self, d: Tensor, states: Sequence[Tensor]) -> Tensor:
        """Latent states (M, q) of full states, or of states and velocities, each (M, n)."""
        with torch.no_grad(), one_thread():
            c = self.context(d)
            if self.dynamics is None:
                operator = self.projection.operator(c)
                return operator.encode(states[0])
            model = self.model.fix_context(c)
            return model.start(self.times[0], tuple(states))

    def __call__(self, d: Tensor, w: Tensor) -> Tensor:
        with torch.no_grad(), one_thread(), runtime.bars(False):
            c = self.context(d)
            w = self._followed(c, w)
            z = w[..., : self.projection.latent_dim]
            y = self.coordinates.operator(c).decode(z)
            if self.basis is None:
                return y[..., self.rows].flatten(1)
            mean, modes = self.basis
            return (mean + y @ modes).flatten(1)

    def _followed(self, c: Tensor, w: Tensor) -> Tensor:
        """Latent states (M, T, q) of a window; (M, q) of a snapshot."""
        if self.dynamics is None:
            return w
        if isinstance(self.dynamics, LatentField):
            return self.flow(w, c, self.times)
        model = self.model.fix_context(c)
        return model.solve(w, self.times, solver=self.solver, engine=self.engine).states


def differentiate(function: Prediction, d: Tensor, w: Tensor, *, step: float = 1e-5) -> Pair:
    """Return values (M, N) of a function of (d, w), and derivatives (M, N, p + q), by one call for
    all differences.

    `step`: step of central differences, in half widths of the context's range and in latent
    coordinates.
    """
    m, p = d.shape
    unknowns = p + w.shape[-1]
    unit = torch.eye(unknowns, dtype=d.dtype)
    none = torch.zeros_like(unit[:1])
    moves = step * torch.cat([none, unit, -unit])  # (1 + 2 (p + q), p + q)
    moves = moves.unsqueeze(1)
    moved_d = d + moves[..., :p]  # (1 + 2 (p + q), M, p)
    moved_w = w + moves[..., p:]
    of_d = moved_d.flatten(0, 1)
    of_w = moved_w.flatten(0, 1)
    values = function(of_d, of_w)
    values = values.unflatten(0, (-1, m))
    ahead, behind = values[1:].chunk(2)
    derivatives = (ahead - behind) / (2 * step)  # (p + q, M, N)
    return values[0], derivatives.movedim(0, -1)
