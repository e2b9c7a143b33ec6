"""Running many tasks by submitit: what is complete is skipped, what fails is reported, the rest goes on."""

import functools
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import submitit
from filelock import FileLock

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.files import atomic, expanded, reason
from romkit.core.runtime import track
from romkit.tasks.base import Task, attempt, hidden_folder, is_complete, result_file

WIDTHS = {"debug": 1, "local": os.cpu_count() or 1, "slurm": 100}
"""Default numbers of tasks at a time, by cluster."""

_PAUSE = 0.1
"""Seconds between two looks at the running tasks."""

_ASKING, _PATIENCE = 5.0, 30.0
"""Seconds between two questions to Slurm, and until a shared file system shows the result of a job that has ended."""


@dataclass
class Sweep:
    """Outcome of the tasks of a sweep, by name.

    Attributes:
        complete: computed now, by this runner or by another one in the same folder.
        skipped: complete from before.
        failed: and the log of each, which has the traceback.
    """

    complete: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Executor:
    """Executor of tasks, by the names of submitit.

    Partition, account, time, memory and GPUs of Slurm are the environment variables of sbatch itself:
    SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT, SBATCH_MEM_PER_NODE, SBATCH_GRES. The folder of the results must
    be one that all nodes share. Slurm's jobs outlive the runner: started again, it waits for those that still run.

    Attributes:
        cluster: "debug", one task after another in this process; "local", one process of this machine per task; or
            "slurm", one job per task.
        workers: tasks at a time: 1 in this process, one per core on this machine, 100 jobs in the queue by default.

    Raises:
        InputError: an unknown cluster, a number of workers that it cannot have, or no sbatch and squeue for Slurm.
    """

    cluster: str = "debug"
    workers: int | None = None

    def __post_init__(self):
        checks.one_of("cluster", self.cluster, WIDTHS)
        width = checks.at_least("workers", WIDTHS[self.cluster] if self.workers is None else self.workers, 1)
        object.__setattr__(self, "workers", width)
        if self.cluster == "debug" and width != 1:
            fix = "choose the executor that has workers, or leave their number out"
            raise InputError("workers", expected="1 for tasks in this process", got=width, fix=fix)
        if self.cluster == "slurm" and not (shutil.which("sbatch") and shutil.which("squeue")):
            fix = "log in to a node that submits jobs, or choose another executor"
            raise InputError("executor", expected="sbatch and squeue for slurm", got="no such programs", fix=fix)

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close; `with` is for code from when executors held processes."""

    def submit(self, task: Task, file: Path, leash: Path) -> submitit.Job:
        """Start to compute a task, or find the Slurm job that an earlier runner started for it.

        Args:
            task: the task.
            file: path of its result.
            leash: lock of the runner; local processes end when it is released.

        Raises:
            InputError: sbatch refuses the job.
        """
        logs = hidden_folder(file) / f"{task.name}-{task.key[:8]}"
        if self.cluster == "debug":
            return submitit.DebugExecutor(logs).submit(attempt, task, file)
        facts = {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        setup = [f"export {name}={shlex.quote(value)}" for name, value in facts.items()]
        if self.cluster == "local":
            executor = submitit.LocalExecutor(logs)
            devices = os.environ.get("CUDA_VISIBLE_DEVICES")  # submitit would hide all
            visible = "unset CUDA_VISIBLE_DEVICES" if devices is None else f"export CUDA_VISIBLE_DEVICES={devices}"
            # Ctrl-C is the runner's to answer, who lets go of the leash.
            executor.update_parameters(timeout_min=10**6, setup=[*setup, visible, "trap '' INT"])
            return executor.submit(_leashed, task, file, leash)
        for name in logs.glob("*_submitted.pkl"):
            job = submitit.SlurmJob(logs, name.name.removesuffix("_submitted.pkl"))
            if job.job_id in (_queue() or ()) and not job.paths.result_pickle.exists():
                return job
        executor = submitit.SlurmExecutor(logs, max_num_timeout=0)
        # No time: that of SBATCH_TIMELIMIT or the partition, where submitit would say five minutes.
        own = {"job_name": task.name, "time": None, "wckey": None, "cpus_per_task": 1, "use_srun": False}
        executor.update_parameters(**own, setup=setup)
        try:
            return executor.submit(attempt, task, file)
        except Exception as error:
            fix = "set SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT, ... as your cluster wants them"
            raise InputError("executor", expected="jobs that sbatch takes", got=reason(error), fix=fix) from error


def run(
    tasks: Iterable[Task],
    folder: Path,
    executor: Executor | None = None,
    *,
    only: str = "",
    known: Mapping[str, str] | None = None,
) -> Sweep:
    """Compute the tasks that are not complete in `folder`, in their order.

    Several runners may share a folder: a task that one is computing is awaited by the others.

    Args:
        tasks: one that occurs twice is computed once.
        folder: of the results, one `<name>.nc` each; it is made.
        executor: where they are computed, in this process by default.
        only: tasks whose name contains this text.
        known: keys of results that are complete elsewhere, by the name of the task.

    Raises:
        InputError: two different tasks of one name, a name that is no file name, or nothing that `only` fits.
    """
    folder, executor, known = expanded(folder).absolute(), executor or Executor(), known or {}
    folder.mkdir(parents=True, exist_ok=True)
    files = {task.name: (task, result_file(task, folder)) for task in _distinct(tasks, only)}
    there = [name for name, (task, file) in files.items() if known.get(name) == task.key or is_complete(task, file)]
    sweep = Sweep(skipped=there)
    waiting, running = deque(name for name in files if name not in there), {}
    if not waiting:
        return sweep
    leash = hidden_folder(files[waiting[0]][1]) / f"runner-{os.getpid()}.lock"
    with FileLock(leash), track(range(len(waiting)), "tasks") as bar:
        while waiting or running:
            while waiting and len(running) < executor.workers:
                bar.set_postfix_str(f"{len(running) + 1} running, {len(sweep.failed)} failed", refresh=False)
                name = waiting.popleft()
                running[name] = _Running(executor.submit(*files[name], leash), executor.cluster)
            ended = [name for name, job in running.items() if job.has_ended()]
            for name in ended:
                _settle(*files[name], running.pop(name), sweep)
                bar.update()
            bar.set_postfix_str(f"{len(running)} running, {len(sweep.failed)} failed", refresh=False)
            if not bar.disable and bar.fp.isatty() and bar.format_dict["elapsed"] > bar.delay:
                bar.refresh()  # the clock goes on between two tasks
            if not ended:
                time.sleep(_PAUSE)
    leash.unlink(missing_ok=True)
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


def _leashed(task: Task, file: Path, leash: Path) -> str | None:
    """Compute a task in a process that ends when the runner lets go of its lock, be it by dying."""

    def follow() -> None:
        with FileLock(leash, poll_interval=0.5):
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    return attempt(task, file)


@dataclass
class _Running:
    """A task that is being computed; `last_seen` is when Slurm last had its job."""

    job: submitit.Job
    cluster: str
    last_seen: float = field(default_factory=time.monotonic)

    def has_ended(self) -> bool:
        """Whether the job has ended. Slurm is asked by squeue: not every cluster keeps the accounts submitit reads."""
        if self.cluster != "slurm":
            return self.job.done()
        queue = _queue()
        if queue is None or self.job.job_id in queue:
            self.last_seen = time.monotonic()
        return self.job.paths.result_pickle.exists() or time.monotonic() - self.last_seen > _PATIENCE

    def problem(self) -> str | None:
        """Traceback of a task that failed, or the log of a process that was killed."""
        if self.cluster == "debug" or self.job.paths.result_pickle.exists():
            return self.job.result()
        log = self.job.stderr() or "Nothing is in its log."
        return f"The process of job {self.job.job_id} ended before its task had.\n{log}"


def _queue() -> set[str] | None:
    """Ids of the jobs that wait or run in Slurm, at most a few seconds old; None while Slurm does not answer."""
    return _asked(time.monotonic() // _ASKING)


@functools.lru_cache(maxsize=1)
def _asked(tick: float) -> set[str] | None:
    answer = subprocess.run(["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True)
    return set(answer.stdout.split()) if answer.returncode == 0 else None


def _settle(task: Task, file: Path, running: _Running, sweep: Sweep) -> None:
    """Put an ended task where it belongs, with a log if it failed."""
    problem = running.problem()
    shutil.rmtree(running.job.paths.folder, ignore_errors=True)
    log = file.with_suffix(".log")
    # Of a job that two runners wait for, the first one to see its end has removed the traces.
    if problem is None or is_complete(task, file):
        log.unlink(missing_ok=True)
        sweep.complete.append(task.name)
        return
    with atomic(log) as temporary:
        temporary.write_text(problem)
    sweep.failed[task.name] = log
