"""Chaos along data: how fast errors of a law grow, and how long its forecasts are valid."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core import tensors
from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.integrators.base import LearnedField
from romkit.laws.courses import Windows, windows
from romkit.laws.equations import Equation
from romkit.laws.samples import LatentSamples
from romkit.laws.shooting import FINE, POLISHED, tangent
from romkit.laws.trajectories import ShootingProblem

STARTS = 20
"""Most starts of each run from which forecasts are followed."""


class Predictability(NamedTuple):
    """Growth of errors along data, in the time unit of the data.

    Attributes:
        exponent: largest Lyapunov exponent of the law along the data [1 / time].
        uncertainty: standard error of it.
        valid_time: mean time for which forecasts from states of the data are valid; at least this,
            where some are valid to the end of the data.
        lost: share of the forecasts that are no longer valid at the end of the data.
    """

    exponent: float
    uncertainty: float
    valid_time: float
    lost: float

    @property
    def is_chaotic(self) -> bool:
        """Whether errors grow by more than chance makes them, two standard errors."""
        return self.exponent > 2 * self.uncertainty

    @property
    def lyapunov_times(self) -> float:
        """Valid time in Lyapunov times, those in which errors grow e-fold; 0 without such growth."""
        return max(0.0, self.exponent) * self.valid_time

    def __str__(self) -> str:
        if not self.is_chaotic:
            return (
                f"forecasts are valid for {self.valid_time:.3g}; errors do not grow exponentially"
            )
        at_least = "at least " if self.lost < 1 else ""
        return (
            f"chaotic: largest Lyapunov exponent {self.exponent:.3g}, forecasts are valid for "
            f"{at_least}{self.valid_time:.3g} ({self.lyapunov_times:.3g} Lyapunov times)"
        )


@validated
def predictability(law: Equation, samples: LatentSamples) -> Predictability:
    """Return how fast errors of a law grow along the trajectories that it was fitted to, or others,
    and how long its forecasts stay near them.

    A tangent vector is carried from window to window along the data, each started at a datum, and
    the exponent is the mean logarithm of its growth over time.

    Args:
        law: a single equation.
        samples: whole trajectories.

    Raises:
        InputError: a stack of laws, or single samples.

    Source: Benettin, Galgani, Giorgilli, Strelcyn (1980), Lyapunov characteristic exponents.

    Example:
        >>> import torch
        >>> from romkit.laws import LatentSamples, PolynomialLaw
        >>> from romkit.laws.chaos import predictability
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z = torch.exp(0.5 * t)[None, :, None]
        >>> samples = LatentSamples.first_order(z, 0.5 * z, times=t)
        >>> law = PolynomialLaw(degree=1).fit_samples(samples)
        >>> round(predictability(law, samples).exponent, 3)
        0.5
    """
    if law.coefficients.ndim > 2:
        fix = "take one: law[0]"
        raise InputError("law", expected="a single equation", got="a stack", fix=fix)
    problem = ShootingProblem.build(samples, law.basis)
    weights = problem.weights(problem.theta(law.coefficients))
    tau = problem.time_scale
    exponent, uncertainty = _exponent(problem, weights)
    valid, lost = _validity(problem, weights)
    return Predictability(exponent / tau, uncertainty / tau, valid * tau, lost)


def describe_horizon(law: LearnedField, samples: LatentSamples, *, recurrent: float = 5.0) -> str:
    """Say how long forecasts of an equation are valid where its data are chaotic; "" elsewhere.

    `recurrent`: duration of a run [Lyapunov times] from which on it is told of chaos: errors
    would have grown by e⁵ = 150, and data are bounded, so that they must have come back.
    """
    if not isinstance(law, Equation) or law.coefficients.ndim > 2 or samples.times is None:
        return ""
    horizon = predictability(law, samples)
    duration = float(samples.times[-1] - samples.times[0])
    if not horizon.is_chaotic or horizon.exponent * duration < recurrent:
        return ""
    return f"; {horizon}"


def _exponent(problem: ShootingProblem, weights: Tensor) -> tuple[float, float]:
    """Return the largest Lyapunov exponent and its standard error [1 / time scale]."""
    runs = problem.runs
    intervals = len(runs.times) - 1
    step = float(runs.times.diff().median())
    length = min(intervals, max(1, round(1 / step)))
    draw = torch.Generator().manual_seed(2)
    direction = torch.randn(runs.states[:, 0].shape, generator=draw, dtype=torch.float64)
    growth = []
    clock = []
    for k in range(intervals // length):
        window = _cut_window(problem, k * length, length, FINE)
        direction = torch.nn.functional.normalize(direction, dim=-1)
        changed = tangent(problem.motion, weights, window, direction[:, None])[:, 0]  # (n, d)
        usable = window.seen[0, :, 0] & changed.isfinite().all(-1)
        size = changed.norm(dim=-1)
        growth.append(torch.where(usable, size.log(), torch.nan))
        clock.append(window.course.steps[:, :, 0, 0].sum(0).expand(len(size)))
        # a gap in a run does not turn the direction
        direction = torch.where(usable[:, None], changed, direction)
    growths = torch.stack(growth)  # (windows, n)
    durations = torch.stack(clock)
    rates = growths / durations
    kept = rates[rates.isfinite()]
    if len(kept) == 0:
        return 0.0, torch.inf
    error = kept.std(correction=0) / len(kept) ** 0.5
    return float(kept.mean()), float(error)


def _validity(
    problem: ShootingProblem, weights: Tensor, *, valid: float = 0.5
) -> tuple[float, float]:
    """Return the mean duration of forecasts that are valid [time scales], and the share of those
    that are lost before the end of the data.

    `valid`: distance from the data [their deviation] up to which a forecast is valid, as is
    usual for chaotic systems (Pathak, Hunt, Girvan, Lu, Ott, 2018, take 0.4, others 0.3 to
    0.5).
    """
    runs = problem.runs
    m = problem.motion.latent_dim
    intervals = len(runs.times) - 1
    states = runs.states[..., :m].flatten(0, -2)
    variance = (states - states.nanmean(0)).square().nanmean(0).sum()
    durations = []
    lost = []
    # starts in the first half, so that forecasts have time to get lost
    length = max(1, intervals // 2)
    starts = tensors.evenly(intervals - length + 1, STARTS)
    for k in starts.tolist():
        later = _cut_window(problem, k, length, POLISHED)
        reached = problem.motion.rollout(weights, later.start, later.course)
        square = (reached - later.truth)[..., :m].square().sum(-1)  # (L + 1, n, 1)
        square = square.nan_to_num(torch.inf)
        away = (square > valid**2 * variance) & later.seen
        clock = runs.times[k : k + length + 1] - runs.times[k]
        lost_at = away.int().argmax(0)  # (n, 1)
        is_lost = away.any(0)
        until = torch.where(is_lost, clock[lost_at], clock[-1])
        begun = later.seen[0]
        durations.append(until[begun])
        lost.append(is_lost[begun])
    return float(torch.cat(durations).mean()), float(torch.cat(lost).double().mean())


def _cut_window(problem: ShootingProblem, begin: int, length: int, resolution: float) -> Windows:
    """Return one window of each run, from a sample on, with so many steps in a time scale."""
    return windows(problem.runs.between(begin, begin + length), length, length, 1 / resolution)
