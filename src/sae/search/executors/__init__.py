"""Where jobs run: in processes of this machine, or on a Ray cluster."""

from typing import Protocol

from sae.search.job import Job, Outcome


class Executor(Protocol):
    """Runs jobs somewhere, several at a time.

    A job may be lost with its worker; its outcome is then `lost` and the executor is as able as
    before. Jobs are safe to repeat, so that losing track of one costs time only.
    """

    @property
    def capacity(self) -> int:
        """How many jobs can run at once."""

    @property
    def running(self) -> list[Job]:
        """Jobs without an outcome, oldest first."""

    def submit(self, job: Job) -> None:
        """Start a job; there must be room for it."""

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        """What ended, as soon as something did or so many seconds have passed."""

    def close(self) -> None:
        """End all workers at once, and with them what they are at."""
