"""romkit: reduced-order modeling with context-dependent nonlinear projections.

In four lines::

    system = romkit.systems.Lorenz96()
    data = system.dataset(split="train", seed=0)          # xarray.Dataset
    ncae = romkit.fit("ncae", data, seed=0)               # or romkit.load("ncae-lorenz96")
    run = romkit.rollout(system, ncae, F=3.15)            # truth, reduced model, errors over time
"""

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from romkit import bases, data, integrators, metrics, presets, projections, solvers, systems, training
    from romkit.bases import basis
    from romkit.certificates import certify
    from romkit.compare import compare
    from romkit.ensemble import Ensemble, bootstrap
    from romkit.fit import fit
    from romkit.follow import follow
    from romkit.forecast import forecast
    from romkit.reduced_mesh import reduced_mesh
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
    "reduced_mesh",
    "rollout",
    "save",
    "score",
    "simulate",
    "solvers",
    "systems",
    "training",
]

VERBS = ("compare", "fit", "follow", "forecast", "reduced_mesh", "rollout", "score", "simulate")
"""Each is a function in a file of its name."""

ELSEWHERE = {"basis": "bases", "certify": "certificates", "load": "saving", "save": "saving"}
ELSEWHERE |= {"Ensemble": "ensemble", "bootstrap": "ensemble"}
"""Functions in other files."""

# Without this, MKL's matrix products depend on where a matrix lies in memory, and a seed on its place in a stack.
# MKL reads it at its first product in a process; a setting of the user's stays.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


class _Package(ModuleType):
    """Loads what is asked for when it is asked for, since torch takes seconds; `romkit.fit` is the function."""

    def __getattr__(self, name: str) -> object:
        if name in ELSEWHERE:
            return getattr(importlib.import_module(f"romkit.{ELSEWHERE[name]}"), name)
        if importlib.util.find_spec(f"romkit.{name}") is None or name.startswith("_"):
            raise AttributeError(f"module 'romkit' has no attribute {name!r}")
        importlib.import_module(f"romkit.{name}")
        return self.__dict__[name]

    def __setattr__(self, name: str, value: object) -> None:
        """The import system puts a file that it has loaded here, and so hides the function of that name."""
        a_file = name in VERBS and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if a_file else value)

    def __dir__(self) -> list[str]:
        return sorted([*__all__, *(name for name in super().__dir__() if name.startswith("_"))])


sys.modules[__name__].__class__ = _Package
