"""Code of a user: from a data set of `studies.own_data.sets` to a forecast of held-out runs, by set."""

import warnings
from collections.abc import Callable

import xarray as xr

import romkit
from romkit.integrators import Estimator, NeuralODE, SINDy
from romkit.integrators.base import LearnedField
from romkit.projections import Projection

warnings.filterwarnings("ignore", category=romkit.errors.DataWarning)  # no set has velocities

NETWORK, CUBIC = NeuralODE(), SINDy(degree=3, threshold=0.01)
FLOW = {"method": "flow", "latent_dim": 2, "epochs": 250}
PULSES = FLOW | {"basis": 40, "units": (64, 64, 64), "velocity_weight": 0.1}


def described(**roles: list[str]) -> Callable[[xr.Dataset], xr.Dataset]:
    """Reading of a dataset whose variables have these roles."""
    return lambda raw: romkit.data.describe(raw, **roles)


def from_arrays(raw: tuple) -> xr.Dataset:
    """Reading of arrays of unequal length, with their times and speeds."""
    states, times, speeds = raw
    return romkit.data.from_arrays(states, times, context=speeds)


PATHS: dict[str, tuple[Callable, dict[str, object], Estimator]] = {
    "pulses": (described(context=["rate"]), PULSES, NETWORK),
    "forced-array": (
        described(context=["beta"], state=["q", "v"], control=["shaker"]),
        {"method": "pod", "latent_dim": 2},
        CUBIC,
    ),
    "plumes": (from_arrays, {"method": "ncae", "latent_dim": 2, "basis": 20, "epochs": 400}, CUBIC),
    "spirals": (described(context=["dose"]), FLOW | {"basis": 20}, NETWORK),
    "noisy-pulses": (described(context=["rate"]), PULSES, NETWORK),
}
"""How each set is read, settings of `romkit.fit`, and law."""


def forecast(
    name: str, raw: object, law: Estimator | None = None, **more: object
) -> tuple[Projection, LearnedField, xr.Dataset, xr.Dataset]:
    """Projection, law, held-out data, and the rollout of these."""
    read, settings, own = PATHS[name]
    train, held_out = romkit.data.split(read(raw), 0.2)
    projection = romkit.fit(data=train, **settings | more)
    fitted = (law or own).fit(projection, train)
    return projection, fitted, held_out, romkit.rollout(held_out, projection, dynamics=fitted)
