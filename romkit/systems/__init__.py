"""Systems: full-order models over a range of their context. One file each; `SYSTEMS` lists them by name."""

from romkit.systems.base import Motion, System
from romkit.systems.burgers2d import Burgers2D
from romkit.systems.catalog import SYSTEMS, system_of
from romkit.systems.cylinder_wake import CylinderWake
from romkit.systems.kuramoto_sivashinsky import KuramotoSivashinsky
from romkit.systems.lorenz96 import Lorenz96
from romkit.systems.mechanical import MechanicalSystem
from romkit.systems.mujoco.model import ModelParameter
from romkit.systems.mujoco.system import MuJoCo
from romkit.systems.pendulum import Pendulum
from romkit.systems.through import SystemThroughBasis as SystemThroughBasis

__all__ = [
    "SYSTEMS",
    "Burgers2D",
    "CylinderWake",
    "KuramotoSivashinsky",
    "Lorenz96",
    "MechanicalSystem",
    "ModelParameter",
    "Motion",
    "MuJoCo",
    "Pendulum",
    "System",
    "system_of",
]
