"""Fields compiled to machine code: what makes long rollouts of small models fast on a CPU."""

from romkit.engine.compiled.kernel import Kernel
from romkit.engine.compiled.loops import Newton, RungeKutta
from romkit.engine.compiled.record import Unsupported

__all__ = ["Kernel", "Newton", "RungeKutta", "Unsupported"]
