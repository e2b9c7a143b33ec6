"""The fast path of a function of tensors: compiled by torch, and on a GPU also captured as one CUDA graph."""

import contextlib
import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from unittest import mock

import sympy
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from romkit.core.errors import warn

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])

QUICK_START = {
    "cpp_wrapper": True,  # all kernels and their calls are one library, not one call of g++ for each kernel
    "cpp_wrapper_build_separate": True,  # of two files: what only calls the kernels needs no optimisation
    "aot_inductor.compile_wrapper_opt_level": "Og",  # half the time of -O1, into steps that are as fast
    "cpp_cache_precompile_headers": False,  # takes longer than it saves where so few files include them
    "cpp.vec_isa_ok": True,  # what the CPU says that it can do, without building a program to try each set
    "realize_opcount_threshold": 5,  # stores what takes more operations, for they are else repeated at every use
}
"""What makes torch compile a step for a CPU in a third of its time, into code that is as fast or faster."""

_lock = threading.Lock()
"""Held while functions of torch's compiler are replaced, for a moment and for the whole process."""

WARM_UP = 3
"""Runs before the capture, in which torch compiles the step and its libraries allocate their workspaces."""


def accelerate(step: F, device: torch.device, *, compiled: bool = True) -> F:
    """`step`, a pure function of tensors on `device`, compiled, and on a GPU captured in one graph.

    All arguments and results are tensors or nested tuples of tensors, and all calls have the shapes of the first.
    """
    step = Traced(step) if compiled else step
    return Captured(step) if device.type == "cuda" else step


def compile_anew(function: F, device: torch.device) -> F:
    """`function`, compiled for `device` on its first call.

    torch counts how often it has compiled a code object, whatever a function closes over, and from the ninth model of
    a process on would silently leave it as it is. So this function gets a code object of its own, which also leaves
    what others have compiled alone.
    """

    def own(*arguments: object) -> object:
        return function(*arguments)

    own.__code__ = own.__code__.replace()
    _hush()
    return torch.compile(own, dynamic=False, options=_options(device))


def fast_or_eager(run: Callable[[bool], T], fast: bool) -> tuple[T, bool]:
    """What run(fast) gives and whether it was fast; run(False) where that fails, with a warning.

    A run must change nothing before it ends. Compilers and drivers differ from machine to machine, and training is the
    same without, only slower. An error that has another cause comes again from run(False).
    """
    if fast:
        try:
            return run(True), True
        except RuntimeError as failure:  # of torch.compile, or of the capture of a CUDA graph
            why = str(failure).strip().splitlines()[:2]
            warn(f"training goes on without compiling, and slower: {' '.join(why)}", RuntimeWarning)
    return run(False), False


class Traced:
    """A function of tensors as the operations of its first call, compiled for the device that these are on.

    Dynamo's analysis of the Python behind the operations takes seconds, and a pure function does without; the price is
    that no gradient goes through the result. Arguments and results are nested tuples of tensors.
    """

    def __init__(self, function: Callable[..., object]):
        self.function = function
        self.compiled: dict[tuple[torch.Size, ...], Callable[..., Sequence[Tensor]]] = {}

    def __call__(self, *arguments: object) -> object:
        leaves, structure = pytree.tree_flatten(arguments)
        leaves = [leaf.contiguous() for leaf in leaves]  # compiled code checks neither strides
        shapes = tuple(leaf.shape for leaf in leaves)  # nor shapes
        if shapes not in self.compiled:
            self.compiled[shapes] = self._compile(leaves, structure)
        return pytree.tree_unflatten(self.compiled[shapes](*leaves), self.results)

    def _compile(self, leaves: list[Tensor], structure: pytree.TreeSpec) -> Callable[..., Sequence[Tensor]]:
        def flat(*leaves: Tensor) -> list[Tensor]:
            results, self.results = pytree.tree_flatten(self.function(*pytree.tree_unflatten(leaves, structure)))
            return results

        _hush()
        options = _options(leaves[0].device)
        try:
            with _no_collector():
                return _built_soon(flat, leaves) if options else _built(flat, leaves, options)
        except Exception as failure:  # whatever the compiler raises
            raise RuntimeError(f"{type(failure).__name__}: {failure}") from failure


class Captured:
    """A function of tensors as one CUDA graph: a single launch, in place of one per kernel, as small nets need.

    A graph reads and writes fixed memory, so arguments are copied in and results out; all calls need the shapes of
    the first. Arguments and results are nested tuples of tensors, on the GPU.
    """

    def __init__(self, function: Callable[..., object]):
        self.function = function
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, *arguments: object) -> object:
        if self.graph is None:
            self._capture(arguments)
        for fixed, given in zip(self.inputs, pytree.tree_leaves(arguments), strict=True):
            fixed.copy_(given)
        self.graph.replay()
        return pytree.tree_map(Tensor.clone, self.results)

    def _capture(self, arguments: tuple[object, ...]) -> None:
        fixed = pytree.tree_map(Tensor.clone, arguments)
        self.inputs = pytree.tree_leaves(fixed)
        self.graph, self.results = captured(self.function, fixed)


