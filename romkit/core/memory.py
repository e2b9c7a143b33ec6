"""Memory that a process may still take, and what it gives back."""

import contextlib
import ctypes
import math
import sys
from pathlib import Path

from romkit.core.errors import InputError

KILO = 1024
"""Bytes in a kB of /proc."""

CGROUP = Path("/sys/fs/cgroup")
"""Limits of a container."""


def available() -> float:
    """Return the bytes that this process may still take: the least of what the machine has left, the
    container's limit, and that of the address space (`ulimit -v`); infinite where nobody says.
    """
    return min(_machine_memory(), _container_memory(), _address_memory())


SMALLER = (
    "take every second time or cell, fewer runs, or coordinates in a basis, "
    "romkit.basis(data).project(data)"
)
"""Ways to smaller data."""


def refuse_too_large(name: str, size: int, *, multiple: int = 10, fix: str = SMALLER) -> None:
    """Refuse data with which the memory would not suffice.

    Args:
        name: of the argument.
        size: of the data in double precision [bytes].
        multiple: memory that a whole search takes at most, in this size: of 80 MB in 10 runs of 50
            samples of 20 000 components 5.6 with a law and 8.8 with runs interpolated at equal
            phases, and 8.6 of 32 MB, where the same code counts for more.
        fix: what to do.
    """
    free = available()
    if multiple * size > free:
        raise InputError(
            name,
            expected=f"at most {free / multiple / 1e9:.2g} GB, which need {multiple} times "
            f"their size of the {free / 1e9:.2g} GB that are free",
            got=f"{size / 1e9:.2g} GB",
            fix=fix,
        )


def give_back_arrays(size: int = 2**21) -> None:
    """Let arrays of so many bytes and more go back to the system as soon as they are freed.

    The allocator of glibc keeps those below 32 MB, of which a search over large fields leaves many:
    of 80 MB of data 300 MB in the end.
    """
    threshold_of_maps = -3  # M_MMAP_THRESHOLD of malloc.h
    with contextlib.suppress(AttributeError, OSError, TypeError):  # other systems do it themselves
        ctypes.CDLL(None).mallopt(threshold_of_maps, size)


def _machine_memory() -> float:
    kilobytes = _numbers(Path("/proc/meminfo")).get("MemAvailable", math.inf)
    return KILO * kilobytes


def _container_memory() -> float:
    limit, used = math.inf, 0.0
    with contextlib.suppress(OSError, ValueError):  # "max" is no limit
        limit = float((CGROUP / "memory.max").read_text())
        used = float((CGROUP / "memory.current").read_text())
    return limit - used


def _address_memory() -> float:
    if sys.platform == "win32":
        return math.inf
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return math.inf
    return limit - KILO * _numbers(Path("/proc/self/status")).get("VmSize", 0.0)


def _numbers(file: Path) -> dict[str, float]:
    """Numbers by name of a file of /proc; none where there is no such file."""
    numbers = {}
    with contextlib.suppress(OSError):
        for line in file.read_text().splitlines():
            name, _, text = line.partition(":")
            words = text.split()
            if words and words[0].isdigit():
                numbers[name] = float(words[0])
    return numbers
