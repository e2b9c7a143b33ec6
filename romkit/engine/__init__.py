"""The one room for speed: what batches, compiles, and chooses devices and threads.

Two engines run the same mathematics: `torch`, one call after the other on any device, and `compiled`, the recorded
field and the loop around it as native code, on a CPU. "auto" compiles where that pays and is possible.
"""

from collections.abc import Callable
from typing import TypeVar

from romkit.engine.compiled import Kernel, Unsupported
from romkit.errors import InputError

K = TypeVar("K", bound=Kernel)

ENGINES = ("auto", "torch", "compiled")


def compiled_if(engine: str, pays: bool, make: Callable[[], K]) -> tuple[K | None, str]:
    """The kernel that `make` compiles, or None where torch is to run; and what a run says of its engine.

    Args:
        engine: one of `ENGINES`.
        pays: whether the run is long enough that compiling takes less time than it saves.
        make: compiles, or raises `Unsupported`.

    Raises:
        InputError: "compiled" was asked for, and is not possible.
    """
    if engine == "torch":
        return None, "torch"
    if engine == "auto" and not pays:
        return None, "torch (too short a run to compile)"
    try:
        return make(), "compiled"
    except Unsupported as verdict:
        if engine == "compiled":
            raise InputError("engine", expected="a field to compile", got=str(verdict), fix="take 'auto'") from verdict
        return None, f"torch ({verdict})"
