"""Error of a forecast: one measure, and one value for a forecast that is lost."""

from statistics import NormalDist

import numpy as np

from romkit.core.types import Array

LOST = 2.0
"""Error of a forecast that is lost, and the largest that counts at a time, in the size of what is
forecast (deviations, largest latents): that of a wave of the right size in antiphase. Rest at the
mean errs by 1, a wave at a random phase by √2.
"""


def forecast_error(
    states: Array, truth: Array, scale: Array | float = 1.0, *, lost: float = LOST
) -> Array:
    """Measure forecasts: root mean square over components, at most `lost`, mean over time.

    A forecast that is not finite at a time is lost there. Where all components of the truth are
    missing, a time does not count; where some are, the others do.

    Args:
        states: (..., T, n) forecasts.
        truth: (..., T, n), NaN where it is missing.
        scale: (n,) deviations of the components, in which errors are measured.
        lost: error of a forecast that is lost, np.inf for one that spoils its mean.

    Returns:
        (...) error of each run; NaN where nothing is known of the truth.

    Example:
        >>> import numpy as np
        >>> from romkit.numerics import forecast_error
        >>> wave = np.sin(np.linspace(0, 2 * np.pi, 101))[:100, None]
        >>> forecast_error(np.stack([wave, 0 * wave, np.nan * wave]), wave, wave.std()).round(2)
        array([0. , 0.9, 2. ])
    """
    finite = np.isfinite(truth)  # (..., T, n)
    finite = np.broadcast_to(finite, np.broadcast_shapes(states.shape, truth.shape))
    apart = np.where(finite, (states - np.where(finite, truth, 0.0)) / scale, 0.0)
    number = finite.sum(-1)  # (..., T)
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.sqrt(np.square(apart).sum(-1) / np.maximum(number, 1))
    distance = np.where(np.isfinite(distance), np.minimum(distance, lost), lost)
    counts = number > 0
    times = counts.sum(-1)
    total = np.where(counts, distance, 0.0).sum(-1)
    return np.where(times > 0, total / np.maximum(times, 1), np.nan)


def normal_factor(level: float) -> float:
    """Return half the width of the interval of a level of a normal distribution, in deviations.

    Example:
        >>> from romkit.numerics import normal_factor
        >>> round(normal_factor(0.95), 2)
        1.96
    """
    return NormalDist().inv_cdf((1 + level) / 2)