def captured(function: Callable[..., T], arguments: tuple[object, ...]) -> tuple[torch.cuda.CUDAGraph, T]:
    """What launches function(*arguments) again, on the same memory, and the results that it writes.

    Raises:
        RuntimeError: the function cannot be compiled, or needs values on the CPU.
    """
    aside, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    aside.wait_stream(torch.cuda.current_stream())
    with _capturable_algebra():
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                function(*arguments)
        torch.cuda.current_stream().wait_stream(aside)
        with torch.cuda.graph(graph):
            results = function(*arguments)
    return graph, results


@contextlib.contextmanager
def _capturable_algebra() -> Iterator[None]:
    """Solves go through NVIDIA's library: the other that torch chooses from waits for the GPU, and ends a capture."""
    before = torch.backends.cuda.preferred_linalg_library()
    torch.backends.cuda.preferred_linalg_library("cusolver")
    try:
        yield
    finally:
        torch.backends.cuda.preferred_linalg_library(before)


def _built_soon(function: Callable[..., list[Tensor]], leaves: list[Tensor]) -> Callable[..., Sequence[Tensor]]:
    """Behind the compiler's front, or through it where torch is another inside than it is expected here."""
    try:
        return _built_behind_the_front(function, leaves)
    except (ImportError, AttributeError, TypeError):
        return _built(function, leaves, QUICK_START)


def _built(
    function: Callable[..., list[Tensor]], leaves: list[Tensor], options: dict[str, object]
) -> Callable[..., Sequence[Tensor]]:
    graph = make_fx(function)(*leaves)
    for node in graph.graph.nodes:
        node.meta.clear()  # the compiler works out shapes itself, and takes offence at those of another
    return torch._inductor.compile(graph, leaves, options=options)


def _built_behind_the_front(
    function: Callable[..., list[Tensor]], leaves: list[Tensor]
) -> Callable[..., Sequence[Tensor]]:
    """The same without the compiler's front, which would trace all operations twice more.

    A second process with the same operations and constants takes the code from the cache, for shapes are known.
    """
    from torch._functorch.compile_utils import fx_graph_cse
    from torch._guards import TracingContext, tracing
    from torch._inductor import compile_fx, config, decomposition
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    fakes = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
    shapes = [fakes.from_tensor(leaf) for leaf in leaves]
    with _lock, config.patch(QUICK_START), _torch_in_haste(), tracing(TracingContext(fakes)):
        graph = make_fx(function, decomposition.select_decomp_table())(*leaves)
        if any(_writes(node) for node in graph.graph.nodes):
            graph = make_fx(torch.func.functionalize(graph))(*leaves)  # what is compiled has no order but its arguments
        graph.graph = fx_graph_cse(graph.graph)  # what is computed twice is compiled once
        graph.graph.eliminate_dead_code()
        FakeTensorProp(graph, fakes).propagate_dont_convert_inputs(*shapes)
        run = compile_fx.compile_fx_inner(graph, shapes, cpp_wrapper=True, is_inference=True)
    return lambda *leaves: run(list(leaves))


def _writes(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    """Python's collector of garbage would walk a growing graph again and again, a tenth of the time, and find none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _torch_in_haste() -> Iterator[None]:
    """Leaves out what torch's compiler does here in vain, or one after the other."""
    with _plain_vectors(), _plain_indices(), _side_by_side():
        yield


@contextlib.contextmanager
def _plain_vectors() -> Iterator[None]:
    """torch builds six programs to learn how a CPU multiplies integers and half precision: there are none here."""
    from torch._inductor import cpu_vec_isa

    class AVX512(cpu_vec_isa.VecAVX512):
        __bool__ = cpu_vec_isa.VecISA.__bool__

    units = [AVX512(), cpu_vec_isa.VecAVX2()]
    if not torch.cpu._is_avx512_supported():  # then it builds none
        yield
        return
    with mock.patch.object(cpu_vec_isa, "valid_vec_isa_list", return_value=units):
        yield


@contextlib.contextmanager
def _plain_indices() -> Iterator[None]:
    """sympy would simplify the index of every load and store, a fifth of the time: a sum is as simple as it gets."""
    from torch._inductor import sizevars
    from torch.utils._sympy.functions import FloorDiv, ModularIndexing

    simplify = sizevars.simplify_index_in_vec_range

    def simplified(index: sympy.Expr, variable: sympy.Expr, length: int) -> sympy.Expr:
        return simplify(index, variable, length) if index.has(FloorDiv, ModularIndexing) else index

    with mock.patch.object(sizevars, "simplify_index_in_vec_range", simplified):
        yield


@contextlib.contextmanager
def _side_by_side() -> Iterator[None]:
    """torch compiles the file of the kernels after that of their calls: here both at once."""
    from torch._inductor import codecache

    build = codecache._worker_compile_cpp

    def build_all(lock: str, builders: Sequence[object]) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda k: build(f"{lock}.{k}", builders[k : k + 1]), range(len(builders) - 1)))
        build(lock, builders)  # links them

    with mock.patch.object(codecache, "_worker_compile_cpp", build_all):
        yield


def _options(device: torch.device) -> dict[str, object]:
    return dict(QUICK_START) if device.type == "cpu" and sys.platform == "linux" else {}


def _hush() -> None:
    """torch logs a warning for each operation that its library calls through Python; here that is meant."""
    logger = logging.getLogger("torch._inductor.ir")
    if _is_about_us not in logger.filters:
        logger.addFilter(_is_about_us)


def _is_about_us(record: logging.LogRecord) -> bool:
    return "using proxy executor as fallback" not in str(record.msg)
