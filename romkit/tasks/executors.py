"""Where tasks are computed: in this process, or in local worker processes."""

import contextlib
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.tasks.base import Task, attempt

WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
"""One thread, also in libraries that a task loads late; bars of several processes would write over each other."""


class Pending(Protocol):
    """What `submit` returns: a `concurrent.futures.Future`, or what answers these two as it does."""

    def done(self) -> bool:
        """Whether the task has ended."""

    def result(self) -> str | None:
        """None, or the traceback of the failure; raises if the process of the task died."""


class Executor(ABC):
    """Computes tasks somewhere by `base.attempt`, and is closed by `with`.

    Attributes:
        width: how many tasks it takes at a time.
    """

    width: int

    @abstractmethod
    def submit(self, task: Task, file: Path) -> Pending:
        """Start to compute a task, whose result goes to `file`."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027, an executor need not hold anything
        """Nothing to close by default."""


class InProcess(Executor):
    """One task after another in this process.

    Args:
        count: 1, as for a single worker.
    """

    def __init__(self, count: int = 1):
        if count != 1:
            fix = "choose the executor that has workers, or leave their number out"
            raise InputError("workers", expected="1 for tasks in this process", got=count, fix=fix)
        self.width = count

    def submit(self, task: Task, file: Path) -> Future:
        future: Future = Future()
        future.set_result(attempt(task, file))
        return future


class Workers(Executor):
    """Processes of this machine, one thread each.

    Each is a pool of its own, so that one which is killed (out of memory, ...) fails its task and no other.

    Args:
        count: of processes; as many as the machine has cores by default.
    """

    def __init__(self, count: int | None = None):
        self.width = checks.at_least("workers", os.cpu_count() if count is None else count, 1)
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._workers = [_Worker() for _ in range(self.width)]
        for worker in self._workers:
            self._idle.put(worker)

    def submit(self, task: Task, file: Path) -> Future:
        worker = self._idle.get()
        future = worker.submit(task, file)
        future.add_done_callback(lambda _: self._idle.put(worker))
        return future

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.close()


class _Worker:
    """One process, started at its first task, and again should it die."""

    def __init__(self):
        self._start()

    def _start(self) -> None:
        held, self._leash = Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_obey, initargs=(held,))

    def submit(self, task: Task, file: Path) -> Future:
        with _environment(WORKER_ENVIRONMENT):
            try:
                return self._pool.submit(attempt, task, file)
            except BrokenExecutor:
                self._start()
                return self._pool.submit(attempt, task, file)

    def close(self) -> None:
        """End the process, in the middle of a task if need be."""
        self._leash.close()
        self._pool.shutdown()


def _obey(leash: Connection) -> None:
    """In a new worker: end when the runner lets go of the leash, be it by dying; Ctrl-C is the runner's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(leash,), daemon=True).start()


def _end_with(leash: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        leash.recv()
    os._exit(1)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Environment variables for processes that start meanwhile."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update({name: before[name] for name in values if name in before})
