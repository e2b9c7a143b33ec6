"""States and coefficients jointly: equations of trajectories that are measured with noise.

Each sample has an unknown state xₖ beside its datum yₖ, and a law with coefficients θ leads from one
state to the next, Φ(xₖ; θ), up to a small error. Both are those of the least

    Σₖ |yₖ - xₖ|² / σ² + Σₖ |xₖ₊₁ - Φ(xₖ; θ)|² / (r σ)²,

where σ is the noise, and r falls from a few units to a small one: states leave the data for a
trajectory of the law as the law is found. Errors do not grow along the single intervals, so that
chaos does no harm, and noise biases no rate, since none is taken.
"""

import functools
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.core import tensors
from romkit.core.levenberg import levenberg_marquardt
from romkit.integrators.base import LearnedField
from romkit.laws import courses
from romkit.laws.courses import Course, Runs
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.folds import drop_runs, folds_of
from romkit.laws.judge import Judge
from romkit.laws.libraries import Polynomial
from romkit.laws.noise import noise_level, smoothed
from romkit.laws.polynomial import boxed, equation
from romkit.laws.samples import LatentSamples
from romkit.laws.shooting import (
    FINE,
    NOISY,
    POLISHED,
    Hold,
    Structure,
    combined,
    end_residual,
    is_coarse,
    noise,
    shots,
)
from romkit.laws.shorten import Quadratic, drop_shift
from romkit.laws.trajectories import ShootingProblem, box, filled
from romkit.numerics import LOST
from romkit.select import Policy

MODEL_ERRORS = (3.0, 1.0, 0.3, 0.1, 0.05)
"""Errors of the law over an interval [deviations of the noise], from those of a first law, which has
none to speak of, to those of a law whose trajectories are the states."""

DEGREES = (1, 2, 3)
"""Degrees in the latents that are tried: noise hides what higher ones add."""

ROUNDS, SETTLED = 12, 1e-3
"""Most steps for each error of the law, and the relative gain of one after which they end."""

LEFT_OUT, BLOCKS = 3, 4
"""Most folds of runs that are left out, and parts of each run whose costs are compared."""


class Normal(NamedTuple):
    """Normal equations: of coefficients, states at their best (P, P), (P,), and of the states of
    each run as functions of the columns (n, T d, K m + 1), the last one at these coefficients.
    """

    matrix: Tensor
    slope: Tensor
    response: Tensor


