"""Which engine runs a field: compiled where that pays and is possible, else torch.

No clock is asked, and not the cache either: engines differ by rounding, and a run has to be the
same every time.
"""

import math
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from romkit.core.errors import InputError
from romkit.core.types import Args, Field, Kwargs, Operation
from romkit.engine._torch import DispatchMode, tree_leaves, tree_map
from romkit.engine.build import Unavailable, Unsupported, warn_once
from romkit.engine.captured import CapturedSteps, Step
from romkit.engine.kernel import Kernel
from romkit.engine.trace import Trace, trace_field

K = TypeVar("K", bound=Kernel)

FEW_ON_GPU = 400
"""Evaluations of a field below which it is not even traced for a GPU, which takes as long as 40 to
400 (0.3 ms a call).
"""


class Repeated:
    """A field of several runs over the same times, whose constants stay: runs of one shape share
    their compiled form.

    Args:
        field: f(t, y).
        runs: number of them, which decides whether compiling pays.

    Attributes:
        kernels: compiled forms, by class of the loop, shape, dtype and device.
    """

    def __init__(self, field: Field, runs: int):
        self._field, self.runs = field, runs
        self.kernels: dict[tuple[object, ...], Any] = {}

    def __call__(self, t: Tensor, y: Tensor) -> Tensor:
        return self._field(t, y)


def compiled_if(
    engine: str,
    kernel: type[K],
    field: Field,
    times: Tensor,
    y: Tensor,
    evaluations: float,
    further_calls: float = 0.0,
    *,
    call_on_gpu: float = 9e-6,
) -> tuple[K | None, str]:
    """Return the compiled field, or None where torch is to run; and what a run says of its engine.

    Args:
        engine: one of `ENGINES`.
        kernel: the field with the loop around it.
        field: f(t, y).
        times: (K,) of the run.
        y: (..., d) where it starts.
        evaluations: of the field, in the run.
        further_calls: of torch in the run, in the loop around the field.
        call_on_gpu: seconds of a call of torch on an H200.

    Raises:
        InputError: "compiled" was asked for, and is not possible.
    """
    if engine == "torch":
        return None, "torch"
    short = "torch (too short a run to compile)"
    is_choice = engine == "auto"
    kernels: dict[tuple[object, ...], K] = {}
    form = kernel, y.shape, y.dtype, y.device
    if isinstance(field, Repeated):
        kernels = field.kernels
        evaluations *= field.runs
        further_calls *= field.runs
    if form in kernels:
        return kernels[form], "compiled"
    try:
        if is_choice and is_short(field, times[0], y, evaluations, further_calls):
            return None, short
        recorded = trace_field(field, y)
        if is_choice and y.is_cuda:
            seconds = (evaluations * len(recorded.calls) + further_calls) * call_on_gpu
            if not _gpu_pays(field, times[0], y, recorded, evaluations, seconds):
                return None, short
        made = kernels[form] = kernel(field, times, y, recorded)
        return made, "compiled"
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
        raise InputError(
            "engine", expected="a field to compile", got=str(verdict), fix="take 'auto'"
        ) from verdict


def launched_if(
    engine: str,
    kernel: type[K],
    step: Step,
    field: Field,
    times: Tensor,
    y: Tensor,
    h: Tensor,
    evaluations: float,
    *,
    calls_of_stage: int = 5,
    captured_call: float = 1e-6,
    least_fused: float = 200_000,
) -> tuple[K | CapturedSteps | None, str]:
    """`compiled_if` for fixed steps on a GPU: the run as one launch, else each step of length h as
    one, or None.

    `calls_of_stage`: calls of torch in a captured step for each evaluation of the field, beside
    those of the field; `captured_call`: seconds of one on an H200 (1 to 2 µs on an H100);
    `least_fused`: evaluations of a field from which compiling its step pays.
    """
    if engine == "torch":
        return None, "torch"
    if engine == "auto" and evaluations < FEW_ON_GPU:
        return None, "torch (too short a run to capture)"
    name = "captured"
    try:
        recorded = trace_field(field, y)
        seconds = (evaluations * (len(recorded.calls) + calls_of_stage)) * captured_call
        worth = engine == "compiled"
        if not worth:
            worth = _gpu_pays(field, times[0], y, recorded, evaluations, seconds)
        if worth:
            return kernel(field, times, y, recorded), "compiled"
    except Unsupported as verdict:
        name = f"captured ({verdict})"
    # fusing takes seconds, a capture alone none
    fused = engine == "compiled" or evaluations >= least_fused
    try:
        return CapturedSteps(step, field, times[0], y, h, fused=fused), name
    except Unsupported as verdict:
        _refuse_if_wanted(engine, verdict)
        return None, f"torch ({verdict})"


