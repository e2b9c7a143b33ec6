"""Where a result came from: versions and device, recorded in every file romkit writes."""

import functools
import importlib.metadata
import os
import platform
from pathlib import Path

import torch

_PACKAGES = ("romkit", "torch", "geoopt", "torchdiffeq", "mujoco", "numpy", "pysindy", "xarray")


def versions(*more: str) -> dict[str, str]:
    """Installed version of romkit, of each package that can change a number, and of what else is named."""
    return {package: _version(package) for package in (*_PACKAGES, *more)}


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def device_name(device: torch.device | str) -> str:
    """A name that a reader recognises: the GPU's, or the processor's."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    """The model name that Linux knows, elsewhere the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
