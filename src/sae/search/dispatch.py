"""Dispatch of jobs to an executor: some wait for others, and lost ones are tried again."""

from collections.abc import Iterable
from dataclasses import replace

from sae.config.run import RunConfig
from sae.records.run import RunRecord
from sae.search.executors import Executor
from sae.search.job import Job, Outcome

POLL = 0.5
"""Seconds to wait for a job to end before the clock and the display are updated."""
MOST_LOSSES = 3
"""A job fails after its worker was lost this many times in a row without finishing an epoch."""


class Dispatcher:
    """Hands jobs to an executor when there is room, and returns their final outcomes.

    Attributes:
        waiting: Jobs that have not been handed over yet.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.waiting: list[Job] = []
        self._losses: dict[str, tuple[int, int]] = {}  # by job: losses in a row, epochs done at the last one

    @property
    def has_room(self) -> bool:
        """Whether a job that is added now would start at once."""
        return len(self.executor.running) < self.executor.capacity and not any(map(self._is_ready, self.waiting))

    @property
    def is_idle(self) -> bool:
        """Whether no job runs or waits."""
        return not self.waiting and not self.executor.running

    def add(self, *jobs: Job) -> None:
        """Start jobs as soon as there is room and their sources are no longer in training."""
        self.waiting += jobs
        self.hand_over()

    def hand_over(self) -> None:
        """Start the waiting jobs that can start now."""
        while len(self.executor.running) < self.executor.capacity:
            job = next((job for job in self.waiting if self._is_ready(job)), None)
            if job is None:
                return
            self.waiting.remove(job)
            self.executor.submit(job)

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that ended; a lost job is started again."""
        settled = []
        for job, outcome in self.executor.wait(timeout):
            if outcome.state == "lost" and not self._is_hopeless(job):
                self.waiting.insert(0, job)
            elif outcome.state == "lost":
                settled.append((job, _give_up(job, outcome)))
            else:
                settled.append((job, outcome))
        self.hand_over()
        return settled

    def _is_ready(self, job: Job) -> bool:
        busy = (other.folder for other in (*self.executor.running, *self.waiting) if other is not job)
        return job.source is None or job.source not in busy

    def _is_hopeless(self, job: Job) -> bool:
        """Count a loss; return whether there were too many. None is counted while another worker is in the folder."""
        if job.run.is_busy():
            return False
        losses, epochs_then = self._losses.get(job.name, (0, 0))
        done = job.count_epochs()
        self._losses[job.name] = (1 if done > epochs_then else losses + 1, done)
        return self._losses[job.name][0] >= MOST_LOSSES


def _give_up(job: Job, outcome: Outcome) -> Outcome:
    losses = f"its worker was lost {MOST_LOSSES} times without finishing an epoch"
    error = f"{losses} ({outcome.error}): is there enough memory?"
    RunRecord.create(job.folder, job.config).end("failed", error=error)
    return Outcome("failed", error)


def gives_members(source: RunConfig, config: RunConfig) -> bool:
    """Return whether a run holds all members of another, because it is a larger ensemble of the same networks.

    An ensemble of one holds a standard network.
    """
    given, taken = source.method, config.method
    if taken.members_from != given.name:
        return False
    enough = taken.num_members + (taken.name == given.name)
    return given.num_members >= enough and source.model_copy(update={"method": taken}) == config


def with_sources(jobs: Iterable[Job]) -> list[Job]:
    """Order the largest ensembles first; smaller ones of the same networks take their members from them."""

    def order(job: Job) -> tuple[int, bool]:
        method = job.config.method
        return -method.num_members, method.members_from not in (None, method.name)

    ordered = sorted(jobs, key=order)
    return [
        replace(job, source=next((other.folder for other in ordered if gives_members(other.config, job.config)), None))
        for job in ordered
    ]
