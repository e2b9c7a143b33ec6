"""Refinement of fitted equations along trajectories, by multiple shooting."""

from dataclasses import replace

import torch
from torch import Tensor

from romkit.core.tensors import divisor, least_norm
from romkit.integrators.base import LearnedField
from romkit.laws.equations import Equation
from romkit.laws.judge import Judge
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.shooting import ROUGH, Structure, lengths, refinements
from romkit.laws.trajectories import ShootingProblem
from romkit.select import Policy


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
    problem = ShootingProblem.build(samples, law.basis)
    theta = problem.theta(law.coefficients)
    # terms that were left out stay out
    structure = Structure(problem.motion, theta != 0)
    # of a stiff law, long steps would make a slower one look better than the right one
    resolution = judge.resolution(law, rows)
    judges = [judge]

    def error(law: Equation) -> float:
        errors = [each.errors(law, rows, resolution) for each in judges]
        return float(torch.stack(errors).nanmean())

    best, least = law, error(law)
    if least > Policy().useful:
        # rollouts of whole runs in chaos all err alike
        judges = judge.pieces()
        least = error(law)
    for stage in refinements(structure, problem.runs, theta, returning=False):
        candidate = replace(law, coefficients=problem.coefficients(stage.theta))
        reached = error(candidate)
        if reached < least:
            best, least = candidate, reached
    if best is law:
        return law
    return replace(best, source=f"{law.source}; refined by shooting")


def integrated(law: Equation, samples: LatentSamples) -> Equation:
    """Fit the terms of an equation again, by integrals of them over windows of some time scales, which
    takes away the bias of rates that come from differentiation.

    These are sums along the samples, and no rollouts: enough to compare equations by.

    Source: Schaeffer, McCalla (2017), Sparse model selection via integral terms.
    """
    if not _can_be_refined(law, samples):
        return law
    runs = ShootingProblem.build(samples, law.basis).runs
    long = [length for duration, length in lengths(runs) if duration >= ROUGH]
    if not long:
        return law
    m, times = law.latent_dim, trajectory_times(samples)
    scale = law.basis.variables.scale[:m]
    columns = [*law.basis.terms(samples.inputs, samples.context)]
    if samples.order == 1:  # rates of second order do not move with the context
        columns += [*(samples.drift / scale).unbind(-1)]
    values = torch.stack(torch.broadcast_tensors(*columns), -1).double()
    values = values.unflatten(0, (-1, len(times)))  # (n, T, K + m)
    state = (samples.inputs[:, -m:] / scale).double().unflatten(0, (-1, len(times)))
    missing = ~values.isfinite().all(-1)
    integrals = _integrals(values.masked_fill(missing.unsqueeze(-1), 0.0), times)
    gaps = missing.long().cumsum(1)
    before, after = slice(None, -long[0]), slice(long[0], None)
    complete = (gaps[:, after] == gaps[:, before]) & ~missing[:, before]
    integrals = (integrals[:, after] - integrals[:, before])[complete]  # (N, K + m)
    change = (state[:, after] - state[:, before])[complete]
    K = len(law.coefficients)
    terms, drift = integrals[:, :K], integrals[:, K:]
    if samples.order == 1:
        change = change - drift
    norm = divisor(terms.norm(dim=0))
    coefficients = torch.zeros_like(law.coefficients)
    for k, kept in enumerate(law.support.unbind(-1)):
        solution = least_norm((terms / norm)[:, kept], change[:, k : k + 1])
        coefficients[kept, k] = solution[:, 0] / norm[kept]
    return replace(law, coefficients=coefficients)


def _integrals(values: Tensor, times: Tensor) -> Tensor:
    """Return integrals (n, T, k) of values from the first sample on."""
    from scipy.integrate import cumulative_simpson  # slow to import

    integrals = cumulative_simpson(
        values.numpy(force=True), x=times.numpy(force=True), axis=1, initial=0.0
    )
    return torch.from_numpy(integrals).to(values)


def _can_be_refined(law: LearnedField, samples: LatentSamples) -> bool:
    """Tell whether a law is a single equation with terms, of samples that are whole trajectories."""
    if not isinstance(law, Equation) or samples.times is None:
        return False
    return law.coefficients.ndim == 2 and bool(law.support.any())
