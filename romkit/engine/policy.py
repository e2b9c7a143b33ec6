"""Which engine runs a field: compiled where that pays and is possible, else torch.

No clock is asked, since engines differ by rounding and a run has to be the same every time.
"""

from typing import TypeVar

from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.types import Field
from romkit.engine.build import Unavailable, Unsupported, warn_once
from romkit.engine.captured import CapturedSteps, Step
from romkit.engine.kernel import Kernel
from romkit.engine.trace import Trace, trace_field

K = TypeVar("K", bound=Kernel)

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
    engine: str,
    kernel: type[K],
    field: Field,
    times: Tensor,
    y: Tensor,
    evaluations: float,
    further_calls: float = 0.0,
) -> tuple[K | None, str]:
    """The compiled field, or None where torch is to run; and what a run says of its engine.

    Args:
        engine: one of `ENGINES`.
        kernel: the field with the loop around it.
        field: f(t, y).
        times: (K,) of the run.
        y: (..., d) where it starts.
        evaluations: of the field, in the run.
        further_calls: of torch in the run, in the loop around the field.

    Raises:
        InputError: "compiled" was asked for, and is not possible.
    """
    if engine == "torch":
        return None, "torch"
    # no clock is asked, and not the cache either: the choice has to be the same every time
    short = "torch (too short a run to compile)"
    if engine == "auto" and evaluations < FEW:
        return None, short
    try:
        recorded = trace_field(field, y)
        if engine == "auto" and not pays(recorded, evaluations, further_calls):
            return None, short
        return kernel(field, times, y, recorded), "compiled"
    except Unsupported as verdict:
        _refuse_if_wanted(engine, verdict)
        # a field that cannot be compiled is no reason to warn, a machine without compiler is
        if isinstance(verdict, Unavailable):
            consequence = "long runs go through torch, which is slower"
            warn_once(f"{consequence}: {verdict}; engine='torch' does so in silence")
        return None, f"torch ({verdict})"


def _refuse_if_wanted(engine: str, verdict: Unsupported) -> None:
    """Raise InputError where "compiled" was asked for."""
    if engine == "compiled":
        fix = "take 'auto'"
        raise InputError(
            "engine", expected="a field to compile", got=str(verdict), fix=fix
        ) from verdict


def captured_if(
    engine: str, step: Step, field: Field, times: Tensor, y: Tensor, h: Tensor, evaluations: float
) -> tuple[CapturedSteps | None, str]:
    """`compiled_if` for a state on a GPU: the captured step of length h, or None."""
    if engine == "torch":
        return None, "torch"
    if engine == "auto" and evaluations < FEW:
        return None, "torch (too short a run to capture)"
    # fusing takes seconds, a capture alone none
    fused = engine == "compiled" or evaluations >= FUSED
    try:
        return CapturedSteps(step, field, times[0], y, h, fused=fused), "captured"
    except Unsupported as verdict:
        _refuse_if_wanted(engine, verdict)
        return None, f"torch ({verdict})"


def pays(recorded: Trace, evaluations: float, further_calls: float = 0.0) -> bool:
    """Whether torch would take longer for these evaluations than a compiler for the field.

    Compiled are runs of RK4 from 5800 steps on for 10 calls on a few numbers, 1500 for 64, 860 for
    436.
    """
    calls = len(recorded.calls)
    numbers = sum(output.numel() for call in recorded.calls for output in call.outputs)
    seconds_in_torch = evaluations * (CALL * calls + NUMBER * numbers) + further_calls * CALL
    return seconds_in_torch > COMPILER + COMPILER_PER_CALL * calls
