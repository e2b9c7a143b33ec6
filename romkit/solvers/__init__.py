"""Solvers: from a field, an initial state and output times to states and a status per member."""

from romkit.solvers.adaptive import Adaptive, odeint
from romkit.solvers.base import Solution, Solver, Status
from romkit.solvers.midpoint import ImplicitMidpoint
from romkit.solvers.per_member import PerMember
from romkit.solvers.restarted import Restarted
from romkit.solvers.rk4 import RK4
from romkit.solvers.stiff import SciPy

__all__ = [
    "RK4",
    "Adaptive",
    "ImplicitMidpoint",
    "PerMember",
    "Restarted",
    "SciPy",
    "Solution",
    "Solver",
    "Status",
    "odeint",
]
