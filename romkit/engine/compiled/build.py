"""From C++ source to a loaded library, by the system's compiler, or from the cache on disk."""

import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from romkit.core import files, runtime
from romkit.core.errors import warn
from romkit.engine.compiled import cache
from romkit.engine.compiled.record import Unsupported

FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd")
"""No -ffast-math: NaN and infinity mean what they mean in torch."""

TIME_LIMIT = 120
"""Seconds after which a compiler is given up on."""


class Unavailable(Unsupported):
    """Nothing can be compiled or loaded here; the message says why."""


def library(source: str) -> ctypes.CDLL:
    """The library built from `source`; from the cache folder if this machine built it before.

    Raises:
        Unavailable: no compiler, or it fails, or what it makes cannot be kept and loaded anywhere.
    """
    found = _library(source, *map(os.environ.get, ("CXX", "PATH", "XDG_CACHE_HOME", "HOME")))
    if isinstance(found, str):
        raise Unavailable(found)
    return found


@functools.cache
def _library(source: str, *environment: str | None) -> ctypes.CDLL | str:
    """The library, or why there is none, which a process has to find out only once."""
    trouble = []
    try:
        command = compiler()
        name = _name(command, source)
        for folder in (cache.kept, cache.passing):
            try:
                found = _from(folder(), name, command, source)
            except (OSError, RuntimeError) as error:
                trouble.append(files.reason(error))
                continue
            if trouble:
                warn_once(f"compiled code is not kept, so each process compiles it anew: {trouble[0]}")
            return found
    except Unavailable as verdict:
        return str(verdict)
    return f"compiled code cannot be kept or loaded: {'; '.join(trouble)}"


@functools.cache
def warn_once(message: str) -> None:
    """Once in a process."""
    warn(message, RuntimeWarning)


def compiler() -> tuple[str, ...]:
    """The command of the C++ compiler: $CXX, or what the system has.

    Raises:
        Unavailable: there is none.
    """
    try:
        command = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    except ValueError as error:
        raise Unavailable(f"CXX is not a command ({error})") from error
    if shutil.which(command[0]) is None:
        raise Unavailable("there is no C++ compiler (set CXX, or install g++ or clang++)")
    return tuple(command)


def _from(folder: Path, name: str, command: tuple[str, ...], source: str) -> ctypes.CDLL:
    with cache.opened(folder) as place:
        file = place / name
        if not cache.intact(file, name):
            cache.sweep(place)
            cache.seal(file, name, _compiled(command, source))
        try:
            found = ctypes.CDLL(str(file))
            found.evaluate  # noqa: B018
        except (OSError, AttributeError) as error:
            file.unlink()
            if isinstance(error, OSError):
                raise
            raise Unavailable("the C++ compiler made a library without the compiled field") from error
    return found


def _name(command: tuple[str, ...], source: str) -> str:
    """The processor is part of it: home folders are shared between machines."""
    machine = (runtime.device_name("cpu"), torch.backends.cpu.get_cpu_capability(), sys.platform)
    parts = (source, *command, *FLAGS, *machine, _version(command))
    return f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}.so"


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    return _run([*command, "--version"])[1]


def _compiled(command: tuple[str, ...], source: str) -> bytes:
    with cache.workshop() as folder:
        (folder / "kernel.cpp").write_text(source, encoding="utf-8")
        code, said = _run([*command, *FLAGS, "-shared", "-fPIC", "kernel.cpp", "-o", "kernel.so"], folder)
        if code:
            raise Unavailable(f"the C++ compiler failed: {(said.splitlines() or ['no message'])[0]}")
        try:
            return (folder / "kernel.so").read_bytes()
        except OSError as error:
            raise Unavailable(f"the C++ compiler left no library ({files.reason(error)})") from error


def _run(arguments: list[str], folder: Path | None = None) -> tuple[int, str]:
    """Exit code, and what a command printed, as far as that can be printed again."""
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run(arguments, cwd=folder, timeout=TIME_LIMIT, check=False, **settings)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"the C++ compiler takes longer than {TIME_LIMIT} s") from error
    except (OSError, ValueError) as error:
        raise Unavailable(f"the C++ compiler cannot be started ({files.reason(error)})") from error
    said = done.stdout.decode(errors="replace")
    return done.returncode, "".join(c if c.isprintable() or c == "\n" else "?" for c in said)
