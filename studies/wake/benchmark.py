"""The flow at Re = 100 on each of the meshes, beside the ranges of Schäfer and Turek (1996)."""

import time

from romkit.systems import CylinderWake
from studies.pieces import Numbers
from studies.wake.reduced import LAST, STEP, cycle

PUBLISHED = {"drag": (3.22, 3.24), "lift": (0.99, 1.01), "Strouhal": (0.295, 0.305)}
"""Reference intervals."""

STEPS = {"coarse": 0.001, "standard": 0.0005, "fine": 0.00025}
"""Of the full model in s, by mesh."""


def at_hundred(mesh: str) -> Numbers:
    """Strouhal number, largest drag and lift over the last seconds of a run."""
    system = CylinderWake(mesh=mesh, step=STEPS[mesh], dt=STEP)
    began = time.process_time()
    run = system.dataset(Re=[100.0])
    strouhal, lift = cycle(run["lift"].values[0])
    found = {
        "mesh": mesh,
        "n": system.state_size,
        "step": system.step,
        "drag": float(run["drag"].values[0, -LAST:].max()),
    }
    return found | {"lift": lift, "Strouhal": strouhal, "CPU seconds": time.process_time() - began}
