"""Fields compiled to machine code: what makes long rollouts of small models fast on a CPU."""

from romkit.engine.compiled.build import Unavailable, warn_once
from romkit.engine.compiled.kernel import Kernel
from romkit.engine.compiled.loops import Newton, RungeKutta
from romkit.engine.compiled.record import Recording, Unsupported, record

__all__ = ["Kernel", "Newton", "Recording", "RungeKutta", "Unavailable", "Unsupported", "record", "warn_once"]
