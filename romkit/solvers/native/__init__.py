"""Fields compiled to machine code: what makes long rollouts of small models fast on a CPU."""

from romkit.solvers.native.loops import Newton, RungeKutta
from romkit.solvers.native.record import Unsupported

__all__ = ["Newton", "RungeKutta", "Unsupported"]
