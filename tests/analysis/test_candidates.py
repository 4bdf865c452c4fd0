from pathlib import Path
from typing import Any

import pytest

from sae.analysis.candidates import (
    SHIFTED_VALIDATION,
    candidates,
    damages,
    front,
    fronts_by_kind,
    kind_of,
    summary,
)
from sae.core.objectives import limits, objectives
from sae.records.study import StudyRecord
from tests.builders import run_config
from tests.studies import OBJECTIVES, StudyBuilder, point, sae, small_study

TASK = "classification"
THREE = objectives(OBJECTIVES, TASK)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyRecord:
    return small_study(tmp_path_factory.mktemp("candidates") / "study").record


def test_every_finished_trial_at_every_k_is_a_candidate_in_the_order_of_their_ends(study: StudyRecord) -> None:
    found = [(item.trial.name, item.eval_exits) for item in candidates(study)]
    expected = [*(("sae/0", k) for k in (1, 2, 3)), ("standard/0", 1), *(("sae/2", k) for k in (1, 2, 3))]
    assert found == expected


def test_a_candidate_is_described_by_validation_and_its_exits(study: StudyRecord) -> None:
    item = candidates(study)[0].describe()
    assert item["values"] == point(0.5, 0.10, 1000)
    assert (item["trial"], item["exits"], item["eval_exits"], item["active"]) == ("sae/0", 2, 1, [0, 0, 1])
    assert (item["method"], item["kind"], item["settings"]) == ("sae", "I/B", "N=2 K=2 W=1 D=3")


def test_the_front_holds_what_none_beats_within_the_limits(study: StudyRecord) -> None:
    found = candidates(study)
    names = [(item.trial.name, item.eval_exits) for item in front(found, THREE)]
    assert names == [("sae/0", 1), ("sae/0", 2), ("standard/0", 1), ("sae/2", 3)]
    kept = front(found, THREE, limits({"flops": 1000}, {"f1": 0.72}, TASK))
    assert [(item.trial.name, item.eval_exits) for item in kept] == [("sae/0", 1)]
    assert front(found, THREE, limits({"flops": 10}, {}, TASK)) == []
    assert front([], THREE) == []


def test_of_equal_points_the_one_at_its_trained_k_is_kept(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(2, 2), [point(0.5, 0.1, 100)] * 3)
    study.finish(sae(1, 1), [point(0.5, 0.1, 100)])
    assert [(item.trial.name, item.eval_exits) for item in front(candidates(study.record), THREE)] == [("sae/0", 2)]


def test_what_was_not_measured_under_shift_is_neither_on_its_front_nor_within_its_limits(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(2, 1), [point(0.1, 0.1, 100)])
    study.finish(sae(2, 1), [point(0.2, 0.1, 100)], shift=True)
    found = candidates(study.record)
    assert found[1].values["nll@shift"] == 1.2
    assert front(found, objectives(["nll@shift"], TASK)) == [found[1]]
    assert front(found, THREE, limits({"nll@shift": 9.0}, {}, TASK)) == [found[1]]


@pytest.mark.parametrize(
    ("method", "kind", "text"),
    [
        (sae(1, 1), "SE", "N=1 K=1 W=1"),
        (sae(1, 5), "EE", "N=1 K=5 W=1"),
        (sae(2, 1), "MIMO", "N=2 K=1 W=1"),
        (sae(2, 5), "MIMMO", "N=2 K=5 W=1"),
        (sae(2, 3), "I/B", "N=2 K=3 W=1"),
        ({"name": "standard"}, "standard", "W=1 D=5"),
        ({"name": "ensemble", "members": 3}, "ensemble", "M=3 W=1 D=5"),
        ({"name": "batch_ensemble", "members": 3}, "batch_ensemble", "M=3 W=1 D=5"),
        ({"name": "mc_dropout", "rate": 0.123}, "mc_dropout", "rate=0.12 W=1 D=5"),
    ],
)
def test_kinds_and_settings_are_those_of_the_paper(method: dict[str, Any], kind: str, text: str) -> None:
    config = run_config(method=method, backbone={"name": "fc", "depth": 5})
    assert (kind_of(config), summary(config)) == (kind, text)


def test_the_depth_of_an_sae_is_told_where_it_is_not_the_whole_backbone_and_the_blocks_where_they_differ() -> None:
    backbone = {"name": "vgg", "depth": 4, "width": 2, "blocks": (1, 1, 2, 2, 2)}
    config = run_config(data={"name": "bloodmnist"}, method=sae(2, 3), backbone=backbone)
    assert summary(config) == "N=2 K=3 W=2 D=4 blocks=1,1,2,2,2"


def test_each_class_has_a_front_among_its_own(study: StudyRecord) -> None:
    fronts = fronts_by_kind(candidates(study), THREE)
    named = {kind: [(item.trial.name, item.eval_exits) for item in own] for kind, own in fronts.items()}
    assert named == {
        "I/B": [("sae/0", 1), ("sae/0", 2)],
        "standard": [("standard/0", 1)],
        "MIMMO": [("sae/2", 1), ("sae/2", 2), ("sae/2", 3)],
    }


def test_a_class_of_which_nothing_keeps_the_limits_has_no_front(study: StudyRecord) -> None:
    cheap = limits({"flops": 1000}, {}, TASK)
    assert list(fronts_by_kind(candidates(study), THREE, cheap)) == ["I/B", "standard"]
    assert fronts_by_kind([], THREE) == {}


@pytest.mark.parametrize("content", ["{", "{}", '{"val": 3}', '{"val": {"by_exits": []}}'])
def test_a_trial_with_wrong_metrics_is_told_and_hides_no_other(content: str, tmp_path: Path) -> None:
    record = small_study(tmp_path / "s").record
    first = next(record.trials())
    (first.run.path / first.run.METRICS).write_text(content)
    found = candidates(record)
    assert {item.trial.name for item in found} == {"sae/2", "standard/0"}
    assert list(damages(record.trials(), found)) == ["sae/0"]


@pytest.mark.parametrize("name", [SHIFTED_VALIDATION, "latency.json"])
def test_a_trial_with_wrong_measures_of_its_own_is_told(name: str, tmp_path: Path) -> None:
    record = small_study(tmp_path / "s").record
    first = next(record.trials())
    (first.run.path / name).write_text('{"by_exits": [{"exits": 1}]}')
    [told] = damages(record.trials(), candidates(record)).values()
    assert f"{name} does not hold what it should" in told
