"""Sizes of the errors of forecasts from context to context, by those of the runs around it."""

from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr

from romkit.core.types import Array
from romkit.numerics import Kriging, Nearest
from romkit.numerics.smoothers import matern


@dataclass(frozen=True, eq=False)
class Sizes:
    """Size of the error of a law at a context: e(c) √(1 + widening gap(c)²).

    Errors differ from context to context, by orders of magnitude next to a bifurcation. Those of the
    runs that a law has learned from say where, and cost no further run: e(c) is their geometric mean
    with weights by distance. Between runs a law errs by more, and by the more the wider the gap is:
    runs that a law has missed say how much.

    Attributes:
        contexts: (R, p) of the runs that the law has learned from.
        of_runs: (R,) its errors on these [deviations].
        width: (p,) of the ranges of contexts, in which distances are measured.
        widening: of squares of errors, by the square of a gap.

    Source: Papadopoulos, Gammerman, Vovk (2008), normalized nonconformity measures; Shepard (1968),
    interpolation by distance.

    Example:
        >>> import numpy as np
        >>> from romkit.verbs.sizes import Sizes
        >>> runs = np.array([[0.0], [1.0], [2.0]])
        >>> sizes = Sizes(runs, np.array([4.0, 1.0, 1.0]), width=np.array([2.0]), widening=0.0)
        >>> sizes.at(np.array([[0.0], [1.0]])).round(6)
        array([4., 1.])
    """

    contexts: Array
    of_runs: Array
    width: Array
    widening: float

    def at(self, contexts: Array) -> Array:
        """Return sizes (k,) at contexts (k, p)."""
        runs = self.contexts / self.width
        wanted = contexts / self.width
        widened = 1 + self.widening * np.square(gaps(runs, wanted))
        return sizes_between(runs, self.of_runs, wanted) * np.sqrt(widened)

    def to_dataset(self) -> xr.Dataset:
        """Return sizes as a dataset, for a file."""
        variables = {
            "context_of_runs": (("run", "parameter"), self.contexts),
            "size_of_runs": ("run", self.of_runs),
            "width": ("parameter", self.width),
        }
        return xr.Dataset(variables, attrs={"widening": self.widening})

    @classmethod
    def from_dataset(cls, data: xr.Dataset) -> "Sizes | None":
        """Return sizes from a dataset that has those of `to_dataset`; None from one without."""
        if "size_of_runs" not in data:
            return None
        contexts = data["context_of_runs"].values
        of_runs = data["size_of_runs"].values
        return cls(contexts, of_runs, data["width"].values, float(data.attrs["widening"]))


def sizes_between(runs: Array, of_runs: Array, wanted: Array, *, smallest: float = 1e-12) -> Array:
    """Geometric mean (k,) of sizes (R,) at runs (R, p), with weights by the square of the distance of
    wanted contexts (k, p).

    `smallest`: least size, in the largest one: errors of runs that are all at rest vanish.
    """
    weights = Nearest().weights(torch.from_numpy(runs), torch.from_numpy(wanted))  # (k, R)
    least = max(smallest * of_runs.max(), np.finfo(float).tiny)
    logarithms = np.log(np.maximum(of_runs, least))
    return np.exp(weights.numpy() @ logarithms)


def gaps(runs: Array, wanted: Array, *, jitter: float = 1e-10) -> Array:
    """Width (k,) of the gaps between runs (R, p) around wanted contexts (k, p), whatever the number of
    parameters: the deviation there of a random function with one derivative, of variance 1, that is
    known at the runs. In a narrow gap between two runs it goes with the width to the power 3/2.

    `jitter`: variance that is added to a covariance, so that it can be inverted.

    Source: Rasmussen, Williams (2006), Gaussian processes, equations 2.24 and 4.17 with reach 1.
    """
    known, at = torch.from_numpy(np.unique(runs, axis=0)), torch.from_numpy(wanted)
    kriging = Kriging(matern, noise=jitter, degree=None)
    variance = kriging.variance(known, at, kriging.weights(known, at))
    return variance.clamp(min=jitter).sqrt().numpy()
