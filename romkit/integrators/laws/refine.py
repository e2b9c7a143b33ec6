"""Refinement of fitted equations along trajectories, by multiple shooting."""

from dataclasses import replace

import torch

from romkit.integrators.base import LearnedField
from romkit.integrators.laws.equations import Equation
from romkit.integrators.laws.judge import Judge
from romkit.integrators.laws.samples import LatentSamples
from romkit.integrators.laws.shooting import Structure, refinements
from romkit.integrators.laws.trajectories import ShootingProblem


def refined(law: LearnedField, samples: LatentSamples, judge: Judge) -> LearnedField:
    """An equation with the same terms, whose coefficients follow whole trajectories; the equation
    itself where none is better, and laws of other kinds.

    Args:
        law: fitted to the samples.
        samples: of whole trajectories.
        judge: of the same.
    """
    if not isinstance(law, Equation) or samples.times is None or law.coefficients.ndim > 2:
        return law
    if not bool(law.support.any()):
        return law
    rows = torch.arange(judge.states.shape[-3])
    problem = ShootingProblem.of(samples, law.basis)
    theta = problem.theta(law.coefficients)
    structure = Structure(problem.motion, theta != 0)
    best, least = law, float(judge.errors(law, rows).nanmean())
    for stage in refinements(structure, problem.runs, theta, returning=False):
        other = replace(law, coefficients=problem.coefficients(stage.theta))
        error = float(judge.errors(other, rows).nanmean())
        if error < least:
            best, least = other, error
    if best is law:
        return law
    return replace(best, source=f"{law.source}; refined by shooting")
