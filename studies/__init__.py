"""Studies: one folder per question, with its results and the answer; `romkit study` runs those of `studies.runner`."""

import importlib
import pkgutil
from types import ModuleType


def discover() -> dict[str, ModuleType]:
    """The studies that `studies.runner` documents how to run, by name."""
    names = [name for _, name, package in pkgutil.iter_modules(__path__) if package]
    loaded = {name: importlib.import_module(f"studies.{name}") for name in names}
    return {name: module for name, module in loaded.items() if hasattr(module, "PRESETS") and hasattr(module, "main")}
