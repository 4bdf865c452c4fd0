"""A real Ray on this machine: started by the search, or an existing cluster."""

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from optuna.trial import TrialState

from sae.records.study import StudyRecord
from tests.end_to_end.killing import finished_runs, is_alive, optuna_trials, wait_until
from tests.search.studies import finish_search, start_search

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

FLAGS = ("--sampler", "random", "--trials", "4", "--epochs", "2", "--workers", "2")
LONG = (*FLAGS, "--epochs", "200", "--trials", "2")
RAY = ("--executor", "ray")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def ray_workers() -> list[int]:
    """Return the processes that run a trial, by the title that Ray gives them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(b"ray::_run_there"):
                found.append(int(entry.name))
        except OSError:  # ended under our eyes
            continue
    return found


def histories(out: Path) -> list[Path]:
    return list(out.glob("trials/sae/*/history.csv"))


def check_finished(out: Path, count: int) -> None:
    trials = optuna_trials(out)["sae"]
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * count
    assert len(list(StudyRecord(out).trials())) == count


def metrics(out: Path) -> dict[str, bytes]:
    return {name: content for name, (content, _) in finished_runs(out).items()}


@pytest.fixture(scope="module", autouse=True)
def token() -> Iterator[None]:
    """Give every Ray of these tests a token of its own, which opens no other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", uuid.uuid4().hex)
        yield


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Start a cluster of two CPUs that exists before and after the search; yield its address."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"]
    options = ["--port", address.split(":")[1], "--num-cpus", "2", "--include-dashboard", "false"]
    head = subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_until(lambda: is_open(address), 60)
    time.sleep(3)  # the head answers before its node has joined
    yield address
    head.send_signal(signal.SIGTERM)
    head.wait(60)


def is_open(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def test_ray_gives_what_local_processes_give(cluster: str, tmp_path: Path) -> None:
    code, _, error = finish_search(tmp_path / "ray", *FLAGS, *RAY, "--address", cluster)
    assert code == 0, error
    assert finish_search(tmp_path / "local", *FLAGS)[0] == 0
    check_finished(tmp_path / "ray", 4)
    assert metrics(tmp_path / "ray") == metrics(tmp_path / "local")


def test_a_killed_worker_is_survived(cluster: str, tmp_path: Path) -> None:
    process = start_search(tmp_path / "x", *LONG, *RAY, "--address", cluster)
    wait_until(lambda: process.poll() is not None or (histories(tmp_path / "x") and ray_workers()))
    assert process.poll() is None, process.communicate()[1]
    os.kill(ray_workers()[0], signal.SIGKILL)
    _, error = process.communicate(timeout=240)
    assert process.returncode == 0, error
    check_finished(tmp_path / "x", 2)


def test_a_killed_driver_is_survived(cluster: str, tmp_path: Path) -> None:
    process = start_search(tmp_path / "x", *LONG, *RAY, "--address", cluster)
    wait_until(lambda: process.poll() is not None or len(histories(tmp_path / "x")) == 2)
    assert process.poll() is None, process.communicate()[1]
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert optuna_trials(tmp_path / "x")["sae"][0].state == TrialState.RUNNING
    code, _, error = finish_search(tmp_path / "x", *LONG, *RAY, "--address", cluster)
    assert code == 0, error
    check_finished(tmp_path / "x", 2)


def test_a_cluster_of_its_own_ends_with_the_search_however_it_ends(tmp_path: Path) -> None:
    process = start_search(tmp_path / "x", *LONG, *RAY)
    wait_until(lambda: process.poll() is not None or (len(histories(tmp_path / "x")) == 2 and ray_workers()))
    assert process.poll() is None, process.communicate()[1]
    workers = ray_workers()
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(is_alive, workers)), 60)
    code, _, error = finish_search(tmp_path / "x", *LONG, *RAY)
    assert code == 0, error
    check_finished(tmp_path / "x", 2)
    assert ray_workers() == []


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "nowhere.invalid:6379", "nonsense"])
def test_a_wrong_address_is_named_within_a_minute(address: str, tmp_path: Path) -> None:
    began = time.monotonic()
    code, _, error = finish_search(tmp_path / "x", *FLAGS, *RAY, "--address", address)
    assert code == 2, error
    assert "--address must be the address of a running Ray cluster" in error
    assert "Traceback" not in error
    assert time.monotonic() - began < 60


def test_more_than_the_machine_has_is_refused(tmp_path: Path) -> None:
    code, _, error = finish_search(tmp_path / "x", *FLAGS, *RAY, "--cpus-per-trial", "1000")
    assert code == 2
    assert "--cpus-per-trial must be at most what this machine has" in error
