"""Manifold and law with settings that were chosen, fitted to all runs."""

import xarray as xr

from romkit.bases import Basis
from romkit.bases.make import adequate_basis
from romkit.core.errors import FitWarning, warn
from romkit.integrators import LearnedField
from romkit.laws import Estimator
from romkit.learning.quiet import quietly
from romkit.projections import Projection
from romkit.verbs.fit import fit

METHOD = "polynomial-manifold"

WIDE = 1_000
"""Number of components from which on states are described by coordinates in a basis, which has at most
so many modes: a manifold of these costs what one of such states does.
"""

KEPT = 1e-4
"""Share of the energy that a basis may leave out."""


def basis_of(data: xr.Dataset) -> Basis | None:
    """Basis behind which a manifold is fitted to wide states; None for others.

    Where it leaves out more than it may, a warning says how much.
    """
    if data.sizes["component"] <= WIDE:
        return None
    basis = adequate_basis(data, KEPT, WIDE)
    left_out = 1 - float(basis.energy[-1])
    if left_out > KEPT:
        warn(
            f"state: expected {WIDE} modes that leave out {KEPT:g} of the energy, got {left_out:.2g}: "
            "no latents show the rest; smooth or coarsen the fields, if they are noisy",
            FitWarning,
        )
    return basis


def refitted_projection(projection: Projection, data: xr.Dataset) -> Projection:
    """A manifold with the settings of another one."""
    front = quietly(basis_of, data)
    return fit(projection.name, data, basis=front, **projection.config)


def refitted(
    projection: Projection, settings: Estimator, data: xr.Dataset, seed: int
) -> tuple[Projection, LearnedField]:
    """A manifold with the settings of another one, and a law of its latents."""
    manifold = refitted_projection(projection, data)
    return manifold, settings.fit(manifold, data, seed=seed)