@dataclass(frozen=True, eq=False)
class Joint:
    """Runs with noise, and a law with an error.

    Attributes:
        structure: of the law.
        runs: as measured.
        noise: (d,) deviation of each variable.
        model_error: r, error of the law over an interval [noise].
    """

    structure: Structure
    runs: Runs
    noise: Tensor
    model_error: float

    @functools.cached_property
    def course(self) -> Course:
        """Steps of RK4 through all single intervals."""
        n, T = self.runs.observed.shape
        sample = torch.arange(2)[:, None, None] + torch.arange(T - 1)  # (2, 1, T - 1)
        finest = POLISHED if is_coarse(self.runs) else FINE
        return courses.course(self.runs, sample.expand(-1, n, -1), 1 / finest)

    @functools.cached_property
    def used(self) -> Tensor:
        """Numbers (P',) of the K m coefficients of a run that some free ones are of."""
        return self.structure.free.any(1).flatten().nonzero().squeeze(-1)

    @property
    def freedom(self) -> int:
        """Number of data beyond those that fix the state at the start of each run."""
        n, _, d = self.runs.states.shape
        return (int(self.runs.observed.sum()) - n) * d

    def weights(self, theta: Tensor) -> Tensor:
        """Return coefficients (n, K, m) of each run."""
        return torch.einsum("gq,kqm->gkm", self.runs.mix, theta)[self.runs.group]

    def expanded(self, theta: Tensor, states: Tensor) -> "Expanded":
        """Quadratic model about coefficients and states (n, T, d)."""
        return Expanded(self, theta, states, self.squares(theta, states).sum().reshape(1))

    def squares(self, theta: Tensor, states: Tensor) -> Tensor:
        """Return squares (n, T) of distances from the data, and from the law at the sample before."""
        from_data = torch.where(self.runs.observed.unsqueeze(-1), states - self.runs.states, 0.0)
        motion = self.structure.motion
        reached = motion.rollout(self.weights(theta), states[:, :-1], self.course)[-1]
        from_law = (states[:, 1:] - reached) / (self.model_error * self.noise)
        squares = (from_data / self.noise).square().sum(-1)
        lost = (LOST / self.noise).square().sum()
        squares[:, 1:] += from_law.square().sum(-1).nan_to_num(lost)
        return squares

    def normal(self, theta: Tensor, states: Tensor, damping: float) -> Normal:
        """Return normal equations about coefficients and states, the latter eliminated."""
        motion = self.structure.motion
        W = self.weights(theta)
        reached, slopes = motion.sensitivities(W, states[:, :-1], self.course, by_start=True)
        unit = (self.model_error * self.noise).unsqueeze(-1)
        slopes = slopes[-1] / unit  # (n, T - 1, d, K m + d)
        used = self.used
        by_coefficients = slopes[..., used]
        by_state = slopes[..., W[0].numel() :]
        missed = (states[:, 1:] - reached[-1]) / unit.squeeze(-1)  # (n, T - 1, d)
        observed = self.runs.observed.unsqueeze(-1) / self.noise.square()  # (n, T, d)
        from_data = (states - self.runs.states).nan_to_num(0.0) * observed
        groups, size, used_size = len(self.runs.mix), W[0].numel(), len(used)
        matrix = W.new_zeros(groups, used_size, used_size)
        slope = W.new_zeros(groups, used_size)
        responses = []
        for run, group in enumerate(self.runs.group.tolist()):
            S, M, e = by_coefficients[run], by_state[run], missed[run]
            blocks = _tridiagonal(M, observed[run], unit.squeeze(-1))
            # the law is stiffer than the data, and damping by it would stop all motion along it
            blocks[0] += (damping / self.noise.square()).repeat(len(e) + 1).numpy()
            coupling = S.new_zeros(len(e) + 1, len(unit), used_size + 1)  # (T, d, P' + 1)
            columns = torch.cat([S, -e.unsqueeze(-1)], -1)
            coupling[:-1] += M.mT @ columns
            coupling[1:] -= columns / unit
            coupling[..., -1] += from_data[run]
            coupling = coupling.flatten(0, 1)  # (T d, P' + 1)
            response = _solved(blocks, coupling)
            products = columns.flatten(0, 1).mT @ columns.flatten(0, 1)
            reduced = products - coupling.mT @ response
            matrix[group] += reduced[:-1, :-1]
            slope[group] += reduced[:-1, -1]
            responses.append(response)
        every = W.new_zeros(groups, size, size)
        every[:, used[:, None], used] = matrix
        down = W.new_zeros(groups, size)
        down[:, used] = slope
        matrix, slope = combined(self.runs.mix, every, down.unflatten(1, W.shape[1:]))
        free = self.structure.free.flatten().nonzero().squeeze(-1)
        matrix, slope = matrix[free][:, free], slope.flatten()[free]
        matrix.diagonal().mul_(1 + damping)
        return Normal(matrix, slope, torch.stack(responses))


def _tridiagonal(M: Tensor, observed: Tensor, unit: Tensor) -> np.ndarray:
    """Return lower bands (2 d, T d) of the matrix of states, from derivatives M (T - 1, d, d) of
    each by the one before [units], and weights (T, d) of the data.
    """
    T, d = observed.shape
    diagonal = torch.diag_embed(observed)
    diagonal[1:] += torch.diag(1 / unit.square())
    diagonal[:-1] += M.mT @ M
    below = -M / unit.unsqueeze(-1)  # (T - 1, d, d) rows of the later state
    bands = np.zeros((2 * d, T * d))
    for i, j in itertools.product(range(d), repeat=2):
        if j <= i:
            bands[i - j, j::d] = diagonal[:, i, j]
        bands[d + i - j, j : (T - 1) * d : d] = below[:, i, j]
    return bands


def _solved(bands: np.ndarray, columns: Tensor) -> Tensor:
    """Return x of A x = b for a symmetric A in lower bands."""
    from scipy.linalg import solveh_banded  # slow to import

    solution = solveh_banded(bands, columns.numpy(), lower=True, check_finite=False)
    return torch.from_numpy(solution)


