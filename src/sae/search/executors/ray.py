"""Jobs on a Ray cluster: an existing one, or a new one on this machine."""

import logging
import os
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import ray

from sae.core.errors import ConfigError
from sae.data.locations import CACHE_VARIABLE, DATA_ROOT_VARIABLE
from sae.search.job import Job, Outcome, run_job

PATIENCE = 10.0
"""Seconds to wait for the head of a cluster to answer."""
MOST_WORKERS = 10_000
"""Jobs at once on a cluster whose size is not known yet."""


class RayExecutor:
    """Runs as many jobs at once as the cluster has room for.

    Run folders hold results and checkpoints, so they must be on a file system that all machines
    share. A job whose worker or machine is lost is `lost`, and can be started again on any machine.

    Args:
        address: Address of the cluster, `auto` or `ray://head:10001`; None starts a cluster here.
        workers: Jobs at once; by default as many as there are CPUs for.
        cpus: CPUs of each job.
        gpus: GPUs of each job.
    """

    def __init__(self, address: str | None, workers: int | None, cpus: float, gpus: float) -> None:
        folders = (DATA_ROOT_VARIABLE, CACHE_VARIABLE)
        variables = {name: str(Path(os.environ[name]).resolve()) for name in folders if os.environ.get(name)}
        try:
            _check_reachable(address)
            ray.init(
                address=address,
                runtime_env={"env_vars": variables},
                include_dashboard=False if address is None else None,  # a cluster that is there has decided already
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (OSError, ValueError, RuntimeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"--address must be the address of a running Ray cluster, got {address!r}: {reason} "
                f"(if the cluster asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN here too)"
            ) from None
        if address is None:
            _check_room(cpus, gpus)
        self.workers, self.cpus, self.gpus = workers, cpus, gpus
        self.remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(_run_there)
        self.jobs: dict[ray.ObjectRef[Outcome], Job] = {}

    @property
    def capacity(self) -> int:
        """The number asked for, or what the resources of the cluster allow; a cluster may grow."""
        if self.workers is not None:
            return self.workers
        present = ray.cluster_resources()
        rooms = [present.get(name, 0) // each for name, each in (("CPU", self.cpus), ("GPU", self.gpus)) if each > 0]
        return max(1, int(min(rooms, default=MOST_WORKERS)))

    @property
    def running(self) -> list[Job]:
        """Jobs that have not ended; some may still wait for room in the cluster."""
        return list(self.jobs.values())

    def submit(self, job: Job) -> None:
        """Hand a job to the cluster, with absolute paths, which all machines share."""
        source = job.source.resolve() if job.source else None
        reference = self.remote.remote(replace(job, folder=job.folder.resolve(), source=source), str(Path.cwd()))
        self.jobs[reference] = job

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that ended."""
        ready, _ = ray.wait(list(self.jobs), timeout=timeout) if self.jobs else ([], [])
        return [(self.jobs.pop(reference), _outcome(reference)) for reference in ready]

    def close(self) -> None:
        """End our jobs, and the cluster if we started it."""
        for reference in self.jobs:
            with suppress(ray.exceptions.RayError):
                ray.cancel(reference, force=True)
        self.jobs.clear()
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Raise OSError within seconds if nobody listens; Ray itself would try for a minute."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), PATIENCE).close()


def _check_room(cpus: float, gpus: float) -> None:
    """Refuse a trial that does not fit on this machine, as it would wait for ever; a cluster may grow."""
    present = ray.cluster_resources()
    for flag, name, each in (("--cpus-per-trial", "CPU", cpus), ("--gpus-per-trial", "GPU", gpus)):
        if each > present.get(name, 0):
            ray.shutdown()
            raise ConfigError(f"{flag} must be at most what this machine has, {present.get(name, 0):g}; got {each:g}")


def _outcome(reference: "ray.ObjectRef[Outcome]") -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
    except (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError) as error:
        # A job catches its own errors: this is a worker that cannot even begin, e.g. where `sae` is not installed.
        return Outcome("blocked", f"a worker of the cluster cannot run trials: {str(error).splitlines()[-1]}")
    except ray.exceptions.RayError as error:
        return Outcome("lost", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    return outcome


def _run_there(job: Job, folder: str) -> Outcome:
    """Run a job on a worker, in the folder that relative data paths start from, if the worker has it."""
    if Path(folder).is_dir():
        os.chdir(folder)
    return run_job(job)
