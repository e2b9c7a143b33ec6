"""What a user writes: from a data set of `studies.own_data.sets` to a forecast of held-out runs."""

import warnings

import xarray as xr

import romkit
from romkit.integrators import NeuralODE
from romkit.integrators.base import LearnedField
from romkit.projections import Projection

Path = tuple[Projection, LearnedField, xr.Dataset, xr.Dataset]
"""Projection, law, held-out data, and the rollout of these."""

warnings.filterwarnings("ignore", category=romkit.errors.DataWarning)  # no set has velocities


def pulses(raw: xr.Dataset, method: str = "flow", law: NeuralODE = NeuralODE(), **settings: object) -> Path:  # noqa: B008
    data = romkit.data.describe(raw, context=["rate"])
    train, held_out = romkit.data.split(data, 0.2)
    projection = romkit.fit(method, train, latent_dim=2, basis=40, **settings)
    law = law.fit(projection, train)
    return projection, law, held_out, romkit.rollout(held_out, projection, dynamics=law)


noisy_pulses = pulses


def forced_array(raw: xr.Dataset, method: str = "ncae", law: NeuralODE = NeuralODE(), **settings: object) -> Path:  # noqa: B008
    data = romkit.data.describe(raw, context=["beta"], state=["q", "v"], control=["shaker"])
    train, held_out = romkit.data.split(data, 0.2)
    projection = romkit.fit(method, train, latent_dim=2, **settings)
    law = law.fit(projection, train)
    return projection, law, held_out, romkit.rollout(held_out, projection, dynamics=law)


def plumes(raw: tuple, method: str = "ncae", law: NeuralODE = NeuralODE(), **settings: object) -> Path:  # noqa: B008
    states, times, speeds = raw
    data = romkit.data.from_arrays(states, times, context=speeds)
    train, held_out = romkit.data.split(data, 0.2)
    projection = romkit.fit(method, train, latent_dim=2, **settings)
    law = law.fit(projection, train)
    return projection, law, held_out, romkit.rollout(held_out, projection, dynamics=law)


def spirals(raw: xr.Dataset, method: str = "ncae", law: NeuralODE = NeuralODE(), **settings: object) -> Path:  # noqa: B008
    data = romkit.data.describe(raw, context=["dose"])
    train, held_out = romkit.data.split(data, 0.2)
    projection = romkit.fit(method, train, latent_dim=2, basis=40, **settings)
    law = law.fit(projection, train)
    return projection, law, held_out, romkit.rollout(held_out, projection, dynamics=law)


PATHS = {
    "pulses": pulses,
    "forced-array": forced_array,
    "plumes": plumes,
    "spirals": spirals,
    "noisy-pulses": noisy_pulses,
}
"""By the name of the set."""
