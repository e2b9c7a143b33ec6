"""The room for speed: compiled fields and training steps, devices and threads.

Two engines run the same mathematics: `torch`, one call after the other on any device, and
`compiled`: the traced field and the loop around it as native code, on a GPU with a thread for each
member. "auto" compiles where that pays and is possible.
"""

import contextlib
from typing import Annotated

import torch

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.engine.build import Unavailable, Unsupported
from romkit.engine.kernel import Newton, RungeKutta
from romkit.engine.policy import Repeated, compiled_if, is_short, launched_if
from romkit.engine.trace import Parametrised, Trace, trace, trace_field

__all__ = [
    "ENGINES", "Device", "Engine", "Newton", "Parametrised", "Repeated", "RungeKutta", "Trace", "Unavailable", "Unsupported",
    "compiled_if", "is_short", "launched_if", "trace", "trace_field",
]  # fmt: skip

ENGINES = ("auto", "torch", "compiled")

Engine = Annotated[str, checks.choice(ENGINES)]
"""The name of an engine, checked where it is an argument."""


def device_of(argument: str, value: str | int | torch.device) -> torch.device:
    """Return the device of this name, if torch finds it."""
    with contextlib.suppress(RuntimeError, TypeError, AssertionError):
        device = torch.device(value)
        if device.type in ("cpu", "cuda"):
            torch.empty(0, device=device)  # fails where torch has no such device
            return device
    raise InputError(
        argument,
        expected="'cpu', or 'cuda' where torch finds a GPU",
        got=checks.shown(value),
        fix="leave device out, and see torch.cuda.is_available()",
    )


Device = Annotated[torch.device | str, device_of]
"""Device to compute on, "cpu" or "cuda"; the argument becomes a `torch.device`."""