@dataclass(frozen=True, eq=False)
class Expanded:
    """Quadratic model about coefficients and states (n, T, d): an `Expansion` of one member."""

    problem: Joint
    theta: Tensor
    states: Tensor
    cost: Tensor

    def select(self, members: Tensor) -> "Expanded":
        return self

    def replaced(self, members: Tensor, other: "Expanded") -> "Expanded":
        return other if len(members) else self

    def moved(self, members: Tensor, damping: Tensor) -> "Expanded":
        lost = replace(self, cost=torch.full_like(self.cost, torch.inf))
        try:
            matrix, slope, response = self.problem.normal(self.theta, self.states, float(damping))
        except np.linalg.LinAlgError:
            return lost
        change = torch.zeros_like(self.theta)
        if len(slope):
            # terms that act on nothing leave a row of zeros
            matrix.diagonal().add_(1e-12 * matrix.diagonal().max())
            factor, failed = torch.linalg.cholesky_ex(matrix)
            if failed:
                return lost
            step = torch.cholesky_solve(slope.unsqueeze(-1), factor).squeeze(-1)
            change[self.problem.structure.free] = -step
        columns = self.problem.weights(change).flatten(1)[:, self.problem.used]  # (n, P')
        columns = torch.nn.functional.pad(columns, (0, 1), value=1.0)  # of the step itself
        step = torch.einsum("nsk,nk->ns", response, columns).reshape(self.states.shape)
        return self.problem.expanded(self.theta + change, self.states - step)


class Estimate(NamedTuple):
    """Coefficients (K, q, m) and states (n, T, d) of the least sum of squares, with the problem."""

    theta: Tensor
    states: Tensor
    problem: Joint

    @property
    def cost(self) -> float:
        """Sum of squares."""
        return float(self.problem.squares(self.theta, self.states).sum())


def estimate(
    structure: Structure,
    runs: Runs,
    deviation: Tensor,
    theta: Tensor,
    states: Tensor,
    model_errors: Sequence[float] = MODEL_ERRORS,
) -> Estimate:
    """Fit coefficients and states, for smaller and smaller errors of the law.

    Args:
        structure: of the law.
        runs: as measured.
        deviation: (d,) of the noise.
        theta: coefficients to begin at.
        states: (n, T, d) likewise.
        model_errors: of the law over an interval [noise].

    Source: Trémolet (2006), Accounting for an imperfect model in 4D-Var; Ye, Rey, Kadakia, Eldridge,
    Morone, Rozdeba, Abarbanel, Quinn (2015), Systematic variational method for statistical nonlinear
    state and parameter estimation, for errors of the law that fall.
    """
    for model_error in model_errors:
        problem = Joint(structure, runs, deviation, model_error)
        end = levenberg_marquardt(
            problem.expanded(theta, states), trials=ROUNDS, relative=SETTLED, shrinkage=0.2
        )
        theta, states = end.theta, end.states
    return Estimate(theta, states, problem)


def drop_insignificant(found: Estimate, *, at_once: float = 0.1) -> Estimate:
    """Drop coefficients that are zero within their standard errors, states free, and fit again.

    `at_once`: share of the terms of a law that may be dropped before states and coefficients
    are fitted again.
    """
    share = at_once
    while True:
        kept, theta, allowed = _significant(found, share)
        if len(kept) == int(found.problem.structure.free.sum()):
            return found
        problem = found.problem
        structure = problem.structure._replace(free=theta != 0)
        shorter = estimate(
            structure, problem.runs, problem.noise, theta, found.states, MODEL_ERRORS[-1:]
        )
        if shorter.cost <= allowed:
            found = shorter
        elif share > 0:
            # one at a time, where the quadratic model does not hold for several
            share = 0.0
        else:
            return found


