"""Solvers: from a field, an initial state and output times to states and a status per member."""

from romkit.solvers.adaptive import Adaptive
from romkit.solvers.base import Solution, Solver, Status
from romkit.solvers.checked import checked_step
from romkit.solvers.exponential import Exponential
from romkit.solvers.fixed import RK4, ImplicitMidpoint, Restarted
from romkit.solvers.libraries import SciPy, TorchDiffEq, odeint

__all__ = [
    "RK4",
    "Adaptive",
    "Exponential",
    "ImplicitMidpoint",
    "Restarted",
    "SciPy",
    "Solution",
    "Solver",
    "Status",
    "TorchDiffEq",
]
__all__ += ["checked_step", "odeint"]
