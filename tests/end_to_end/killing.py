"""SIGKILL for real processes, at seeded random moments that follow what the search writes."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
import optuna

from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from tests.search.studies import start_search

PATIENCE = 240.0
"""Seconds without progress after which a search counts as hanging."""


def children(pid: int, of_kind: str) -> list[int]:
    """Return the children of a process with this word in their command line."""
    try:
        pids = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [child for child in pids if of_kind in Path(f"/proc/{child}/cmdline").read_text()]
    except OSError:  # one ended under our eyes
        return []


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(holds: Callable[[], Any], patience: float = PATIENCE) -> None:
    give_up = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.01)


def footprint(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the time and size of every file."""
    found = {}
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except OSError:  # renamed under our eyes
            continue
        found[str(path)] = (status.st_mtime_ns, status.st_size)
    return found


def finished_runs(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the metrics of every finished run and when they were written, by trial."""
    found = {}
    for trial in StudyRecord(folder).trials():
        if trial.has_finished():
            path = trial.path / RunRecord.METRICS
            found[f"{trial.path.parent.name}/{trial.path.name}"] = (path.read_bytes(), path.stat().st_mtime_ns)
    return found


def optuna_trials(folder: Path) -> dict[str, list[optuna.trial.FrozenTrial]]:
    """Return the trials of each method, read by Optuna's own loader."""
    storage = f"sqlite:///{folder / StudyRecord.STORAGE}"
    names = optuna.get_all_study_names(storage)
    return {name.split()[0]: optuna.load_study(study_name=name, storage=storage).trials for name in names}


class Killer:
    """Runs a search to its end, killing on the way.

    Args:
        out: The study folder.
        flags: Of the search.
        kills: How often to kill.
        most_changes: After how many changes of the study's files, at most, the next kill comes.
        seed: Of the moments and the victims.
    """

    def __init__(self, out: Path, flags: tuple[str, ...], kills: int, most_changes: int, seed: int) -> None:
        self.out, self.flags, self.kills, self.most_changes = out, flags, kills, most_changes
        self.rng = np.random.default_rng(seed)
        self.killed: list[str] = []
        self.seen: dict[str, tuple[bytes, int]] = {}

    def run(self, on_death: Callable[[], None] = lambda: None) -> None:
        """Run until the search succeeds; call `on_death` whenever the driver is dead."""
        process = start_search(self.out, *self.flags)
        while process.poll() is None or process.returncode != 0:
            if process.poll() is not None:
                assert process.returncode == -signal.SIGKILL, process.communicate()[1]
                process.communicate()
                self.check_what_is_finished()
                on_death()
                process = start_search(self.out, *self.flags)
            if len(self.killed) < self.kills:
                self._wait_for_changes(process)
                self._kill_something(process)
            else:
                assert process.wait(PATIENCE) == 0, process.communicate()[1]
        process.communicate()
        self.check_what_is_finished()

    def check_what_is_finished(self) -> None:
        """Check that runs that were finished before are unchanged, to the byte and the nanosecond."""
        now = finished_runs(self.out)
        assert {name: now.get(name) for name in self.seen} == self.seen
        self.seen = now

    def _wait_for_changes(self, process: "Popen[str]") -> None:
        left, before = int(self.rng.integers(0, self.most_changes)), footprint(self.out)
        give_up = time.monotonic() + PATIENCE
        while left > 0 and process.poll() is None:
            assert time.monotonic() < give_up, "the search does nothing"
            time.sleep(float(self.rng.uniform(0, 0.02)))
            now = footprint(self.out)
            left, before = left - (now != before), now

    def _kill_something(self, process: "Popen[str]") -> None:
        if process.poll() is not None:
            return
        workers = children(process.pid, "spawn_main")
        victim = str(self.rng.choice(["driver", "worker", "group"]))
        if victim == "worker" and workers:
            os.kill(int(self.rng.choice(workers)), signal.SIGKILL)
        elif victim == "group":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            victim = "driver"
            process.kill()
        if victim != "worker":
            process.wait()
            wait_until(lambda: not any(map(is_alive, workers)), 60)  # workers follow the driver by themselves
        self.killed.append(victim)
