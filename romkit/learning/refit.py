"""Manifold and law with settings that were chosen, fitted to all runs."""

import xarray as xr

from romkit.bases import Basis, basis
from romkit.integrators import LearnedField
from romkit.laws import Estimator
from romkit.projections import Projection
from romkit.verbs.fit import fit

METHOD = "polynomial-manifold"

WIDE = 1_000
"""Number of components from which on states are described by coordinates in a basis."""

KEPT = 1e-4
"""Share of the energy that a basis may leave out."""


def basis_of(data: xr.Dataset) -> Basis | None:
    """Basis behind which a manifold is fitted to wide states; None for others."""
    if data.sizes["component"] <= WIDE:
        return None
    return basis(data, tolerance=KEPT)


def refitted_projection(projection: Projection, data: xr.Dataset) -> Projection:
    """A manifold with the settings of another one."""
    return fit(projection.name, data, basis=basis_of(data), **projection.config)


def refitted(
    projection: Projection, settings: Estimator, data: xr.Dataset, seed: int
) -> tuple[Projection, LearnedField]:
    """A manifold with the settings of another one, and a law of its latents."""
    manifold = refitted_projection(projection, data)
    return manifold, settings.fit(manifold, data, seed=seed)
