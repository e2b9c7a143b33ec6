"""romkit: reduced-order modeling with context-dependent nonlinear projections.

In four lines:

    system = romkit.systems.Lorenz96()
    data = system.dataset(split="train", seed=0)          # xarray.Dataset
    ncae = romkit.fit("ncae", data, seed=0)               # or romkit.load("ncae-lorenz96")
    run = romkit.rollout(system, ncae, F=3.15)            # truth, reduced model, errors over time
"""

import importlib
import os
import sys
import warnings
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from romkit import bases, data, integrators, metrics, projections, solvers, systems, training
    from romkit.bases import basis
    from romkit.certificates import certify
    from romkit.inference import (
        Tracker,
        assimilate,
        calibrate,
        continuation,
        infer,
        sensors,
        verify,
    )
    from romkit.integrators import reduced_mesh
    from romkit.verbs import presets
    from romkit.verbs.compare import compare
    from romkit.verbs.ensemble import Ensemble, bootstrap
    from romkit.verbs.estimate import error_estimate
    from romkit.verbs.export import export
    from romkit.verbs.fit import fit
    from romkit.verbs.law import law
    from romkit.verbs.runs import follow, forecast, rollout, score, simulate
    from romkit.verbs.sample import Sample, sample
    from romkit.verbs.storage import load, open, save
    from romkit.verbs.transformer import ProjectionTransformer

__all__ = [
    "bases",
    "data",
    "integrators",
    "metrics",
    "presets",
    "projections",
    "solvers",
    "systems",
    "training",
]
__all__ += [
    "Ensemble",
    "ProjectionTransformer",
    "Sample",
    "Tracker",
    "assimilate",
    "basis",
    "bootstrap",
    "calibrate",
]
__all__ += [
    "certify",
    "compare",
    "continuation",
    "error_estimate",
    "export",
    "fit",
    "follow",
    "forecast",
    "infer",
]
__all__ += [
    "law",
    "load",
    "open",
    "reduced_mesh",
    "rollout",
    "sample",
    "save",
    "score",
    "sensors",
    "simulate",
]
__all__ += ["verify"]

FACE = {
    "bases": ["basis"],
    "certificates": ["certify"],
    "inference": [
        "Tracker",
        "assimilate",
        "calibrate",
        "continuation",
        "infer",
        "sensors",
        "verify",
    ],
    "integrators": ["reduced_mesh"],
    "verbs.compare": ["compare"],
    "verbs.ensemble": ["Ensemble", "bootstrap"],
    "verbs.estimate": ["error_estimate"],
    "verbs.export": ["export"],
    "verbs.fit": ["fit"],
    "verbs.law": ["law"],
    "verbs.runs": ["follow", "forecast", "rollout", "score", "simulate"],
    "verbs.sample": ["Sample", "sample"],
    "verbs.storage": ["load", "open", "save"],
    "verbs.transformer": ["ProjectionTransformer"],
}
"""Functions and classes of the face, by module: the imports above, at their first use."""

HOMES = {name: module for module, names in FACE.items() for name in names}

SHORT_NAMES = {
    "broadcast": "core.tensors",
    "ensemble": "verbs.ensemble",
    "errors": "core.errors",
    "presets": "verbs.presets",
    "problem": "systems.problem",
    "types": "core.types",
}
"""Public short names of modules: `from romkit.errors import InputError`."""

OLD_NAMES = {"integrators.neural_ode": "integrators", "integrators.sindy": "integrators"}
"""Former names of modules, which warn; to be removed in 0.2."""

# Without this setting, MKL's matrix products depend on where a matrix lies in memory, and a seed on
# its place in a stack. MKL reads the setting at its first product in a process; one that the user
# made stays.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


class _Package(ModuleType):
    """Loads rooms and functions at their first use, since torch takes seconds."""

    def __getattr__(self, name: str) -> object:
        if name in HOMES:
            return getattr(importlib.import_module(f"romkit.{HOMES[name]}"), name)
        if name.startswith("_"):
            raise AttributeError(f"module 'romkit' has no attribute {name!r}")
        try:
            return importlib.import_module(f"romkit.{SHORT_NAMES.get(name, name)}")
        except ModuleNotFoundError as error:
            if error.name != f"romkit.{name}":
                raise
            raise AttributeError(f"module 'romkit' has no attribute {name!r}") from None

    def __dir__(self) -> list[str]:
        return sorted([*__all__, *(name for name in super().__dir__() if name.startswith("_"))])


class _Alias(ModuleType):
    """A module under another name."""

    def __init__(self, name: str, home: str, old: bool):
        super().__init__(f"romkit.{name}", f"See `romkit.{home}`.")
        self._home, self._old = f"romkit.{home}", old

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._old:
            message = f"{self.__name__} is the old name of {self._home}"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(self._home), name)


sys.modules[__name__].__class__ = _Package
for _names in (SHORT_NAMES, OLD_NAMES):
    for _name, _home in _names.items():
        sys.modules[f"romkit.{_name}"] = _Alias(_name, _home, _names is OLD_NAMES)
