"""Rollouts: the truth and the reduced model from the same initial states, and their errors."""

from typing import cast

import numpy as np
import torch
import xarray as xr

from romkit.core import checks, runtime
from romkit.core.boundary import Positive, unchecked, validated
from romkit.core.types import Array, Entries, Kwargs
from romkit.data import DIMS, Contexts
from romkit.data.conversions import convert_parameters
from romkit.data.schema import variable_of
from romkit.data.spelling import complete_keys
from romkit.data.trajectories import matched
from romkit.engine import Device, Engine
from romkit.metrics import pool_units
from romkit.models import Dynamics, check_match, double_copy
from romkit.projections import Projection
from romkit.solvers import Solver
from romkit.systems import System
from romkit.verbs.follow import follow
from romkit.verbs.score import nrmse_known, score
from romkit.verbs.simulate import simulate

COST = ("solver", "engine", "seconds_compiling", "seconds_computing")


@validated
def rollout(
    source: System | xr.Dataset,
    projection: Projection,
    *,
    duration: Positive | None = None,
    initial_state: object = None,
    initial_velocity: object = None,
    dynamics: Dynamics | None = None,
    solver: Solver | None = None,
    rtol: Positive | None = None,
    dt: Positive | None = None,
    engine: Engine = "auto",
    device: Device | None = None,
    context: Entries | None = None,
    **named: object,
) -> xr.Dataset:
    """Follow the truth and the reduced model from the same initial state: `simulate`, `follow` and
    `score` in one.

    Args:
        source: the full-order model, which is simulated; or a dataset, whose trajectories are the
            truth. After `system.through(basis)`, states are coordinates in the basis, and the truth
            is POD-Galerkin.
        projection: trained on such data; a stack of seeds gives a `seed` dimension.
        duration: of the simulation, in the system's time units; by default `system.horizon`, and
            until the last sample of the system's datasets where these are as long.
        initial_state: (n,) or (trajectories, n) in physical units, each at a context of its own or
            all at a single one; by default where the system's datasets begin.
        initial_velocity: the same for mechanical systems; at rest by default.
        dynamics: how the latent state moves. By default that of the rollouts that the projection
            was trained with (preset "dynamics"), else `Galerkin()`.
        solver: of the latent equation; `Adaptive(rtol)` by default, whose error is controlled.
        rtol: tolerance of that default, 1e-6.
        dt: interval of the output; `system.dt` by default.
        engine: of both models: "auto", "torch" or "compiled" (see `romkit.engine`).
        device: of the reduced model: "cpu" (default), or "cuda", which pays for thousands of
            trajectories.
        context: parameters by name where one is called like an argument, `context={"dt": 0.1}`.
        **named: every other context parameter by name, a number, an array, or for first-order
            systems a smooth function of time that gives one: `F=3.15`, `F=[3.14, 3.15]`, `F=lambda
            t: 3.14 + 0.001 * t`.

    Returns:
        Dataset with `truth`, `rom` and `projected` (the projection P(x) of the truth), each (time,
        component); `latent` (time, latent_component); `nrmse` and `nrmse_projected` (time), errors
        as `romkit.score` measures them;
        `valid_time` and `status`. In front, `trajectory` if there are several, and `seed` for a
        stack. A diverged member has status 1 and is NaN from there on.

    Raises:
        InputError: context, state size, duration or dt that cannot be used, or a projection of
            another system.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> ncae, system = romkit.load("ncae-lorenz96"), romkit.systems.Lorenz96()
        >>> start = ncae(F=3.15).decode(np.array([-0.9, 2.8]))  # on the attractor
        >>> run = romkit.rollout(system, ncae, F=3.15, initial_state=start, duration=0.2, dt=0.02)
        >>> dict(run.rom.sizes)
        {'time': 11, 'component': 36}
        >>> round(float(run.nrmse.max()), 2), float(run.valid_time), int(run.status)
        (0.02, 0.2, 0)
    """
    simulation: Kwargs = {
        "duration": duration,
        "initial_state": initial_state,
        "initial_velocity": initial_velocity,
        "dt": dt,
    }
    values = named | (context or {})
    if isinstance(source, xr.Dataset):
        fix = "select what you want in the dataset, data.sel(...), or roll out a system"
        checks.absent("beside a dataset", fix, **simulation | values)
        frame = projection.frame
        truth = matched("data", source, frame.context_names, frame.state_names, frame.units)
        system, contexts = None, None
    else:
        system = source
        check_match(system, projection)
        if duration is None and system.horizon == system.duration > system.dt:
            # with the last sample of a dataset: a manifold knows nothing of a further one
            simulation["duration"] = system.duration - system.dt
        # here, so that a conversion is told once
        names = system.context_names
        values = complete_keys(values, names)
        values = convert_parameters(values, names, system.known_units.context)
        truth = unchecked(simulate)(system, **simulation, engine=engine, context=values)
        projection = projection if system.basis is None else projection.of_coordinates()
        # known at all times, while the truth has them at its samples alone
        times = torch.from_numpy(truth["time"].values.copy())
        contexts = unchecked(Contexts.build)(system.context_names, values, times)
        contexts = unchecked(contexts.expanded)(truth.sizes["trajectory"])
    reduced = unchecked(follow)(
        projection,
        truth,
        dynamics=dynamics,
        system=system,
        solver=solver,
        rtol=rtol,
        engine=engine,
        device=device,
        contexts=contexts,
    )
    run = _assembled(truth, reduced, projection)
    return run.squeeze("trajectory") if truth.sizes["trajectory"] == 1 else run


