"""romkit: reduced-order modeling with context-dependent nonlinear projections.

system = romkit.systems.Lorenz96()
data = system.dataset(split="train", seed=0)          # xarray.Dataset
ncae = romkit.fit("ncae", data, seed=0)               # or romkit.load("ncae-lorenz96")
run = romkit.rollout(system, ncae, F=3.15)            # truth, reduced model, errors over time
"""

from romkit import data, integrators, metrics, projections, solvers, systems, training
from romkit.follow import follow
from romkit.forecast import forecast
from romkit.projections import load, save
from romkit.rollout import rollout
from romkit.score import score
from romkit.simulate import simulate
from romkit.training import fit

__all__ = [
    "data",
    "fit",
    "follow",
    "forecast",
    "integrators",
    "load",
    "metrics",
    "projections",
    "rollout",
    "save",
    "score",
    "simulate",
    "solvers",
    "systems",
    "training",
]
