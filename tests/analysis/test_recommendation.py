from pathlib import Path

import pytest

from sae.analysis.recommendation import PROVISIONAL, RECOMMENDED, TOO_LITTLE, Recommendation, recommend
from sae.analysis.selection import select
from sae.records.study import Plan, StudyRecord
from tests.studies import StudyBuilder, point, sae
from tests.study_stages import confirm, confirmed_study, searched_study


def state_of(record: StudyRecord) -> Recommendation:
    runs = record.read_runs()
    pick = select(record, runs=runs).pick().candidate
    return recommend(pick, runs, record.read_plan(), record.num_again())


def search(study: StudyBuilder, trials: int) -> None:
    for number in range(trials):
        study.finish(sae(1, 1), [point(0.5 + 0.01 * number, 0.1, 1000 + number)])


def test_a_search_with_9_of_23_trials_ended_is_provisional(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    search(study, 9)
    study.record.write_plan(Plan(trials=23))
    found = state_of(study.record)
    assert found.state == PROVISIONAL
    assert found.sentence.startswith("Provisional: 9 of 23 trials have ended. So far sae/0 leads: one network (")
    assert "Ship" not in found.sentence


def test_a_study_whose_confirming_runs_are_missing_is_provisional(tmp_path: Path) -> None:
    study = searched_study(tmp_path / "s", shift=False)
    confirm(study, select(study.record).front[:1], [1], shift=False)
    study.record.write_plan(Plan(trials=10, again=8))
    assert state_of(study.record).why == "10 of 10 trials and 1 of 8 confirming runs have ended"


def test_an_older_study_with_an_unfinished_trial_is_provisional(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    search(study, 8)
    study.begin(sae(1, 1))
    assert study.record.read_plan() is None
    assert state_of(study.record).why == "8 of 9 trials have ended"


def test_one_short_trial_is_too_little_evidence(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    search(study, 1)
    study.record.write_plan(Plan(trials=1, is_done=True))
    found = state_of(study.record)
    assert found.state == TOO_LITTLE
    assert found.why == (
        "1 trial finished (a choice needs 5) and the leader was trained on 0 new seeds (a recommendation needs 2)"
    )
    assert "Ship" not in found.sentence


@pytest.mark.parametrize(("seeds", "state"), [((), TOO_LITTLE), ((1,), TOO_LITTLE), ((1, 2), RECOMMENDED)])
def test_the_pick_needs_two_new_seeds(seeds: tuple[int, ...], state: str, tmp_path: Path) -> None:
    study = searched_study(tmp_path / "s", shift=False)
    if seeds:
        confirm(study, [select(study.record).pick().candidate], seeds, shift=False)
    assert state_of(study.record).state == state


def test_a_confirmed_study_is_recommended_to_ship(tmp_path: Path) -> None:
    study = confirmed_study(tmp_path / "s", shift=False)
    study.record.write_plan(Plan(trials=10, again=8, is_done=True))
    found = state_of(study.record)
    assert (found.state, found.why) == (RECOMMENDED, "")
    assert found.sentence.startswith("Ship sae/")
    assert found.after(None) == found.sentence
    assert found.after("Boosting is better.").startswith("Boosting is better. The best network is sae/")
