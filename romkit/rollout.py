"""`romkit.rollout`: the full and the reduced model from one state, and the error over time."""

import copy

import torch
import xarray as xr

from romkit.boundary import Positive, checked
from romkit.data import DIMS, Contexts, check_states, trajectories
from romkit.engine import Engine
from romkit.engine.devices import Device
from romkit.errors import InputError
from romkit.follow import follow
from romkit.metrics import idempotency_error
from romkit.projections import Projection
from romkit.reduced import Dynamics, check_match
from romkit.score import score
from romkit.simulate import simulate
from romkit.solvers import Solver
from romkit.systems import System

COST = ("solver", "engine", "seconds_compiling", "seconds_computing")


@checked
def rollout(
    source: System | xr.Dataset,
    projection: Projection,
    *,
    duration: Positive | None = None,
    initial_state: object = None,
    initial_velocity: object = None,
    dynamics: Dynamics | None = None,
    solver: Solver | None = None,
    dt: Positive | None = None,
    engine: Engine = "auto",
    device: Device | None = None,
    context: dict[str, object] | None = None,
    **named: object,
) -> xr.Dataset:
    """Follow the truth and the reduced model from the same initial state: `simulate`, `follow` and `score` in one.

    Args:
        source: the full-order model, which is simulated; or a dataset, whose trajectories are the truth. Of a system
            seen through a basis, all states are coordinates in it, and the truth is that of its modes.
        projection: trained on such data; a stack of seeds gives a `seed` dimension.
        duration: of the simulation, in the system's time units; `system.horizon` by default.
        initial_state: (n,) or (trajectories, n) in physical units, each at a context of its own or all at a single one;
            by default where the system's datasets begin.
        initial_velocity: the same for mechanical systems; at rest by default.
        dynamics: how the latent state moves; by default as in the rollouts that the projection was trained with
            (preset "dynamics"), and `Galerkin()` for one that was not.
        solver: of the latent equation; `RK4` with the interval of the output by default.
        dt: interval of the output, and step of the default solver; `system.dt` by default.
        engine: of both models: "auto", "torch" or "compiled" (see `romkit.engine`).
        device: of the reduced model: "cpu" (default), or "cuda", which pays for thousands of trajectories.
        context: parameters by name where one is called like an argument, `context={"dt": 0.1}`.
        **named: every other context parameter by name, a number, an array, or for first-order systems a smooth function
            of time that gives one: `F=3.15`, `F=[3.14, 3.15]`, `F=lambda t: 3.14 + 0.001 * t`.

    Returns:
        Dataset with `truth`, `rom` and `projected` (the projection P(x) of the truth), each (time, component);
        `latent` (time, latent_component); `nrmse` and `nrmse_projected` (time); `valid_time` and `status`.
        In front, `trajectory` if there are several, and `seed` for a stack.
        A diverged member has status 1 and is NaN from there on.

    Raises:
        InputError: context, state size, duration or dt that cannot be used, or a projection of another system.

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
    simulation = {"duration": duration, "initial_state": initial_state, "initial_velocity": initial_velocity, "dt": dt}
    values, system, contexts = named | (context or {}), None, None
    if isinstance(source, xr.Dataset):
        _refuse_for_data(simulation | values)
        truth = check_states(source)
    else:
        system = source
        check_match(system, projection)
        projection = projection if system.basis is None else projection.of_coordinates()
        truth = simulate(system, **simulation, engine=engine, context=values)
        contexts = Contexts.of(system.context_names, values, torch.from_numpy(truth["time"].values.copy()))
        contexts = contexts.expanded(truth.sizes["trajectory"])
    given = {"dynamics": dynamics, "system": system, "solver": solver, "engine": engine, "device": device}
    reduced = follow(projection, truth, **given, contexts=contexts)
    run = _assemble(truth, reduced, _projected(projection, truth, reduced))
    return run.squeeze("trajectory") if truth.sizes["trajectory"] == 1 else run


def _refuse_for_data(given: dict[str, object]) -> None:
    for name, value in given.items():
        if value is not None:
            fix = "select what you want in the dataset, data.sel(...), or roll out a system"
            raise InputError(name, expected="nothing beside a dataset", got=repr(value), fix=fix)


def _projected(projection: Projection, truth: xr.Dataset, reduced: xr.Dataset) -> xr.Dataset:
    """P(x) of the true states, as a dataset like `reduced`; how idempotent P is there, as its attribute."""
    P = copy.deepcopy(projection).cpu().double()(truth)
    x = trajectories(truth, "state")
    x = x if projection.seeds is None else x.unsqueeze(0)
    with torch.no_grad():
        image, error = P(x), idempotency_error(P, x).nan_to_num(nan=0.0).max().item()
    return reduced[["state"]].copy(data={"state": image.numpy()}).assign_attrs(idempotency_error=error)


def _assemble(truth: xr.Dataset, reduced: xr.Dataset, projected: xr.Dataset) -> xr.Dataset:
    errors, floor = score(truth, reduced), score(truth, projected)
    parts = {
        "truth": truth["state"].transpose(*DIMS).assign_attrs(long_name="full model"),
        "projected": projected["state"].assign_attrs(long_name="projection of the full model"),
        "nrmse": errors["nrmse"],
        "nrmse_projected": floor["nrmse"].assign_attrs(long_name="normalised error of the projection"),
        "valid_time": errors["valid_time"],
    }
    run = reduced.drop_vars("velocity", errors="ignore").rename(state="rom")
    # without coordinates, by which xarray would align them: the data may call components otherwise than in training
    run = run.assign({name: part.variable for name, part in parts.items()}).assign_coords(truth.coords)
    run.attrs = {key: value for key, value in truth.attrs.items() if key not in COST}
    run.attrs |= {key: value for key, value in reduced.attrs.items() if key not in COST}
    run.attrs["idempotency_error"] = projected.attrs["idempotency_error"]
    for label, part in (("full_model", truth), ("reduced_model", reduced)):
        run.attrs |= {f"{key}_{label}": part.attrs[key] for key in COST if key in part.attrs}
    return run
