"""SINDy in weak form, for noisy data: integrals over windows, generalised least squares, and terms
that the data tell from zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.polynomial import Polynomial as Series
from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.tensors import copy_to_device, divisor, least_norm
from romkit.core.types import Array, Pair
from romkit.data import even_step
from romkit.laws.features import Features
from romkit.laws.noise import noise_level, smoothed
from romkit.laws.regression import Fit, quality, stacked
from romkit.laws.samples import LatentSamples, trajectory_times

NEGLIGIBLE = 1e-3
"""Smallest size of a term, relative to its rate, where neither threshold nor share is given: errors
of sums over samples look significant where data have no noise."""

SINGULAR = 1e-12
"""Ratio of diagonal elements of a triangular factor below which terms depend on each other."""

ROUNDS = 6
"""Most rounds of weighting by the noise of the latest coefficients."""

WIDTHS = 1.0, 0.7, 1.5
"""Widths of windows that supports are found by, relative to the default one."""

Spans = Sequence[tuple[int, int]]
"""First and last samples of windows."""


LAGS = 2.0
"""Length of a window [times in which the latent state moves by one deviation]: shorter ones see more
noise, longer ones smooth away what tells terms from each other."""

DEPENDENT = 1e-2
"""Singular value of test functions, relative to the largest, below which a combination of them sees
next to no motion, and hence noise alone."""


@dataclass(frozen=True)
class TestFunctions:
    """Combinations of test functions φ on windows whose φ' are orthonormal over the samples.

    So the noise of - ∫ φ' z dt is white, however much windows overlap.

    Attributes:
        within: (R, T) weights of ∫ φ f dt.
        across: (R, T) weights of ∫ φ' f dt, orthonormal rows.
    """

    __test__ = False

    within: Tensor
    across: Tensor

    @classmethod
    def build(
        cls, times: Tensor, spans: Sequence[tuple[int, int]], exponent: int
    ) -> "TestFunctions":
        """Test functions (1 - s²)^p, s in [-1, 1], on spans of samples at times (T,)."""
        weights = smooth_weights if even_step(times.numpy()) else linear_weights
        within, across = weights(times, spans, exponent)
        U, s, _ = torch.linalg.svd(across, full_matrices=False)
        independent = s > DEPENDENT * s[0]
        combined = (U[:, independent] / s[independent]).mT  # (R, windows)
        return cls(combined @ within, combined @ across)

    def __len__(self) -> int:
        return len(self.within)


def smooth_weights(times: Tensor, spans: Sequence[tuple[int, int]], exponent: int) -> Pair:
    """Return weights w, w' (R, T) with Σ wₖ f(tₖ) ≈ ∫ φ f dt and Σ w'ₖ f(tₖ) ≈ ∫ φ' f dt at even
    times.

    The trapezoidal rule: φ and its first derivatives vanish at the ends of a window, so its error
    falls as fast as that of a periodic function.

    Args:
        times: (T,) evenly spaced.
        spans: first and last sample of each window.
        exponent: p of φ = (1 - s²)^p.
    """
    bump, slope = _bump(exponent)
    t = times.numpy()
    step = float(np.diff(t).mean())
    within, across = np.zeros((2, len(spans), len(t)))
    for row, (start, stop) in enumerate(spans):
        window = slice(start, stop + 1)
        half = (t[stop] - t[start]) / 2
        s = np.linspace(-1.0, 1.0, stop - start + 1)
        within[row, window] = step * bump(s)
        across[row, window] = step * slope(s) / half  # φ' by time
    return torch.from_numpy(within), torch.from_numpy(across)


def _bump(exponent: int) -> tuple[Series, Series]:
    """(1 - s²)^p and its derivative."""
    bump = Series([1.0, 0.0, -1.0]) ** exponent
    return bump, bump.deriv()


def linear_weights(times: Tensor, spans: Sequence[tuple[int, int]], exponent: int) -> Pair:
    """Return weights at uneven times: exact for f that are linear between samples."""
    bump, slope = _bump(exponent)
    t = times.numpy()
    within, across = np.zeros((2, len(spans), len(t)))
    for row, (start, stop) in enumerate(spans):
        window = slice(start, stop + 1)
        half = (t[stop] - t[start]) / 2
        s = (t[window] - t[start]) / half - 1
        within[row, window] = half * _hat_integrals(bump, s)
        across[row, window] = _hat_integrals(slope, s)
    return torch.from_numpy(within), torch.from_numpy(across)


def _hat_integrals(function: Series, s: Array) -> Array:
    """Integrals of a function times each hat function on the nodes s (K,)."""
    area = np.diff(function.integ()(s))
    weighed = Series([0.0, 1.0]) * function
    moment = np.diff(weighed.integ()(s))
    width = np.diff(s)
    integrals = np.zeros_like(s)
    # an interval is the falling side of the hat at its left end, and the rising one of the next
    falling = (s[1:] * area - moment) / width
    rising = (moment - s[:-1] * area) / width
    integrals[:-1] += falling
    integrals[1:] += rising
    return integrals


def spread_windows(times: Tensor, width: float, number: int) -> list[tuple[int, int]]:
    """Return first and last sample of windows no longer than `width`, spread evenly over the times
    (T,).

    Raises:
        InputError: no window has three samples.
    """
    t = times.numpy()
    begin = t[0]
    end = t[-1]
    length = end - begin
    half = min(width, length) / 2
    centres = np.linspace(begin + half, end - half, number)
    # times are rounded, so that a sample at the end of a window may lie beside it
    tolerance = 1e-9 * length
    starts = np.searchsorted(t, centres - half - tolerance)
    stops = np.searchsorted(t, centres + half + tolerance) - 1
    spans = set()  # windows between the same samples count once
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if stop - start >= 2:
            spans.add((start, stop))
    if not spans:
        expected = "windows of three samples or more"
        got = f"{width:g} with {len(t)} samples over {length:g}"
        raise InputError("width", expected=expected, got=got, fix="widen the windows")
    return sorted(spans)


def default_width(samples: LatentSamples, *, fewest: int = 8) -> float:
    """`LAGS` times the time in which the latent state moves by one standard deviation, the mean
    over a stack.

    At most a quarter of a trajectory. Read from the distance of samples that are some time apart,
    which noise changes little.

    `fewest`: fewest intervals of a default window, so that its test function is resolved.
    """
    times = trajectory_times(samples)
    step = float(times.diff().mean())
    longest = max(1, int((len(times) - 1) / (4 * LAGS)))
    paths = samples.paths(samples.latents.double())[0]  # (S, C, T, m)
    lags = [lag(z, longest) for z in paths]
    mean = sum(lags) / len(lags)
    return max(LAGS * step * mean, fewest * step)


def lag(z: Tensor, longest: int) -> int:
    """Return number of samples in which paths (C, T, m) move by one standard deviation."""
    mean = z.nanmean((0, 1))
    variance = (z - mean).square().nanmean((0, 1)).sum()
    for lag in range(1, longest + 1):
        moved = z[:, lag:] - z[:, :-lag]
        if moved.square().sum(-1).nanmean() >= variance:
            return lag
    return longest


class WeakSettings(Protocol):
    """Settings of a weak fit, as `WeakSINDy` documents them."""

    threshold: float | None
    share: float | None
    windows: int
    width: float | None
    smoothness: int


class Measured(NamedTuple):
    """States (C, T, d), drifts (C, T, m), terms (C, T, K) at smoothed states, and their slopes
    (C, T, K, d).
    """

    states: Tensor
    drift: Tensor
    terms: Tensor
    slopes: Tensor

    @property
    def missing(self) -> Tensor:
        """(C, T) which samples are missing."""
        columns = torch.cat([self.terms, self.states, self.drift], dim=-1)
        return columns.isnan().any(-1)


class Integrals(NamedTuple):
    """Both sides of the weak equation of one trajectory, and how noise enters them.

    Attributes:
        tests: the test functions, R of them.
        terms: (R, K) ∫ φ θ dt.
        targets: (R, m) - ∫ φ' z dt - ∫ φ d dt.
        slopes: (T, K, d) ∂θ/∂z at the samples.
    """

    tests: TestFunctions
    terms: Tensor
    targets: Tensor
    slopes: Tensor


def weak_fit(samples: LatentSamples, basis: Features, settings: WeakSettings) -> Fit:
    """Return coefficients of whole trajectories in weak form, for each problem of the samples.

    Raises:
        InputError: single samples, or fewer windows than terms.
    """
    times = trajectory_times(samples)
    drift = samples.drift.expand_as(samples.targets)
    w, drift = basis.scaled(samples.inputs, drift)
    lead = samples.targets.shape[:-2]
    c = samples.context.double()
    c = c.expand(*lead, *c.shape[-2:])
    trajectories = len(samples) // len(times)
    number = _count_windows(settings.windows, trajectories, len(basis.names))
    # noise asks for wide windows, fast motion for narrow ones
    if settings.width is None:
        default = default_width(samples)
        widths = [factor * default for factor in WIDTHS]
    else:
        widths = [settings.width]
    spans = [spread_windows(times, width, number) for width in widths]
    fits = []
    for states, drifts, contexts in zip(*samples.paths(w, drift, c), strict=True):
        fits.append(_fit_one(states, drifts, contexts, times, spans, basis, settings))
    return stacked(fits)


def _count_windows(windows: int, trajectories: int, terms: int, *, rows: int = 2000) -> int:
    """Windows of each trajectory, fewer where many trajectories have enough together.

    `rows`: rows of all trajectories from which on each gets fewer windows.
    """
    enough = max(rows // trajectories, 2 * terms // trajectories + 1, 10)
    return min(windows, enough)


def _fit_one(
    w: Tensor,
    drift: Tensor,
    c: Tensor,
    times: Tensor,
    spans: Sequence[Spans],
    basis: Features,
    settings: WeakSettings,
    *,
    quiet: float = 1e-9,
) -> Fit:
    """Fit of one problem, from scaled states w (C, T, d), drifts (C, T, m) and contexts (C, T, p).

    Supports are found by windows of several widths, and compared by those of the first.

    `quiet`: noise [deviations of a variable] that data have at least, by rounding.
    """
    # terms are not linear in the states, so noise biases them; the left side stays as measured
    terms, slopes = _terms_and_slopes(basis, smoothed(w, times), c)
    measured = Measured(w, drift, terms, slopes)
    by_width = _determined(measured, times, spans, settings.smoothness)
    noise = noise_level(w).nan_to_num(nan=0.0).clamp(min=quiet)
    d = w.shape[-1]
    m = drift.shape[-1]
    candidates = []
    for k in range(m):
        # of a law of second order the variables z come first, whose rates are no targets
        column = Column(noise, k, d - m + k, settings)
        candidates.append(column.best(by_width))
    coefficients = torch.stack([candidate.coefficients for candidate in candidates], dim=-1)
    settled = torch.tensor(all(candidate.settled for candidate in candidates))
    terms = torch.cat([run.terms for run in by_width[0]])
    targets = torch.cat([run.targets for run in by_width[0]])
    condition, residual = quality(terms, targets, coefficients, terms)
    return Fit(coefficients, condition, settled, residual)


def _determined(
    measured: Measured, times: Tensor, spans: Sequence[Spans], smoothness: int
) -> "list[list[Integrals]]":
    """Weak equations by windows of each width of which there are as many as terms.

    Raises:
        InputError: there are none.
    """
    terms = measured.terms.shape[-1]
    by_width = []
    for windows in spans:
        runs = _integrals(measured, times, windows, smoothness)
        count = sum(len(run.tests) for run in runs)
        if count >= terms:
            by_width.append(runs)
    if not by_width:
        expected = f"at least {terms} windows, one per term"
        fix = "raise windows or lower the degree"
        raise InputError("windows", expected=expected, got="fewer", fix=fix)
    return by_width


def _integrals(measured: Measured, times: Tensor, spans: Spans, exponent: int) -> list[Integrals]:
    """Weak equations of each trajectory that has a window without a missing sample."""
    missing = measured.missing  # (C, T)
    everywhere = TestFunctions.build(times, spans, exponent)
    runs = []
    for k in range(len(missing)):
        tests = everywhere
        if bool(missing[k].any()):
            complete = _complete_windows(spans, missing[k])
            if not complete:
                continue
            tests = TestFunctions.build(times, complete, exponent)
        tests = copy_to_device(tests, measured.states.device)
        w, drift, theta, slopes = (x[k].nan_to_num(nan=0.0) for x in measured)
        z = w[:, -drift.shape[-1] :]
        terms = tests.within @ theta
        targets = -tests.across @ z - tests.within @ drift
        runs.append(Integrals(tests, terms, targets, slopes))
    return runs


def _complete_windows(spans: Spans, missing: Tensor) -> Spans:
    """Windows without a missing sample, of samples (T,) of a trajectory."""
    count = missing.long().cumsum(0)
    before = [0, *count.tolist()]  # missing samples before each one
    return [(begin, end) for begin, end in spans if before[end + 1] == before[begin]]


def _terms_and_slopes(basis: Features, w: Tensor, c: Tensor) -> Pair:
    """Return terms (C, T, K) at scaled states w (C, T, d), and their derivatives (C, T, K, d)."""

    def theta(w: Tensor) -> Tensor:
        terms = basis.scaled_terms(w, c)
        *terms, _ = torch.broadcast_tensors(*terms, w[..., 0])
        return torch.stack(terms, dim=-1)

    slopes = []
    for axis in range(w.shape[-1]):
        direction = torch.zeros_like(w)
        direction[..., axis] = 1.0
        _, slope = torch.func.jvp(theta, (w,), (direction,))
        slopes.append(slope)
    return theta(w), torch.stack(slopes, dim=-1)


class Whitened(NamedTuple):
    """Terms (N, K) and targets (N,) whose noise is white, and the logarithm of the determinant of
    the covariance that it had.
    """

    terms: Tensor
    targets: Tensor
    log_determinant: float


class Candidate(NamedTuple):
    """Coefficients (K,) of one equation, and whether their support settled."""

    coefficients: Tensor
    settled: bool


class Column(NamedTuple):
    """One equation in weak form.

    Attributes:
        noise: (d,) of each variable.
        target: number of the equation.
        variable: number of the variable whose rate it is.
        settings: of the elimination.
    """

    noise: Tensor
    target: int
    variable: int
    settings: WeakSettings

    def best(self, by_width: "Sequence[Sequence[Integrals]]") -> Candidate:
        """Return coefficients of the support that explains best, of those by windows of each width."""
        candidates = [self.alternated(runs) for runs in by_width]
        return min(candidates, key=lambda candidate: self.score(by_width[0], candidate))

    def alternated(self, runs: Sequence[Integrals]) -> Candidate:
        """Return coefficients and the weights that their noise gives the rows, found by turns.

        Source: Bortz, Messenger, Dukic (2023), Direct estimation of parameters in ODE models using
        WENDy: weak-form estimation of nonlinear dynamics, section 3.
        """
        coefficients = runs[0].terms.new_zeros(runs[0].terms.shape[-1])
        support: Tensor | None = None
        for _ in range(ROUNDS):
            white = self._whitened(runs, coefficients)
            coefficients = _eliminated(white.terms, white.targets, self.settings)
            before = support
            support = coefficients != 0
            if before is not None and bool((support == before).all()):
                return Candidate(coefficients, True)
        return Candidate(coefficients, False)

    def score(self, runs: Sequence[Integrals], candidate: Candidate) -> float:
        """Bayesian information criterion of an equation, smaller is better.

        The covariance depends on the coefficients, so that large ones which cancel cannot explain
        noise for nothing.
        """
        white = self._whitened(runs, candidate.coefficients)
        missed = white.targets - white.terms @ candidate.coefficients
        N = len(missed)
        # noise was measured by itself; a residual below it is chance
        size = max(1.0, float(missed.square().mean()))
        number = int((candidate.coefficients != 0).sum())
        misfit = N * math.log(size) + white.log_determinant
        return misfit + number * math.log(N)

    def _whitened(self, runs: Sequence[Integrals], coefficients: Tensor) -> Whitened:
        """Return terms and targets of all trajectories whose noise is white and of size 1.

        Noise ε of the samples changes the residual of a window by ∫ φ' εᵢ dt + ∫ φ Σⱼ ∂gᵢ/∂zⱼ εⱼ dt.
        """
        terms, targets, log_determinant = [], [], 0.0
        for run in runs:
            covariance = self._covariance(run, coefficients)
            factor = torch.linalg.cholesky(covariance)
            target = run.targets[:, self.target, None]
            rows = torch.cat([run.terms, target], dim=-1)
            white = torch.linalg.solve_triangular(factor, rows, upper=False)
            terms.append(white[:, :-1])
            targets.append(white[:, -1])
            log_determinant += 2 * float(factor.diagonal().log().sum())
        return Whitened(torch.cat(terms), torch.cat(targets), log_determinant)

    def _covariance(self, run: Integrals, coefficients: Tensor, *, jitter: float = 1e-8) -> Tensor:
        """(R, R) of the residuals of the windows of a trajectory.

        `jitter`: part of the mean variance that is added to each, so that covariances have
        a factor.
        """
        slope = torch.einsum("tkd,k->td", run.slopes, coefficients)
        covariance = run.terms.new_zeros(len(run.tests), len(run.tests))
        for axis, size in enumerate(self.noise.tolist()):
            response = run.tests.within * slope[:, axis]  # (R, T)
            if axis == self.variable:
                response = response + run.tests.across
            covariance += size**2 * response @ response.mT
        # windows overlap, so that covariances may be singular to rounding
        mean_variance = covariance.diagonal().mean()
        covariance.diagonal().add_(jitter * mean_variance)
        return covariance


def _eliminated(
    terms: Tensor, targets: Tensor, settings: WeakSettings, *, refactored: int = 16
) -> Tensor:
    """Return coefficients (K,) after backward elimination: the term that matters least goes, as
    long as the data do not tell it from zero, or it is below the threshold.

    `refactored`: terms that are left out by updates of an inverse, before it is computed anew.

    Source: Boninsegna, Nüske, Clementi (2018), Sparse learning of stochastic dynamical equations,
    section II B, with standard errors in place of cross-validation.
    """
    smallest_cost = _smallest_cost(terms, targets, settings)
    least = _smallest_coefficients(terms, targets, settings)
    columns = torch.cat([terms, targets.unsqueeze(-1)], -1)
    # the factor holds all that least squares of some of the terms need
    R = torch.linalg.qr(columns, mode="r").R
    kept = list(range(terms.shape[-1]))
    fit = KeptTerms.solve(R, kept)
    steps = 0
    while kept:
        weakest = fit.weakest(smallest_cost, least[kept])
        if weakest is None:
            break
        kept.pop(weakest)
        steps += 1
        shorter = fit.without(weakest)
        is_worn = shorter is None or steps % refactored == 0
        fit = KeptTerms.solve(R, kept) if shorter is None or is_worn else shorter
    coefficients = torch.zeros_like(least)
    coefficients[kept] = KeptTerms.solve(R, kept).value
    return coefficients


class KeptTerms(NamedTuple):
    """Least squares of some terms Θ (N, k).

    Attributes:
        value: (k,) coefficients.
        inverse: (k, k) of ΘᵀΘ.
        determined: whether Θ has full rank; `inverse` is the pseudo-inverse where it has not.
    """

    value: Tensor
    inverse: Tensor
    determined: bool

    @classmethod
    def solve(cls, R: Tensor, kept: Sequence[int]) -> "KeptTerms":
        """Least squares of the kept columns of a triangular factor of (terms, target)."""
        k = len(kept)
        factor = torch.linalg.qr(R[:, [*kept, -1]], mode="r").R
        terms, target = factor[:k, :k], factor[:k, k]
        diagonal = terms.diagonal().abs()
        determined = k == 0 or bool(diagonal.min() > SINGULAR * diagonal.max())
        if determined:
            unit = torch.eye(k, dtype=terms.dtype, device=terms.device)
            root = torch.linalg.solve_triangular(terms, unit, upper=True)
        else:
            root = torch.linalg.pinv(terms)
        return cls(root @ target, root @ root.mT, determined)

    def weakest(self, smallest_cost: Tensor, least: Tensor) -> int | None:
        """Return number of the term to leave out; None where all matter.

        The sum of squares grows by the square of a coefficient over its variance without the term.
        """
        cost = self.value.square() / divisor(self.inverse.diagonal())
        weakest = int(cost.argmin())
        if cost[weakest] <= smallest_cost:
            return weakest
        relative = self.value.abs() / least
        smallest = int(relative.argmin())
        return None if relative[smallest] >= 1 else smallest

    def without(self, number: int) -> "KeptTerms | None":
        """Least squares without a term, by the inverse of a matrix without a row and a column; None
        where the terms do not determine it.
        """
        if not self.determined:
            return None
        stays = torch.arange(len(self.value)) != number
        beside = self.inverse[stays, number]
        share = beside / self.inverse[number, number]
        value = self.value[stays] - share * self.value[number]
        inverse = self.inverse[stays][:, stays] - torch.outer(share, beside)
        return KeptTerms(value, inverse, True)


def _smallest_cost(
    terms: Tensor, targets: Tensor, settings: WeakSettings, *, significant: float = 5.0
) -> Tensor:
    """Growth of the sum of squares from which on a term is told from zero.

    `significant`: standard errors that a coefficient has to differ from zero by.
    """
    N, K = terms.shape
    # the residual of all terms is noise; a target without any would make every term significant
    everything = least_norm(terms, targets.unsqueeze(-1))
    missed = targets - terms @ everything.squeeze(-1)
    variance = missed.square().sum() / max(1, N - K)
    cost = significant**2 * variance
    if settings.threshold is None and settings.share is None:
        negligible = NEGLIGIBLE**2 * targets.square().sum()
        cost = torch.maximum(cost, negligible)
    return cost


def _smallest_coefficients(terms: Tensor, targets: Tensor, settings: WeakSettings) -> Tensor:
    """Return size (K,) from which on a coefficient stays: the threshold, or the share of the rate."""
    if settings.share is not None:
        return settings.share * targets.norm() / divisor(terms.norm(dim=0))
    threshold = settings.threshold
    if threshold is None:
        threshold = 0.0
    return torch.full_like(terms[0], threshold)
