"""Burgers' equation on a square, without viscosity, with an inflow and a source."""

from romkit.systems.burgers2d.system import Burgers2D

__all__ = ["Burgers2D"]
