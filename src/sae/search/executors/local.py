"""Jobs on this machine: in spawned processes that run many jobs each, or in this very process for short searches."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from sae.search.job import Job, Outcome, run_job


@dataclass
class Worker:
    """A process, and the job it runs."""

    process: BaseProcess
    pipe: Connection
    job: Job | None = None


class LocalExecutor:
    """Runs jobs in a number of processes with one thread each."""

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        self.workers: list[Worker] = []

    @property
    def running(self) -> list[Job]:
        """Jobs that have not ended."""
        return [worker.job for worker in self.workers if worker.job is not None]

    def submit(self, job: Job) -> None:
        """Give a job to an idle worker, or to a new one."""
        worker = next((worker for worker in self.workers if worker.job is None), None) or self._start()
        worker.job = job
        with suppress(OSError):  # an idle worker may have died, which `wait` finds out
            worker.pipe.send(job)

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that ended; dead workers are replaced when they are needed."""
        ready = connection.wait([worker.pipe for worker in self.workers], timeout)
        ended = []
        for worker in [worker for worker in self.workers if worker.pipe in ready]:
            outcome = self._receive(worker)
            if worker.job is not None:
                ended.append((worker.job, outcome))
            worker.job = None
        return ended

    def close(self) -> None:
        """End all workers at once."""
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()
        self.workers = []

    def _receive(self, worker: Worker) -> Outcome:
        try:
            outcome: Outcome = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            worker.pipe.close()
            self.workers.remove(worker)
            return Outcome("lost", f"its process ended with code {worker.process.exitcode}")
        return outcome

    def _start(self) -> Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _interrupts_held_back():
            process.start()
        theirs.close()  # so that the end of the worker is the end of the pipe
        self.workers.append(Worker(process, ours))
        return self.workers[-1]


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hide Ctrl-C from a process that is started here, also while it imports; this process receives it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # else it starts with the process, and lets interrupts through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection) -> None:
    """Run jobs until the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which decides what to do with us
    threading.Thread(target=_follow_parent, daemon=True).start()
    while True:
        try:
            pipe.send(run_job(pipe.recv()))
        except (EOFError, OSError):
            return


def _follow_parent() -> None:
    """End this process as soon as its parent ends: nobody is left to receive the outcome."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    connection.wait([parent.sentinel])
    os._exit(1)


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
