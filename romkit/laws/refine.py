"""Refinement of fitted equations along trajectories, by multiple shooting."""

from dataclasses import replace

from torch import Tensor

from romkit.core.levenberg import levenberg_marquardt
from romkit.integrators.base import LearnedField
from romkit.laws.equations import Equation
from romkit.laws.judge import Judge
from romkit.laws.samples import LatentSamples
from romkit.laws.shooting import (
    FINE,
    ROUGH,
    SETTLED,
    TRIALS,
    Hold,
    Structure,
    lengths,
    refinements,
    shots,
)
from romkit.laws.trajectories import ShootingProblem


def refined(
    law: LearnedField, samples: LatentSamples, judge: Judge, rows: Tensor | None = None
) -> LearnedField:
    """Refine the coefficients of an equation so that it follows whole trajectories; the equation
    itself where none are better, and laws of other kinds.

    Args:
        law: fitted to the samples.
        samples: of whole trajectories.
        judge: of the same, and maybe of others.
        rows: numbers (k,) of the trajectories; all of the judge by default.
    """
    if not _can_be_refined(law, samples) or not isinstance(law, Equation):
        return law
    if rows is None:
        rows = judge.runs
    problem = ShootingProblem.of(samples, law.basis)
    theta = problem.theta(law.coefficients)
    # terms that were left out stay out
    structure = Structure(problem.motion, theta != 0)
    # of a stiff law, long steps would make a slower one look better than the right one
    resolution = judge.resolution(law, rows)
    best = law
    least = float(judge.errors(law, rows, resolution).nanmean())
    for stage in refinements(structure, problem.runs, theta, returning=False):
        candidate = replace(law, coefficients=problem.coefficients(stage.theta))
        error = float(judge.errors(candidate, rows, resolution).nanmean())
        if error < least:
            best, least = candidate, error
    if best is law:
        return law
    return replace(best, source=f"{law.source}; refined by shooting")


def roughly_refined(law: Equation, samples: LatentSamples) -> Equation:
    """Refine the coefficients of an equation in windows of some time scales, which takes away the
    bias of rates that come from differentiation; the equation itself where it follows them as well.
    """
    if not _can_be_refined(law, samples):
        return law
    problem = ShootingProblem.of(samples, law.basis)
    theta = problem.theta(law.coefficients)
    structure = Structure(problem.motion, theta != 0)
    runs = problem.runs
    long = [length for duration, length in lengths(runs) if duration >= ROUGH]
    if not long:
        return law
    followed = shots(structure, runs, theta, long[0], Hold(), FINE)
    end = levenberg_marquardt(followed.expanded(theta), trials=TRIALS, relative=SETTLED)
    return replace(law, coefficients=problem.coefficients(end.theta))


def _can_be_refined(law: LearnedField, samples: LatentSamples) -> bool:
    """Tell whether a law is a single equation with terms, of samples that are whole trajectories."""
    if not isinstance(law, Equation) or samples.times is None:
        return False
    return law.coefficients.ndim == 2 and bool(law.support.any())
