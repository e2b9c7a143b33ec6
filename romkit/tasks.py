"""Sweeps of tasks that survive failures and interruptions; `romkit.compare` and all studies run by
them.

A task is a frozen dataclass that computes one dataset; `run(tasks, folder, Executor("local", 4))`
computes what is not yet complete in the folder, one netCDF file per task: in this process, in
processes of this machine, or as Slurm jobs.
"""

import functools
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch
import xarray as xr
from filelock import FileLock

from romkit.core import checks, files, parallel, runtime
from romkit.core.errors import FileError, InputError
from romkit.core.sources import provenance
from romkit.core.types import Settings
from romkit.data import open_dataset, save_dataset
from romkit.engine.threads import one_thread

if TYPE_CHECKING:
    import submitit

__all__ = ["Executor", "Sweep", "Task", "run"]

HIDDEN = ".running"
"""Subfolder of the results for locks and for the logs of running jobs."""

WIDTHS = {"debug": 1, "local": os.cpu_count() or 1, "slurm": 100}
"""Default numbers of tasks at a time, by cluster."""

SLURM_PROGRAMS = ("sbatch", "squeue", "srun")

_ASKING, _PATIENCE = 5.0, 30.0
"""Seconds between two questions to Slurm, and until a shared file system shows the result of a job
that has ended.
"""

_versions = functools.cache(runtime.versions)


@dataclass(frozen=True)
class Task(ABC):
    """One unit of work: a frozen dataclass whose fields are plain JSON and decide the result alone.

    Attributes:
        code_version: version of the study's code; raise it when results change their meaning, and
            all are computed again.
    """

    code_version: ClassVar[int] = 1

    @property
    @abstractmethod
    def name(self) -> str:
        """Readable name, unique in the sweep; the result is `<name>.nc`."""

    @abstractmethod
    def run(self) -> xr.Dataset:
        """Compute the result. NaN from a divergence is a result; an exception is a failure."""

    @property
    def resolved(self) -> Settings:
        """Plain JSON that names among the fields stand for: the settings of a preset, the sizes of
        a network.

        These settings enter the key, so that a preset that changes makes its results incomplete.
        """
        return {}

    @property
    def key(self) -> str:
        """SHA-256 of the class, the fields, what they stand for, and the versions of the study and
        of romkit.
        """
        return self.identity["key"]

    @property
    def identity(self) -> dict[str, str | int]:
        """Attributes of the result's file by which it is recognised as that of this very task.

        Raises:
            InputError: a field or a resolved setting that JSON cannot hold.
        """
        plain = files.plain(
            type(self).__name__, {"config": asdict(self), "resolved": dict(self.resolved)}
        )
        # sorted, so that the order in which fields are declared is no part of the key
        config = json.dumps(plain["config"], sort_keys=True)
        resolved = json.dumps(plain["resolved"], sort_keys=True)
        facts = [
            type(self).__qualname__,
            config,
            resolved,
            self.code_version,
            _versions()["romkit"],
        ]
        key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        texts = {"task": self.name, "key": key, "config": config, "resolved": resolved}
        return {**texts, "code_version": self.code_version}


