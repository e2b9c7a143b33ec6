"""Rollouts along runs that end where a law is lost."""

import xarray as xr

from romkit.data.schema import with_trajectories
from romkit.integrators import LearnedField
from romkit.integrators.base import lost_beyond
from romkit.laws import Equation
from romkit.learning.quiet import quietly
from romkit.projections import Projection
from romkit.solvers import Adaptive
from romkit.verbs.rollout import rollout

STEPS, FEWEST_STEPS = 50, 2000
"""Steps for each sample of a run from which on its forecast counts as lost, and the fewest of all."""


def rolled_out(projection: Projection, law: LearnedField, data: xr.Dataset) -> xr.Dataset:
    """Rollout along runs, with an axis of trajectories."""
    solver = None
    if isinstance(law, Equation) and not law.affine:
        # where a polynomial is far from its data, steps get so short that a rollout has no end
        steps = max(FEWEST_STEPS, STEPS * data.sizes["time"])
        bound = lost_beyond(law)
        solver = Adaptive(most_steps=steps, divergence_threshold=bound)
    run = quietly(rollout, data, projection, dynamics=law, solver=solver)
    return with_trajectories(run)
