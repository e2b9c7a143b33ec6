"""One progress bar for everything that can take more than two seconds."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")

PIECE = 0.1
"""Seconds of work between two updates of a bar: little to wait for, and much beside what an update costs."""

_shown: ContextVar[bool] = ContextVar("shown", default=True)


def track(items: Iterable[T], label: str) -> "tqdm[T]":
    """Iterate over `items`; a bar on stderr appears once two seconds have passed, and leaves no trace."""
    hidden = {} if _shown.get() else {"disable": True}  # else tqdm asks the environment
    return tqdm(items, desc=label, delay=2, leave=False, mininterval=0.5, dynamic_ncols=True, **hidden)


@contextlib.contextmanager
def bars(shown: bool) -> Iterator[None]:
    """Whether bars appear within the block."""
    before = _shown.set(shown and _shown.get())
    try:
        yield
    finally:
        _shown.reset(before)


def pieces(count: int, label: str) -> Iterator[slice]:
    """Cut `range(count)` into pieces of work that double until one takes `PIECE` seconds, with a bar as of `track`.

    For work whose result does not depend on where it is cut, since that is up to a clock.
    """
    start, length = 0, 1
    with track(range(count), label) as bar:
        while start < count:
            began, stop = time.perf_counter(), min(start + length, count)
            yield slice(start, stop)
            bar.update(stop - start)
            start, length = stop, length * (2 if time.perf_counter() - began < PIECE else 1)
