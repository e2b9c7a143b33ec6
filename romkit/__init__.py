"""romkit: reduced-order modeling with context-dependent nonlinear projections.

In four lines:

    system = romkit.systems.Lorenz96()
    data = system.dataset(split="train", seed=0)          # xarray.Dataset
    ncae = romkit.fit("ncae", data, seed=0)               # or romkit.load("ncae-lorenz96")
    run = romkit.rollout(system, ncae, F=3.15)            # truth, reduced model, errors over time
"""

import ast
import importlib
import os
from pathlib import Path

from romkit.core import version

__version__ = version.VERSION

# Without this setting, MKL's matrix products depend on where a matrix lies in memory, and a seed on
# its place in a stack. MKL reads the setting at its first product in a process; one that the user
# made stays.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def _homes() -> dict[str, str]:
    """Return module of each public name, as the stub beside this file imports it.

    Type checkers read the same stub, so that there is one list of names.
    """
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports for alias in node.names}


_HOMES = _homes()

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    """Load a room or a function at its first use (PEP 562), since torch takes seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module 'romkit' has no attribute {name!r}")
    if _HOMES[name] == "romkit":
        return importlib.import_module(f"romkit.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