def _gpu_pays(
    field: Field,
    t: Tensor,
    y: Tensor,
    recorded: Trace,
    evaluations: float,
    seconds: float,
    *,
    thread_rate: float = 1.5e8,
    gpu_compiler: float = 0.5,
) -> bool:
    """Tell whether a thread for each member takes less time than torch, which takes so many
    seconds.

    A thread does alone what torch spreads over the GPU, so members that are much work do not pay.

    `thread_rate`: operations per second of one thread of an H200 or H100: between 6e7, where
    its numbers leave the cache, and 3e8.

    `gpu_compiler`: seconds to compile a kernel for a GPU, load it and compare it with torch.
    """
    members = math.prod(y.shape[:-1])
    numbers = sum(output.numel() for call in recorded.calls for output in call.outputs)
    with FlopCounterMode(display=False) as products:
        field(t, y)
    operations = (products.get_total_flops() + numbers) / members
    return gpu_compiler + (evaluations * operations / thread_rate) < seconds


def is_short(
    field: Field,
    t: Tensor,
    y: Tensor,
    evaluations: float,
    further_calls: float = 0.0,
    *,
    call: float = 5e-6,
    number: float = 1e-9,
    few: int = 20,
    worthwhile: float = 0.1,
    preparation: float = 6e-4,
) -> bool:
    """Tell whether torch takes a run of so many evaluations to its end sooner than is worth
    compiling.

    Short are runs of RK4 below 530 steps for 10 calls on a few numbers, 110 for 64, 42 for 436.

    `call`, `number`: seconds in torch: of a call (2 to 8 µs on a free core), and of a number it
    computes (batches of 100 members). `few`: evaluations below which a run is short whatever its
    field: one of a thousand calls takes 5 ms.

    `worthwhile`, `preparation`: seconds in torch from which a run is compiled, and for each call
    those that tracing and comparing take in every run (0.008 s for 10 calls, 0.03 for 64, 0.38 for
    580). The compiler takes 1 to 6 s, once on a machine; repeated runs are up to thirty times
    faster. Shorter ones would gain less than a tenth of a second.
    """
    if evaluations < (FEW_ON_GPU if y.is_cuda else few):
        return True
    if y.is_cuda:
        return False  # the number of threads decides there
    calls, numbers = work(field, t, y)
    seconds_in_torch = evaluations * (call * calls + number * numbers) + call * further_calls
    return seconds_in_torch < worthwhile + preparation * calls


def work(field: Field, t: Tensor, y: Tensor) -> tuple[int, int]:
    """Return calls of torch in an evaluation of a field, and the numbers that these give.

    Counting them takes as long as two or three evaluations; tracing, as long as a hundred.
    """
    counted = _Counted()
    y = y.clone()  # derivatives along a path need numbers with memory of their own
    with torch.no_grad(), counted:
        field(t, y)
    return counted.calls, counted.numbers


def _materialize_zeros(value: object) -> object:
    """Zeros in memory for a tensor that is zero by definition; anything else as it is."""
    if isinstance(value, Tensor) and value._is_zerotensor():
        return torch.zeros(value.shape, dtype=value.dtype, device=value.device)
    return value


class _Counted(DispatchMode):
    """Mode of torch that counts calls and the numbers that they give."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.numbers = 0, 0

    def __torch_dispatch__(
        self,
        op: Operation,
        types: object,
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        # calls of a mode on derivatives without memory, of what does not move, end the interpreter
        args = tree_map(_materialize_zeros, args)
        outputs = op(*args, **(kwargs or {}))
        self.calls += 1
        for leaf in tree_leaves(outputs):
            if isinstance(leaf, Tensor):
                self.numbers += leaf.numel()
        return outputs
