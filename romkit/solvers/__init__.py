"""Solvers: from a field, an initial state and output times to states and a status per member."""

from romkit.solvers.adaptive import Adaptive, PerMember, SciPy, odeint
from romkit.solvers.base import Solution, Solver, Status
from romkit.solvers.fixed import RK4, ImplicitMidpoint, Restarted

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
]
__all__ += ["odeint"]
