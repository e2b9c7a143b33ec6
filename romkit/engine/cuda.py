"""A run as one launch on a GPU: the statements of the kernels, for one member in each thread.

NVRTC compiles them, through `cuda.bindings`: torch for CUDA brings both on Linux.
"""

import ctypes
import functools
import math
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor

from romkit.core import files
from romkit.engine.build import Unavailable, Unsupported, cached
from romkit.engine.emit import ConstantPools
from romkit.engine.kernel import TYPES, RungeKutta, source
from romkit.engine.lower import lower
from romkit.engine.trace import Trace

THREADS = 32
"""Members of a block, so that ten thousand of them are spread over all processors of a GPU."""

LOCAL_LIMIT = 2**14
"""Bytes of a thread's own memory, so that those of all threads that a GPU may hold (270 000 on an
H100) fit.
"""

OPTIONS = ("-default-device", "-std=c++17", "-w", "-Xptxas=-v")


class Launched(RungeKutta):
    """RK4 for ẏ = f(t, y) with y on a GPU, whose threads take a member each through all intervals."""

    loop = ("rk4.h", "launch.cu")

    def _build(self, trace: Trace, y: Tensor) -> tuple[object, ConstantPools, int]:
        body = lower(trace.on_cpu())
        numbers = body.scratch + self.arrays * self._size + body.constants.own_size
        if numbers * y.element_size() > LOCAL_LIMIT:
            raise Unsupported("its intermediate results are too many for a thread")
        text = f"#define THREADS {THREADS}\n" + source(
            body, TYPES[y.dtype][0], 1, self._size, self.loop
        )
        return module(rolled(text), y.device), body.constants, THREADS


def rolled(text: str) -> str:
    """Source whose loops stay loops, but for those that it unrolls itself.

    Written out, arrays would be registers, of which a thread has 255, and the rest would spill. In
    loops they lie in the thread's own memory from the start.
    """
    return re.sub(r"(?<!UNROLLED )for \(int ", '_Pragma("unroll 1") for (int ', text)


def compiled(text: str, architecture: str) -> tuple[bytes, str]:
    """Binary of CUDA source for an architecture, such as "sm_90", and what the assembler says of
    its registers.

    Raises:
        Unavailable: there is no NVRTC, or it fails.
    """
    _, nvrtc, _ = _bindings()
    program = _result(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    options = [option.encode() for option in (f"-arch={architecture}", *OPTIONS)]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    log = b" " * _result(nvrtc.nvrtcGetProgramLogSize(program))
    _result(nvrtc.nvrtcGetProgramLog(program, log))
    messages = log.decode(errors="replace").strip("\0")
    if failed:
        raise Unavailable(f"NVRTC failed: {(messages.splitlines() or ['no message'])[0]}")
    binary = b" " * _result(nvrtc.nvrtcGetCUBINSize(program))
    _result(nvrtc.nvrtcGetCUBIN(program, binary))
    return binary, messages


@functools.cache
def module(text: str, device: torch.device) -> SimpleNamespace:
    """The kernels `evaluate` and `integrate` of CUDA source, called like functions of a library;
    kept on disk like one.

    The last argument is the number of members, and each gets a thread.

    Raises:
        Unavailable: it cannot be compiled or loaded.
    """
    driver, _, version = _bindings()
    architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(device))

    def make(folder: Path) -> Path:
        (folder / "kernel.cubin").write_bytes(compiled(text, architecture)[0])
        return folder / "kernel.cubin"

    def launch(function: object, *arguments: object) -> None:
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        blocks = math.ceil(arguments[-1].value / THREADS)
        with torch.cuda.device(device):
            stream, given = torch.cuda.current_stream().cuda_stream, ctypes.addressof(pointers)
            _result(
                driver.cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, given, 0)
            )

    binary = cached((text, architecture, *OPTIONS, version), make, Path.read_bytes)
    with torch.cuda.device(device):
        loaded = _result(driver.cuModuleLoadData(binary))
        found = {
            name: _result(driver.cuModuleGetFunction(loaded, name.encode()))
            for name in ("evaluate", "integrate")
        }
    return SimpleNamespace(
        **{name: functools.partial(launch, function) for name, function in found.items()}
    )


def _bindings() -> tuple[ModuleType, ModuleType, str]:
    """The driver, NVRTC, and the version of NVRTC."""
    try:
        from cuda.bindings import driver, nvrtc

        return driver, nvrtc, str(nvrtc.nvrtcVersion())
    except (ImportError, RuntimeError) as error:  # RuntimeError: it does not find the library
        raise Unavailable(
            f"no NVRTC ({files.reason(error)}); torch for CUDA brings it on Linux"
        ) from error


def _result(answer: tuple) -> object:
    """Result of a call to CUDA, without its code."""
    code, *found = answer
    if code:
        raise Unavailable(f"CUDA says {code.name}")
    return found[0] if found else None
