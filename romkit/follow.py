"""`romkit.follow`: the reduced model along the trajectories of a dataset."""

import torch
import xarray as xr
from torch import Tensor

from romkit.boundary import checked
from romkit.data import Contexts, check_states, control_of, times_of, trajectories
from romkit.data.control import by_name
from romkit.data.matching import check_grid, matched
from romkit.engine import Engine
from romkit.engine.devices import Device
from romkit.errors import InputError
from romkit.integrators import LatentDynamics, LearnedField, Reencoded
from romkit.projections import Projection
from romkit.reduced import Dynamics, ReducedModel, check_match
from romkit.solvers import Solver
from romkit.systems import System, system_of


@checked
def follow(
    projection: Projection,
    data: xr.Dataset,
    *,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    solver: Solver | None = None,
    engine: Engine = "auto",
    device: Device | None = None,
    contexts: Contexts | None = None,
) -> xr.Dataset:
    """Follow trajectories: start where they start, at their contexts, and integrate to their times.

    Args:
        projection: a single one; a stack of seeds gives a `seed` dimension.
        data: in romkit's schema, of which the first state counts (and velocity, where the dynamics are of order two),
            and `control`, with straight lines between its samples.
        dynamics: how the latent state moves; by default as in the rollouts that the projection was trained with, and
            `Galerkin()` for one that was not.
        system: the full-order model, for dynamics that look at it; by default the one that the data name, if any.
        solver: of the latent equation; `RK4` with the interval of the data by default.
        engine: "auto", "torch" or "compiled" (see `romkit.engine`).
        device: "cpu" (default), or "cuda", which pays for thousands of trajectories.
        contexts: in place of those of the data, where they are known between its times as well.

    Returns:
        Dataset with `state` (decoded), `latent` and `status`, and `velocity` of dynamics of order two. A diverged
        member has status 1 and is NaN from there on. Attributes record dynamics, solver, engine and seconds.

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
    if contexts is None:  # else they come with a simulation, which may diverge
        check_states(data)
    signature = projection.normalization.signature
    data = matched("data", data, signature.context_names, signature.state_names)
    check_grid(data, signature.fields)
    if system is None and not _is_law(dynamics):
        system = system_of(data)
    if system is not None:
        check_match(system, projection)
    control = control_of(by_name(data, getattr(dynamics, "control_names", ())))
    model = ReducedModel(projection, dynamics, contexts or Contexts.of_dataset(data), system, control, device)
    names = ("state", "velocity")[: model.problem.order]
    fix = "record it, or follow a law of first order"
    parts = tuple(trajectories(data, name, fix=fix)[:, 0].contiguous() for name in names)
    if contexts is None:
        _check_starts(parts)
    times = times_of(data)
    return model.follow(model.start(times[0], parts), times, solver=solver, engine=engine)


def _is_law(dynamics: LatentDynamics | None) -> bool:
    """Whether it looks at nothing of the full model, which the data may name although they lack its context, say."""
    return isinstance(dynamics.dynamics if isinstance(dynamics, Reencoded) else dynamics, LearnedField)


def _check_starts(parts: tuple[Tensor, ...]) -> None:
    missing = [k for k, start in enumerate(torch.cat(parts, dim=-1)) if not bool(start.isfinite().all())]
    if missing:
        fix = f"begin later, data.isel(time=slice(k, None)), or drop them, data.drop_isel(trajectory={missing})"
        got = f"none for trajectories {', '.join(map(str, missing))}"
        raise InputError("data", expected="a complete first state", got=got, fix=fix)
