"""A field compiled together with a loop around it: one call takes all members through many
evaluations.

The field is traced once (`trace`), each call is translated for one block of members (`lower`), and
the system's C++ compiler does the rest (`build`). A block of members lies side by side in the
processor's vector registers and goes through the loop by itself, so a member's result does not
depend on its neighbours, bit for bit.
"""

import abc
import ctypes
import functools
import math
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from romkit.core.types import Field, Floats, Names, Pair
from romkit.engine import cuda
from romkit.engine.build import Unsupported, library, source_text
from romkit.engine.emit import ConstantPools
from romkit.engine.lower import KernelBody, lower
from romkit.engine.trace import Parametrised, Trace, trace_field

TYPES = {
    torch.float64: ("double", ctypes.c_double, 8),
    torch.float32: ("float", ctypes.c_float, 16),
}
"""C++ type, ctypes type, and members per block: as many as fill 64 bytes."""


class Kernel(abc.ABC):
    """A compiled field; a subclass adds the loop around it.

    Args:
        field: f(t, y), of the shape of y.
        times: (K,) at which it will be evaluated; it is compared with torch at the first, the
            middle and the last.
        y: (..., d) state to try it at; each entry of the leading axes is a member.
        trace: of the field at y, whose constants are read now and, of a field with parameters, at
            each run.

    Raises:
        Unsupported: the field cannot be compiled (the message says why), or its compiled form
            disagrees with it.

    Attributes:
        loop: the headers with the loop.
        tables: constants in C that the loop reads.
    """

    loop: ClassVar[Names]
    tables: ClassVar[str] = ""

    def __init__(self, field: Field, times: Tensor, y: Tensor, trace: Trace | None = None):
        if trace is None:
            trace = trace_field(field, y)
        self._is_renewed = isinstance(field, Parametrised)
        self._members, self._size = math.prod(y.shape[:-1]), y.shape[-1]
        self._real = TYPES[y.dtype][1]
        self._library, constants, lanes = self._build(trace, y)
        self._pack = functools.partial(_packed, constants, lanes, y.device)
        self._shared, self._by_member = self._pack()
        self._check_trials(field, trace, times, y)

    def _check_trials(
        self,
        field: Field,
        trace: Trace,
        times: Tensor,
        y: Tensor,
        *,
        trials: Floats = (0.0, 0.01, 0.3),
    ) -> None:
        """Compare with torch at several times and distances from the given state.

        `trials`: distances of the states of the comparison from the given one, relative to
        a member's largest component.
        """
        # the same noise in every run, so that the verdict is the same
        phases = torch.arange(y.numel(), dtype=y.dtype, device=y.device).mul(2.4)
        noise = phases.cos().reshape(y.shape) * _largest(y)
        with torch.no_grad():
            for k, distance in enumerate(trials):
                t = times[k * (len(times) - 1) // (len(trials) - 1)]
                self._check(field, trace, t, y + distance * noise)

    def evaluate(self, t: float, y: Tensor) -> Tensor:
        """f(t, y) for y (..., d), by the compiled code."""
        # kernels read rows of numbers without strides
        y = y.contiguous()
        out = torch.empty_like(y)
        self._library.evaluate(self._real(t), at(y), at(out), *self._constants())
        return out

    def _build(
        self, trace: Trace, y: Tensor, *, scratch_limit: int = 2**22
    ) -> tuple[Any, ConstantPools, int]:
        """Return the functions of `loop` for a trace, the constants that they read, and the members
        of a block of these.

        `scratch_limit`: bytes of intermediate results of one block, which live on the stack
        and should stay in the cache.
        """
        if y.is_cuda:
            return self._build_gpu(trace, y)
        name, _, block = TYPES[y.dtype]
        # a single member uses wide vectors within its own arrays
        lanes = block if self._members > 1 else 1
        body = lower(trace)
        # all intermediate results of a block are on the stack
        numbers = (body.scratch + self.numbers_kept(self._size)) * lanes
        if numbers * y.element_size() > min(scratch_limit, _stack() // 2):
            raise Unsupported("its intermediate results do not fit the cache, or the stack")
        text = source(body, name, lanes, self._size, self.loop, self.tables)
        return library(text), body.constants, lanes

    def _build_gpu(self, trace: Trace, y: Tensor) -> tuple[Any, ConstantPools, int]:
        """`_build` with a thread for each member."""
        body = lower(trace.place_constants())
        numbers = body.scratch + self.numbers_kept(self._size) + body.constants.own_size
        if numbers * y.element_size() > cuda.LOCAL_LIMIT:
            raise Unsupported("its intermediate results are too many for a thread")
        text = source(body, TYPES[y.dtype][0], 1, self._size, self.loop, self.tables)
        return cuda.module(text, y.device), body.constants, cuda.THREADS

    @staticmethod
    @abc.abstractmethod
    def numbers_kept(size: int) -> int:
        """Return number of values of each member the loop keeps, of a state of so many components."""

    def _constants(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]:
        if self._is_renewed:
            self._shared, self._by_member = self._pack()
        return at(self._shared), at(self._by_member), ctypes.c_int64(self._members)

    def _check(
        self,
        field: Field,
        trace: Trace,
        t: Tensor,
        y: Tensor,
        *,
        tolerance: int = 64,
        sensitivity: int = 100,
    ) -> None:
        """Compare with torch, so that a mistranslation can never pass for a result.

        The effect of rounding on a member is the difference of the same calls in single and in
        double precision, in units of single precision; in double precision it is as many units of
        that.

        `tolerance`: largest error of the compiled field, in units of torch's own rounding
        error; in twelve fields it was 10 at most.

        `sensitivity`: further error allowed, in units of the change of torch's result when
        the state is rounded: large if singular.
        """
        unit = torch.finfo(y.dtype).eps
        expected = field(t, y).expand_as(y)
        compiled = self.evaluate(t.item(), y)
        # most are equal within this, and what follows takes longer
        if _equal(compiled, expected, tolerance * unit * _largest(expected)):
            return
        allowed = tolerance * unit * (_rounding(trace, t, y) + _largest(expected))
        if _equal(compiled, expected, allowed):
            return
        change = _largest(field(t, y * (1 + 4 * unit)) - expected)
        if not _equal(compiled, expected, allowed + sensitivity * change):
            raise Unsupported("its compiled form disagrees with torch")


def _packed(constants: ConstantPools, lanes: int, device: torch.device) -> Pair:
    """Return the constants as they are now, where the kernel reads them."""
    shared, by_member = constants.pack(lanes)
    return shared.to(device), by_member.to(device)


def _rounding(trace: Trace, t: Tensor, y: Tensor) -> Tensor:
    """(..., 1) difference of the calls in single and in double precision, in units of the former."""
    results = []
    for dtype in (torch.float32, torch.float64):
        result = trace.module(dtype)(t.to(dtype), y.to(dtype))
        assert isinstance(result, Tensor)  # of a field
        results.append(result.expand_as(y).double())
    single, double = results
    return _largest(single - double).to(y.dtype) / torch.finfo(torch.float32).eps


def _largest(x: Tensor) -> Tensor:
    """(..., 1) largest magnitude of the components that are finite."""
    return x.nan_to_num(0, 0, 0).abs().amax(-1, keepdim=True)


def _equal(a: Tensor, b: Tensor, allowed: Tensor) -> bool:
    """Tell whether a and b differ by no more than `allowed`; infinities and NaN have to be the
    same.
    """
    near = (a - b).abs() <= allowed
    same_infinity = a == b
    both_nan = a.isnan() & b.isnan()
    return bool((near | same_infinity | both_nan).all())


def _stack() -> int:
    """Bytes of stack that threads have here; where the system sets no limit, libraries give them 2
    MiB.
    """
    try:
        import resource
    except ImportError:  # Windows
        return 2**20
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if limit == resource.RLIM_INFINITY:
        limit = 2**21
    return threading.stack_size() or limit


SAME_TIME = """#if W > 1
static inline void field(T time, const V *y, V *out, const T *C, const V *M) { field(vec(time), y, out, C, M); }
#endif"""
"""The field at one time of all members of a block."""


def source(
    body: KernelBody, real: str, lanes: int, size: int, loop: Sequence[str], tables: str = ""
) -> str:
    """Return text of a file in C++ with the field as a function, and the loop around it, which may
    read tables of numbers.
    """
    sizes = {"W": lanes, "D": size, "M_SIZE": body.constants.own_size}
    head = [f"#define {name} {value}" for name, value in sizes.items()]
    head.append(f"using T = {real};\n")
    arithmetic = map(source_text, ("libm.hpp", "vectors.hpp", "elementwise.h", "arrays.h"))
    field = "static APART void field(V time, const V *y, V *out, const T *C, const V *M)"
    declared = f"{field};\n{SAME_TIME}"
    opening = f"{field} {{\nconst V t[1] = {{time}};"
    texts = [*head, *arithmetic, declared, tables, *map(source_text, loop)]
    return "\n".join([*texts, opening, body.source, "}\n"])


def at(tensor: Tensor) -> ctypes.c_void_p:
    """Address of the numbers of a contiguous tensor."""
    return ctypes.c_void_p(tensor.data_ptr())


class RungeKutta(Kernel):
    """RK4 for ẏ = f(t, y)."""

    loop = ("block.hpp", "rk4.h", "integrate.hpp")

    @staticmethod
    def numbers_kept(size: int) -> int:
        return 7 * size

    def integrate(
        self, t: Tensor, h: Tensor, steps: Tensor, threshold: float, y: Tensor, states: Tensor
    ) -> None:
        """Integrate over K intervals; interval k starts at t[k] and takes steps[k] steps of length
        h[k].

        Args:
            t: (K,) of the dtype of y.
            h: (K,) of the dtype of y.
            steps: (K,) int64.
            threshold: members that exceed it start again from zero after the output.
            y: (..., d), contiguous; left at the last state.
            states: (K, ..., d), contiguous; filled with the state at the end of each interval.
        """
        t, h, steps = (numbers.to(y.device) for numbers in (t, h, steps))
        bound = self._real(threshold)
        self._library.integrate(
            at(t),
            at(h),
            at(steps),
            ctypes.c_int64(len(t)),
            bound,
            at(y),
            at(states),
            *self._constants(),
        )


class Newton(Kernel):
    """Newton's method whose step is f(t, y)."""

    loop = ("block.hpp", "newton.hpp")

    @staticmethod
    def numbers_kept(size: int) -> int:
        return 2 * size

    def settle(self, t: float, y: Tensor, *, start: int, iterations: int, tolerance: float) -> None:
        """Add f(t, y) to y until that is a small step.

        Args:
            t: time, the same for all steps.
            y: (..., d), contiguous; left where the steps end.
            start: a step is as long as its components from this one on.
            iterations: largest number of steps.
            tolerance: length of the last step of a member, relative to 1 + the norm of those
                components.
        """
        self._library.settle(
            self._real(t),
            ctypes.c_int64(start),
            ctypes.c_int64(iterations),
            self._real(tolerance),
            at(y),
            *self._constants(),
        )
