"""Sizes of the errors of forecasts from context to context, by those of the runs around it."""

from typing import NamedTuple

import numpy as np
import torch

from romkit.core.types import Array, frozen
from romkit.numerics import Kriging, Nearest
from romkit.numerics.smoothers import smooth_matern


class Widening(NamedTuple):
    """Growth of the size e of an error in a gap: √(e² + (factor · gap)²), or e √(1 + (factor · gap)²).

    Attributes:
        factor: by which a gap counts.
        relative: whether it counts in units of e.

    Example:
        >>> import numpy as np
        >>> from romkit.verbs.sizes import Widening
        >>> Widening(3.0, relative=True).of(np.array([2.0]), np.array([0.0])).tolist()
        [2.0]
    """

    factor: float
    relative: bool

    @classmethod
    def fitted(cls, sizes: Array, gaps: Array, missed: Array) -> "Widening":
        """Fit to sizes (V,) of the errors of runs that were missed, in gaps (V,) between runs on which
        the errors are `sizes`: the median over the runs, of the kind that makes their ratios to what
        it says scatter less.
        """
        excess = np.maximum(np.square(missed) - np.square(sizes), 0.0)
        fits = []
        for relative in (True, False):
            unit = sizes if relative else np.ones_like(sizes)
            factor = np.sqrt(np.median(excess / np.square(gaps * unit)))
            fits.append(cls(float(factor), relative))
        return min(fits, key=lambda each: np.log(missed / each.of(sizes, gaps)).std())

    def of(self, sizes: Array, gaps: Array) -> Array:
        """Return sizes (k,) of errors in gaps (k,), of those beside runs (k,)."""
        added = self.factor * gaps
        return np.hypot(sizes, added * sizes if self.relative else added)


@frozen
class Sizes:
    """Size of the error of a law at a context: e(c), and more in a gap between runs.

    Errors differ from context to context, by orders of magnitude next to a bifurcation. Those of the
    runs that a law has learned from say where, and cost no further run: e(c) is their geometric mean
    with weights by distance. Between runs a law errs by more, and by the more the wider the gap is:
    runs that a law has missed say how much.

    Attributes:
        contexts: (R, p) of the runs that the law has learned from.
        of_runs: (R,) its errors on these [deviations].
        width: (p,) of the ranges of contexts, in which distances are measured.
        widening: in gaps.

    Source: Papadopoulos, Gammerman, Vovk (2008), normalized nonconformity measures; Shepard (1968),
    interpolation by distance.

    Example:
        >>> import numpy as np
        >>> from romkit.verbs.sizes import Sizes, Widening
        >>> runs, none = np.array([[0.0], [1.0], [2.0]]), Widening(0.0, relative=True)
        >>> sizes = Sizes(runs, np.array([4.0, 1.0, 1.0]), width=np.array([2.0]), widening=none)
        >>> sizes.at(np.array([[0.0], [1.0]])).round(6)
        array([4., 1.])
    """

    contexts: Array
    of_runs: Array
    width: Array
    widening: Widening

    def at(self, contexts: Array) -> Array:
        """Return sizes (k,) at contexts (k, p)."""
        runs = self.contexts / self.width
        wanted = contexts / self.width
        return self.widening.of(gap_sizes(runs, self.of_runs, wanted), gaps(runs, wanted))


def gap_sizes(runs: Array, of_runs: Array, wanted: Array, *, smallest: float = 1e-12) -> Array:
    """Geometric mean (k,) of sizes (R,) at runs (R, p), with weights by the square of the distance of
    wanted contexts (k, p).

    `smallest`: least size, in the largest one: errors of runs that are all at rest vanish.
    """
    weights = Nearest().weights(torch.from_numpy(runs), torch.from_numpy(wanted))  # (k, R)
    least = max(smallest * of_runs.max(), np.finfo(float).tiny)
    logarithms = np.log(np.maximum(of_runs, least))
    return np.exp(weights.numpy() @ logarithms)


def gaps(runs: Array, wanted: Array, *, jitter: float = 1e-12) -> Array:
    """Width (k,) of the gaps between runs (R, p) around wanted contexts (k, p), whatever the number of
    parameters: the deviation there of a random function with two derivatives, of variance 1, that is
    known at the runs. In a narrow gap between two runs it goes with the width to the power 5/2: with
    one derivative bars of eleven sets of `studies.first_afternoon` were too wide in four.

    `jitter`: variance that is added to a covariance, so that it can be inverted.

    Source: Rasmussen, Williams (2006), Gaussian processes, equations 2.26 and 4.17 with reach 1.
    """
    known, at = torch.from_numpy(np.unique(runs, axis=0)), torch.from_numpy(wanted)
    kriging = Kriging(smooth_matern, noise=jitter, degree=None)
    variance = kriging.variance(known, at, kriging.weights(known, at))
    return variance.clamp(min=jitter).sqrt().numpy()
