"""romkit: reduced-order modeling with context-dependent nonlinear projections.

system = romkit.systems.Lorenz96()
data = system.dataset(split="train", seed=0)          # xarray.Dataset
ncae = romkit.fit("ncae", data, seed=0)               # or romkit.load("ncae-lorenz96")
run = romkit.rollout(system, ncae, F=3.15)            # truth, reduced model, errors over time
"""

import os

# Without this, MKL's matrix products depend on where a matrix lies in memory, and a seed on its place in a stack.
# MKL reads it at its first product; a setting of the user's stays.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

from romkit import data, integrators, metrics, presets, projections, solvers, systems, training
from romkit.fit import fit
from romkit.follow import follow
from romkit.forecast import forecast
from romkit.rollout import rollout
from romkit.saving import load, save
from romkit.score import score
from romkit.simulate import simulate

__all__ = [
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
