"""Rollouts along runs that end where a law is lost, and steps whose warnings the report says in its own
words.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

import xarray as xr

from romkit.core.errors import DivergenceWarning, ExtrapolationWarning, FitWarning
from romkit.data.schema import add_trajectories
from romkit.integrators import LearnedField
from romkit.integrators.base import lost_beyond
from romkit.laws import Equation
from romkit.projections import Projection
from romkit.solvers import Adaptive
from romkit.verbs.rollout import rollout

T = TypeVar("T")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Yield steps without the warnings of fits, of distances, and of forecasts that are lost."""
    with warnings.catch_warnings():
        for kind in (FitWarning, ExtrapolationWarning, DivergenceWarning):
            warnings.simplefilter("ignore", kind)
        yield


def quietly(call: Callable[..., T], *arguments: object, **named: object) -> T:
    """Return result of such a step."""
    with quiet():
        return call(*arguments, **named)


STEPS, FEWEST_STEPS = 50, 2000
"""Steps for each sample of a run from which on its forecast counts as lost, and the fewest of all."""


def roll(projection: Projection, law: LearnedField, data: xr.Dataset) -> xr.Dataset:
    """Rollout along runs, with an axis of trajectories."""
    solver = None
    if isinstance(law, Equation) and not law.affine:
        # where a polynomial is far from its data, steps get so short that a rollout has no end
        steps = max(FEWEST_STEPS, STEPS * data.sizes["time"])
        bound = lost_beyond(law)
        solver = Adaptive(most_steps=steps, divergence_threshold=bound)
    run = quietly(rollout, data, projection, dynamics=law, solver=solver)
    return add_trajectories(run)
