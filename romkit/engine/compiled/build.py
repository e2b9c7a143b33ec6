"""From C++ source to a loaded library, through the system's compiler and a cache on disk."""

import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from romkit import files, provenance
from romkit.engine.compiled.record import Unsupported

FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd")
"""No -ffast-math: NaN and infinity mean what they mean in torch."""

TIME_LIMIT = 120
"""Seconds after which a compiler is given up on."""


def compiler() -> list[str] | None:
    """The command of the C++ compiler ($CXX, or what the system has), None without one."""
    command = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    return command if shutil.which(command[0]) else None


@functools.cache
def library(source: str) -> ctypes.CDLL:
    """The library built from `source`; from the cache folder if this machine built it before.

    Raises:
        Unsupported: no compiler, or it fails.
    """
    command = compiler()
    if command is None:
        raise Unsupported("there is no C++ compiler (set CXX, or install g++ or clang++)")
    folder = cache_folder()
    target = folder / f"{_key(command, source)}.so"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with files.atomic(target) as temporary:
            _compile(command, source, temporary)
    return ctypes.CDLL(str(target))


def cache_folder() -> Path:
    """Where compiled kernels are kept: $XDG_CACHE_HOME/romkit or ~/.cache/romkit; a temporary folder if neither is
    writable. It can be deleted at any time.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    existing = next((folder for folder in (base, *base.parents) if folder.exists()), base)
    return base / "romkit" if os.access(existing, os.W_OK) else _temporary_folder()


@functools.cache
def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="romkit-"))


def _key(command: list[str], source: str) -> str:
    """The processor is part of it: home folders are shared between machines."""
    parts = (source, *command, *FLAGS, provenance.device_name("cpu"), sys.platform, _version(tuple(command)))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout


def _compile(command: list[str], source: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="romkit-") as folder:
        file = Path(folder) / "kernel.cpp"
        file.write_text(source, encoding="utf-8")
        arguments = [*command, *FLAGS, "-shared", "-fPIC", str(file), "-o", str(target)]
        try:
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
        except subprocess.TimeoutExpired as error:
            raise Unsupported(f"the C++ compiler takes longer than {TIME_LIMIT} s") from error
    if done.returncode:
        raise Unsupported(f"the C++ compiler failed: {(done.stderr.splitlines() or ['no message'])[0]}")
