"""Tasks as jobs of Slurm, through submitit.

Partition, account, time, memory and GPUs are the environment variables of sbatch itself: SBATCH_PARTITION,
SBATCH_ACCOUNT, SBATCH_TIMELIMIT, SBATCH_MEM_PER_NODE, SBATCH_GRES. The folder of the results must be one that all
nodes share. Jobs outlive the runner: started again, it waits for those that are still there.
"""

import math
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.files import reason
from romkit.tasks.base import Task, attempt
from romkit.tasks.executors import WORKER_ENVIRONMENT, Executor

if TYPE_CHECKING:
    from submitit import SlurmJob


class Slurm(Executor):
    """One job per task, one core each.

    Args:
        count: of jobs in the queue at a time.

    Raises:
        InputError: submitit is not installed, or this machine submits no jobs.
    """

    def __init__(self, count: int = 100):
        self.width = checks.at_least("workers", count, 1)
        self._queue = _Queue()
        try:
            import submitit
        except ImportError as error:
            fix = 'pip install -e ".[slurm]"'
            raise InputError("executor", expected="submitit for slurm", got="no such package", fix=fix) from error
        if not (shutil.which("sbatch") and shutil.which("squeue")):
            fix = "log in to a node that submits jobs, or choose another executor"
            raise InputError("executor", expected="sbatch and squeue for slurm", got="no such programs", fix=fix)
        self._submitit = submitit

    def submit(self, task: Task, file: Path) -> "_Job":
        logs = file.parent / "slurm" / f"{task.name}-{task.key[:8]}"
        job = self._earlier(logs) or self._new(logs, task, file)
        return _Job(job, self._queue)

    def _earlier(self, logs: Path) -> "SlurmJob | None":
        """The job that an earlier runner submitted for this very task, if it has not ended."""
        ids = [file.name.removesuffix("_submitted.pkl") for file in logs.glob("*_submitted.pkl")]
        jobs = [self._submitit.SlurmJob(logs, id_) for id_ in ids if id_ in (self._queue.jobs() or ())]
        return next((job for job in jobs if not job.paths.result_pickle.exists()), None)

    def _new(self, logs: Path, task: Task, file: Path) -> "SlurmJob":
        executor = self._submitit.SlurmExecutor(logs, max_num_timeout=0)
        environment = WORKER_ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        executor.update_parameters(
            job_name=task.name,
            time=None,  # that of SBATCH_TIMELIMIT or the partition, where submitit would say five minutes
            wckey=None,
            cpus_per_task=1,
            use_srun=False,
            setup=[f"export {name}={shlex.quote(value)}" for name, value in environment.items()],
        )
        try:
            return executor.submit(attempt, task, file)
        except Exception as error:
            fix = "set SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT, ... as your cluster wants them"
            raise InputError("executor", expected="jobs that sbatch takes", got=reason(error), fix=fix) from error


class _Queue:
    """Which jobs Slurm has, waiting or running; asked at most every few seconds."""

    interval = 5.0

    def __init__(self):
        self._asked, self._jobs = -math.inf, None

    def jobs(self) -> set[str] | None:
        """Their ids, or None while Slurm does not answer."""
        if time.monotonic() - self._asked > self.interval:
            answer = subprocess.run(["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True)
            self._jobs = set(answer.stdout.split()) if answer.returncode == 0 else None
            self._asked = time.monotonic()
        return self._jobs


class _Job:
    """A job as something that ends and has a result. (submitit asks sacct, which not every cluster has.)"""

    patience = 30.0
    """Seconds that a shared file system may take to show the result of a job that has left the queue."""

    def __init__(self, job: "SlurmJob", queue: _Queue):
        self._job, self._queue, self._last_seen = job, queue, time.monotonic()

    def done(self) -> bool:
        if self._has_result():
            return True
        jobs = self._queue.jobs()
        if jobs is None or self._job.job_id in jobs:
            self._last_seen = time.monotonic()
            return False
        return time.monotonic() - self._last_seen > self.patience

    def result(self) -> str | None:
        if not self._has_result():
            log = self._job.stderr() or "It wrote nothing to its log."
            raise RuntimeError(f"Slurm ended job {self._job.job_id} before its task had. {log}")
        problem = self._job.result()
        if problem is None:
            shutil.rmtree(self._job.paths.folder, ignore_errors=True)  # the logs of a success interest nobody
        return problem

    def _has_result(self) -> bool:
        return self._job.paths.result_pickle.exists()
