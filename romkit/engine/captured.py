"""CUDA graphs: a step of training or of integration as one launch, instead of one per kernel."""

import functools
from collections.abc import Callable
from typing import TypeVar, cast

import torch
from torch import Tensor

from romkit.core.types import Field, Operation, TensorFunction
from romkit.engine._torch import tree_leaves, tree_map
from romkit.engine.build import Unsupported
from romkit.engine.inductor import Traced

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])

Step = Callable[[Field, Tensor, Tensor, Tensor], Tensor]
"""(field, t, y, h) -> the state one step of length h later."""


def accelerate(step: F, device: torch.device, *, compiled: bool = True) -> F:
    """Compile `step`, a pure function of tensors on `device`, and on a GPU capture it in one graph.

    All arguments and results are tensors or nested tuples of tensors, and all calls have the shapes
    of the first.
    """
    faster: Operation = Traced(step) if compiled else step
    return cast("F", Captured(faster) if device.type == "cuda" else faster)


class Captured:
    """A function of tensors as one CUDA graph.

    A graph reads and writes fixed memory, so arguments are copied in and results out; all calls
    need the shapes of the first. Arguments and results are nested tuples of tensors, on the GPU.
    """

    def __init__(self, function: Callable[..., object]):
        self.function = function
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, *arguments: object) -> object:
        if self.graph is None:
            # arguments of later calls are copied here
            fixed = tree_map(Tensor.clone, arguments)
            self.inputs = tree_leaves(fixed)
            self.graph, self.results = captured(self.function, fixed)
        for fixed, value in zip(self.inputs, tree_leaves(arguments), strict=True):
            fixed.copy_(value)
        self.graph.replay()
        return tree_map(Tensor.clone, self.results)


class CapturedSteps:
    """Steps of an integrator on a GPU, captured once and launched again and again, with nothing
    copied between.

    Args:
        step: of the method.
        field: f(t, y).
        t: time to try the step at, a scalar of the dtype and device of y.
        y: (..., d) state to try the step at.
        h: length of the step to try.
        fused: whether torch compiles the step before it is captured, into a few kernels in place of
            hundreds.

    Raises:
        Unsupported: the step cannot be traced or captured (the message says why), or disagrees with
            torch.
    """

    def __init__(self, step: Step, field: Field, t: Tensor, y: Tensor, h: Tensor, *, fused: bool):
        # the graph works on memory of its own
        self.t, self.y, self.h = t.clone(), y.clone(), h.to(y)
        expected = step(field, t, y, self.h)
        forward: TensorFunction = functools.partial(step, field)
        if fused:
            forward = cast("Callable[..., Tensor]", Traced(forward))

        def advance(t: Tensor, y: Tensor, h: Tensor) -> None:
            y.copy_(forward(t, y, h))
            t.add_(h)

        try:
            self.graph, _ = captured(advance, (self.t, self.y, self.h))
        except RuntimeError as failure:
            reason = str(failure).strip().splitlines()[0]
            raise Unsupported(f"its step cannot be captured ({reason})") from failure
        # fused kernels round differently
        allowed = 1e3 * torch.finfo(y.dtype).eps * expected.abs().amax(-1, keepdim=True)
        close = ((self._run_steps(t, y, h, 1) - expected).abs() <= allowed) | ~expected.isfinite()
        if not bool(close.all()):
            raise Unsupported("its captured step disagrees with torch")

    def integrate(
        self, t: Tensor, h: Tensor, steps: Tensor, threshold: float, y: Tensor, states: Tensor
    ) -> None:
        """Integrate like `RungeKutta.integrate`, for tensors on the GPU; `steps` (K,) on the CPU."""
        for k, number in enumerate(steps.tolist()):
            states[k] = self._run_steps(t[k], y, h[k], number)
            alive = (states[k].abs() <= threshold).all(-1, keepdim=True)
            y.copy_(torch.where(alive, states[k], 0.0))

    def _run_steps(self, t: Tensor, y: Tensor, h: Tensor, steps: int) -> Tensor:
        # the graph reads and writes these alone
        for fixed, value in ((self.t, t), (self.y, y), (self.h, h)):
            fixed.copy_(value)
        for _ in range(steps):
            self.graph.replay()
        return self.y


def captured(
    function: Callable[..., T], arguments: tuple[object, ...], *, warm_up: int = 3
) -> tuple[torch.cuda.CUDAGraph, T]:
    """Return a graph that runs function(*arguments) again on the same memory, and the results that
    it writes.

    `warm_up`: runs before the capture, in which torch compiles the step and its libraries allocate
    their workspaces.

    Raises:
        RuntimeError: the function cannot be compiled, or needs values on the CPU.
    """
    aside, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    aside.wait_stream(torch.cuda.current_stream())
    before = torch.backends.cuda.preferred_linalg_library()
    # The other library that torch chooses from waits for the GPU in solves, which ends a capture.
    torch.backends.cuda.preferred_linalg_library("cusolver")
    try:
        with torch.cuda.stream(aside):
            for _ in range(warm_up):
                function(*arguments)
        torch.cuda.current_stream().wait_stream(aside)
        with torch.cuda.graph(graph):
            results = function(*arguments)
    finally:
        torch.backends.cuda.preferred_linalg_library(before)
    return graph, results
