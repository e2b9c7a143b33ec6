"""Systems: full-order models over a range of their context. One file each; `SYSTEMS` lists them by
name.
"""

import json
from importlib.metadata import entry_points

import xarray as xr

from romkit.core import checks
from romkit.core.boundary import validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.files import reason
from romkit.systems.base import System
from romkit.systems.base import SystemThroughBasis as SystemThroughBasis
from romkit.systems.burgers2d import Burgers2D
from romkit.systems.cylinder_wake import CylinderWake
from romkit.systems.kuramoto_sivashinsky import KuramotoSivashinsky
from romkit.systems.lorenz96 import Lorenz96
from romkit.systems.mechanical import MechanicalSystem
from romkit.systems.motion import Motion
from romkit.systems.mujoco.parameters import ModelParameter
from romkit.systems.mujoco.system import MuJoCo
from romkit.systems.pendulum import Pendulum

__all__ = [
    "SYSTEMS",
    "Burgers2D",
    "CylinderWake",
    "KuramotoSivashinsky",
    "Lorenz96",
    "MechanicalSystem",
]
__all__ += ["ModelParameter", "Motion", "MuJoCo", "Pendulum", "System", "system_of"]

GROUP = "romkit.systems"
"""Group of entry points by which packages add classes of systems."""


def _systems() -> dict[str, type[System]]:
    """Return romkit's systems and those of other packages, by their names; own ones first."""
    builtin = (Lorenz96, Pendulum, KuramotoSivashinsky, Burgers2D, CylinderWake)
    systems: dict[str, type[System]] = {system.name: system for system in builtin}
    for entry in entry_points(group=GROUP):
        try:
            system = entry.load()
        except Exception as error:  # of another package
            warn(f"the system {entry.name} cannot be loaded ({reason(error)})", DataWarning)
            continue
        if isinstance(system, type) and issubclass(system, System):
            systems.setdefault(system.name, system)
        else:
            warn(f"the system {entry.name} is no class of romkit.systems.System", DataWarning)
    return systems


SYSTEMS = _systems()
"""Systems by the name that the command line takes and that files record."""


@validated
def system_of(data: xr.Dataset) -> System | None:
    """Return the system that the attributes of a dataset name, with its parameters; None where they
    name none of `SYSTEMS`.

    Raises:
        InputError: parameters that the system does not take.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(n=8, transient=0.0).dataset(F=3.15, duration=0.1)
        >>> romkit.systems.system_of(data) == romkit.systems.Lorenz96(n=8, transient=0.0)
        True
    """
    name = data.attrs.get("system")
    parameters = data.attrs.get("parameters", "{}")
    if not isinstance(name, str) or name not in SYSTEMS:
        return None
    try:
        return SYSTEMS[name](**json.loads(parameters))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            "parameters",
            expected=f"those of {name}, as JSON",
            got=checks.shown(parameters),
            fix="pass system=..., an instance of romkit.systems.System",
        ) from error
