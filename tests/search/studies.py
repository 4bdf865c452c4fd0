"""Small searches that many tests start from."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from sae.cli import app
from sae.config.study import StudyConfig
from sae.core.objectives import objectives
from sae.records.study import StudyRecord
from sae.search.job import Job, Outcome, run_job
from sae.search.method_study import MethodStudy, open_studies
from sae.search.space import Space, build_space

SAE = [sys.executable, "-c", "from sae.cli import main; main()"]
DIGITS: dict[str, Any] = {"data": {"name": "digits"}, "backbone": {"name": "fc", "depth": 2}}
SMALL = (
    *("--data", "digits", "--epochs", "1", "--workers", "1"),
    *("--set", "backbone.depth=2", "--set", "backbone.width=1"),
)
"""A network that is trained in a fraction of a second; N and K and the schedules of SAE are searched."""

FINISHED = (
    *("--method", "sae,ensemble,standard", "--sampler", "random", "--trials", "3"),
    *("--set", "spaces.ensemble.method={name: ensemble, members: {int: [1, 2]}}"),
)
"""Flags of the study that many tests read."""


class InlineExecutor:
    """Trains in this process, one job at a time, for tests that need no workers."""

    def __init__(self) -> None:
        self.capacity = 1
        self.running: list[Job] = []
        self.done: list[Job] = []

    def submit(self, job: Job) -> None:
        self.running.append(job)

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        del timeout
        ended = [(job, run_job(job)) for job in self.running]
        self.done += self.running
        self.running = []
        return ended

    def close(self) -> None:
        self.running = []


def search(out: Path, *flags: str) -> tuple[int, str, str]:
    """Run `sae search` in this process."""
    result = CliRunner().invoke(app, ["search", *SMALL, *flags, "--out", str(out)])
    sys.stderr.write(result.stderr)  # shown if the test fails
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def start_search(out: Path, *flags: str, **settings: Any) -> "subprocess.Popen[str]":
    """Start `sae search` as a process, and process group, of its own."""
    return subprocess.Popen(
        [*SAE, "search", *SMALL, *flags, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **settings,
    )


def finish_search(out: Path, *flags: str, timeout: float = 300) -> tuple[int, str, str]:
    process = start_search(out, *flags)
    stdout, stderr = process.communicate(timeout=timeout)
    return process.returncode, stdout, stderr


def study_of(
    folder: Path, method: str = "sae", names: tuple[str, ...] = ("nll", "flops"), **settings: Any
) -> MethodStudy:
    """Open a study on a real database, new or begun; the object knows only what is stored there."""
    space: Space = build_space(method, DIGITS, settings.pop("given", {}), {})
    config = StudyConfig(
        **{
            **{"id": "x", "task": "classification", "spaces": {method: space.to_yaml()}, "objectives": names},
            **{"max": {}, "min": {}, "sampler": "random", "startup": 3, "grid": 1},
            **{"rungs": (), "reduction": 3, "shift": False, "seed": 0, **settings},
        }
    )
    return open_studies(f"sqlite:///{folder / 'optuna.db'}", config, [space], objectives(names, "classification"))[0]


def made_up_values(number: int, count: int) -> list[float]:
    return [float(value) for value in np.random.default_rng(number).random(count)]


def run_files(record: StudyRecord, name: str) -> dict[str, bytes]:
    """Return the bytes of one file of each run, by trial."""
    return {trial.label: (trial.path / name).read_bytes() for trial in record.trials()}
