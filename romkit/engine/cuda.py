"""Kernels on a GPU: the statements of those of a CPU, with a thread for each member.

NVRTC compiles them, through `cuda.bindings`: torch for CUDA brings both on Linux.
"""

import ctypes
import functools
import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from romkit.core import files
from romkit.core.types import Args
from romkit.engine.build import Unavailable, cached

THREADS = 32
"""Members of a block, so that ten thousand of them are spread over all processors of a GPU."""

LOCAL_LIMIT = 2**14
"""Bytes of a thread's own memory, so that those of all threads that a GPU may hold (270 000 on an
H100) fit.
"""

OPTIONS = ("-default-device", "-std=c++17", "-w", "-Xptxas=-v")

ROLLED_FOR = '_Pragma("unroll 1") for (int '


class Module:
    """The kernels of CUDA source, called like functions of a library.

    The last argument of each is the number of members, and each member gets a thread.

    Raises:
        Unavailable: the source cannot be compiled or loaded.
    """

    def __init__(self, text: str, device: torch.device):
        self._driver, _, version = _bindings()
        self._device = device
        architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(device))

        def make(folder: Path) -> Path:
            file = folder / "kernel.cubin"
            file.write_bytes(compiled(text, architecture)[0])
            return file

        binary = cached((text, architecture, *OPTIONS, version), make, Path.read_bytes)
        with torch.cuda.device(device):
            self._module = _result(self._driver.cuModuleLoadData(binary))

    def __getattr__(self, name: str) -> functools.partial[None]:
        with torch.cuda.device(self._device):
            function = _result(self._driver.cuModuleGetFunction(self._module, name.encode()))
        return functools.partial(self._launch, function)

    def _launch(self, function: object, *arguments: Any) -> None:
        addresses = map(ctypes.addressof, arguments)
        pointers = (ctypes.c_void_p * len(arguments))(*addresses)
        members = arguments[-1].value
        grid = (math.ceil(members / THREADS), 1, 1)
        block = (THREADS, 1, 1)
        with torch.cuda.device(self._device):
            stream = torch.cuda.current_stream().cuda_stream
            passed = ctypes.addressof(pointers)
            _result(self._driver.cuLaunchKernel(function, *grid, *block, 0, stream, passed, 0))


@functools.cache
def module(text: str, device: torch.device) -> Module:
    """Return the kernels of C++ source on a GPU; compiled once, and kept on disk.

    Raises:
        Unavailable: it cannot be compiled or loaded.
    """
    return Module(f"#define THREADS {THREADS}\n{rolled(text)}", device)


def rolled(text: str) -> str:
    """Return source whose loops stay loops, but for those that it unrolls itself.

    Written out, arrays would be registers, of which a thread has 255, and the rest would spill. In
    loops they lie in the thread's own memory from the start.
    """
    return re.sub(r"(?<!UNROLLED )for \(int ", ROLLED_FOR, text)


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
        first_line = (messages.splitlines() or ["no message"])[0]
        raise Unavailable(f"NVRTC failed: {first_line}")
    binary = b" " * _result(nvrtc.nvrtcGetCUBINSize(program))
    _result(nvrtc.nvrtcGetCUBIN(program, binary))
    return binary, messages


def _bindings() -> tuple[ModuleType, ModuleType, str]:
    """Return the driver, NVRTC, and the version of NVRTC."""
    try:
        from cuda.bindings import driver, nvrtc

        return driver, nvrtc, str(nvrtc.nvrtcVersion())
    except (ImportError, RuntimeError) as error:  # RuntimeError: it does not find the library
        reason = files.reason(error)
        raise Unavailable(f"no NVRTC ({reason}); torch for CUDA brings it on Linux") from error


def _result(answer: Args) -> Any:
    """Return result of a call to CUDA, without its code."""
    code, *results = answer
    if code:
        raise Unavailable(f"CUDA says {code.name}")
    return results[0] if results else None
