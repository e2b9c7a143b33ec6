"""Compilation of C++ source by the system's compiler, with a cache of libraries on disk."""

import ctypes
import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import TypeVar

import torch

from romkit.core import files, runtime
from romkit.core.errors import warn

X = TypeVar("X")

NATIVE = "-march=native"
"""Option that some compilers do not know; the second try leaves it out."""

FLAGS = (
    "-std=c++17",
    "-O2",
    NATIVE,
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
)
"""Options of the compiler. No -ffast-math: NaN and infinity mean the same as in torch. No -O3: loops
over members are vectors already, and what it makes of the others takes longer to compile and to run.
"""

TIME_LIMIT = 300
"""Seconds after which a compilation is given up."""


class Unsupported(Exception):
    """Verdict that a field cannot be compiled; the message says why."""


class Unavailable(Unsupported):
    """Verdict that nothing can be compiled or loaded on this machine; the message says why."""


def source_text(name: str) -> str:
    """Return the text of a file in C, C++ or CUDA of this room."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def library(source: str) -> ctypes.CDLL:
    """Compile and load C++ source that defines `evaluate`, or load what this user compiled on this
    machine before.

    Libraries are kept in the user's cache folder, ~/.cache/romkit on Linux, which can be deleted at
    any time. The folder and its files must belong to the user, and nobody else may write to them: a
    library of a stranger is never loaded. Where the folder cannot be used, a temporary one of the
    process replaces it.

    Raises:
        Unavailable: no compiler, or it fails, or its library cannot be kept and loaded anywhere.
    """
    outcome = _library(source, *map(os.environ.get, ("CXX", "PATH", "XDG_CACHE_HOME", "HOME")))
    if isinstance(outcome, str):
        raise Unavailable(outcome)
    return outcome


@functools.cache
def warn_once(message: str) -> None:
    """Warn unless this process has seen the same message."""
    warn(message, RuntimeWarning)


@functools.cache
def _library(source: str, *environment: str | None) -> ctypes.CDLL | str:
    """Return the library, or the reason why there is none; both are found out once in a process."""
    try:
        command = _compiler("CXX", "c++")
        # The processor is part of the name, since home folders are shared between machines.
        machine = (
            runtime.device_name("cpu"),
            torch.backends.cpu.get_cpu_capability(),
            sys.platform,
        )
        version = _run([*command, "--version"])
        return cached(
            (source, *command, *FLAGS, *machine, version),
            lambda folder: _compiled(folder, command, source),
            lambda file: ctypes.CDLL(str(file)),
        )
    except Unavailable as verdict:
        return str(verdict)


def cached(key: Sequence[str], make: Callable[[Path], Path], load: Callable[[Path], X]) -> X:
    """Return the result of `load` for the file that `make` writes into a folder, or that it wrote
    before for this key.

    The SHA-256 of its content stands in a file beside it: appended, it would break the signatures
    that some systems ask of a library.

    Raises:
        Unavailable: `make` says so, or the file cannot be kept and loaded anywhere.
    """
    digest = hashlib.sha256(chr(0).join(key).encode()).hexdigest()
    failures = []
    for folder in (_cache_folder, lambda: Path(_temporary_folder(os.getpid()).name)):
        try:
            result = _loaded(folder() / f"{digest}.so", make, load)
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
            failures.append(files.reason(error))
            continue
        if failures:
            warn_once(f"compiled code is not kept, so each process compiles it anew: {failures[0]}")
        return result
    raise Unavailable(f"compiled code cannot be kept or loaded: {'; '.join(failures)}")


def compile_c(folder: Path, sources: Sequence[str], target: str | None = None) -> Path:
    """Return a shared library of sources in C, in their folder, that other machines can load.

    Args:
        folder: where the sources are.
        sources: names of files.
        target: machine and system as the wheel `ziglang` names them, `x86_64-windows-gnu` say; those
            of this machine by default.

    Raises:
        Unavailable: no compiler, or it fails.
    """
    command = _compiler("CC", "cc") if target is None else _cross_compiler(target)
    options = ["-std=c99", "-O2", "-shared", "-fPIC"]
    _run([*command, *options, *sources, "-o", "library", "-lm"], str(folder))
    return folder / "library"


def _cross_compiler(target: str) -> list[str]:
    """Command of a C compiler for another machine: that of the wheel `ziglang`, which has the
    headers and libraries of each.
    """
    if importlib.util.find_spec("ziglang") is None:
        raise Unavailable(
            'no compiler for other platforms; pip install ".[compiler]" in a copy of the repository'
        )
    # symbols for a debugger are most of such a library, and on Windows a file of their own
    return [sys.executable, "-m", "ziglang", "cc", "-target", target, "-g0", "-s"]


def _compiler(variable: str, usual: str) -> list[str]:
    """Command of the compiler that a variable of the environment names, or else the usual one; that
    of the wheel `ziglang` where there is none.
    """
    try:
        chosen = shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise Unavailable(f"{variable} is not a command ({error})") from error
    if chosen:
        return chosen
    if shutil.which(usual) is None and importlib.util.find_spec("ziglang") is not None:
        # kernels use no C++ library, whose compilation would take the first call minutes
        without_library = ["-nostdlib++"] if usual == "c++" else []
        return [sys.executable, "-m", "ziglang", usual, *without_library]
    return [usual]


def _caches() -> Path:
    """Folder of caches of this user, as the platform has it."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local")).expanduser()
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def _cache_folder() -> Path:
    """Folder of compiled code of this user; others must not be able to write to it."""
    folder = _caches() / "romkit"
    if not folder.is_absolute():
        raise RuntimeError("there is no home folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_own(folder.stat()):
        raise PermissionError(
            f"{folder} belongs to another user, or others may write to it (chmod go-w)"
        )
    return folder


@functools.cache
def _temporary_folder(process: int) -> tempfile.TemporaryDirectory[str]:
    """Return a folder of this process alone: one that was forked off makes its own."""
    return tempfile.TemporaryDirectory(prefix="romkit-", ignore_cleanup_errors=True)


def _is_own(status: os.stat_result) -> bool:
    """Tell whether a file or folder is the user's own, and nobody else may write to it."""
    if os.name == "nt":  # Windows keeps profiles apart by itself
        return True
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.geteuid() and not writable_by_others


def _compiled(folder: Path, command: list[str], source: str) -> Path:
    """Library of C++ source for this very processor, in a folder."""
    (folder / "kernel.cpp").write_text(source, encoding="utf-8")
    output = ["-shared", "-fPIC", "kernel.cpp", "-o", "kernel.so"]
    try:
        _run([*command, *FLAGS, *output], str(folder))
    except Unavailable as verdict:
        # some compilers do not know the processor of this machine
        portable = [flag for flag in FLAGS if flag != NATIVE]
        try:
            _run([*command, *portable, *output], str(folder))
        except Unavailable:
            raise verdict from None
    return folder / "kernel.so"


def _loaded(file: Path, make: Callable[[Path], Path], load: Callable[[Path], X]) -> X:
    """Return result of `load` for a file, which is made first where it is missing or damaged."""
    if not _intact(file):
        with tempfile.TemporaryDirectory(dir=file.parent, ignore_cleanup_errors=True) as folder:
            library = make(Path(folder))
            digest = library.with_suffix(DIGEST)
            digest.write_bytes(hashlib.sha256(library.read_bytes()).digest())
            for file_of_user in (library, digest):
                file_of_user.chmod(0o600)
            # by renaming, so that no other process loads half a library
            os.replace(library, file)
            os.replace(digest, file.with_suffix(DIGEST))
    try:
        return load(file)
    except OSError:
        # the next call makes it anew
        file.unlink()
        raise


DIGEST = ".sha256"
"""Suffix of the file beside a library that has the SHA-256 of its content."""


def _intact(file: Path) -> bool:
    """Tell whether the file is the user's own and undamaged: the system's loader crashes on a
    library that is cut short.
    """
    try:
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode) or not _is_own(status):
            return False
        content = file.read_bytes()
        return file.with_suffix(DIGEST).read_bytes() == hashlib.sha256(content).digest()
    except OSError:
        return False


def _run(command: list[str], folder: str | None = None) -> str:
    """Output of a command that succeeds, in printable characters."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            timeout=TIME_LIMIT,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"the compiler takes longer than {TIME_LIMIT} s") from error
    except OSError as error:
        reason = files.reason(error)
        fix = 'install gcc or clang, pip install ".[compiler]", or set CXX (CC for an FMU)'
        raise Unavailable(f"no compiler starts ({reason}); {fix}") from error
    output = "".join(c if c.isprintable() or c == "\n" else "?" for c in done.stdout)
    if done.returncode:
        raise Unavailable(f"the compiler failed: {(output.splitlines() or ['no message'])[0]}")
    return output
