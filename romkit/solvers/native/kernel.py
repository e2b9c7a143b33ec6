"""A field compiled together with the Runge–Kutta loop around it: one call integrates all members over many steps.

The field is recorded once (`record`), each call is translated for one block of members (`lower`), and the system's C++
compiler does the rest (`build`). A block of members lies side by side in the processor's vector registers and is
integrated by itself, so a member's result does not depend on its neighbours, bit for bit.
"""

import ctypes
import math
import threading
from importlib import resources

import torch
from torch import Tensor

from romkit.solvers.native.build import library
from romkit.solvers.native.lower import Body, lower
from romkit.solvers.native.record import Unsupported, record
from romkit.types import Field

TYPES = {torch.float64: ("double", ctypes.c_double, 8), torch.float32: ("float", ctypes.c_float, 16)}
"""C++ type, ctypes type, and members per block: as many as fill 64 bytes."""

SCRATCH_LIMIT = 2**22
"""Bytes of intermediate results of one block, which live on the stack and should stay in the cache."""

ARRAYS = 7
"""States among them that belong to the integrator (`rk4.hpp`)."""

TOLERANCE = 1e5
"""Rounding units, relative to a member's largest component, by which the compiled field may differ from torch's."""


class Kernel:
    """RK4 for one field, compiled.

    Args:
        field: right-hand side f(t, y); its constants are read now and not again.
        t: scalar initial time.
        y: (..., d) initial state on the CPU; each entry of the leading axes is a member.

    Raises:
        Unsupported: the field cannot be compiled (the message says why), or its compiled form disagrees with it.
    """

    def __init__(self, field: Field, t: Tensor, y: Tensor):
        if y.device.type != "cpu" or y.dtype not in TYPES:
            raise Unsupported(f"the state is {y.dtype} on {y.device.type}; compiled are float32 and float64 on the CPU")
        if y.numel() == 0:
            raise Unsupported("the state is empty")
        self._members, self._size = math.prod(y.shape[:-1]), y.shape[-1]
        name, self._real, block = TYPES[y.dtype]
        lanes = block if self._members > 1 else 1
        body = lower(record(field, y))
        if (body.scratch + ARRAYS * self._size) * lanes * y.element_size() > min(SCRATCH_LIMIT, _stack() // 2):
            raise Unsupported("its intermediate results do not fit the cache, or the stack")
        self._shared, self._own = body.constants.pack(lanes)
        self._library = library(_source(body, name, lanes, self._size))
        self._check(field, t, y)

    def evaluate(self, t: float, y: Tensor) -> Tensor:
        """f(t, y) for y (..., d), by the compiled code."""
        y = y.contiguous()
        out = torch.empty_like(y)
        self._library.evaluate(self._real(t), _at(y), _at(out), *self._constants())
        return out

    def integrate(self, t: Tensor, h: Tensor, steps: Tensor, bound: float, y: Tensor, states: Tensor) -> None:
        """Integrate over K intervals; interval k starts at t[k] and takes steps[k] steps of length h[k].

        Args:
            t: (K,) of the dtype of y.
            h: (K,) of the dtype of y.
            steps: (K,) int64.
            bound: members that exceed it start again from zero after the output.
            y: (..., d), contiguous; left at the last state.
            states: (K, ..., d), contiguous; filled with the state at the end of each interval.
        """
        arguments = [_at(t), _at(h), _at(steps), ctypes.c_int64(len(t)), self._real(bound), _at(y), _at(states)]
        self._library.integrate(*arguments, *self._constants())

    def _constants(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]:
        return _at(self._shared), _at(self._own), ctypes.c_int64(self._members)

    def _check(self, field: Field, t: Tensor, y: Tensor) -> None:
        """One evaluation beside torch's, so that a mistranslation can never pass for a result."""
        with torch.no_grad():
            expected = field(t, y).expand_as(y)
        found = self.evaluate(t.item(), y)
        largest = expected.nan_to_num(0, 0, 0).abs().amax(-1, keepdim=True).clamp(min=1.0)
        close = (found - expected).abs() <= TOLERANCE * torch.finfo(y.dtype).eps * largest
        if not bool((close | (found == expected) | (found.isnan() & expected.isnan())).all()):
            raise Unsupported("its compiled form disagrees with torch")


def _stack() -> int:
    """Bytes of stack that threads have here; where the system sets no limit, libraries give them 2 MiB."""
    try:
        import resource
    except ImportError:  # Windows
        return 2**20
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return threading.stack_size() or (2**21 if limit == resource.RLIM_INFINITY else limit)


def _source(body: Body, real: str, lanes: int, size: int) -> str:
    head = f"#define W {lanes}\n#define D {size}\n#define M_SIZE {body.constants.own_size}\nusing T = {real};\n"
    opening = "static void field(T time, const V *y, V *out, const T *C, const V *M) {\nconst V t[1] = {vec(time)};"
    return "\n".join([head, _read("prelude.hpp"), _read("rk4.hpp"), opening, body.source, "}\n"])


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _at(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())
