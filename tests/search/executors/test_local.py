"""The local executor with real processes that are really killed."""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from sae.records.run import RunRecord
from sae.search.dispatch import MOST_LOSSES, Dispatcher
from sae.search.executors.local import InlineExecutor, LocalExecutor
from sae.search.job import Job, Outcome
from tests.builders import run_config
from tests.end_to_end.killing import children, is_alive, wait_until
from tests.search.studies import start_search

pytestmark = pytest.mark.long

LONG = run_config(train={"epochs": 500})
SHORT = run_config(train={"epochs": 1})


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """Share one executor, as starting a worker takes seconds; after each test it must still work."""
    executor = LocalExecutor(1)
    yield executor
    executor.close()


def kill_worker(executor: LocalExecutor) -> None:
    pid = executor.workers[0].process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def wait_for(waiting: "LocalExecutor | Dispatcher") -> list[tuple[Job, Outcome]]:
    ended: list[tuple[Job, Outcome]] = []
    wait_until(lambda: collect(waiting, ended))
    return ended


def collect(waiting: "LocalExecutor | Dispatcher", ended: list[tuple[Job, Outcome]]) -> bool:
    ended += waiting.wait(0.1)
    return bool(ended)


def test_a_killed_worker_loses_its_job_and_the_executor_goes_on(executor: LocalExecutor, tmp_path: Path) -> None:
    job = Job("sae/0", LONG, tmp_path / "long")
    executor.submit(job)
    wait_until(lambda: job.count_epochs() > 0)
    kill_worker(executor)
    [(lost, outcome)] = wait_for(executor)
    assert (lost, outcome.state) == (job, "lost")
    assert "ended with code -9" in outcome.error
    short = Job("sae/1", SHORT, tmp_path / "short")
    executor.submit(short)
    assert wait_for(executor) == [(short, Outcome("finished"))]
    kill_worker(executor)  # idle
    time.sleep(0.1)
    executor.submit(Job("sae/2", SHORT, tmp_path / "other"))
    assert wait_for(executor)[0][1].state in ("finished", "lost")


@pytest.mark.slow
def test_a_lost_job_goes_on_from_its_checkpoint(executor: LocalExecutor, tmp_path: Path) -> None:
    dispatcher = Dispatcher(executor)
    job = Job("sae/0", run_config(train={"epochs": 15}), tmp_path / "killed")
    dispatcher.add(job)
    wait_until(lambda: job.count_epochs() > 0)
    kill_worker(executor)
    assert wait_for(dispatcher) == [(job, Outcome("finished"))]
    whole = Job("sae/0", job.config, tmp_path / "whole")
    dispatcher.add(whole)
    wait_for(dispatcher)
    for name in (RunRecord.METRICS, RunRecord.HISTORY, RunRecord.MODEL):
        assert (job.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_a_job_that_kills_its_workers_fails_and_says_so(tmp_path: Path) -> None:
    executor = LocalExecutor(1)
    dispatcher = Dispatcher(executor)
    job = Job("sae/0", LONG, tmp_path / "x")
    dispatcher.add(job)
    ended: list[tuple[Job, Outcome]] = []
    for number in range(MOST_LOSSES):
        assert dispatcher.waiting == []
        assert not ended, number
        kill_worker(executor)  # before it has finished an epoch
        wait_until(lambda: collect(dispatcher, ended) or bool(executor.running))
    wait_until(lambda: collect(dispatcher, ended))
    [(_, outcome)] = ended
    assert outcome.state == "failed"
    assert f"lost {MOST_LOSSES} times" in outcome.error
    status = RunRecord(job.folder).read_status()
    assert status is not None
    assert (status.state, status.error) == ("failed", outcome.error)
    executor.close()


PARENT = """
import sys, time
from pathlib import Path
from sae.search.executors.local import LocalExecutor
from sae.search.job import Job
from tests.builders import run_config
executor = LocalExecutor(1)
executor.submit(Job("sae/0", run_config(train={"epochs": 500}), Path(sys.argv[1])))
time.sleep(600)
"""


@pytest.mark.slow
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(f"if __name__ == '__main__':\n    {PARENT.strip().replace(chr(10), chr(10) + '    ')}\n")
    folders = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    parent = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "run")], env={**os.environ, "PYTHONPATH": folders}
    )
    wait_until(lambda: (tmp_path / "run" / RunRecord.HISTORY).exists())
    workers = children(parent.pid, "spawn_main")
    assert len(workers) == 1
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(map(is_alive, workers)), 30)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_finishes_what_runs_and_twice_ends_at_once(times: int, tmp_path: Path) -> None:
    flags = ("--sampler", "random", "--trials", "50", "--epochs", "30", "--workers", "2")
    process = start_search(tmp_path / "x", *flags)
    wait_until(lambda: len(list((tmp_path / "x").glob("trials/sae/*/history.csv"))) >= 2)
    workers = children(process.pid, "spawn_main")
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all of the group
        time.sleep(0.5)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert "stopping after the running trials" in error
    assert "Traceback" not in error
    assert not any(map(is_alive, workers))
    runs = [RunRecord(path.parent) for path in (tmp_path / "x").glob("trials/sae/*/config.yaml")]
    unfinished = [run for run in runs if run.read_status() is None]
    assert bool(unfinished) == (times == 2)


@pytest.mark.slow
def test_ctrl_c_while_workers_start_shows_no_traceback(tmp_path: Path) -> None:
    process = start_search(tmp_path / "x", "--sampler", "random", "--trials", "50", "--workers", "2")
    wait_until(lambda: children(process.pid, "spawn_main"))
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in error


def test_a_job_runs_in_this_process_and_leaves_the_warnings_as_they_are(tmp_path: Path) -> None:
    executor, before = InlineExecutor(), list(warnings.filters)
    job = Job("sae/0", run_config(train={"epochs": 1}), tmp_path / "run")
    executor.submit(job)
    assert executor.running == [job]
    assert executor.wait(0.1) == [(job, Outcome("finished"))]
    assert executor.running == []
    assert job.run.has_finished()
    assert warnings.filters == before


def test_a_job_that_fails_does_not_end_the_process(tmp_path: Path) -> None:
    executor = InlineExecutor()
    executor.submit(Job("sae/0", run_config(train={"epochs": 1, "device": "nowhere"}), tmp_path / "run"))
    [(_, outcome)] = executor.wait(0.1)
    assert outcome.state == "failed"
    assert "train.device" in outcome.error
