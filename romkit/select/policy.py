"""The numbers by which one candidate is preferred to another.

One standard error is the rule of `projections.leftout.simplest` and
`laws.shorten.Limit`, too, each with folds of its own.
"""

from dataclasses import dataclass

import numpy as np

from romkit.core.types import Array


@dataclass(frozen=True)
class Policy:
    """Rule of acceptance: the simplest candidate whose error is within a standard error of the least.

    Errors are compared by their logarithms, paired by the runs that are left out. A forecast of one
    standard deviation is no better than the mean of the data, and two independent signals differ by
    √2, so that a diverged forecast counts as 2.

    Attributes:
        standard_errors: number of standard errors of the paired differences within which errors
            count as equal.
        tie: difference of mean logarithms below which errors are equal, however small their
            standard error is.
        diverged: largest error that counts [standard deviations].
        floor: least error that counts.
        enough: error at which no further candidate is tried.
        useful: error of forecasts of whole runs above which candidates are compared on segments.
        race: ratio to the least error up to which a candidate is tried on further folds.
        share: share of the candidates that are, and the least number of them.
        refuted: number of standard errors behind the best one from which on a candidate leaves the
            race.

    Source: Breiman, Friedman, Olshen, Stone (1984), Classification and regression trees, section
    3.4.3, for the rule of one standard error; Maron, Moore (1994), Hoeffding races, for the race.

    Example:
        >>> import numpy as np
        >>> from romkit.select import Policy
        >>> simple, best = np.log([[0.11, 0.09, 0.12], [0.10, 0.10, 0.11]])
        >>> Policy().is_as_good(simple, best)
        True
    """

    standard_errors: float = 1.0
    tie: float = 0.05
    diverged: float = 2.0
    floor: float = 1e-5
    enough: float = 1e-4
    useful: float = 0.5
    race: float = 4.0
    share: tuple[float, int] = (1 / 3, 3)
    refuted: float = 2.0

    def logarithms(self, errors: Array) -> Array:
        """Take logarithms (k,) of errors, between the least and the largest one that count."""
        finite = np.nan_to_num(errors, nan=self.diverged, posinf=self.diverged)
        return np.log(np.clip(finite, self.floor, self.diverged))

    def is_as_good(self, logarithms: Array, of_best: Array) -> bool:
        """Tell whether errors are equal to the least ones, by logarithms (k,) of the runs of all folds,
        one fold after the other.
        """
        return self._nearly_equal(logarithms, of_best, self.standard_errors)

    def is_refuted(self, logarithms: Array, of_best: Array) -> bool:
        """Tell whether errors will hardly be equal to the least ones on further runs."""
        return not self._nearly_equal(logarithms, of_best, self.refuted)

    def _nearly_equal(self, logarithms: Array, of_best: Array, standard_errors: float) -> bool:
        worse = logarithms - of_best
        standard_error = worse.std(ddof=min(1, len(worse) - 1)) / np.sqrt(len(worse))
        return bool(worse.mean() <= max(standard_errors * standard_error, self.tie))
