"""A whole search on a fake SLURM cluster, whose tasks are separate processes that really train."""

import threading
from pathlib import Path

import pytest

import sae.cli.search
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.search.executors.slurm import SlurmExecutor
from tests.end_to_end.killing import wait_until
from tests.search.executors import fake_slurm
from tests.search.studies import InlineExecutor, run_files, search

pytestmark = pytest.mark.slow

FLAGS = ("--sampler", "random", "--epochs", "40")


def kill_one_mid_trial(cluster: Path, out: Path) -> None:
    """Kill the first task once its trial has finished an epoch."""
    wait_until(
        lambda: any(RunRecord(path.parent).count_epochs() for path in out.glob("trials/sae/00000-*/history.csv"))
    )
    fake_slurm.kill(cluster, "1_0")


def test_a_search_on_slurm_survives_a_killed_task_moves_elsewhere_and_gives_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, out, whole = tmp_path / "cluster", tmp_path / "moved", tmp_path / "whole"
    monkeypatch.setenv("PATH", str(fake_slurm.install(cluster)), prepend=":")
    slurm = SlurmExecutor(out / "slurm", 2, poll=0.2, patience=2.0)
    killer = threading.Thread(target=kill_one_mid_trial, args=(cluster, out))
    killer.start()
    monkeypatch.setattr(sae.cli.search, "make_executor", lambda *_: slurm)
    code, _, error = search(out, *FLAGS, "--trials", "2")
    killer.join()
    assert code == 0, error
    assert fake_slurm.states(cluster)["1_0"] == "NODE_FAIL"  # and another task trained the rest
    for folder, trials in ((out, "3"), (whole, "3")):
        monkeypatch.setattr(sae.cli.search, "make_executor", lambda *_: InlineExecutor())
        code, _, error = search(folder, *FLAGS, "--trials", trials)
        assert code == 0, error
    for name in (RunRecord.METRICS, RunRecord.HISTORY, RunRecord.MODEL):
        assert run_files(StudyRecord(out), name) == run_files(StudyRecord(whole), name)
