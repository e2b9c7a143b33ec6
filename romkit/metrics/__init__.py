"""Metrics: each is one function of tensors, with its definition, units and source.

Leading axes (seeds, trajectories) are members, each scored on its own. A member that diverged is scored, never
dropped; every metric says what it gives for one.
"""

from romkit.metrics.energy import energy_drift, peak_energy_drift
from romkit.metrics.idempotency import idempotency_error
from romkit.metrics.latent_geometry import latent_condition_number, latent_speed_variation
from romkit.metrics.manifold_distance import manifold_distance
from romkit.metrics.reconstruction import Reconstruction, reconstruction_rmse
from romkit.metrics.rollout import VALID_THRESHOLD, diverged, nrmse, valid_time
from romkit.metrics.spectrum import hellinger_distance, power_density

__all__ = [
    "VALID_THRESHOLD",
    "Reconstruction",
    "diverged",
    "energy_drift",
    "hellinger_distance",
    "idempotency_error",
    "latent_condition_number",
    "latent_speed_variation",
    "manifold_distance",
    "nrmse",
    "peak_energy_drift",
    "power_density",
    "reconstruction_rmse",
    "valid_time",
]
