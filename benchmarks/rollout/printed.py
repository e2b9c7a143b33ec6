"""The cost that `romkit rollout lorenz96 --F 3.15` prints, beside a timing of our own of the same steps."""

import statistics

import torch
from torch import Tensor

import romkit
from benchmarks.measuring import median_seconds
from romkit.core.types import Field
from romkit.integrators import Galerkin
from romkit.solvers import RK4
from romkit.systems import Lorenz96
from romkit.systems.problem import ConstantPath

F = 3.15


def measure_printed(duration: float, repeats: int) -> dict[str, float]:
    """µs per step of full and reduced model, printed (wall time) and timed (CPU time), medians over repeats.

    Both write every step, as the rollout does: most of what a step of so small a full model costs.
    """
    system, projection = Lorenz96(), romkit.load("ncae-lorenz96")
    runs = [romkit.rollout(system, projection, F=F, duration=duration, engine="compiled") for _ in range(1 + repeats)]
    steps = runs[0].sizes["time"] - 1
    found = {
        f"{model}_printed_us": 1e6
        / steps
        * statistics.median(r.attrs[f"seconds_computing_{model}_model"] for r in runs)
        for model in ("full", "reduced")
    }
    times = torch.from_numpy(runs[0]["time"].values.copy())
    context = torch.full((1, 1), F, dtype=torch.float64)
    x0 = system.start(context)[0]
    operator = projection.double()(context)
    problem = system.problem(ConstantPath(operator), context)
    fields = {"full": (problem.field, x0), "reduced": (Galerkin().field(problem), operator.encode(x0))}
    return found | {f"{model}_us": _per_step(*given, times, repeats) for model, given in fields.items()}


def _per_step(field: Field, start: Tensor, times: Tensor, repeats: int) -> float:
    with torch.no_grad():
        run, _ = RK4(float(times[1])).prepare(field, start, times, "compiled", "timing")
        seconds = median_seconds(lambda: run(start, times), repeats)
    return 1e6 * seconds / (len(times) - 1)
