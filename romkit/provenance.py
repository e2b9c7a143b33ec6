"""Where a result came from: versions and device, recorded in every file romkit writes."""

import importlib.metadata
import platform

import torch

_PACKAGES = ("romkit", "torch", "geoopt", "torchdiffeq", "mujoco", "numpy", "pysindy", "xarray")


def versions() -> dict[str, str]:
    """Installed version of romkit and of each package that can change a number."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def device_name(device: torch.device | str) -> str:
    """A name that a reader recognises: the GPU's, or the processor architecture and thread count."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} torch threads"
