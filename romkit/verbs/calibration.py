"""Calibration of intervals: the scale of errors, and quantiles of errors in this scale."""

from collections.abc import Sequence
from dataclasses import field

import numpy as np
import xarray as xr

from romkit.core.errors import InputError
from romkit.core.types import Array, ArrayPair, Kwargs, frozen
from romkit.verbs.sizes import Sizes, Widening

LEVELS = np.linspace(0.0, 1.0, 201)
"""Levels at which the distribution of errors is kept."""

DIMENSIONS = {
    "lead": "time",
    "growth": "time",
    "profile": "component",
    "quantiles": "level",
    "disagreement": "time",
    "contexts": ("run", "parameter"),
    "of_runs": "run",
    "width": "parameter",
}
"""Dimensions of the arrays of a calibration and of its sizes, in a file."""


@frozen
class Calibration:
    """The scale of errors s(t, k) = √(spread² + (growth(t) profile(k))²), and quantiles of |error|
    / s.

    The spread of an ensemble says where members disagree; what they have in common (the projection,
    terms that no member has) is seen in validation alone, and enters by growth over the time since
    the start and profile over the components.

    Attributes:
        lead: (T,) times since the start.
        growth: (T,) root mean square error, in standard deviations of the components.
        profile: (n,) of each component, in its own unit.
        quantiles: of |error| / s, at `LEVELS`; a lost forecast has an infinite error.
        trajectories: how many it was made of.
        lost: how many trajectories were left out, since their forecasts are lost.
        disagreement: (T,) largest spread on one of the trajectories up to each time, root mean square
            in units of the profile. Where members disagree more, from a start unlike those of
            validation say, the scale grows as much. None where it does not.
        sizes: of errors from context to context, of which growth is the ratio; None where it is the
            same everywhere.

    Example:
        >>> import numpy as np
        >>> from romkit.ensemble import Calibration
        >>> error = np.random.default_rng(0).normal(size=(4, 20, 3))  # of four trajectories that no member has seen
        >>> calibration = Calibration.fit(np.linspace(0, 1, 20), error, spread=np.zeros_like(error), std=np.ones(3))
        >>> calibration.trajectories, calibration.factor(0.5) < calibration.factor(0.9)
        (4, True)
        >>> calibration.scale(np.array([0.0, 0.5]), np.zeros((2, 3))).shape
        (2, 3)
    """

    lead: Array = field(repr=False)
    growth: Array = field(repr=False)
    profile: Array = field(repr=False)
    quantiles: Array = field(repr=False)
    trajectories: int
    lost: int = 0
    disagreement: Array | None = field(default=None, repr=False)
    sizes: Sizes | None = field(default=None, repr=False)

    @classmethod
    def fit(
        cls,
        times: Array,
        error: Array,
        spread: Array,
        std: Array,
        typical: bool = False,
        *,
        unit: Array | None = None,
        enough: int = 4,
    ) -> "Calibration":
        """Calibrate by trajectories that no member was fitted to.

        Args:
            times: (T,).
            error: (V, T, n) truth - mean; NaN where the truth is missing, infinite where the
                forecast is lost.
            spread: (V, T, n) standard deviation of the members.
            std: (n,) of the components in training.
            typical: whether growth is that of the median trajectory, so that a few with large
                errors, where members disagree, leave the others narrow intervals. The scale then
                grows where members disagree by more than on any of these.
            unit: (V, T, n) of the errors, where that differs from value to value; 1 by default. It
                is overwritten.
            enough: trajectories from which on the error of one is measured by the scale of the
                others.

        Raises:
            InputError: fewer than two trajectories with a finite error.
        """
        usable = np.isfinite(error).any(axis=(1, 2))
        if usable.sum() < 2:
            raise InputError(
                "validation",
                expected="two trajectories or more",
                got=f"{usable.sum()}",
                fix="hold more trajectories out, or raise the number of members",
            )
        scores = np.abs(error)
        weights = np.ones_like(error) if unit is None else unit
        growth, profile = growth_and_profile(error, std, typical)
        for k in np.flatnonzero(usable):
            of_others = growth, profile
            if usable.sum() >= enough:
                # as for a new trajectory; of one or two others it would be chance
                kept = np.delete(np.arange(len(error)), k)
                of_others = growth_and_profile(error, std, typical, kept.tolist())
            own_scale = scale(spread[k], *of_others)
            scores[k] /= own_scale
            weights[k] *= own_scale / std
        seen = (~np.isnan(error)).any(axis=(1, 2))
        quantiles = conformal_quantiles(scores, np.square(weights, out=weights))
        disagreement = None
        if typical:
            disagreement = largest_disagreement(spread[usable], profile)
        number = int(seen.sum())
        return cls(times - times[0], growth, profile, quantiles, number, disagreement=disagreement)

    def scale(self, lead: Array, spread: Array, contexts: Array | None = None) -> Array:
        """s (..., T, n) at times (T,) since the start; behind the last one of validation, the
        growth stays.

        Args:
            lead: (T,).
            spread: (..., T, n) of the members.
            contexts: (..., p), where errors have sizes from context to context.
        """
        growth = np.interp(lead, self.lead, self.growth)
        if self.sizes is not None:
            assert contexts is not None  # of runs between whose contexts sizes differ
            growth = self.sizes.at(contexts)[..., None] * growth  # (..., T)
        excess = self.excess(lead, spread)[..., None]
        return excess * scale(spread, growth, self.profile)

    def excess(self, lead: Array, spread: Array) -> Array:
        """Spread up to times (..., T) since the start, in the largest one of validation; at least
        1.
        """
        disagreement = _disagreement(spread, self.profile)
        if self.disagreement is None:
            return np.ones_like(disagreement)
        largest = np.interp(lead, self.lead, self.disagreement)  # (T,)
        excess = np.divide(disagreement, largest, out=np.ones_like(disagreement), where=largest > 0)
        return np.maximum(excess, 1.0)

    def factor(self, level: float) -> float:
        """Return factor of the scale s for an interval of this level.

        Scores of each trajectory were measured by a scale that comes from the others, as that of a
        new one will be, so the quantile at this level covers this share of new ones on average;
        with few trajectories it varies.

        Source: Vovk, Gammerman, Shafer (2005), conformal prediction; Barber, Candès, Ramdas,
        Tibshirani (2021), jackknife+; trajectories as the units: Dunn, Wasserman, Ramdas (2023).
        """
        return float(np.interp(level, LEVELS, self.quantiles))

    def to_dataset(self) -> xr.Dataset:
        """Calibration as a dataset, for a file."""
        facts = vars(self)
        attrs: dict[str, float] = {"trajectories": self.trajectories, "lost": self.lost}
        if self.sizes is not None:
            facts = facts | vars(self.sizes)
            attrs |= self.sizes.widening._asdict()
        variables = {}
        for name, dims in DIMENSIONS.items():
            if facts.get(name) is not None:
                variables[name] = (dims, facts[name])
        return xr.Dataset(variables, attrs=attrs)

    @classmethod
    def from_dataset(cls, data: xr.Dataset) -> "Calibration":
        """Calibration from the dataset that `to_dataset` made."""
        values: Kwargs = {n: data[n].values for n in DIMENSIONS if n in data}
        sizes = None
        if "of_runs" in values:
            arrays = {name: values.pop(name) for name in ("contexts", "of_runs", "width")}
            widening = Widening(float(data.attrs["factor"]), bool(data.attrs["relative"]))
            sizes = Sizes(**arrays, widening=widening)
        values |= {name: int(data.attrs[name]) for name in ("trajectories", "lost")}
        return cls(**values, sizes=sizes)


