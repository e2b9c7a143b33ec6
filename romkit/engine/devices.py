"""The devices that users name."""

from typing import Annotated

import torch

from romkit.core import checks
from romkit.core.errors import InputError


def device_of(argument: str, value: object) -> torch.device:
    """The device that a name stands for, if torch finds it."""
    try:
        found = torch.device(value)
        if found.type in ("cpu", "cuda"):
            torch.empty(0, device=found)
            return found
    except (RuntimeError, TypeError, AssertionError):
        pass
    fix = "leave device out, and see torch.cuda.is_available()"
    got = checks.shown(value)
    raise InputError(argument, expected="'cpu', or 'cuda' where torch finds a GPU", got=got, fix=fix)


Device = Annotated[torch.device | str, device_of]
"""Device to compute on, "cpu" or "cuda"; the argument becomes a `torch.device`."""
