"""Laws that are of no use: what a law leaves unexplained, and one warning that says so."""

import torch
from torch import Tensor

from romkit.core.broadcast import align
from romkit.core.errors import FitWarning, warn
from romkit.integrators.base import LearnedField
from romkit.laws.samples import LatentSamples

EXPLAINED = 0.9
"""Share of the variance of a rate that a law should explain."""

AT_REST = 1.0
"""Error of a model at rest at the mean of the data [deviations of the data]."""

DOUBTFUL = 0.01
"""Share of the variance of a rate that a law leaves, from which on its forecasts are looked at."""

USEFUL = 0.3
"""Error of forecasts [deviations of the data] of a law that is of use, whatever noisy rates say."""

NOTABLE = 0.1
"""Error [deviations of the data] from which on a comparison with the nearest run counts."""

FIX = "more latents, another kind of law, delay coordinates (romkit.data.delayed), or cleaner data"
"""Advice where a kind of laws has none of its own."""


def unexplained(law: LearnedField, samples: LatentSamples) -> Tensor:
    """Return share (..., m) of the variance of each rate that a law leaves, at samples of states
    and rates.

    Zero for a rate that does not vary, infinite or NaN rates of the law count as 1.
    """
    complete = samples.complete()
    rate = complete.targets.double()
    with torch.no_grad():
        context = complete.context.double()
        missed = rate - law.right_hand_side(context)(complete.inputs.double())
    variance = rate.var(-2, correction=0)
    share = missed.square().mean(-2) / variance
    share = torch.where(variance > 0, share, 0.0)
    return share.nan_to_num(nan=1.0, posinf=1.0)


def unexplained_share(residual: Tensor, targets: Tensor) -> Tensor:
    """Return share from residuals (..., m) that are relative to the root mean square of rates
    (..., N, m).
    """
    variance = align(targets.var(-2, correction=0), residual)
    square = align(targets.square().mean(-2), residual)
    missed = residual.square() * square
    share = torch.where(variance > 0, missed / variance, 0.0)
    return share.nan_to_num(nan=1.0, posinf=1.0)


def warn_if_useless(
    what: str,
    *,
    unexplained: float | None = None,
    error: float | None = None,
    nearest: float | None = None,
    shifted: float | None = None,
    fix: str = FIX,
) -> bool:
    """Warn once where a law explains too little, or forecasts no better than what needs no law.

    Args:
        what: name of the law.
        unexplained: largest share of the variance of a rate that it leaves.
        error: of its forecasts [deviations of the data].
        nearest: error of the run of the nearest context in its place.
        shifted: the same, shifted in time to the nearest state.
        fix: advice.

    Returns:
        Whether it warned.
    """
    if error is not None and error < USEFUL:
        unexplained = None
    faults = [
        *_rate_faults(unexplained),
        *_forecast_faults(error, nearest, shifted),
    ]
    if not faults:
        return False
    warn(f"{what}: this law is of little use: {'; '.join(faults)}. Try {fix}", FitWarning)
    return True


def _rate_faults(unexplained: float | None) -> list[str]:
    if unexplained is None or unexplained <= 1 - EXPLAINED:
        return []
    explained = max(0.0, 1 - unexplained)
    return [
        f"it explains {explained:.0%} of the variance of a rate, at least {EXPLAINED:.0%} expected"
    ]


def _forecast_faults(
    error: float | None, nearest: float | None, shifted: float | None
) -> list[str]:
    if error is None:
        return []
    if not error < AT_REST:  # NaN included
        return [f"its forecasts err by {error:.2g} deviations of the data, rest by {AT_REST:g}"]
    if error < NOTABLE:
        return []
    better = []
    for name, baseline in (
        ("the nearest run", nearest),
        ("the nearest run shifted in time", shifted),
    ):
        if baseline is not None and baseline < error:
            better.append(f"{name} by {baseline:.2g}")
    if not better:
        return []
    baselines = " and ".join(better)
    return [f"its forecasts err by {error:.2g} deviations of the data, {baselines}"]