def conformal_quantiles(scores: Array, weights: Array) -> Array:
    """Quantiles at `LEVELS` of scores, of which infinite ones count and NaN do not.

    They are those of all values alike, or of values that count by their weights, whichever are
    larger. A front passes few places at a time: the others are at rest, where nothing errs, and
    bars that hold at most places may miss the front at all times. With the squares of their scales
    as weights values count as much as they are expected to err.

    Source: Tibshirani, Barber, Candès, Ramdas (2019), Conformal prediction under covariate shift,
    for quantiles with weights.

    Example:
        >>> import numpy as np
        >>> from romkit.verbs.calibration import LEVELS, conformal_quantiles
        >>> scores = np.repeat([0.0, 2.0], [95, 5])  # at rest, and on a front
        >>> [float(np.interp(0.9, LEVELS, conformal_quantiles(scores, w))) for w in (np.ones(100), scores)]
        [0.0, 2.0]
    """
    is_known = ~np.isnan(scores)
    values = scores[is_known]
    order = np.argsort(values)
    values = values[order]
    place = LEVELS * (len(values) - 1)
    below = values[np.floor(place).astype(int)]
    above = values[np.ceil(place).astype(int)]
    # between a finite score and an infinite one there is nothing to interpolate
    step = np.where(np.isinf(above), 0.0, above) - np.where(np.isinf(below), 0.0, below)
    alike = np.where(np.isinf(above), np.inf, below + place % 1 * step)
    share = np.cumsum(weights[is_known][order])
    last = np.searchsorted(share, LEVELS * share[-1])
    return np.maximum(alike, values[np.minimum(last, len(values) - 1)])


