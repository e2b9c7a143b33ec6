"""Errors of a chosen law at training runs, each by a fit that lacks these runs alone.

Laws are chosen by folds that may lack several contexts at once. Of six contexts two are left out,
and a law that bridges such gaps errs by many times what the final one does, while an interpolation
gains less from each further context.
"""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import tensors
from romkit.data import trajectories
from romkit.learning.contexts import groups_between
from romkit.learning.errors import distances
from romkit.learning.manifolds import Model
from romkit.learning.scale import deviations
from romkit.learning.turns import missed_in_turn

MOST = 4
"""Most contexts that a law is fitted without: each takes as long as the final fit."""

LOST = 1.0
"""Error at which a forecast that is lost counts, about that of rest at the mean [deviations]."""


def errors_without(model: Model, train: xr.Dataset, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Numbers of the runs at a context between others, and errors (k,) on these of the law with the
    same settings, fitted to all others [deviations of the training]; a pair for each context.

    Args:
        model: whose settings are taken.
        train: the runs.
        seed: of the fits.
    """
    scale = deviations(train)
    groups = groups_between(train)
    groups = [groups[place] for place in tensors.evenly(len(groups), MOST).tolist()]
    fits = missed_in_turn(model, train, groups, seed, "laws without a context")
    several = []
    for left_out, (_, missed, run) in zip(groups, fits, strict=True):
        truth = trajectories(missed, "state").double().numpy()  # (k, T, n)
        forecast = run["rom"].values.reshape(truth.shape)
        error = torch.from_numpy(distances(forecast / scale, truth / scale)).nanmean(-1)
        is_lost = (np.isnan(forecast) & np.isfinite(truth)).any((1, 2))
        error[torch.from_numpy(is_lost)] = LOST
        several.append((torch.from_numpy(left_out), error))
    return several
