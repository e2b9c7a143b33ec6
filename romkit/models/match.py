"""Conditions between a projection, its dynamics and the full model, and what their errors say."""

from typing import Annotated

import torch

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Names
from romkit.data.layout import reordered
from romkit.data.units import check_same
from romkit.integrators import LatentDynamics, LatentField
from romkit.laws import Estimator
from romkit.projections import Projection
from romkit.systems import System


def check_match(system: System, projection: Projection) -> None:
    """Raise InputError unless the projection has the states and contexts of the system.

    The projection for a system in coordinates of a basis is behind this basis, or of its
    coordinates.
    """
    frame = projection.frame
    if system.basis is not None and projection.basis is not None:
        _check_same_basis(system, projection)
        frame = frame.of_coordinates()
    for meaning, names, expected in (
        ("state components", frame.state_names, tuple(system.state_names)),
        ("context parameters", frame.context_names, system.context_names),
    ):
        if names != expected:
            trained_on = frame.system or "other data"
            raise InputError(
                "projection",
                expected=f"one of {system.name!r}, with {meaning} {_short(expected)}",
                got=f"one of {trained_on!r}, with {_short(names)}",
                fix="load or fit a projection of this system",
            )
    check_same(
        "projection",
        frame.units,
        system.known_units,
        components=frame.state_names,
        context=frame.context_names,
        fix="convert the data, units included, and fit again; or give the system their units",
    )


def _check_same_basis(system: System, projection: Projection) -> None:
    if projection.basis is system.basis:
        return
    raise InputError(
        "projection",
        expected=f"a model behind the {system.basis} of the system",
        got=f"one behind {projection.basis}",
        fix="fit it with basis=system.basis",
    )


def _short(names: Names, *, shown: int = 4) -> str:
    if len(names) <= shown:
        return ", ".join(names)
    return f"{names[0]} ... {names[-1]} ({len(names)})"


def check_dynamics(dynamics: LatentDynamics, projection: Projection) -> None:
    """Raise InputError where a law has another order of the context, or rows were chosen behind
    another basis.
    """
    names: Names = dynamics.context_names
    expected: Names = projection.frame.context_names
    if reordered(names, expected):
        raise InputError(
            "dynamics",
            expected=f"a law with the context {', '.join(expected)}",
            got=f"one with {', '.join(names)}",
            fix="fit it to data in this order: romkit.data.describe(data, context=[...])",
        )
    mesh = dynamics.mesh
    basis = projection.basis
    if mesh is None or basis is None or torch.equal(basis.modes, mesh.basis.modes):
        return
    raise InputError(
        "projection",
        expected=f"a model behind the {mesh.basis} of the mesh",
        got=f"one behind the {basis}",
        fix="use the projection, or the basis, that the mesh was chosen with",
    )


def check_field(dynamics: LatentDynamics) -> None:
    """Raise InputError for dynamics without a differential equation of their latent state."""
    if isinstance(dynamics, LatentField):
        return
    raise InputError(
        "dynamics",
        expected="one with a latent field",
        got=type(dynamics).__name__,
        fix="take Galerkin, PetrovGalerkin or a law",
    )


def _fitted(argument: str, dynamics: object) -> LatentDynamics:
    if isinstance(dynamics, LatentDynamics):
        return dynamics
    if isinstance(dynamics, Estimator):
        raise InputError(
            argument,
            expected="a fitted law",
            got=f"settings, {dynamics!r}",
            fix="give the result of its fit(projection, data)",
        )
    raise InputError(
        argument,
        expected="latent dynamics",
        got=checks.shown(dynamics),
        fix="give an instance, romkit.integrators.Galerkin() say, or what the fit of SINDy or "
        "NeuralODE returned",
    )


Dynamics = Annotated[LatentDynamics, _fitted]
"""Latent dynamics as an argument; settings of a law that is not fitted yet are refused."""
