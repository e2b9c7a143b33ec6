"""Running many tasks: what is complete is skipped, what fails is reported, the rest goes on."""

import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from romkit.core.errors import InputError
from romkit.core.files import atomic, expanded
from romkit.core.runtime import track
from romkit.tasks.base import Task, is_complete, result_file
from romkit.tasks.executors import Executor, Pending

_PAUSE = 0.1
"""Seconds between two looks at the running tasks."""


@dataclass
class Sweep:
    """How the tasks of a sweep ended, by name.

    Attributes:
        complete: computed now, by this runner or by another one in the same folder.
        skipped: complete from before.
        failed: and the log of each, which has the traceback.
    """

    complete: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, Path] = field(default_factory=dict)


def run(
    tasks: Iterable[Task],
    folder: Path,
    executor: Executor,
    *,
    only: str = "",
    known: Mapping[str, str] | None = None,
) -> Sweep:
    """Compute the tasks that are not complete in `folder`, in their order.

    Several runners may share a folder: a task that one is computing is awaited by the others.

    Args:
        tasks: one that occurs twice is computed once.
        folder: of the results, one `<name>.nc` each; it is made.
        executor: where they are computed; `with` closes it.
        only: tasks whose name contains this text.
        known: keys of results that are complete elsewhere, by the name of the task.

    Raises:
        InputError: two different tasks of one name, a name that is no file name, or nothing that `only` fits.
    """
    folder = expanded(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    files = {task.name: (task, result_file(task, folder)) for task in _distinct(tasks, only)}
    known = known or {}
    there = [name for name, (task, file) in files.items() if known.get(name) == task.key or is_complete(task, file)]
    sweep = Sweep(skipped=there)
    _compute({name: files[name] for name in files if name not in sweep.skipped}, executor, sweep)
    return sweep


def _distinct(tasks: Iterable[Task], only: str) -> list[Task]:
    tasks = list(tasks)
    unique = {task.key: task for task in tasks}.values()
    for name, count in Counter(task.name for task in unique).items():
        if count > 1:
            fix = "put into the name what tells them apart"
            raise InputError("tasks", expected="a name for each", got=f"{count} different ones named {name!r}", fix=fix)
    chosen = [task for task in unique if only in task.name]
    if tasks and not chosen:
        fix = f"the first of {len(unique)} is {tasks[0].name!r}"
        raise InputError("only", expected="text in the name of a task", got=repr(only), fix=fix)
    return chosen


def _compute(files: dict[str, tuple[Task, Path]], executor: Executor, sweep: Sweep) -> None:
    waiting, running = deque(files), {}
    with track(range(len(files)), "tasks") as bar:
        while waiting or running:
            while waiting and len(running) < executor.width:
                _show(bar, len(running) + 1, sweep)
                name = waiting.popleft()
                running[name] = executor.submit(*files[name])
            ended = [name for name, pending in running.items() if pending.done()]
            for name in ended:
                _settle(*files[name], running.pop(name), sweep)
                bar.update()
            _show(bar, len(running), sweep)
            if not ended:
                time.sleep(_PAUSE)


def _settle(task: Task, file: Path, pending: Pending, sweep: Sweep) -> None:
    """Put an ended task where it belongs, with a log if it failed."""
    try:
        problem = pending.result()
    except Exception:  # whatever an executor says of a process that died
        # Of a job that two runners wait for, the first one to see its end removes the traces.
        problem = None if is_complete(task, file) else traceback.format_exc()
    log = file.with_suffix(".log")
    if problem is None:
        log.unlink(missing_ok=True)
        sweep.complete.append(task.name)
        return
    with atomic(log) as temporary:
        temporary.write_text(problem)
    sweep.failed[task.name] = log


def _show(bar: tqdm, running: int, sweep: Sweep) -> None:
    bar.set_postfix_str(f"{running} running, {len(sweep.failed)} failed", refresh=False)
    if not bar.disable and bar.fp.isatty() and bar.format_dict["elapsed"] > bar.delay:
        bar.refresh()  # the clock goes on between two tasks
