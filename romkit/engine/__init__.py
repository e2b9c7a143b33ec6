"""The room for speed: compiled fields and training steps, devices and threads.

Two engines run the same mathematics: `torch`, one call after the other on any device, and
`compiled`: on a CPU the traced field and the loop around it as native code, on a GPU the run or the
step as one launch. "auto" compiles where that pays and is possible.
"""

import contextlib
from typing import Annotated, TypeVar

import torch
from torch import Tensor

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Field
from romkit.engine.build import Unavailable, Unsupported, warn_once
from romkit.engine.captured import CapturedSteps, Step
from romkit.engine.cuda import Launched
from romkit.engine.kernel import Kernel, Newton, RungeKutta
from romkit.engine.trace import Parametrised, Trace, trace, trace_field

K = TypeVar("K", bound=Kernel)

__all__ = [
    "ENGINES", "Device", "Engine", "Newton", "Parametrised", "RungeKutta", "Trace", "Unavailable", "Unsupported",
    "captured_if", "compiled_if", "pays", "trace", "trace_field",
]  # fmt: skip

ENGINES = ("auto", "torch", "compiled")

Engine = Annotated[str, checks.choice(ENGINES)]
"""The name of an engine, checked where it is an argument."""


def _device(argument: str, value: object) -> torch.device:
    """The device of this name, if torch finds it."""
    with contextlib.suppress(RuntimeError, TypeError, AssertionError):
        found = torch.device(value)
        if found.type in ("cpu", "cuda"):
            torch.empty(0, device=found)
            return found
    expected, fix = (
        "'cpu', or 'cuda' where torch finds a GPU",
        "leave device out, and see torch.cuda.is_available()",
    )
    raise InputError(argument, expected=expected, got=checks.shown(value), fix=fix)


Device = Annotated[torch.device | str, _device]
"""Device to compute on, "cpu" or "cuda"; the argument becomes a `torch.device`."""

FEW = 400
"""Evaluations of a field below which it is not even traced, which takes as long as 40 to 400 (0.3
ms a call).
"""

CALL, NUMBER = 5e-6, 1e-9
"""Seconds in torch: of a call (2 to 8 µs on a free core), and of a number it computes (batches of
100 members).
"""

FUSED = 200_000
"""Evaluations of a field on a GPU from which compiling its step pays."""

COMPILER, COMPILER_PER_CALL = 1.0, 0.015
"""Seconds of the compiler: 1.3 for 10 calls (the field of Lorenz96), 2 for 64 (its Galerkin field),
6 for 436 (the pendulum's). From the cache it takes a tenth, but then a result would depend on what
ran before.
"""


def compiled_if(
    engine: str, kernel: type[K], field: Field, times: Tensor, y: Tensor, evaluations: float
) -> tuple[K | None, str]:
    """The compiled field, or None where torch is to run; and what a run says of its engine.

    Args:
        engine: one of `ENGINES`.
        kernel: the field with the loop around it.
        field: f(t, y).
        times: (K,) of the run.
        y: (..., d) where it starts.
        evaluations: of the field, in the run.

    Raises:
        InputError: "compiled" was asked for, and is not possible.
    """
    if engine == "torch":
        return None, "torch"
    try:
        found = trace_field(field, y) if engine == "compiled" or evaluations >= FEW else None
        if found is None or (engine == "auto" and not pays(found, evaluations)):
            return None, "torch (too short a run to compile)"
        return kernel(field, times, y, found), "compiled"
    except Unsupported as verdict:
        if engine == "compiled":
            raise InputError(
                "engine", expected="a field to compile", got=str(verdict), fix="take 'auto'"
            ) from verdict
        if isinstance(verdict, Unavailable):
            warn_once(
                f"long runs go through torch, which is slower: {verdict}; engine='torch' does so in silence"
            )
        return None, f"torch ({verdict})"


def captured_if(
    engine: str, step: Step, field: Field, times: Tensor, y: Tensor, h: Tensor, evaluations: float
) -> tuple[Launched | CapturedSteps | None, str]:
    """`compiled_if` for a state on a GPU: a kernel for the whole run, else the captured step of
    length h, or None.

    "auto" does not take the kernel, since it has not run on a GPU yet.
    """
    if engine == "torch":
        return None, "torch"
    if engine == "auto" and evaluations < FEW:
        return None, "torch (too short a run to capture)"
    fused, name = engine == "compiled" or evaluations >= FUSED, "captured"
    if engine == "compiled":
        try:
            return Launched(field, times, y), "compiled"
        except Unsupported as verdict:
            name = f"captured ({verdict})"
    try:
        return CapturedSteps(step, field, times[0], y, h, fused=fused), name
    except Unsupported as verdict:
        if engine == "compiled":
            raise InputError(
                "engine", expected="a field to compile", got=str(verdict), fix="take 'auto'"
            ) from verdict
        return None, f"torch ({verdict})"


def pays(found: Trace, evaluations: float) -> bool:
    """Whether torch would take longer for these evaluations than a compiler for the field.

    Compiled are runs of RK4 from 5800 steps on for 10 calls on a few numbers, 1500 for 64, 860 for
    436. No clock is asked, since engines differ by rounding and a run has to be the same every
    time.
    """
    calls, numbers = (
        len(found.calls),
        sum(out.numel() for call in found.calls for out in call.outputs),
    )
    return evaluations * (CALL * calls + NUMBER * numbers) > COMPILER + COMPILER_PER_CALL * calls
