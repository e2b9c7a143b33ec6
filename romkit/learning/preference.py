"""Choice between a law and runs interpolated in the context, by training runs that are left out."""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.data import context_matrix, trajectories
from romkit.integrators.laws.baselines import interpolated_runs
from romkit.learning.contexts import scaled_contexts
from romkit.learning.errors import without_gaps
from romkit.learning.scale import deviations

BETTER = 0.5
"""Error of the interpolation, in that of the law, geometric mean of the runs, below which it is taken:
a law holds for other starts and longer times, too.
"""

NEGLIGIBLE = 0.005
"""Error of a law [deviations] that needs no replacement."""


def can_interpolate(train: xr.Dataset, period: float | None) -> bool:
    """Whether runs can be interpolated at equal times: of contexts that stay, to one end, and
    without inputs of their own.
    """
    if "control" in train and period is None:
        return False
    if context_matrix(train).ndim == 3:
        return False
    ends = train["state"].isel(time=-1).values
    return bool(np.isfinite(ends).any(-1).all())


def is_better(train: xr.Dataset, of_law: Sequence[tuple[Tensor, Tensor]]) -> bool:
    """Whether the interpolation is better than the law on training runs that are left out: in the
    mean, and typically by far.

    Args:
        train: the runs.
        of_law: numbers of the runs that a fold leaves out, and the errors (k,) of the law on these.
    """
    if not of_law:
        return False
    several = [errors_left_out(train, rows) for rows, _ in of_law]
    interpolation = torch.cat(several)
    law = torch.cat([errors for _, errors in of_law]).double()
    is_finite = law.isfinite() & interpolation.isfinite()
    law = law[is_finite]
    interpolation = interpolation[is_finite]
    if len(law) == 0 or law.mean() <= NEGLIGIBLE:
        return False
    if interpolation.mean() >= law.mean():
        return False
    # a run at the edge, where both err, does not hide what holds for the others
    ratio = interpolation / law.clamp(min=NEGLIGIBLE)
    geometric_mean = ratio.log().mean().exp()
    return bool(geometric_mean < BETTER)


def errors_left_out(train: xr.Dataset, rows: Tensor) -> Tensor:
    """Errors (k,) of the interpolation between the other training runs on these [deviations]."""
    states = torch.from_numpy(without_gaps(train))
    relative = states / torch.from_numpy(deviations(train))
    contexts = torch.from_numpy(scaled_contexts(train, train))
    is_kept = torch.ones(len(states), dtype=torch.bool)
    is_kept[rows] = False
    between = interpolated_runs(relative[is_kept], contexts[is_kept], contexts[rows])
    is_observed = trajectories(train, "state").isfinite()[rows]
    error = torch.where(is_observed, between - relative[rows], torch.nan)
    return error.square().nanmean(-1).sqrt().nanmean(-1)
