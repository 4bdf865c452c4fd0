from pathlib import Path

import pytest

from sae.analysis.candidates import candidates, front
from sae.analysis.picking import pick
from sae.analysis.selection import select
from sae.core.objectives import objective, objectives
from sae.records.study import StudyRecord
from tests.studies import OBJECTIVES, StudyBuilder, point, sae, small_study

TASK = "classification"
THREE = objectives(OBJECTIVES, TASK)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyRecord:
    return small_study(tmp_path_factory.mktemp("picking") / "study").record


def test_the_knee_is_picked_and_its_numbers_stand_beside_the_best(study: StudyRecord) -> None:
    chosen, why = pick(front(candidates(study), THREE), THREE)
    assert (chosen.trial.name, chosen.eval_exits) == ("sae/0", 2)
    assert why == (
        "nearest to the ideal of nll, cc_ece and flops among 4 configurations of the front: "
        "nll 0.3 (best 0.2), cc_ece 0.08 (best 0.05), flops 2,000 (best 900)"
    )


def test_the_best_in_what_is_preferred_is_picked(study: StudyRecord) -> None:
    chosen, why = pick(front(candidates(study), THREE), THREE, objective("cc_ece", TASK))
    assert chosen.trial.name == "standard/0"
    assert why == (
        "lowest cc_ece among 4 configurations of the front: cc_ece 0.05, nll 0.6 (best 0.2), flops 900 (the best)"
    )


def test_more_is_better_where_the_metric_says_so(study: StudyRecord) -> None:
    chosen, why = select(study, prefer="f1").pick(objective("f1", TASK))
    assert (chosen.trial.name, chosen.eval_exits) == ("sae/2", 3)
    assert why.startswith("highest f1 among 4 configurations of the front: f1 0.9, nll 0.2 (the best)")


def test_of_equals_the_cheaper_is_picked_and_that_is_said(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(2, 1), [point(0.1, 0.1, 900)])
    study.finish(sae(2, 1), [point(0.1, 0.2, 300)])
    study.finish(sae(2, 1), [point(0.1, 0.3, 200)])
    chosen, why = pick(front(candidates(study.record), THREE), THREE, objective("nll", TASK))
    assert chosen.values["flops"] == 200
    assert "lowest nll among 3 configurations of the front, and the cheapest of 3 that share it" in why


def test_a_front_of_one_leaves_no_choice(study: StudyRecord) -> None:
    chosen, why = select(study, maximum={"flops": 900}).pick()
    assert chosen.trial.name == "standard/0"
    assert why == "the only configuration of the front: nll 0.6, cc_ece 0.05, flops 900"


def test_what_is_preferred_may_be_no_objective_and_is_still_the_best_of_all(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s", objectives=("nll",))
    study.finish(sae(2, 1), [point(0.1, 0.1, 900)])
    study.finish(sae(2, 1), [point(0.2, 0.2, 300)])
    chosen, why = select(study.record, prefer="params").pick(objective("params", TASK))
    assert chosen.values["params"] == 150
    assert why == "lowest params among 2 configurations of the front: params 150, nll 0.2 (best 0.1)"
