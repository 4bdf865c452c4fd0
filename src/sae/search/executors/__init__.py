"""Executors: places where jobs run, processes of this machine, a Ray cluster or a SLURM cluster."""

from typing import Protocol

from sae.search.job import Job, Outcome


class Executor(Protocol):
    """Runs jobs, several at a time.

    If a worker is lost, the outcome of its job is `lost`, and the executor can run as many jobs as
    before. Jobs are safe to repeat, so a lost one costs only time.
    """

    @property
    def capacity(self) -> int:
        """The number of jobs that can run at once."""

    @property
    def running(self) -> list[Job]:
        """Jobs that have not ended, oldest first."""

    def submit(self, job: Job) -> None:
        """Start a job; there must be room for it."""

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that ended, as soon as one has or after this many seconds."""

    def close(self) -> None:
        """End all workers at once, also those with unfinished jobs."""
