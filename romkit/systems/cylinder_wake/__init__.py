"""The flow past a cylinder in a channel, by finite elements."""

from romkit.systems.cylinder_wake.system import CylinderWake

__all__ = ["CylinderWake"]
