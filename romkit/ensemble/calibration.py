"""What validation says about the errors of an ensemble: how they grow, where they are, and how they are distributed."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from romkit.errors import InputError

LEVELS = np.linspace(0.0, 1.0, 201)
"""Levels at which the distribution of errors is kept."""

SMOOTHED = 20
"""Growth of the error over time is a moving mean over this share of the trajectory."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """The scale of errors s(t, k) = √(spread² + (growth(t) profile(k))²), and quantiles of |error| / s.

    The spread of an ensemble says where members disagree; what they have in common (the projection, terms that no
    member has) is seen in validation alone, and enters by growth over the time since the start and profile over the
    components.

    Attributes:
        lead: (T,) times since the start.
        growth: (T,) root mean square error, in standard deviations of the components.
        profile: (n,) of each component, in its own unit.
        quantiles: of |error| / s, at `LEVELS`; a lost forecast has an infinite error.
        trajectories: how many it was made of.

    Example:
        >>> import numpy as np
        >>> from romkit.ensemble import Calibration
        >>> error = np.random.default_rng(0).normal(size=(4, 20, 3))  # of four trajectories that no member has seen
        >>> calibration = Calibration.of(np.linspace(0, 1, 20), error, spread=np.zeros_like(error), std=np.ones(3))
        >>> calibration.trajectories, calibration.factor(0.5) < calibration.factor(0.9)
        (4, True)
        >>> calibration.scale(np.array([0.0, 0.5]), np.zeros((2, 3))).shape
        (2, 3)
    """

    lead: np.ndarray
    growth: np.ndarray
    profile: np.ndarray
    quantiles: np.ndarray
    trajectories: int

    @classmethod
    def of(cls, times: np.ndarray, error: np.ndarray, spread: np.ndarray, std: np.ndarray) -> "Calibration":
        """From trajectories that no member was fitted to.

        Args:
            times: (T,).
            error: (V, T, n) truth - mean; NaN where the truth is missing, infinite where the forecast is lost.
            spread: (V, T, n) standard deviation of the members.
            std: (n,) of the components in training.

        Raises:
            InputError: fewer than two trajectories with a finite error.
        """
        usable = np.isfinite(error).any(axis=(1, 2))
        if usable.sum() < 2:
            fix = "hold more trajectories out, or raise the number of members"
            raise InputError("validation", expected="two trajectories or more", got=f"{usable.sum()}", fix=fix)
        scores = np.abs(error)
        for k in np.flatnonzero(usable):  # the scale that a trajectory is measured by comes from the others
            scores[k] /= _scale(spread[k], *_shape(np.delete(error, k, axis=0), std))
        number = int((~np.isnan(error)).any(axis=(1, 2)).sum())
        return cls(times - times[0], *_shape(error, std), _quantiles(scores[~np.isnan(scores)]), number)

    def scale(self, lead: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """s (..., T, n) at times (T,) since the start; behind the last one of validation, the growth stays."""
        return _scale(spread, np.interp(lead, self.lead, self.growth), self.profile)

    def factor(self, level: float) -> float:
        """By which s is multiplied for an interval of this level.

        Scores of each trajectory were measured by a scale that comes from the others, as that of a new one will be, so
        the quantile at this level covers this share of new ones on average; with few trajectories it varies.

        Source: Vovk, Gammerman, Shafer (2005), conformal prediction; Barber, Candès, Ramdas, Tibshirani (2021),
        jackknife+; trajectories as the units: Dunn, Wasserman, Ramdas (2023).
        """
        return float(np.interp(level, LEVELS, self.quantiles))

    def to_dataset(self) -> xr.Dataset:
        """For a file."""
        variables = {
            "growth": ("time", self.growth),
            "profile": ("component", self.profile),
            "quantiles": ("level", self.quantiles),
        }
        coords = {"time": self.lead, "level": LEVELS}
        return xr.Dataset(variables, coords, {"trajectories": self.trajectories})

    @classmethod
    def from_dataset(cls, data: xr.Dataset) -> "Calibration":
        """What `to_dataset` gave."""
        parts = (data[name].values for name in ("time", "growth", "profile", "quantiles"))
        return cls(*parts, int(data.attrs["trajectories"]))


def _quantiles(scores: np.ndarray) -> np.ndarray:
    """At `LEVELS`, of scores that may be infinite."""
    infinite = np.isinf(np.quantile(scores, LEVELS, method="higher"))
    finite = np.where(np.isinf(scores), np.finfo(float).max, scores)
    return np.where(infinite, np.inf, np.quantile(finite, LEVELS))


def _shape(error: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """growth (T,) and profile (n,) of errors (V, T, n), whose product is close to the root mean square at (t, k)."""
    relative = np.square(error / std)
    counted = np.isfinite(relative)
    mean = lambda axis: np.where(counted, relative, 0.0).sum(axis) / np.maximum(counted.sum(axis), 1)  # noqa: E731
    growth = _smooth(np.sqrt(_filled(mean((0, 2)), counted.any((0, 2)))))
    floor = max(float(growth.max()) * 1e-6, np.finfo(float).tiny)
    growth = np.maximum(growth, floor)
    relative = np.where(counted, relative, 0.0) / np.square(growth)[:, None]
    profile = np.sqrt(relative.sum((0, 1)) / np.maximum(counted.sum((0, 1)), 1))
    return growth, std * np.maximum(profile, 1e-6)


def _filled(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    return np.interp(np.arange(len(values)), np.flatnonzero(known), values[known])


def _smooth(values: np.ndarray) -> np.ndarray:
    half = max(0, len(values) // (2 * SMOOTHED))
    padded = np.pad(values, half, mode="edge")
    return np.convolve(padded, np.ones(2 * half + 1) / (2 * half + 1), mode="valid")


def _scale(spread: np.ndarray, growth: np.ndarray, profile: np.ndarray) -> np.ndarray:
    return np.hypot(np.nan_to_num(spread), growth[:, None] * profile)  # growth alone where one member is left
