"""romkit: reduced-order modeling with context-dependent nonlinear projections.

system = romkit.systems.Lorenz96()
data = system.dataset(split="train", seed=0)          # xarray.Dataset
ncae = romkit.fit("ncae", data, seed=0)               # or romkit.load("ncae-lorenz96")
run = romkit.rollout(system, ncae, F=3.15)            # truth, reduced model, errors over time
"""

from romkit import bases, data, integrators, metrics, presets, projections, solvers, systems, training
from romkit.bases import basis
from romkit.certificates import certify
from romkit.compare import compare
from romkit.ensemble import Ensemble, bootstrap
from romkit.fit import fit
from romkit.follow import follow
from romkit.forecast import forecast
from romkit.rollout import rollout
from romkit.saving import load, save
from romkit.score import score
from romkit.simulate import simulate

__all__ = [
    "Ensemble",
    "bases",
    "basis",
    "bootstrap",
    "certify",
    "compare",
    "data",
    "fit",
    "follow",
    "forecast",
    "integrators",
    "load",
    "metrics",
    "presets",
    "projections",
    "rollout",
    "save",
    "score",
    "simulate",
    "solvers",
    "systems",
    "training",
]
