"""The reduced model along the trajectories of a dataset."""

import xarray as xr

from romkit.core import checks
from romkit.core.boundary import Positive, unchecked, validated
from romkit.core.errors import InputError
from romkit.data import DIMS, Contexts
from romkit.data.controls import convert_inputs
from romkit.data.trajectories import Trajectories
from romkit.engine import Device, Engine
from romkit.integrators import LatentDynamics, LearnedField, Reencoded
from romkit.models import Dynamics, ReducedModel, check_match, trained_dynamics
from romkit.projections import Projection
from romkit.solvers import Adaptive, Solver
from romkit.systems import SYSTEMS, System, system_of


@validated
def follow(
    projection: Projection,
    data: xr.Dataset,
    *,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    solver: Solver | None = None,
    rtol: Positive | None = None,
    engine: Engine = "auto",
    device: Device | None = None,
    contexts: Contexts | None = None,
) -> xr.Dataset:
    """Follow trajectories: start where they start, at their contexts, and integrate to their times.

    Args:
        projection: a single one; a stack of seeds gives a `seed` dimension.
        data: in romkit's schema, of which the first state counts (and velocity, where the dynamics
            are of order two), and `control`, held or with straight lines between its samples.
        dynamics: how the latent state moves. By default that of the rollouts that the projection
            was trained with, else `Galerkin()`.
        system: the full-order model, for dynamics that look at it; by default the one that the data
            name, if any.
        solver: of the latent equation; `Adaptive(rtol)` by default, whose error is controlled.
        rtol: tolerance of that default, 1e-6.
        engine: "auto", "torch" or "compiled" (see `romkit.engine`).
        device: "cpu" (default), or "cuda", which pays for thousands of trajectories.
        contexts: in place of those of the data, where they are known between its times as well.

    Returns:
        Dataset with `state` (decoded), `latent` and `status`, and `velocity` of dynamics of order
        two. A diverged member has status 1 and is NaN from there on. Attributes record dynamics,
        solver, engine and seconds. Of data in chunks of dask, first states are read, and decoded
        ones are in such chunks, made when they are computed.

    Raises:
        InputError: data of another shape than the projection's, or dynamics that cannot be used.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> reduced = romkit.follow(romkit.load("ncae-lorenz96"), data)
        >>> dict(reduced.latent.sizes)
        {'trajectory': 2, 'time': 10, 'latent_component': 2}
        >>> reduced.attrs["dynamics"], reduced.status.values.tolist()
        ('Galerkin', [0, 0])
    """
    if dynamics is None:
        dynamics = trained_dynamics(projection)
    frame = projection.frame
    if dynamics.control_unit and "control" in data:
        names, unit = dynamics.control_names, dynamics.control_unit
        control = convert_inputs("data", data["control"], names, unit)
        data = data.assign(control=control)
    runs = Trajectories.read(
        data,
        frame.context_names,
        frame.state_names,
        frame.fields,
        control=dynamics.control_names,
        held=dynamics.held,
        contexts=contexts,
        units=frame.units,
    )
    system = _find_system(dynamics, system, data)
    if system is not None:
        check_match(system, projection)
    solver = tolerance_solver(solver, rtol)
    reduced = ReducedModel.build(projection, dynamics, system, device)
    model = reduced.at(runs.contexts, runs.control)
    parts = runs.start(model.problem.order, complete=contexts is None)
    start = model.start(runs.times[0], parts)
    chunks = runs.data["state"].transpose(*DIMS).chunks
    if chunks is not None:
        chunks = chunks[:2]  # of trajectories and times; components are decoded together
    return model.follow(start, runs.times, solver=solver, engine=engine, chunks=chunks)


def tolerance_solver(solver: Solver | None, rtol: float | None) -> Solver | None:
    """Return the default solver to a tolerance, where one is given."""
    if rtol is None:
        return solver
    if solver is not None:
        fix = "give the solver its own tolerance, or leave it out"
        checks.absent("beside a solver", fix, rtol=rtol)
    return unchecked(Adaptive)(rtol=rtol)


def _find_system(
    dynamics: LatentDynamics, system: System | None, data: xr.Dataset
) -> System | None:
    """Return the system that dynamics look at, by default the one that the data name."""
    law = dynamics
    if isinstance(dynamics, Reencoded):
        law = dynamics.dynamics
    # a law needs no system, which the data may name although they lack its context, say
    if system is not None or isinstance(law, LearnedField):
        return system
    system = system_of(data)
    name = data.attrs.get("system")
    if system is None and name and law.needs != "nothing":
        raise InputError(
            "system",
            expected=f"one of {', '.join(SYSTEMS)}",
            got=f"{name!r} of the data",
            fix="roll out the system itself, romkit.rollout(system, projection), or give a law as "
            "dynamics=..., or romkit.follow(..., system=...); on the command line, --import FILE.py "
            "defines systems",
        )
    return system