def _significant(
    found: Estimate, share: float, *, significant: float = 9.0
) -> tuple[Tensor, Tensor, float]:
    """Return the places of the free coefficients that stay, of which a share may go at once and one
    at least; coefficients that make up for the others; and the cost that this may lead to.

    `significant`: square of a coefficient in its standard errors from which on it stays: three
    of them, since of dozens of terms that are zero some have two.
    """
    problem = found.problem
    free = problem.structure.free.flatten().nonzero().flatten()
    variance = found.cost / max(1, problem.freedom - len(free))
    matrix = problem.normal(found.theta, found.states, 0.0).matrix
    units = tensors.divisor(matrix.diagonal().sqrt())
    matrix = matrix / units / units.unsqueeze(-1)
    curvature = Quadratic(matrix, found.theta.flatten()[free] * units)
    kept = torch.arange(len(free))
    values, costs = curvature.eliminate(kept)
    most = max(1, int(share * len(free)))
    while len(kept) > max(1, len(free) - most) and costs.min() < significant * variance:
        kept = kept[torch.arange(len(kept)) != costs.argmin()]
        values, costs = curvature.eliminate(kept)
    theta = torch.zeros_like(found.theta).flatten()
    theta[free[kept]] = values / units[kept]
    allowed = found.cost + (len(free) - len(kept)) * significant * variance
    return kept, theta.reshape(found.theta.shape), allowed


# -- laws of samples -------------------------------------------------------------------------------


def jointly(law: LearnedField, samples: LatentSamples, seconds: float = math.inf) -> LearnedField:
    """Return the equation of noisy trajectories that is fitted together with their states, where it
    follows left-out runs better than a law, or as well by fewer terms; else the law.

    Left-out runs are followed, as all others, by states of their own: what counts is how near to the
    data a trajectory of the law comes, and not where it leads from a datum with its noise. Degrees
    are tried from simple to complex ones; terms are then dropped that are zero within three standard
    errors.

    Args:
        law: of the samples, by any estimator.
        samples: whole trajectories; without noise, or with inputs, the law stays.
        seconds: CPU time after which no further degree is tried.

    Returns:
        An equation with `last`, the latents at the ends of the runs without their noise.

    Example:
        >>> import torch
        >>> from romkit.laws import LatentSamples, PolynomialLaw
        >>> from romkit.laws.joint import jointly
        >>> t = torch.linspace(0, 12, 121, dtype=torch.float64)
        >>> z = torch.stack([t.cos(), t.sin()], -1)
        >>> noise = 0.05 * torch.randn(z.shape, generator=torch.Generator().manual_seed(0))
        >>> samples = LatentSamples.first_order((z + noise)[None], torch.zeros(1, 121, 2), times=t)
        >>> law = jointly(PolynomialLaw(degree=1).fit_samples(samples), samples)
        >>> law.coefficient_count
        2
    """
    is_equation = type(law) is Equation and law.coefficients.ndim == 2
    if not is_equation:
        return law
    deviation = _excess_noise(law, samples)
    if deviation is None:
        return law
    if samples.inputs.device.type != "cpu":  # SciPy solves banded systems
        joint = jointly(tensors.copy_to_device(law, "cpu"), samples.to("cpu"), seconds)
        return tensors.copy_to_device(joint, samples.inputs.device)
    folds = Folds(list(_divided(samples)), deviation)
    bases = _candidate_terms(law, samples)
    if not bases:
        return law
    basis, errors = _simplest(bases, folds, time.process_time() + seconds)
    joint = fit_terms(basis, samples, deviation)
    if _is_preferred(joint, errors, law, samples, folds):
        return replace(joint, domain=law.domain)
    return law


def fit_terms(basis: Features, samples: LatentSamples, deviation: Tensor | None = None) -> Equation:
    """Return the equation of terms that is fitted together with the states of samples, without the
    terms that are zero within three standard errors.

    Args:
        basis: of the equation.
        samples: whole trajectories.
        deviation: (d,) of their noise; by default as differences of neighbours tell it.
    """
    if deviation is None:
        deviation = _noise(samples)
    return _build_law(drop_insignificant(_whole(basis, samples, deviation)), basis, samples)


class Folds(NamedTuple):
    """Samples to fit to with left-out ones, of each fold, and the deviation (d,) of the noise."""

    parts: Sequence[tuple[LatentSamples, LatentSamples]]
    deviation: Tensor


