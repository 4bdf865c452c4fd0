"""A search that is killed again and again ends as one that was left alone."""

from collections import Counter
from pathlib import Path

import pytest
from optuna.trial import TrialState

from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from tests.end_to_end.killing import Killer, finished_runs, optuna_trials
from tests.search.studies import finish_search

FLAGS = (
    *("--method", "sae,ensemble,standard", "--sampler", "random", "--workers", "2", "--epochs", "3"),
    *("--trials", "24", "--set", "spaces.ensemble.method.name=ensemble"),
    *("--set", "spaces.ensemble.method.members={int: [1, 3]}"),
)
NUM_TRIALS = {"sae": 24, "ensemble": 3, "standard": 1}
"""Enough for twenty kills, also where a busy machine lets a search write much between two looks at it."""
ONLY_UNFINISHED = (RunRecord.CHECKPOINT, RunRecord.INTERIM)


@pytest.mark.slow
def test_a_search_survives_twenty_kills(tmp_path: Path) -> None:
    killer = Killer(tmp_path / "killed", FLAGS, kills=20, most_changes=30, seed=0)
    killer.run()
    assert len(killer.killed) == 20
    assert set(killer.killed) == {"driver", "worker", "group"}
    assert finish_search(tmp_path / "whole", *FLAGS)[0] == 0

    trials = optuna_trials(tmp_path / "killed")
    assert {method: len(found) for method, found in trials.items()} == NUM_TRIALS
    assert {trial.state for found in trials.values() for trial in found} == {TrialState.COMPLETE}
    begun = list(StudyRecord(tmp_path / "killed").trials())
    assert Counter(trial.path.parent.name for trial in begun) == NUM_TRIALS  # a folder each, and none too many
    for trial in begun:
        method, number = trial.label.split("/")
        stored = trials[method][int(number)]
        assert stored.user_attrs["run"] == f"trials/{method}/{trial.path.name}"
        assert stored.values[0] == trial.read_evaluation().val.metrics["nll"]
        assert not [name for name in ONLY_UNFINISHED if (trial.path / name).exists()]
        assert not list(trial.path.glob(".*.tmp"))

    killed, whole = (finished_runs(tmp_path / name) for name in ("killed", "whole"))
    assert {name: metrics for name, (metrics, _) in killed.items()} == {
        name: metrics for name, (metrics, _) in whole.items()
    }


@pytest.mark.slow
def test_what_was_judged_at_a_rung_stays_judged(tmp_path: Path) -> None:
    flags = (
        *("--sampler", "random", "--workers", "2", "--epochs", "4", "--trials", "10"),
        *("--stop-early", "--set", "search.reduction=2"),
    )
    notes: dict[int, dict[str, object]] = {}
    stopped: set[int] = set()

    def check_notes() -> None:
        if not (tmp_path / "study" / StudyRecord.STORAGE).exists():
            return
        for trial in optuna_trials(tmp_path / "study").get("sae", []):
            known = notes.setdefault(trial.number, {})
            assert {name: trial.user_attrs.get(name) for name in known} == known
            notes[trial.number] = {name: note for name, note in trial.user_attrs.items() if name.startswith("rung")}
            assert trial.number not in stopped or trial.state == TrialState.PRUNED
            stopped.update({trial.number} if trial.state == TrialState.PRUNED else ())

    killer = Killer(tmp_path / "study", flags, kills=8, most_changes=25, seed=1)
    killer.run(check_notes)
    check_notes()

    trials = optuna_trials(tmp_path / "study")["sae"]
    assert Counter(trial.state.is_finished() for trial in trials) == {True: 10}
    assert stopped
    for trial in StudyRecord(tmp_path / "study").trials():
        number = int(trial.label.removeprefix("sae/"))
        is_stopped = any(not note["passes"] for note in notes[number].values())  # type: ignore[index]
        assert trials[number].state == (TrialState.PRUNED if is_stopped else TrialState.COMPLETE)
        status = trial.read_status()
        assert status is not None
        assert status.state == ("stopped" if is_stopped else "finished")
        assert set(notes[number]) == {"rung 1", "rung 2"} if not is_stopped else notes[number]
        assert not [name for name in ONLY_UNFINISHED if (trial.path / name).exists()]
