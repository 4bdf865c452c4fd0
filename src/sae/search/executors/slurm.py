"""Jobs on a SLURM cluster: one array task per job, submitted with `sbatch` from a machine that has it.

Driver and tasks speak through files in a folder that all machines share. For each array there is a folder, named by its
number, with a file for each job; a task runs `python -m sae.search.executors.slurm FOLDER`, which reads the job of its
index and leaves an outcome beside it. SLURM's own states only tell which tasks are gone without an outcome.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from sae.core.errors import ConfigError, SaeError
from sae.core.trust import trust_code
from sae.records.writing import write_whole
from sae.search.job import Job, Outcome, run_job

DEFAULT_ARRAY = 16
"""Trials at once, if nobody says otherwise."""
POLL, PATIENCE = 10.0, 60.0
"""Seconds between questions to `squeue`, and how long a task may be missing there before it counts as lost."""
LOOK = 0.5
"""Seconds between looks for outcomes."""
LONGEST_ANSWER = 60.0
"""Seconds that a command of SLURM may take."""
GONE = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}
)
"""States of tasks that will not run any more; `squeue` lists them for a while."""
PREFIX = "sae-"
"""Of the folders and names of arrays."""
JOB = TypeAdapter(Job)
OUTCOME = TypeAdapter(Outcome)


@dataclass
class Task:
    """A job in an array.

    Attributes:
        job: The job.
        folder: The folder of the array.
        array: The number that SLURM gave the array.
        index: Its place in the array.
        missing_since: When `squeue` first did not list it; None if it did.
    """

    job: Job
    folder: Path
    array: str
    index: int
    missing_since: float | None = None

    @property
    def name(self) -> str:
        """What SLURM calls it: `4711_3`."""
        return f"{self.array}_{self.index}"

    @property
    def log(self) -> Path:
        """What its process printed."""
        return self.folder / f"task-{self.index}.log"


class SlurmExecutor:
    """Runs jobs as array tasks, up to a number at once; they may have to wait in the queue of the cluster.

    A task that disappears without an outcome is `lost`. Tasks of an earlier driver that was killed are taken over if
    they have the same job, and cancelled otherwise.

    Args:
        folder: Folder for the files that driver and tasks exchange; all machines must see it under the same path.
        array_max: Jobs at once, and so the largest array.
        partition: Partition of the cluster; by default the one that SLURM chooses.
        cpus: CPUs of each job.
        gpus: GPUs of each job.
        poll: Seconds between questions to `squeue`.
        patience: Seconds that a task may be missing in `squeue` before it counts as lost.
    """

    program: tuple[str, ...] = (sys.executable, "-m", "sae.search.executors.slurm")
    """What a task runs; the folder of its array is added."""

    def __init__(
        self,
        folder: Path,
        array_max: int = DEFAULT_ARRAY,
        partition: str | None = None,
        cpus: int = 1,
        gpus: int = 0,
        *,
        poll: float = POLL,
        patience: float = PATIENCE,
    ) -> None:
        for command in ("sbatch", "squeue", "scancel"):
            if shutil.which(command) is None:
                raise ConfigError(
                    f"--executor slurm needs SLURM's command {command}, which this machine does not have: run the "
                    f"search on a machine that can submit jobs to the cluster"
                )
        self.folder, self.capacity, self.partition, self.cpus, self.gpus = folder, array_max, partition, cpus, gpus
        self.poll, self.patience = poll, patience
        self.queued: list[Job] = []
        self.tasks: list[Task] = []
        self._left: list[Task] | None = None  # by an earlier driver
        self._asked = time.monotonic()

    @property
    def running(self) -> list[Job]:
        """Jobs that have not ended; some may still wait in the queue of the cluster."""
        return [*(task.job for task in self.tasks), *self.queued]

    def submit(self, job: Job) -> None:
        """Keep a job for the next array, or take over the task that an earlier driver left with it."""
        if self._left is None:
            self._left = self._find_left()
        same = next((task for task in self._left if task.job == _resolved(job)), None)
        if same is None:
            self.queued.append(job)
        else:
            self._left.remove(same)
            self.tasks.append(replace(same, job=job))

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        """Submit what was kept as one array; return the jobs that ended."""
        if self._left:
            self._cancel([task for task in self._left if not self._outcome_of(task)])
            self._left = []
        refused = self._submit_array()
        end = time.monotonic() + timeout
        while True:
            ended = [*refused, *self._collect()]
            left = end - time.monotonic()
            if ended or left <= 0 or not self.tasks:
                return ended
            time.sleep(min(LOOK, left))

    def close(self) -> None:
        """Cancel all tasks."""
        self._cancel([*self.tasks, *(self._left or ())])
        self.tasks, self.queued, self._left = [], [], []

    def _submit_array(self) -> list[tuple[Job, Outcome]]:
        """Hand the kept jobs to SLURM; they are blocked if it refuses them."""
        jobs, self.queued = self.queued, []
        if not jobs:
            return []
        folder = self.folder.resolve() / f"{PREFIX}{uuid.uuid4().hex[:12]}"  # also the name of the array, to find it by
        folder.mkdir(parents=True)
        for index, job in enumerate(jobs):
            content = JOB.dump_json(_resolved(job))
            write_whole(folder / f"job-{index}.json", partial(Path.write_bytes, data=content))
        script = folder / "task.sh"
        words = " ".join(map(_quoted, (*self.program, str(folder))))
        script.write_text(f"#!/bin/sh\nexec {words}\n", encoding="utf-8")
        done = _run("sbatch", *self._options(folder, len(jobs)), str(script))
        array = done.stdout.strip().partition(";")[0]
        if done.returncode != 0 or not array.isdecimal():
            reason = (done.stderr.strip() or done.stdout.strip() or "no answer").splitlines()[-1]
            _cancel_array(folder)  # an answer may also be lost after SLURM has accepted the array
            return [
                (job, Outcome("blocked", f"sbatch refused an array of {len(jobs)} trials: {reason}")) for job in jobs
            ]
        write_whole(folder / "array", lambda path: path.write_text(array, encoding="utf-8"))
        self.tasks += [Task(job, folder, array, index) for index, job in enumerate(jobs)]
        return []

    def _options(self, folder: Path, number: int) -> list[str]:
        return [
            "--parsable",
            "--export=ALL",
            f"--array=0-{number - 1}",
            f"--job-name={folder.name}",
            f"--chdir={Path.cwd()}",
            f"--output={folder}/task-%a.log",
            f"--cpus-per-task={self.cpus}",
            *([f"--partition={self.partition}"] if self.partition else []),
            *([f"--gres=gpu:{self.gpus}"] if self.gpus else []),
        ]

    def _collect(self) -> list[tuple[Job, Outcome]]:
        """Return the jobs with an outcome, and those whose tasks are gone without one."""
        ended = [(task, outcome) for task in self.tasks if (outcome := self._outcome_of(task))]
        if not ended and time.monotonic() - self._asked >= self.poll:
            self._asked = time.monotonic()
            ended = [(task, self._outcome_of(task) or _lost(task)) for task in self._find_missing()]
            self._cancel([task for task, outcome in ended if outcome.state == "lost"])  # should one still run unseen
        for task, outcome in ended:
            self.tasks.remove(task)
            _tidy(task, keep_log=outcome.state not in ("finished", "paused"))
        return [(task.job, outcome) for task, outcome in ended]

    def _find_missing(self) -> list[Task]:
        """Ask SLURM for its tasks; return those that it has not listed for longer than our patience."""
        alive, now = _alive_tasks(), time.monotonic()
        if alive is None:
            return []  # nobody knows
        for task in self.tasks:
            task.missing_since = None if task.name in alive else task.missing_since or now
        return [task for task in self.tasks if task.missing_since and now - task.missing_since >= self.patience]

    def _find_left(self) -> list[Task]:
        """Return the tasks of an earlier driver that have an outcome, wait or run; delete the files of all others."""
        folders = sorted(self.folder.resolve().glob(f"{PREFIX}*"))
        found, alive = [], self._insist_on_alive_tasks() if folders else {}
        for folder in folders:
            named = (task.partition("_")[0] for task, name in alive.items() if name == folder.name)
            array = _read(folder / "array") or next(named, "")  # the driver may have been killed right after `sbatch`
            tasks = [task for path in folder.glob("job-*.json") if (task := _read_task(path, array))]
            kept = [task for task in tasks if task.name in alive or self._outcome_of(task)]
            found += kept
            if not kept:
                _cancel_array(folder)
                shutil.rmtree(folder, ignore_errors=True)
        return found

    def _insist_on_alive_tasks(self) -> dict[str, str]:
        """Ask SLURM until it answers: without an answer, a task that still runs could be submitted a second time."""
        end = time.monotonic() + self.patience
        while (alive := _alive_tasks()) is None:
            if time.monotonic() >= end:
                raise SaeError(
                    f"SLURM's command squeue must say which tasks of an earlier search still run, but it has failed "
                    f"for {self.patience:.0f} s; nothing was submitted: try again when the cluster answers"
                )
            time.sleep(self.poll)
        return alive

    def _outcome_of(self, task: Task) -> Outcome | None:
        """Return what a task left; None if there is nothing yet, or nothing that can be read: then it is run again."""
        try:
            return OUTCOME.validate_json(_read(task.folder / f"outcome-{task.index}.json"))
        except ValidationError:
            return None

    def _cancel(self, tasks: list[Task]) -> None:
        if tasks:
            _run("scancel", *(task.name for task in tasks))


def _resolved(job: Job) -> Job:
    """Return a job with absolute paths, which all machines share."""
    return replace(job, folder=job.folder.resolve(), source=job.source.resolve() if job.source else None)


def _alive_tasks() -> dict[str, str] | None:
    """Return the user's tasks that wait or run, with the names of their arrays; None if SLURM does not answer."""
    done = _run("squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%i %T %j")
    if done.returncode != 0:
        return None
    lines = (line.split() for line in done.stdout.splitlines())
    return {line[0]: line[2] for line in lines if len(line) == 3 and line[1] not in GONE}


