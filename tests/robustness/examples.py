"""Small valid objects of every kind, and datasets that cannot be used."""

import functools
import math
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import romkit
from romkit import integrators, projections, systems

NAN, INF = math.nan, math.inf
FOLDER = Path(tempfile.mkdtemp(prefix="romkit-robustness-"))


@functools.cache
def world() -> dict[str, object]:
    """A system of four components, data, a trained projection and what is made of them."""
    system = systems.Lorenz96(n=4, transient=0.0, duration=0.2, horizon=0.1)
    data = system.dataset(F=[3.1, 3.2, 3.3])
    ncae = romkit.fit("ncae", data, layers=(2, 4), epochs=1)
    samples = integrators.encoded_samples(ncae, data)
    return {
        "system": system,
        "data": data,
        "projection": ncae,
        "samples": samples,
        "law": integrators.SINDy(degree=1, threshold=0.0).fit_samples(samples),
        "operator": ncae(F=3.15),
        "stack": projections.stack([ncae, ncae]),
        "run": romkit.rollout(system, ncae, F=3.15, duration=0.1, engine="torch"),
        "figure": Figure(),
    }


def laws() -> integrators.LearnedField:
    """A stack of two laws."""
    samples = integrators.encoded_samples(world()["stack"], world()["data"])
    return integrators.SINDy(degree=1, threshold=0.0).fit_samples(samples)


def datasets() -> dict[str, xr.Dataset]:
    """Datasets whose states cannot be used."""
    data = world()["data"]
    state = data["state"]
    return {
        "no state": data.drop_vars("state"),
        "no trajectories": data.isel(trajectory=slice(0)),
        "no times": data.isel(time=slice(0)),
        "no components": data.isel(component=slice(0)),
        "complex": data.assign(state=state * 1j),
        "text": data.assign(state=state.astype(str)),
        "objects": data.assign(state=state.astype(object)),
        "dates": data.assign(state=state.astype("datetime64[s]")),
        "NaN": data.assign(state=state * NAN),
        "infinite": data.assign(velocity=data["velocity"] * INF),
        "huge": data.assign(state=state * 1e300),
        "NaN context": data.assign_coords(F=data["F"] * np.nan),
        "a context called state_std": data.rename(F="state_std"),
    }
