"""`romkit.score`: how far a reduced trajectory is from the truth, over time, and until when it can be trusted."""

import torch
import xarray as xr

from romkit.data import DIMS, trajectories
from romkit.errors import InputError
from romkit.metrics import VALID_THRESHOLD, nrmse, valid_time


def score(truth: xr.Dataset, reduced: xr.Dataset) -> xr.Dataset:
    """Errors of a reduced model against the truth.

    Args:
        truth: `state` (trajectory, time, component), of a simulation or measured.
        reduced: what `romkit.follow` returned for it, or any dataset with `state` and a coordinate `state_std`
            (component) by which errors are normalised.

    Returns:
        `nrmse` (..., time) and `valid_time` (...), in front `seed` and `trajectory` as in `reduced`.

    Raises:
        InputError: the two do not have the same trajectories, times and components.
    """
    for dim in DIMS:
        if truth.sizes.get(dim) != reduced.sizes.get(dim):
            got = f"{reduced.sizes.get(dim)} against {truth.sizes.get(dim)} in the truth"
            raise InputError("reduced", expected=f"the same {dim} as the truth", got=got, fix="follow this very truth")
    lead = reduced["state"].dims[:-2]
    x = trajectories(truth, "state")
    times = torch.from_numpy(truth["time"].values.copy())
    errors = nrmse(
        x, torch.from_numpy(reduced["state"].values.copy()), torch.from_numpy(reduced["state_std"].values.copy())
    )
    unit = truth["time"].attrs.get("units", "1")
    named = {"units": "1", "long_name": "normalised error of the reduced model"}
    until = {"units": unit, "long_name": f"time until NRMSE exceeds {VALID_THRESHOLD}"}
    return xr.Dataset(
        {
            "nrmse": ((*lead, "time"), errors.numpy(), named),
            "valid_time": (lead, valid_time(times, errors).numpy(), until),
        },
        coords={"time": truth["time"]},
    )
