"""Windows of time and test functions on them: integrals that take the place of derivatives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.polynomial import Polynomial as Series
from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.types import Array, Pair
from romkit.data import even_step
from romkit.laws.samples import LatentSamples, trajectory_times

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
    def on(cls, times: Tensor, spans: Sequence[tuple[int, int]], exponent: int) -> "TestFunctions":
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


def default_width(samples: LatentSamples) -> float:
    """`LAGS` times the time in which the latent state moves by one standard deviation, the mean
    over a stack.

    At most a quarter of a trajectory. Read from the distance of samples that are some time apart,
    which noise changes little.
    """
    times = trajectory_times(samples)
    step = float(times.diff().mean())
    longest = max(1, int((len(times) - 1) / (4 * LAGS)))
    paths = samples.paths(samples.latents.double())[0]  # (S, C, T, m)
    lags = [_lag(z, longest) for z in paths]
    mean = sum(lags) / len(lags)
    return max(LAGS * step * mean, FEWEST * step)


FEWEST = 8
"""Fewest intervals of a default window, so that its test function is resolved."""


def _lag(z: Tensor, longest: int) -> int:
    """Return number of samples in which paths (C, T, m) move by one standard deviation."""
    mean = z.nanmean((0, 1))
    variance = (z - mean).square().nanmean((0, 1)).sum()
    for lag in range(1, longest + 1):
        moved = z[:, lag:] - z[:, :-lag]
        if moved.square().sum(-1).nanmean() >= variance:
            return lag
    return longest
