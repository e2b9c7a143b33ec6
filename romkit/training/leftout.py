"""Errors of rollouts over contexts that a fit has left out, by which settings of a manifold are
chosen.
"""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.data import DIMS, times_of
from romkit.data.context import context_matrix
from romkit.engine.threads import one_thread
from romkit.integrators import Galerkin, LatentField, PetrovGalerkin
from romkit.integrators.contracted import contracted
from romkit.numerics import LOST
from romkit.projections import Operator, Path
from romkit.solvers import Adaptive
from romkit.systems import System

RTOL = 1e-5
"""Tolerance of a rollout that is compared with others, far below the error of a manifold."""

AT_REST = 1e-3
"""Share of the deviation of all data that a run deviates from its mean at least, where errors are
relative to it.
"""


class LeftOutRollouts:
    """Rollouts by the equations from the first states of runs at contexts that a fit has left out.

    Args:
        data: runs at constant contexts, in the coordinates that the maps see.
        system: of order one, in these coordinates.
    """

    def __init__(self, data: xr.Dataset, system: System):
        self.system = system
        state = data["state"].transpose(*DIMS).values.astype(np.float64)
        self.states = torch.from_numpy(state)  # (C, T, n)
        self.deviation = float(np.nanstd(state, axis=(0, 1)).mean())
        self.contexts = torch.from_numpy(context_matrix(data)).double()
        self.times = torch.as_tensor(times_of(data), dtype=torch.float64)

    def runs_at(self, contexts: Tensor) -> Tensor:
        """Return number (C,) of a run at each context (C, p) whose first state is complete; -1
        where there is none, where contexts move, and for a system of order two.
        """
        if self.system.order != 1 or self.contexts.ndim > 2:
            return torch.full((len(contexts),), -1)
        difference = self.contexts.unsqueeze(0) - contexts.unsqueeze(1)  # (C, runs, p)
        apart = difference.abs().amax(-1)
        lacking = self.states[:, 0].isnan().any(-1)
        distance, number = torch.where(lacking, torch.inf, apart).min(1)
        is_there = distance <= 1e-6 * contexts.abs().amax().clamp(min=1.0)
        return torch.where(is_there, number, -1)

    def errors(self, operator: Operator, runs: Tensor) -> Tensor:
        """(C,) mean errors over Galerkin's and Petrov-Galerkin's rollouts, each relative to the
        deviation of its run.

        Args:
            operator: P at the contexts (C, p) of the runs.
            runs: (C,) numbers.
        """
        galerkin = self._errors(operator, runs, Galerkin())
        petrov = self._errors(operator, runs, PetrovGalerkin())
        return torch.stack([galerkin, petrov]).mean(0)

    def _errors(self, operator: Operator, runs: Tensor, dynamics: LatentField) -> Tensor:
        c = operator.context
        truth = self.states[runs]  # (C, T, n)
        with torch.no_grad(), one_thread():
            problem = self.system.problem(Path.constant(operator), c)
            # settings are compared by many rollouts, so each is in its cheapest form
            small = contracted(problem, dynamics, self.system.quadratic(c))
            start = dynamics.start(problem, self.times[0], (truth[:, 0],))
            solution = dynamics.solve(small, start, self.times, solver=Adaptive(rtol=RTOL))
            image = operator.decode(solution.states)
        square = (image - truth).square().sum(-1).nanmean(1)  # (C,)
        deviation = truth - truth.nanmean(1, keepdim=True)
        spread = deviation.square().sum(-1).nanmean(1)
        # a run at rest has no deviation that an error could be relative to
        least = truth.shape[-1] * (AT_REST * self.deviation) ** 2
        error = (square / spread.clamp(min=least)).sqrt()
        lost = (solution.status != 0) | ~error.isfinite()
        return torch.where(lost, LOST, error.clamp(max=LOST))
