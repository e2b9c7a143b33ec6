"""Threads of torch on a CPU."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run on one core, and restore the number of threads afterwards.

    The tensors of a reduced model are so small that several threads only wait for each other: on two busy cores two
    threads are several times slower than one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
