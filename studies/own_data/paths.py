"""Code of a user: from a data set of `studies.own_data.sets` to a forecast of held-out runs."""

import warnings

import xarray as xr

import romkit
from romkit.integrators import Estimator, NeuralODE, SINDy
from romkit.integrators.base import LearnedField
from romkit.projections import Projection

Path = tuple[Projection, LearnedField, xr.Dataset, xr.Dataset]
"""Projection, law, held-out data, and the rollout of these."""

warnings.filterwarnings("ignore", category=romkit.errors.DataWarning)  # no set has velocities


NETWORK, CUBIC = NeuralODE(), SINDy(degree=3, threshold=0.01)


def pulses(raw: xr.Dataset, law: Estimator = NETWORK, epochs: int = 250, seed: int = 0, **settings: object) -> Path:
    data = romkit.data.describe(raw, context=["rate"])
    train, held_out = romkit.data.split(data, 0.2, seed=seed)
    sizes = {"latent_dim": 2, "basis": 40, "units": (64, 64, 64)}
    projection = romkit.fit("flow", train, epochs=epochs, velocity_weight=0.1, seed=seed, **sizes, **settings)
    law = law.fit(projection, train)
    return projection, law, held_out, romkit.rollout(held_out, projection, dynamics=law)


def forced_array(raw: xr.Dataset, law: Estimator = CUBIC, **settings: object) -> Path:
    data = romkit.data.describe(raw, context=["beta"], state=["q", "v"], control=["shaker"])
    train, held_out = romkit.data.split(data, 0.2)
    projection = romkit.fit("pod", train, latent_dim=2, **settings)
    law = law.fit(projection, train)
    return projection, law, held_out, romkit.rollout(held_out, projection, dynamics=law)


def plumes(raw: tuple, law: Estimator = CUBIC, epochs: int = 400, **settings: object) -> Path:
    states, times, speeds = raw
    data = romkit.data.from_arrays(states, times, context=speeds)
    train, held_out = romkit.data.split(data, 0.2)
    projection = romkit.fit("ncae", train, latent_dim=2, basis=20, epochs=epochs, **settings)
    law = law.fit(projection, train)
    return projection, law, held_out, romkit.rollout(held_out, projection, dynamics=law)


def spirals(raw: xr.Dataset, law: Estimator = NETWORK, epochs: int = 250, **settings: object) -> Path:
    data = romkit.data.describe(raw, context=["dose"])
    train, held_out = romkit.data.split(data, 0.2)
    projection = romkit.fit("flow", train, latent_dim=2, basis=20, epochs=epochs, **settings)
    law = law.fit(projection, train)
    return projection, law, held_out, romkit.rollout(held_out, projection, dynamics=law)


PATHS = {
    "pulses": pulses,
    "forced-array": forced_array,
    "plumes": plumes,
    "spirals": spirals,
    "noisy-pulses": pulses,
}
"""Paths by the name of the set."""
