"""One thread of torch while romkit computes; with MKL's setting in `romkit/__init__.py` all that a
process shares.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch

_lock = threading.Lock()
_within, _outside = 0, 1
_own = threading.local()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run on one core, and restore the number of threads afterwards.

    The tensors of a reduced model are so small that several threads only wait for each other: on
    two busy cores two threads are several times slower than one. And sums, to the last bit, depend
    on the number of threads.

    Several Python threads may be inside at once. torch keeps its number for each of them, and takes
    it, in one that is new to torch, from the last one that set it: perhaps the 1 that is set here.
    So who comes in while others are inside leaves with the number that the first one of them found.
    """
    global _within, _outside
    if getattr(_own, "depth", 0):  # a block inside a block
        yield
        return
    with _lock:
        number = torch.get_num_threads()
        if _within == 0:
            _outside = number
        before = _outside if number == 1 else number
        _within += 1
        torch.set_num_threads(1)
    _own.depth = 1
    try:
        yield
    finally:
        _own.depth = 0
        with _lock:
            _within -= 1
            torch.set_num_threads(before)