def _lost(task: Task) -> Outcome:
    """Say that a task is gone, with SLURM's reason if it keeps accounts."""
    done = _run("sacct", "--noheader", "--allocations", "--parsable2", "--format=State", f"--jobs={task.name}")
    state = f" ({done.stdout.split()[0]})" if done.returncode == 0 and done.stdout.split() else ""
    return Outcome(
        "lost", f"its array task {task.name} ended without a result{state}; what it printed is in {task.log}"
    )


def _tidy(task: Task, *, keep_log: bool) -> None:
    """Delete the files of a task, and the folder of its array with the last of them."""
    names = [f"job-{task.index}.json", f"outcome-{task.index}.json", *([] if keep_log else [task.log.name])]
    for name in names:
        (task.folder / name).unlink(missing_ok=True)
    if not any(task.folder.glob("job-*.json")) and not any(task.folder.glob("task-*.log")):
        shutil.rmtree(task.folder, ignore_errors=True)


def _read(path: Path) -> str:
    """Return the text of a file, empty if there is none yet."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _read_task(path: Path, array: str) -> Task | None:
    """Read a task that an earlier driver left; None if another version wrote it, or it was never submitted."""
    number = re.fullmatch(r"job-(\d+)\.json", path.name)
    with suppress(ValidationError, ConfigError):
        if number and array:
            return Task(JOB.validate_json(_read(path)), path.parent, array, int(number[1]))
    return None


def _run(command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of SLURM; one that is missing or does not answer has failed."""
    words = [command, *arguments]
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_ANSWER, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 1, "", str(error))


def _cancel_array(folder: Path) -> None:
    """Cancel the tasks of an array by its name, also those that `squeue` does not list yet."""
    _run("scancel", f"--name={folder.name}")


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def work(folder: Path, index: int) -> None:
    """Do the job of one array task; one that was started again after its end has nothing to do."""
    outcome = folder / f"outcome-{index}.json"
    if outcome.exists():
        return
    content = (folder / f"job-{index}.json").read_bytes()
    found = _run_there(content)
    write_whole(outcome, lambda path: path.write_bytes(OUTCOME.dump_json(found)))


def _run_there(content: bytes) -> Outcome:
    """Run a job that was written as JSON; what its settings name must be known before they are read."""
    raw = json.loads(content)
    trust_code(is_trusted=raw["trusts_code"])
    try:
        for module in raw["plugins"]:
            import_module(module)
        job = JOB.validate_json(content)
    except (ImportError, ConfigError, ValidationError) as error:
        return Outcome("blocked", f"an array task cannot read its trial, is the same software installed there? {error}")
    return run_job(job)


if __name__ == "__main__":
    work(Path(sys.argv[1]), int(os.environ["SLURM_ARRAY_TASK_ID"]))