def _assembled(truth: xr.Dataset, reduced: xr.Dataset, projection: Projection) -> xr.Dataset:
    """Return the run of both models, with the projection P(x) of the true states and its
    idempotency error there.
    """
    errors = unchecked(score)(truth, reduced)
    x = variable_of(truth, "state", fix="add it").data.astype(np.float64)
    if projection.seeds is not None:
        x = x[None]  # (1, C, T, n), for all seeds
    # in single precision the idempotency error would be one of rounding
    P = double_copy(projection)(truth)
    image = P(x)
    square = ((P(image) - image) ** 2).sum(-1)
    largest_square = np.nan_to_num(square).max()
    scale = pool_units(reduced["state_std"].values.astype(np.float64), truth)
    error, _ = nrmse_known(x, cast("Array", image), scale)
    # in one pass, where the truth is in chunks
    nrmse_projected, idempotency_square = runtime.computed(
        "projection of the truth", error, largest_square
    )
    dims = reduced["state"].dims
    units = reduced["state"].attrs["units"]
    whose = "full model" if "system" in truth.attrs else "data"
    image_attrs = {"units": units, "long_name": f"projection of the {whose}"}
    nrmse_attrs = {"units": "1", "long_name": "normalised error of the projection"}
    variables = {
        "truth": truth["state"].transpose(*DIMS).assign_attrs(long_name=whose).variable,
        "projected": (dims, image, image_attrs),
        "nrmse": errors["nrmse"].variable,
        "nrmse_projected": (dims[:-1], nrmse_projected, nrmse_attrs),
        "valid_time": errors["valid_time"].variable,
    }
    run = reduced.drop_vars("velocity", errors="ignore").rename(state="rom")
    # without coordinates, by which xarray would align them: the data may call components otherwise
    # than in training
    run = run.assign(variables).assign_coords(truth.coords)
    run.attrs = _common_attrs(truth, reduced)
    run.attrs["idempotency_error"] = float(idempotency_square) ** 0.5
    return run


def _common_attrs(truth: xr.Dataset, reduced: xr.Dataset) -> Entries:
    """Attributes of both models, with the cost of each under a name of its own."""
    attrs = truth.attrs | reduced.attrs
    attrs = {key: value for key, value in attrs.items() if key not in COST}
    for label, run in (("full_model", truth), ("reduced_model", reduced)):
        for key in COST:
            if key in run.attrs:
                attrs[f"{key}_{label}"] = run.attrs[key]
    return attrs
