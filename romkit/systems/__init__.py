"""Systems: full-order models over a range of their context. One file each; `SYSTEMS` lists them by name."""

from romkit.systems.base import Motion, System
from romkit.systems.lorenz96 import Lorenz96
from romkit.systems.mechanical import MechanicalSystem
from romkit.systems.pendulum import Pendulum
from romkit.systems.registry import SYSTEMS, system_of

__all__ = ["SYSTEMS", "Lorenz96", "MechanicalSystem", "Motion", "Pendulum", "System", "system_of"]
