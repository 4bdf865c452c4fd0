"""Jobs in this very process, one after the other: for short searches inside a program of the user."""

import warnings

from sae.search.job import Job, Outcome, run_job


class InlineExecutor:
    """Runs one job at a time, when it is waited for. Starts no process, so it works in any script or notebook."""

    capacity = 1

    def __init__(self) -> None:
        self.running: list[Job] = []

    def submit(self, job: Job) -> None:
        """Keep a job until it is waited for."""
        self.running.append(job)

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        """Run the job to its end, however long that takes."""
        del timeout
        with warnings.catch_warnings():  # a job changes the filters of its process
            ended = [(job, run_job(job)) for job in self.running]
        self.running = []
        return ended

    def close(self) -> None:
        """Forget a job that was not waited for."""
        self.running = []