def growth_and_profile(
    error: Array,
    std: Array,
    typical: bool,
    runs: Sequence[int] | None = None,
    *,
    smoothed: int = 20,
) -> ArrayPair:
    """growth (T,) and profile (n,) of errors (V, T, n), whose product is close to the root mean
    square at (t, k), or to the median of those of the trajectories.

    `runs`: numbers of the trajectories that count; all by default. They are looked at one by one,
    since errors of fields are large.

    `smoothed`: growth of the error over time is a moving mean over this share of the
    trajectory.
    """
    if runs is None:
        runs = range(len(error))
    squares, counts = [], []
    for run in runs:
        square, known = _known_squares(error[run], std)
        squares.append(square.sum(-1))
        counts.append(known.sum(-1))
    of_times = np.array(squares)  # (V, T)
    known_of_times = np.array(counts)
    weights = np.ones(len(runs))
    if typical:
        # each trajectory in units of its own error, times the median of these errors
        numbers = known_of_times.sum(1)
        sizes = np.divide(of_times.sum(1), numbers, out=np.zeros(len(runs)), where=numbers > 0)
        median = np.median(sizes[numbers > 0])
        weights = np.divide(median, sizes, out=np.zeros(len(runs)), where=sizes > 0)
    known_at_times = (weights > 0) @ known_of_times  # (T,)
    finite = np.flatnonzero(known_at_times)
    T = len(known_at_times)
    growth = np.zeros(T)
    if len(finite):
        known_growth = np.sqrt((weights @ of_times)[finite] / known_at_times[finite])
        growth = np.interp(np.arange(T), finite, known_growth)
    window = 2 * (T // (2 * smoothed)) + 1
    from scipy.ndimage import uniform_filter1d  # slow to import, and seldom needed

    growth = uniform_filter1d(growth, window, mode="nearest")
    # an exact forecast at the start must not divide by zero
    least = max(growth.max() * 1e-6, np.finfo(float).tiny)
    growth = np.maximum(growth, least)
    total = np.zeros(len(std))
    number = np.zeros(len(std))
    for run, weight in zip(runs, weights, strict=True):
        if weight > 0:
            square, known = _known_squares(error[run], std)
            total += (weight / np.square(growth)) @ square
            number += known.sum(0)
    mean_square = np.divide(total, number, out=np.zeros(len(std)), where=number > 0)
    return growth, std * np.maximum(np.sqrt(mean_square), 1e-6)


def _known_squares(error: Array, std: Array) -> ArrayPair:
    """Return squares of errors (T, n) in deviations, 0 where they are not finite, and where they are."""
    square = np.square(error / std)
    finite = np.isfinite(square)
    square[~finite] = 0.0
    return square, finite


def _disagreement(spread: Array, profile: Array) -> Array:
    """Root mean square (..., T) of a spread (..., T, n) up to each time, in units of the profile."""
    square = np.square(np.nan_to_num(spread) / profile).mean(-1)  # (..., T)
    samples = np.arange(1, square.shape[-1] + 1)
    return np.sqrt(np.cumsum(square, -1) / samples)


def largest_disagreement(spread: Array, profile: Array, *, start: float = 0.05) -> Array:
    """Return the largest (T,) of the disagreements of members that spread by (V, T, n).

    `start`: least spread of validation at a time, in the largest one at all times.
    """
    largest = _disagreement(spread, profile).max(0)
    # the first states are nearly the same for all members
    return np.maximum(largest, start * largest.max())


def scale(spread: Array, growth: Array, profile: Array) -> Array:
    """s (..., T, n) of spreads, growths (..., T) and a profile (n,)."""
    # of a single member there is no spread, and growth is all
    error = growth[..., None] * profile
    return np.hypot(np.nan_to_num(spread), error)
