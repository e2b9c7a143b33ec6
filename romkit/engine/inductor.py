"""Training steps compiled by torch's compiler, Inductor."""

import contextlib
import logging
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import torch
from torch import Tensor

from romkit.core.errors import warn
from romkit.core.types import Kwargs
from romkit.engine._torch import (
    INDUCTOR_LOGGER,
    OpOverload,
    TreeSpec,
    compile_graph,
    operations_once,
    recorded,
    shapes_of,
    tree_flatten,
    tree_unflatten,
)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])

QUICK_START = {
    # all kernels and their calls are one library, not one call of g++ for each kernel
    "cpp_wrapper": True,
    # of two files: what only calls the kernels needs no optimisation
    "cpp_wrapper_build_separate": True,
    # half the time of -O1, into steps that are as fast
    "aot_inductor.compile_wrapper_opt_level": "Og",
    # takes longer than it saves where so few files include them
    "cpp_cache_precompile_headers": False,
    # what the CPU says that it can do, without building a program to try each set
    "cpp.vec_isa_ok": True,
    # stores what takes more operations, for they are else repeated at every use
    "realize_opcount_threshold": 5,
}
"""Options of Inductor on a CPU: compilation takes 40 % of the time, and the code is as fast or
faster.
"""

VECTORS = {"AVX512": 512, "AVX2": 256}
"""Bits of a vector, by what torch calls the capability of a processor; Inductor chooses for others."""


class Traced:
    """A pure function of tensors, compiled from the operations of its first call at each shape.

    Tracing the operations instead of the Python code (Dynamo) saves seconds; in return no gradient
    goes through the result. Arguments and results are nested tuples of tensors.

    Raises:
        RuntimeError: the compiler fails, whatever it raised itself.
    """

    def __init__(self, function: Callable[..., object]):
        self.function = function
        self.compiled: dict[tuple[torch.Size, ...], Callable[..., Sequence[Tensor]]] = {}

    def __call__(self, *arguments: object) -> object:
        leaves, structure = tree_flatten(arguments)
        leaves = [leaf.contiguous() for leaf in leaves]  # compiled code checks neither strides
        shapes = tuple(leaf.shape for leaf in leaves)  # nor shapes
        if shapes not in self.compiled:
            self.compiled[shapes] = self._compile(leaves, structure)
        return tree_unflatten(self.compiled[shapes](*leaves), self.results)

    def _compile(
        self, leaves: list[Tensor], structure: TreeSpec
    ) -> Callable[..., Sequence[Tensor]]:
        def flat(*leaves: Tensor) -> list[Tensor]:
            results, self.results = tree_flatten(self.function(*tree_unflatten(leaves, structure)))
            return results

        try:
            # derivatives repeat operations of the values
            graph = _merge_repeated(recorded(flat, leaves))
            shapes = shapes_of(leaves)
            with _silent_fallbacks():
                compiled = compile_graph(graph, shapes, _options(leaves[0].device))
            return cast("Callable[..., Sequence[Tensor]]", compiled)
        except Exception as failure:
            raise RuntimeError(f"{type(failure).__name__}: {failure}") from failure


def _merge_repeated(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return the graph with each operation once, where none changes its arguments."""
    ops = [node.target for node in graph.graph.nodes if isinstance(node.target, OpOverload)]
    if not any(op._schema.is_mutable for op in ops):
        graph = operations_once(graph)
    for node in graph.graph.nodes:
        # the compiler works out shapes itself, and refuses those of another tracer
        node.meta.clear()
    return graph


def compile_anew(function: F, device: torch.device) -> F:
    """Compile `function`, through which gradients go, for `device` on its first call.

    torch counts how often it has compiled a code object, whatever a function closes over, and from
    the ninth model of a process on would silently leave the function uncompiled. So it gets a code
    object of its own, which also leaves alone what others have compiled.
    """

    def call(*arguments: object) -> object:
        return function(*arguments)

    copied = types.FunctionType(call.__code__.replace(), globals(), closure=call.__closure__)
    compiled = torch.compile(copied, dynamic=False, options=_options(device))

    def quiet(*arguments: object) -> object:
        with _silent_fallbacks():  # the first call compiles
            return compiled(*arguments)

    return cast("F", quiet)


def fast_or_eager(run: Callable[[bool], T], fast: bool) -> tuple[T, bool]:
    """Return result of run(fast) and whether it was fast; of run(False), after a warning, if the
    fast run fails.

    A run must change nothing before it ends. Compilers and drivers differ from machine to machine,
    and training is the same without, only slower. An error that has another cause comes again from
    run(False).
    """
    if fast:
        try:
            return run(True), True
        except RuntimeError as failure:  # of Inductor, or of the capture of a CUDA graph
            why = str(failure).strip().splitlines()[:2]
            warn(f"training goes on without compiling, and slower: {' '.join(why)}", RuntimeWarning)
    return run(False), False


def _options(device: torch.device) -> Kwargs:
    """Return options of Inductor for a device."""
    if device.type != "cpu" or sys.platform != "linux":
        return {}
    # torch's cache would hand on code for wider vectors than this processor has, were the width no
    # part of its key
    return QUICK_START | {"cpp.simdlen": VECTORS.get(torch.backends.cpu.get_cpu_capability())}


@contextlib.contextmanager
def _silent_fallbacks() -> Iterator[None]:
    """Silence Inductor's warning for each operation that its library calls through Python, as is
    intended here.
    """
    logger = logging.getLogger(INDUCTOR_LOGGER)
    logger.addFilter(_no_fallback)
    try:
        yield
    finally:
        logger.removeFilter(_no_fallback)


def _no_fallback(record: logging.LogRecord) -> bool:
    return "using proxy executor as fallback" not in str(record.msg)