@dataclass
class Sweep:
    """End of each task of a sweep, by name.

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
    """Place where tasks are computed, by the names of submitit.

    Partition, account, time, memory and GPUs of Slurm are the environment variables of sbatch
    itself: SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT, SBATCH_MEM_PER_NODE, SBATCH_GRES.
    The folder of the results must be one that all nodes share. Slurm's jobs outlive the runner:
    started again, it waits for those that still run.

    Attributes:
        cluster: "debug", one task after another in this process; "local", one process of this
            machine per task; or "slurm", one job per task.
        workers: tasks at a time: 1 in this process, one per core on this machine, 100 jobs in the
            queue by default.

    Raises:
        InputError: an unknown cluster, a number of workers that it cannot have, or Slurm without
            its programs.
    """

    cluster: str = "debug"
    workers: int | None = None

    def __post_init__(self):
        checks.one_of("cluster", self.cluster, WIDTHS)
        workers = self.workers
        if workers is None:
            workers = WIDTHS[self.cluster]
        object.__setattr__(self, "workers", checks.check_minimum("workers", workers, 1))
        if self.cluster != "debug":
            checks.extra("executor", "submitit", "slurm")
        elif self.workers != 1:
            raise InputError(
                "workers",
                expected="1 for tasks in this process",
                got=self.workers,
                fix="choose the executor that has workers, or leave their number out",
            )
        if self.cluster == "slurm" and not all(map(shutil.which, SLURM_PROGRAMS)):
            raise InputError(
                "executor",
                expected="sbatch, squeue and srun for slurm",
                got="no such programs",
                fix="log in to a node that submits jobs, or choose another executor",
            )

    @classmethod
    def local(cls, workers: int | None = None) -> "Executor":
        """Return processes of this machine."""
        return cls("local", workers)

    def submit(self, task: Task, file: Path, leash: Path) -> "_Here | _Running":
        """Start to compute a task, or find the Slurm job that an earlier runner started for it.

        Args:
            task: the task.
            file: path of its result.
            leash: lock of the runner; local processes end when it is released.

        Raises:
            InputError: sbatch refuses the job.
        """
        if self.cluster == "debug":
            return _Here(task, file)
        logs = file.parent / HIDDEN / f"{task.name}-{task.key[:8]}"
        if self.cluster == "local":
            return _Running(_local_job(task, file, leash, logs), self.cluster)
        # jobs of Slurm outlive their runner, and a second one would compute the same
        job = _earlier_job(logs)
        if job is None:
            job = _slurm_job(task, file, logs)
        return _Running(job, self.cluster)


def processes(workers: int) -> "Executor | ProcessPoolExecutor":
    """Executor of processes of this machine."""
    if sys.platform == "win32":
        # submitit starts its processes by bash
        return ProcessPoolExecutor(workers)
    return Executor.local(workers)


def _environment() -> list[str]:
    """Commands of a shell that give a job the environment of this process."""
    values = {
        "OMP_NUM_THREADS": "1",
        "TQDM_DISABLE": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    return [f"export {name}={shlex.quote(value)}" for name, value in values.items()]


def _local_job(task: Task, file: Path, leash: Path, logs: Path) -> "submitit.Job":
    """Return a process of this machine."""
    import submitit

    devices = os.environ.get("CUDA_VISIBLE_DEVICES")  # submitit would hide all
    visible = "unset CUDA_VISIBLE_DEVICES"
    if devices is not None:
        visible = f"export CUDA_VISIBLE_DEVICES={devices}"
    # Ctrl-C is the runner's to answer, who lets go of the leash.
    setup = [*_environment(), visible, "trap '' INT"]
    executor = submitit.LocalExecutor(logs)
    executor.update_parameters(timeout_min=10**6, setup=setup)
    return executor.submit(_leashed, task, file, leash)


def _earlier_job(logs: Path) -> "submitit.Job | None":
    """Job of an earlier runner that waits or runs in Slurm."""
    import submitit

    for file in logs.glob("*_submitted.pkl"):
        # asked once in a while, and only where there was a runner before
        queue = _queue()
        if queue is None:
            return None
        job = submitit.SlurmJob(logs, file.name.removesuffix("_submitted.pkl"))
        if job.job_id in queue and not job.paths.result_pickle.exists():
            return job
    return None


def _slurm_job(task: Task, file: Path, logs: Path) -> "submitit.Job":
    """Return a new job of Slurm."""
    import submitit

    executor = submitit.SlurmExecutor(logs, max_num_timeout=0)
    executor.update_parameters(
        job_name=task.name,
        # No time: that of SBATCH_TIMELIMIT or the partition, where submitit would say five minutes.
        time=None,
        wckey=None,
        cpus_per_task=1,
        use_srun=False,
        setup=_environment(),
    )
    try:
        return executor.submit(attempt, task, file)
    except Exception as error:
        raise InputError(
            "executor",
            expected="jobs that sbatch takes",
            got=files.reason(error),
            fix="set SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT, ... as your cluster wants "
            "them",
        ) from error


def run(
    tasks: Iterable[Task],
    folder: Path,
    executor: "Executor | parallel.Pool | None" = None,
    *,
    only: str = "",
    known: Mapping[str, str] | None = None,
) -> Sweep:
    """Compute the tasks that are not complete in `folder`, in their order.

    Several runners may share a folder: a task that one is computing is awaited by the others.

    Args:
        tasks: one that occurs twice is computed once.
        folder: of the results, one `<name>.nc` each; it is made.
        executor: where they are computed, in this process by default; or one of
            `concurrent.futures`, submitit or dask, whose processes must see the folder.
        only: tasks whose name contains this text.
        known: keys of results that are complete elsewhere, by the name of the task.

    Raises:
        InputError: two different tasks of one name, a name that is no file name, or nothing that
            `only` fits.
    """
    folder = files.expanded(folder).absolute()
    if executor is None:
        executor = Executor()
    chosen = _chosen(tasks, only)
    (folder / HIDDEN).mkdir(parents=True, exist_ok=True)
    work = {task.name: (task, folder / f"{task.name}.nc") for task in chosen}
    todo, sweep = _split(work, {} if known is None else known)
    if not todo:
        return sweep
    if isinstance(executor, Executor):
        _run_jobs(todo, sweep, folder, executor)
    else:
        problems = parallel.mapped(attempt, list(todo.values()), executor, "tasks")
        for (task, file), problem in zip(todo.values(), problems, strict=True):
            _enter_end(sweep, task, file, problem)
    return sweep


Work = dict[str, tuple[Task, Path]]
"""Tasks and the files of their results, by name."""


def _chosen(tasks: Iterable[Task], only: str) -> list[Task]:
    """Return each task once, of those whose name contains a text."""
    by_key = {task.key: task for task in tasks}
    unique = list(by_key.values())
    _check_names(unique)
    chosen = [task for task in unique if only in task.name]
    if unique and not chosen:
        raise InputError(
            "only",
            expected="text in the name of a task",
            got=repr(only),
            fix=f"the first of {len(unique)} is {unique[0].name!r}",
        )
    return chosen


def _check_names(tasks: Iterable[Task]) -> None:
    """Raise InputError unless each task has a name of its own that a file can have."""
    for name, count in Counter(task.name for task in tasks).items():
        if count > 1:
            raise InputError(
                "tasks",
                expected="a name for each",
                got=f"{count} different ones named {name!r}",
                fix="put into the name what tells them apart",
            )
        if not re.fullmatch(r"[\w+=,-][\w.+=,-]{0,199}", name):
            raise InputError(
                "task.name",
                expected="letters, digits and any of . _ + = , -",
                got=repr(name),
                fix="choose a readable name that is also a file name",
            )


def _split(work: Work, known: Mapping[str, str]) -> tuple[Work, Sweep]:
    """Return the work to do, and a sweep that has skipped what is complete."""
    todo, sweep = {}, Sweep()
    for name, (task, file) in work.items():
        if known.get(name) == task.key or is_complete(task, file):
            sweep.skipped.append(name)
        else:
            todo[name] = (task, file)
    return todo, sweep


def _run_jobs(
    work: Work, sweep: Sweep, folder: Path, executor: Executor, *, _pause: float = 0.1
) -> None:
    """Compute tasks by an executor of romkit, as many at a time as it has workers.

    `_pause`: seconds between two looks at the running tasks.
    """
    waiting, running = deque(work), {}
    leash = folder / HIDDEN / f"runner-{os.getpid()}.lock"
    with FileLock(leash), runtime.track(range(len(waiting)), "tasks") as bar:
        while waiting or running:
            while waiting and len(running) < executor.workers:
                name = waiting.popleft()
                running[name] = executor.submit(*work[name], leash)
            bar.set_postfix_str(
                f"{len(running)} running, {len(sweep.failed)} failed", refresh=False
            )
            # the clock of the bar goes on between the ends of two tasks
            if not bar.disable and bar.format_dict["elapsed"] > bar.delay:
                bar.refresh()
            ended = _collect_ended(work, running, sweep)
            bar.update(ended)
            if not ended:
                time.sleep(_pause)
    leash.unlink(missing_ok=True)


def _collect_ended(work: Work, running: "dict[str, _Here | _Running]", sweep: Sweep) -> int:
    """Enter the ends of jobs, and give their number."""
    ended = [name for name, job in running.items() if job.has_ended()]
    for name in ended:
        job = running.pop(name)
        problem = job.problem()
        job.forget()
        _enter_end(sweep, *work[name], problem)
    return len(ended)


def _enter_end(sweep: Sweep, task: Task, file: Path, problem: str | None) -> None:
    """Enter the end of a task. Of a job that two runners wait for, the first to see its end has
    removed the traces.
    """
    log = file.with_suffix(".log")
    if problem is None or is_complete(task, file):
        log.unlink(missing_ok=True)
        sweep.complete.append(task.name)
    else:
        with files.atomic(log) as temporary:
            temporary.write_text(problem, encoding="utf-8")
        sweep.failed[task.name] = log


def is_complete(task: Task, file: Path) -> bool:
    """Tell whether the result exists, is undamaged, and is of this very task."""
    try:
        return open_dataset(file).attrs.get("key") == task.key
    except FileError:
        return False


def attempt(task: Task, file: Path) -> str | None:
    """Compute a task on one thread and write its result; every executor calls this function, in
    whatever process.

    A result that another process is computing is awaited, and not made again. The file holds what
    determines the result, so that every executor writes the same bytes: configuration, versions,
    sources and device. A record beside it, `<name>.json`, holds the circumstances: host, commit,
    seconds.

    Returns:
        None, or the traceback if the task failed. (Not every exception survives the way out of a
        process.)
    """
    try:
        with FileLock(file.parent / HIDDEN / f"{file.stem}.lock"):
            if not is_complete(task, file):
                # compute a task, and write its result and the record of the circumstances
                record = file.with_suffix(".json")
                for target in (file, record):
                    # a killed process leaves these; a living one would hold the lock
                    for leftover in file.parent.glob(f"{target.name}.????????.tmp"):
                        leftover.unlink(missing_ok=True)
                sources = provenance()  # before the work, since files may change meanwhile
                started, wall, cpu = time.time(), time.perf_counter(), time.process_time()
                import threadpoolctl  # as scikit-learn does

                # so that a result does not depend on how many cores the machine has
                with one_thread(), threadpoolctl.threadpool_limits(1):
                    data = task.run()
                circumstances = {
                    "task": task.name,
                    "key": task.key,
                    "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
                    "wall_seconds": round(time.perf_counter() - wall, 3),
                    "cpu_seconds": round(time.process_time() - cpu, 3),
                    "host": platform.node(),
                } | sources
                with files.atomic(record) as temporary:
                    temporary.write_text(json.dumps(circumstances, indent=1) + "\n")
                device = runtime.device_name("cuda" if torch.cuda.is_available() else "cpu")
                made_by = {"versions": json.dumps(_versions()), "device": device}
                made_by["sources"] = json.dumps(sources)
                save_dataset(data.assign_attrs(task.identity | made_by), file)
    except (Exception, SystemExit):
        return traceback.format_exc()
    return None


@functools.cache
def _leashed(task: Task, file: Path, leash: Path) -> str | None:
    """Compute a task in a process that ends when the runner lets go of its lock, be it by dying."""

    def follow() -> None:
        with FileLock(leash, poll_interval=0.5):
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    return attempt(task, file)


@dataclass(frozen=True)
class _Here:
    """A task that is computed in this process when its end is asked for."""

    task: Task
    file: Path

    def has_ended(self) -> bool:
        return True

    def problem(self) -> str | None:
        """Traceback of a task that failed."""
        return attempt(self.task, self.file)

    def forget(self) -> None:
        """Nothing: such a task leaves no traces."""


@dataclass
class _Running:
    """A task that is being computed; `last_seen` is when Slurm last had its job."""

    job: "submitit.Job"
    cluster: str
    last_seen: float = field(default_factory=time.monotonic)

    def forget(self) -> None:
        """Remove the traces of the job."""
        shutil.rmtree(self.job.paths.folder, ignore_errors=True)

    def has_ended(self) -> bool:
        """Tell whether the job has ended. Slurm is asked by squeue: not every cluster keeps the
        accounts submitit reads.
        """
        if self.cluster != "slurm":
            return self.job.done()
        queue = _queue()
        if queue is None or self.job.job_id in queue:
            self.last_seen = time.monotonic()
        return (
            self.job.paths.result_pickle.exists() or time.monotonic() - self.last_seen > _PATIENCE
        )

    def problem(self) -> str | None:
        """Traceback of a task that failed, or the log of a process that was killed."""
        if self.job.paths.result_pickle.exists():
            return self.job.result()
        log = self.job.stderr() or "Nothing is in its log."
        return f"The process of job {self.job.job_id} ended before its task had.\n{log}"


def _queue() -> set[str] | None:
    """Ids of the jobs that wait or run in Slurm, at most a few seconds old; None while Slurm does
    not answer.
    """
    return _squeue(time.monotonic() // _ASKING)


@functools.lru_cache(maxsize=1)
def _squeue(tick: float) -> set[str] | None:
    answer = subprocess.run(
        ["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True
    )
    return set(answer.stdout.split()) if answer.returncode == 0 else None
