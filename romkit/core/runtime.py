"""Progress bars, and the provenance of a result: versions and device."""

import contextlib
import functools
import importlib.metadata
import importlib.util
import math
import os
import platform
import sys
import time
import weakref
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from tqdm.auto import tqdm

from romkit.core.types import Kwargs
from romkit.core.version import VERSION

T = TypeVar("T")

PIECE = 0.1
"""Seconds of work between two updates of a bar: little to wait for, and much beside what an update
costs.
"""

_shown: ContextVar[bool] = ContextVar("shown", default=True)


class Bar(tqdm):
    """Bar on a line of its own: one within another takes its place until it ends, and begins with
    the label and count of the outer one.

    tqdm would write below the outer bar, and move the cursor up again.
    """

    _open: ClassVar[list["weakref.ref[Bar]"]] = []
    """Bars that are shown, outer ones first."""

    def __init__(self, items: Iterable[Any] | None = None, *, desc: str, **settings: object):
        self.outer = self._innermost()
        super().__init__(items, desc=desc, position=0, **settings)
        if self.disable:
            return
        if self.outer is not None:
            self.set_description_str(f"{self.outer.place()}, {desc}", refresh=False)
        self._open.append(weakref.ref(self))

    def place(self) -> str:
        """Return label and number of the item at work."""
        total = "" if self.total is None else f"/{self.total}"
        return f"{self.desc.removesuffix(': ')} {self.n + 1}{total}"

    @classmethod
    def _innermost(cls) -> "Bar | None":
        """Return the bar that is shown; those that were dropped before their end are forgotten."""
        while cls._open:
            bar = cls._open[-1]()
            if bar is not None and not bar.disable:
                return bar
            cls._open.pop()
        return None

    def display(self, msg: str | None = None, pos: int | None = None, **look: Any) -> bool | None:
        # one that closes is disabled already, and clears its line; bars of notebooks have a look
        if self.disable or self._innermost() is self:
            return super().display(msg, pos, **look)
        return None


def lazy(name: str) -> Any:
    """Return a module that is loaded at its first attribute, as by `importlib.util.LazyLoader`."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return importlib.import_module(name)  # which says that it is missing
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def track(items: Iterable[T], label: str) -> "tqdm[T]":
    """Iterate over `items`; a bar on stderr appears once two seconds have passed, and leaves no
    trace. There is one bar at a time, and none in files and pipes.
    """
    return Bar(items, **_bar(label))


_budget: ContextVar["tuple[Bar, float] | None"] = ContextVar("budget", default=None)


@contextlib.contextmanager
def budget(label: str, seconds: float) -> Iterator[None]:
    """Show within the block how much of a budget of processor seconds is used, and the time left;
    `step` says at what, and `left` how much is left.
    """
    with Bar(total=math.ceil(seconds), unit="s", **_bar(label)) as bar, limit_seconds(seconds):
        token = _budget.set((bar, time.process_time()))
        try:
            yield
        finally:
            _budget.reset(token)


_end: ContextVar[float] = ContextVar("end", default=math.inf)


@contextlib.contextmanager
def limit_seconds(seconds: float) -> Iterator[None]:
    """Give the block so many processor seconds, and no more than are `left`: it asks for these."""
    token = _end.set(min(_end.get(), time.process_time() + seconds))
    try:
        yield
    finally:
        _end.reset(token)


def left() -> float:
    """Return processor seconds that are left of those of a block; infinite outside of any."""
    return _end.get() - time.process_time()


def step(name: str) -> None:
    """Name the work that begins within a `budget`."""
    running = _budget.get()
    if running is None:
        return
    bar, began = running
    used = min(int(time.process_time() - began), bar.total)
    bar.set_postfix_str(name, refresh=False)
    bar.update(used - bar.n)


def computed(label: str, *lazy: T) -> tuple[T, ...]:
    """Return values of what may be in chunks of dask, in one pass, with a bar as of `track`;
    clusters have their own.
    """
    if "dask.array" not in sys.modules:
        return lazy  # nothing has chunks
    import dask
    from tqdm.dask import TqdmCallback

    with TqdmCallback(tqdm_class=Bar, **_bar(label)):
        return dask.base.compute(*lazy)


def _bar(label: str) -> Kwargs:
    settings = {
        "desc": label,
        "delay": 2,
        "leave": False,
        "mininterval": 0.5,
        "dynamic_ncols": True,
    }
    if not _shown.get():
        settings["disable"] = True
    elif "ipykernel" not in sys.modules and not sys.stderr.isatty():
        # codes for a cursor are noise in files and pipes; notebooks show them as a bar
        settings["disable"] = True
    # else tqdm asks the environment
    return settings


def told(text: str) -> None:
    """Write a line about a step that has ended on stderr, where there are no bars: in files and
    pipes.
    """
    if _bar("").get("disable") and _shown.get():
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def bars(shown: bool) -> Iterator[None]:
    """Yield whether bars appear within the block."""
    before = _shown.set(shown and _shown.get())
    try:
        yield
    finally:
        _shown.reset(before)


def pieces(count: int, label: str) -> Iterator[slice]:
    """Cut `range(count)` into pieces of work that double until one takes `PIECE` seconds, with a
    bar as of `track`.

    For work whose result does not depend on where it is cut, since that is up to a clock.
    """
    if count == 1:
        # there is nothing to show, and a filter has a run of one interval at each observation
        yield slice(0, 1)
        return
    start, length = 0, 1
    with track(range(count), label) as bar:
        while start < count:
            began = time.perf_counter()
            stop = min(start + length, count)
            yield slice(start, stop)
            bar.update(stop - start)
            start = stop
            if time.perf_counter() - began < PIECE:
                length *= 2


_PACKAGES = ("romkit", "torch", "geoopt", "torchdiffeq", "mujoco", "numpy", "pysindy", "xarray")


def versions(*more: str) -> dict[str, str]:
    """Installed version of romkit, of each package that can change a number, and of what else is
    named.
    """
    return {package: _version(package) for package in (*_PACKAGES, *more)}


@functools.cache
def _version(package: str) -> str:
    if package == "romkit":
        return VERSION
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def device_name(device: torch.device | str) -> str:
    """Return a name that a reader recognises: the GPU's, or the processor's."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    """Return the model name that Linux knows, elsewhere the architecture."""
    architecture = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return architecture
    for line in lines:
        if line.startswith("model name"):
            _, _, model = line.partition(":")
            return model.strip()
    return architecture
