"""Comparing two methods over the same seeds: a ratio of means with a bootstrap interval, and a paired test."""

from typing import NamedTuple

import numpy as np
from scipy.stats import wilcoxon

RESAMPLES = 4000
LEVEL = 0.95


class Ratio(NamedTuple):
    """mean(a) / mean(b) over seeds, its 95 % bootstrap interval, and the p-value of Wilcoxon's signed-rank test."""

    value: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{_short(self.value)} [{_short(self.low)}, {_short(self.high)}], p = {self.p:.2g}"

    @property
    def below_one(self) -> bool | None:
        """Whether a is smaller than b; None if the interval has 1 in it."""
        if self.high < 1:
            return True
        return False if self.low > 1 else None


def ratio(a: np.ndarray, b: np.ndarray) -> Ratio:
    """Ratio of the means of a and b (S,), positive; the seeds of both are resampled together.

    An infinite value counts: the ratio is then 0 or infinite, and NaN, which decides nothing, if both are.
    """
    draws = np.random.default_rng(0).integers(0, len(a), size=(RESAMPLES, len(a)))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = a[draws].mean(1) / b[draws].mean(1)
        tail = (1 - LEVEL) / 2
        low, high = (
            np.quantile(ratios[~np.isnan(ratios)], (tail, 1 - tail)) if np.isfinite(ratios).any() else (0, np.inf)
        )
        return Ratio(float(a.mean() / b.mean()), float(low), float(high), _paired_p(a, b))


def _paired_p(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided p-value of the ranks of ln(a / b), which infinities cannot upset; 1 where nothing differs."""
    logs = np.nan_to_num(np.log(a) - np.log(b), nan=0.0, posinf=1e9, neginf=-1e9)
    return float(wilcoxon(logs).pvalue) if np.any(logs) else 1.0


def _short(value: float) -> str:
    return f"{value:.3g}"
