"""Runs of the study of hidden contexts in romkit's schema, and what was found in them."""

import contextlib
import io

import numpy as np
import xarray as xr

import romkit
from romkit.core.types import Array
from romkit.hidden import HiddenContext


def dataset(states: Array, times: Array) -> xr.Dataset:
    """Return runs (groups, runs, T, n) with the number of their environment, in romkit's schema."""
    groups, runs = states.shape[:2]
    with contextlib.redirect_stdout(io.StringIO()):
        data = romkit.data.from_arrays([*states.reshape(groups * runs, *states.shape[2:])], times)
    labels = np.repeat(np.arange(groups), runs)
    return data.assign_coords(environment=("trajectory", labels))


def noisy(states: Array, noise: float, seed: int) -> Array:
    """Return states with independent noise, in deviations of each component."""
    deviation = states.std(tuple(range(states.ndim - 1)))
    draw = np.random.default_rng([63, seed])
    return states + noise * deviation * draw.standard_normal(states.shape)


def summary(found: HiddenContext) -> dict[str, object]:
    """Return what was found, and errors of what was tried."""
    hidden, degree, bend = (int(x) for x in found.trials.loc[found.trials["chosen"]].values[0, :3])
    best = found.trials.groupby("hidden parameters")["error"].min()
    return {
        "hidden": hidden,
        "degree": degree,
        "bend": bend,
        "left_out": {str(number): float(error) for number, error in best.items()},
        "values": found.values["value"].values.tolist(),
    }
