"""Jobs on a Ray cluster: an existing one, or one that is started on this machine."""

import os
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from sae.core.errors import ConfigError
from sae.data.locations import CACHE_VARIABLE, DATA_ROOT_VARIABLE
from sae.search.job import Job, Outcome, run_job

PATIENCE = 10.0
"""Seconds for the head of a cluster to answer."""
MOST_WORKERS = 10_000
"""For a cluster whose size is not known yet."""


class RayExecutor:
    """As many jobs at once as the cluster has room for.

    Run folders must be on a file system that all machines share, for results and checkpoints are
    there. A job whose worker or machine is lost is `lost`, and may be started again anywhere.

    Args:
        address: Of the cluster, `auto` or `ray://head:10001`; None starts one here.
        workers: Jobs at once; by default as many as there are CPUs for.
        cpus: Of each job.
        gpus: Of each job.
    """

    def __init__(self, address: str | None, workers: int | None, cpus: float, gpus: float) -> None:
        folders = (DATA_ROOT_VARIABLE, CACHE_VARIABLE)
        variables = {name: str(Path(os.environ[name]).resolve()) for name in folders if os.environ.get(name)}
        quietly: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            quietly |= {"include_dashboard": False}
        try:
            _check_reachable(address)
            ray.init(address=address, runtime_env={"env_vars": variables}, **quietly)
        except (OSError, ValueError, RuntimeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"--address takes the address of a running Ray cluster, got {address!r}: {reason} "
                f"(if the cluster asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN here too)"
            ) from None
        if address is None:
            _check_room(cpus, gpus)
        self.workers, self.cpus, self.gpus = workers, cpus, gpus
        self.remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(_run_there)
        self.jobs: dict[Any, Job] = {}

    @property
    def capacity(self) -> int:
        """As said, or by the resources of the cluster, which may grow."""
        if self.workers is not None:
            return self.workers
        present = ray.cluster_resources()
        rooms = [present.get(name, 0) // each for name, each in (("CPU", self.cpus), ("GPU", self.gpus)) if each > 0]
        return max(1, int(min(rooms, default=MOST_WORKERS)))

    @property
    def running(self) -> list[Job]:
        """Jobs without an outcome; some may still wait for room in the cluster."""
        return list(self.jobs.values())

    def submit(self, job: Job) -> None:
        """Hand a job to the cluster, with its paths as all machines see them."""
        source = job.source.resolve() if job.source else None
        reference = self.remote.remote(replace(job, folder=job.folder.resolve(), source=source), str(Path.cwd()))
        self.jobs[reference] = job

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        """What ended."""
        ready, _ = ray.wait(list(self.jobs), timeout=timeout) if self.jobs else ([], [])
        return [(self.jobs.pop(reference), _outcome(reference)) for reference in ready]

    def close(self) -> None:
        """End our jobs, and the cluster if it is ours."""
        for reference in self.jobs:
            with suppress(ray.exceptions.RayError):
                ray.cancel(reference, force=True)
        self.jobs.clear()
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Find out in seconds that nobody listens; Ray itself would try for a minute."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), PATIENCE).close()


def _check_room(cpus: float, gpus: float) -> None:
    """A trial that does not fit into this machine would wait for ever; a cluster may grow."""
    present = ray.cluster_resources()
    for flag, name, each in (("--cpus-per-trial", "CPU", cpus), ("--gpus-per-trial", "GPU", gpus)):
        if each > present.get(name, 0):
            ray.shutdown()
            raise ConfigError(f"{flag} must be at most what this machine has, {present.get(name, 0):g}; got {each:g}")


def _outcome(reference: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
    except (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError) as error:
        # A job keeps its own errors to itself: this is a worker that cannot even begin, as without `sae`.
        return Outcome("blocked", f"a worker of the cluster cannot run trials: {str(error).splitlines()[-1]}")
    except ray.exceptions.RayError as error:
        return Outcome("lost", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    return outcome


def _run_there(job: Job, folder: str) -> Outcome:
    """On a worker: do a job from the folder that relative paths of data are relative to, if it is there too."""
    if Path(folder).is_dir():
        os.chdir(folder)
    return run_job(job)
