"""Databases: a real PostgreSQL server, and the dashboard of Optuna on the file of a study."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from sae.records.study import StudyRecord
from tests.end_to_end.killing import PATIENCE, wait_until
from tests.search.studies import FINISHED, finish_search, start_search

pytestmark = pytest.mark.slow
FLAGS = ("--sampler", "random", "--trials", "4", "--epochs", "20", "--workers", "2")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server:
    """A PostgreSQL server in a folder of its own; as root, it runs as another user, as it must."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder / "data", free_port()
        self.url = f"postgresql+psycopg://tester@127.0.0.1:{self.port}/postgres"
        self.user: dict[str, Any] = {}
        if os.getuid() == 0:
            account = next(
                entry for name in ("postgres", "nobody") for entry in pwd.getpwall() if entry.pw_name == name
            )
            self.user = {"user": account.pw_uid, "group": account.pw_gid}
            os.chown(folder, account.pw_uid, account.pw_gid)
        self.run("initdb", "-D", str(self.folder), "-U", "tester", "--auth", "trust", "--no-sync")

    def run(self, program: str, *arguments: str) -> None:
        found = subprocess.run([program, *arguments], capture_output=True, text=True, cwd="/", **self.user)
        assert found.returncode == 0, found.stdout + found.stderr

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self.run("pg_ctl", "-D", str(self.folder), "-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.folder), "-m", "immediate", "-w", "stop")


@pytest.fixture
def server() -> Iterator[Server]:
    if not (shutil.which("initdb") and shutil.which("pg_ctl") and shutil.which("postgres")):
        pytest.skip("no PostgreSQL server on this machine: initdb, pg_ctl and postgres must be in PATH")
    pytest.importorskip("psycopg")
    folder = Path(f"/tmp/sae-postgres-{os.getpid()}")  # where another user can reach it
    folder.mkdir()
    server = Server(folder)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


def states(url: str) -> list[TrialState]:
    storage = optuna.storages.RDBStorage(url)
    try:
        [name] = optuna.get_all_study_names(storage)
        return [trial.state for trial in optuna.load_study(study_name=name, storage=storage).trials]
    finally:
        storage.remove_session()
        storage.engine.dispose()


def begin(out: Path, url: str) -> "subprocess.Popen[str]":
    process = start_search(out, *FLAGS, "--storage", url)
    wait_until(lambda: process.poll() is not None or list(out.glob("trials/sae/*/status.json")))
    assert process.poll() is None, process.communicate()[1]
    return process


def test_a_search_on_postgresql_survives_kill_and_loss_of_the_server(server: Server, tmp_path: Path) -> None:
    process = begin(tmp_path / "x", server.url)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert TrialState.RUNNING in states(server.url)

    process = start_search(tmp_path / "x", *FLAGS, "--storage", server.url)
    wait_until(lambda: process.poll() is not None or len(list((tmp_path / "x").glob("trials/sae/*/history.csv"))) >= 3)
    server.stop()
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, error
    assert "the database of the study cannot be reached" in error
    assert "the same command continues the search" in error
    assert "Traceback" not in error

    code, _, error = finish_search(tmp_path / "x", *FLAGS, "--storage", server.url)  # it is still away
    assert code == 2
    assert "--storage must be the URL of a database that can be reached" in error

    server.start()
    code, _, error = finish_search(tmp_path / "x", *FLAGS, "--storage", server.url)
    assert code == 0, error
    assert states(server.url) == [TrialState.COMPLETE] * 4
    assert len(list(StudyRecord(tmp_path / "x").trials())) == 4
    assert not (tmp_path / "x" / StudyRecord.STORAGE).exists()


def test_studies_open_in_the_dashboard_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("optuna_dashboard")
    out = tmp_path / "x"
    assert finish_search(out, *FINISHED)[0] == 0
    port = free_port()
    command = [sys.executable, "-c", "from optuna_dashboard._cli import main; main()"]
    dashboard = subprocess.Popen(
        [*command, f"sqlite:///{out / StudyRecord.STORAGE}", "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        studies = fetch(f"http://127.0.0.1:{port}/api/studies")["study_summaries"]
        identity = StudyRecord.open(out).config.id
        assert {study["study_name"] for study in studies} == {
            f"{method} {identity}" for method in ("sae", "ensemble", "standard")
        }
        [sae] = [study for study in studies if study["study_name"] == f"sae {identity}"]
        assert sae["directions"] == ["minimize"] * 3
        details = fetch(f"http://127.0.0.1:{port}/api/studies/{sae['study_id']}")
        assert [trial["state"] for trial in details["trials"]] == ["Complete"] * 3
        assert details["objective_names"] == ["nll", "cc_ece", "flops"]
    finally:
        dashboard.terminate()
        dashboard.wait(30)


def fetch(url: str) -> dict[str, Any]:
    give_up = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.URLError:
            assert time.monotonic() < give_up, "the dashboard does not answer"
            time.sleep(0.3)
