"""What a dataset records of a motion, and of the system that made it."""

import dataclasses
from typing import TYPE_CHECKING

import xarray as xr
from torch import Tensor

from romkit import provenance
from romkit.data import make_dataset
from romkit.systems.motion import Motion

if TYPE_CHECKING:
    from romkit.systems.base import System


def recorded(system: "System", motion: Motion, times: Tensor, contexts: Tensor, attrs: dict[str, object]) -> xr.Dataset:
    """A motion at times (T,) and contexts (C, p) as a dataset in romkit's schema."""
    variables = {name: getattr(motion, name) for name in ("state", "velocity", "acceleration")}
    return make_dataset(
        {name: tensor.numpy() for name, tensor in variables.items() if tensor is not None},
        times=times.numpy(),
        time_units=system.time_units,
        state_names=system.state_names,
        state_units=system.state_units,
        contexts=contexts.numpy(),
        context=system.context,
        attrs=attrs,
    )


def recorded_name(kind: type["System"], name: str) -> str:
    """The name of a system in files; with its class behind it where that of another class in `SYSTEMS` is the same."""
    from romkit.systems.registry import SYSTEMS  # which is of systems

    known = SYSTEMS.get(name, kind)  # anything that makes it, where a user has put it there
    own = not isinstance(known, type) or (known.__module__, known.__qualname__) == (kind.__module__, kind.__qualname__)
    return name if own else f"{name} ({kind.__qualname__})"


def identity(system: "System") -> dict[str, object]:
    """What identifies a system in a file."""
    return {
        "system": recorded_name(type(system), system.name),
        "parameters": dataclasses.asdict(system) if dataclasses.is_dataclass(system) else {},
        "solver": system.simulator or str(system.solver or system.own_solver),
        "dt": system.dt,
        "step": system.step or system.dt,
        "transient": system.transient,
        "versions": provenance.versions(),
    }