def _simplest(
    several: Sequence[Features], folds: Folds, deadline: float
) -> tuple[Features, np.ndarray]:
    """Return the simplest terms whose laws follow left-out runs as well as the best do, and the
    logarithms of the errors (k,) of the best.
    """
    tried = []
    for basis in several:
        if tried and time.process_time() > deadline:
            break
        tried.append(_fold_errors(basis, folds))
    best = min(tried, key=np.mean)
    policy = Policy()
    as_good = [policy.is_as_good(errors, best) for errors in tried]
    return several[as_good.index(True)], best


def _fold_errors(basis: Features, folds: Folds) -> np.ndarray:
    """Return logarithms (k,) of the distances of left-out runs from trajectories of laws."""
    errors = [_left_out(basis, train, held, folds.deviation) for train, held in folds.parts]
    return np.log(np.concatenate(errors))


def _is_preferred(
    made: Equation, errors: np.ndarray, law: Equation, samples: LatentSamples, folds: Folds
) -> bool:
    """Tell whether an equation, by its errors on left-out runs, is better than a law, or as good with
    no more terms and no rollouts that are lost.

    Source: Akaike (1970), Statistical predictor identification, for the error on other data of a law
    that was fitted to these.
    """
    policy = Policy()
    of_law = [followed(law, held, folds.deviation) for _, held in folds.parts]
    numbers = int(samples.observed.sum()) * samples.inputs.shape[-1]
    size = law.coefficient_count
    unseen = 0.5 * np.log((numbers + size) / max(numbers - size, 1))
    of_law = np.log(np.concatenate(of_law)) + unseen
    if not policy.is_as_good(of_law, errors):
        return True
    judge = Judge.compare_latents(samples)
    runs = torch.arange(len(judge.states))
    is_shorter = made.coefficient_count <= law.coefficient_count
    is_as_good = policy.is_as_good(errors, of_law)
    return is_as_good and is_shorter and (judge.stays(made, runs) or not judge.stays(law, runs))


def denoised(law: Equation, samples: LatentSamples) -> Tensor:
    """Return latents (runs, T, m) of the trajectories of an equation that come nearest to data with
    noise; the data where no noise can be told.
    """
    deviation = _excess_noise(law, samples)
    if deviation is None:
        return samples.latents.unflatten(-2, (-1, len(samples.times)))
    states = _nearest(law, samples, deviation).states
    mean, largest = box(samples)
    return mean + largest * states


def _excess_noise(law: Equation, samples: LatentSamples) -> Tensor | None:
    """Return deviation (d,) of the noise of trajectories of first order, without inputs, which is no
    larger than what a law leaves; None where no noise can be told.
    """
    if samples.times is None or samples.inputs.ndim > 2 or samples.order != 1:
        return None
    problem = ShootingProblem.build(samples, law.basis)
    if noise(problem.runs) <= NOISY:
        return None
    structure = Structure(problem.motion, law.coefficients != 0)
    residual = end_residual(structure, problem.runs, problem.theta(law.coefficients), POLISHED)
    if float(residual.square().mean().sqrt()) <= NOISY:
        return None
    _, largest = box(samples)
    return torch.minimum(_noise(samples), residual * largest)


def _noise(samples: LatentSamples) -> Tensor:
    """Return deviation (d,) of the noise of trajectories."""
    runs = ShootingProblem.build(samples, _basis(samples, 1, 0)).runs
    _, largest = box(samples)
    return noise_level(runs.states).nan_to_num(noise(runs)) * largest


def _basis(samples: LatentSamples, degree: int, context_degree: int) -> Features:
    """Return monomials of latents and contexts that are scaled, and not shifted."""
    basis = Features.build(boxed(samples), Polynomial(degree), Polynomial(context_degree))
    context = basis.context
    if not context.coordinates:
        context = drop_shift(context)
    return replace(basis, variables=drop_shift(basis.variables), context=context)


def _candidate_terms(
    law: Equation, samples: LatentSamples, *, largest: int = 20_000_000, per_term: int = 2
) -> list[Features]:
    """List monomials of several degrees in the latents, and of that of a law in the context, as far as
    the samples can determine their coefficients.

    `largest`: most derivatives of all states by all coefficients that are held at once.

    `per_term`: fewest samples for each term of a law: noise is in all of them.
    """
    bases = []
    of_context = getattr(law.basis.context_library, "degree", 0)
    numbers = int(samples.observed.sum())
    d = samples.inputs.shape[-1]
    for degree in DEGREES:
        # before they are made: of many variables they are too many
        size = math.comb(d + degree, degree) * samples.targets.shape[-1]
        if numbers * d * size > largest:
            break
        basis = _basis(samples, degree, of_context)
        if numbers >= per_term * len(basis.names):
            bases.append(basis)
    return bases


