"""Fields compiled to machine code: what makes long rollouts of small models fast on a CPU."""

from romkit.solvers.native.kernel import Kernel
from romkit.solvers.native.record import Unsupported

__all__ = ["Kernel", "Unsupported"]
