"""Dataset of a run of a reduced model: its variables, labels and provenance."""

import functools
import json
from collections.abc import Sequence

import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, runtime
from romkit.core.types import Array, Chunked, Entries, Shape, Variables
from romkit.data.names import unit_of
from romkit.data.schema import shared_unit
from romkit.data.units import strip_origin
from romkit.integrators import LatentDynamics
from romkit.projections import Frame, Operator, Projection
from romkit.solvers import Solution, Status
from romkit.systems.problem import Problem


def labelled(
    projection: Projection,
    contexts: Tensor,
    solution: Solution,
    decoded: Sequence[Array | Chunked],
) -> xr.Dataset:
    """Return a run as `romkit.follow` returns it, without its distances from the training data.

    Args:
        projection: gives names and units.
        contexts: (C, p) or (C, T, p) in physical units.
        solution: latent states.
        decoded: the parts of the full states.
    """
    lead = ("trajectory",) if projection.seeds is None else ("seed", "trajectory")
    full = (*lead, "time", "component")
    state_attrs = {"units": _units(projection.frame), "long_name": "reduced model"}
    latent = solution.states[..., : projection.latent_dim].numpy()
    latent_attrs = {"units": "1", "long_name": "latent state"}
    # as CF conventions describe flags
    flags = {
        "units": "1",
        "long_name": "status of the reduced model",
        "flag_values": [*map(int, Status)],
        "flag_meanings": " ".join(status.name.lower() for status in Status),
    }
    variables: Variables = {
        "state": (full, decoded[0], state_attrs),
        "latent": ((*lead, "time", "latent_component"), latent, latent_attrs),
        "status": (lead, solution.status.numpy(), flags),
    }
    if len(decoded) == 2:
        attrs = {"long_name": "velocity of the reduced model"}
        variables["velocity"] = (full, decoded[1], attrs)
    coords = coords_of(projection.frame, contexts, solution.times)
    layout = {"layout": projection.frame.layout} if projection.frame.layout else {}
    return xr.Dataset(variables, coords, {**solution.cost, **layout})


def coords_of(frame: Frame, contexts: Tensor, times: Tensor) -> Entries:
    """Return coordinates of a run: its times and contexts, and components with their deviations."""
    time_attrs = {"long_name": "time", "units": frame.units.time}
    std_attrs = {"units": _units(frame), "long_name": "standard deviation in training"}
    coords: Entries = {
        "time": ("time", times.numpy(), time_attrs),
        "component": list(frame.state_names),
        "state_std": ("component", frame.state_std.numpy(), std_attrs),
    }
    if len({*frame.state_units}) > 1:  # no attribute of the state says them all
        coords["component_units"] = ("component", list(frame.state_units))
    dims = ("trajectory", "time")[: contexts.ndim - 1]
    for k, name in enumerate(frame.context_names):
        units = frame.context_units[k]
        coords[name] = (dims, contexts[..., k].numpy(), {"units": units})
    return coords


def rebase_times(run: xr.Dataset) -> xr.Dataset:
    """Return a run whose times are those since its first state, and not since the date of the data."""
    time = run["time"]
    about = time.attrs | {"units": strip_origin(unit_of(time))}
    return run.assign_coords(time=("time", time.values, about))


def _units(frame: Frame) -> str:
    return shared_unit(frame.state_units, "mixed")


def provenance(
    projection: Projection, dynamics: LatentDynamics, device: torch.device
) -> dict[str, str]:
    """Attributes that say which model made a run."""
    # losses are as long as the training, and stand in the file of the projection
    training = {key: value for key, value in projection.report.items() if key != "losses"}
    return {
        "projection": projection.name,
        "projection_config": json.dumps(projection.config),
        "training": json.dumps(training),
        "dynamics": type(dynamics).__name__,
        "dynamics_settings": str(dynamics),
        "device": runtime.device_name(device),
        "versions": json.dumps(runtime.versions()),
    }


def decode_chunks(
    P: Operator, problem: Problem, states: Tensor, chunks: Sequence[Shape]
) -> list[Chunked]:
    """Return parts of the full states of latent ones (..., C, T, order · m), in chunks of C and T,
    made when they are computed.
    """
    da = checks.extra("data", "dask.array", "big")

    kind = type(problem)
    seeds = states.shape[:-3]
    w = da.from_array(states.numpy(), chunks=(*seeds, *chunks, -1))
    decoded = []
    for k in range(kind.order):
        decode = functools.partial(_decoded, kind=kind, part=k)
        decoded.append(P.in_chunks(decode, w, P.state_size))
    return decoded


def _decoded(P: Operator, w: Array, kind: type[Problem], part: int) -> Array:
    """Return a part of the full state, 0 or 1, of latent states (..., order · m)."""
    return kind(None).decode(P, torch.from_numpy(w))[part].numpy()
