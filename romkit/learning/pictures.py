"""Picture of a learned model along its held-out runs."""

import numpy as np
import torch
import xarray as xr

from romkit.learning import words
from romkit.learning.errors import distances
from romkit.learning.judged import Judged
from romkit.metrics import valid_time
from romkit.plotting import plot_rollout
from romkit.plotting.style import Figure


def picture(learned: Judged) -> Figure:
    """Truth, model and difference of held-out runs, with the error over time."""
    figure = plot_rollout(forecast_run(learned))
    shown = figure.get_suptitle().replace("the first", "the worst")
    figure.suptitle(f"{words.title(learned)}\n{shown}")
    return figure


def forecast_run(learned: Judged) -> xr.Dataset:
    """Return forecasts of the runs that judge a model beside their truth, with errors as `errors` has
    them; the worst one is the first.
    """
    run = learned.run
    if learned.interpolated is not None:
        between = run["between"]
        run = run.assign(rom=(between.dims, between.values, run["rom"].attrs))
        run = run.assign_attrs(forecast_by=words.describe_interpolation(learned))
    truth = run["truth"].values / learned.scale
    changed = {}
    for error, states in (("nrmse", "rom"), ("nrmse_projected", "projected")):
        values = distances(run[states].values / learned.scale, truth)
        changed[error] = (run[error].dims, values, run[error].attrs)
    # a missing truth ends no forecast
    missing = np.isnan(truth).all(-1)
    errors = torch.from_numpy(np.where(missing, 0.0, changed["nrmse"][1]))
    times = torch.from_numpy(run["time"].values.astype(float))
    longest = valid_time(times, errors).numpy()
    changed["valid_time"] = (run["valid_time"].dims, longest, run["valid_time"].attrs)
    falling = np.argsort(-np.nan_to_num(learned.errors["forecast"], nan=np.inf), kind="stable")
    return run.assign(changed).isel(trajectory=falling)