def _divided(samples: LatentSamples) -> Iterator[tuple[LatentSamples, LatentSamples]]:
    """Yield samples with some runs left out, or the last part of a single run, and the others."""
    judge = Judge.compare_latents(samples)
    times = samples.times
    for rows in folds_of(samples, LEFT_OUT):
        train, of_fold, held = drop_runs(samples, judge, rows)
        left_out = of_fold.samples
        if len(samples) > len(times):
            is_held = torch.zeros(len(samples) // len(times), dtype=torch.bool)
            is_held[held] = True
            left_out = samples.only(is_held.repeat_interleave(len(times)), times)
        yield train, left_out


def _whole(
    basis: Features, samples: LatentSamples, deviation: Tensor, *, ridge: float = 1e-4
) -> Estimate:
    """Fit coefficients of terms, and the states of samples.

    `ridge`: weight of the squares of the coefficients of the first law, beside mean squares.
    """
    problem = ShootingProblem.build(samples, basis)
    runs = problem.runs
    deviation, smooth = _measured(runs, samples, deviation)
    free = torch.ones(*problem.grid, samples.targets.shape[-1], dtype=torch.bool)
    structure = Structure(problem.motion, free)
    smooth_runs = replace(runs, states=smooth)
    zero = free.double() * 0
    coarse = levenberg_marquardt(
        shots(structure, smooth_runs, zero, 1, Hold(ridge=ridge), FINE).expanded(zero),
        trials=ROUNDS,
        relative=SETTLED,
    )
    return estimate(structure, runs, deviation, coarse.theta, smooth)


def _measured(runs: Runs, samples: LatentSamples, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Return the deviation (d,) of the noise of runs [largest latent], and states (n, T, d) without
    most of it.
    """
    _, largest = box(samples)
    # what is measured exactly would have to be followed exactly
    deviation = (deviation / largest).clamp(min=NOISY)
    smooth = filled(smoothed(runs.states, samples.times))
    # runs that begin with a gap begin at the mean
    return deviation, smooth.nan_to_num(0.0)


def _left_out(
    basis: Features, train: LatentSamples, held: LatentSamples, deviation: Tensor
) -> np.ndarray:
    """Return distances (k,) of left-out runs, in blocks, from trajectories of a law [noise]."""
    estimate = _whole(basis, train, deviation)
    of_train = ShootingProblem.build(train, basis)
    coefficients = of_train.coefficients(estimate.theta)
    return followed(equation(train, basis, coefficients, ""), held, deviation)


def followed(law: Equation, samples: LatentSamples, deviation: Tensor) -> np.ndarray:
    """Return distances (k,) of runs, in blocks, from the nearest trajectories of a law [noise]."""
    placed = _nearest(law, samples, deviation)
    squares = placed.problem.squares(placed.theta, placed.states) / samples.inputs.shape[-1]
    blocks = [block.mean(1) for block in squares.tensor_split(BLOCKS, 1)]
    return torch.cat(blocks).sqrt().numpy()


def _nearest(law: Equation, samples: LatentSamples, deviation: Tensor) -> Estimate:
    """Fit states alone, by the coefficients of a law."""
    problem = ShootingProblem.build(samples, law.basis)
    theta = problem.theta(law.coefficients)
    deviation, smooth = _measured(problem.runs, samples, deviation)
    structure = Structure(problem.motion, torch.zeros_like(theta, dtype=torch.bool))
    return estimate(structure, problem.runs, deviation, theta, smooth)


def _build_law(found: Estimate, basis: Features, samples: LatentSamples) -> Equation:
    """Return the equation of an estimate, with the states at the ends of its runs."""
    problem = ShootingProblem.build(samples, basis)
    coefficients = problem.coefficients(found.theta)
    source = f"{samples.source}: states and coefficients jointly, since there is noise"
    law = equation(samples, basis, coefficients, source)
    mean, largest = box(samples)
    return replace(law, last=mean + largest * found.states[:, -1])
