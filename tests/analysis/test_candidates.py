import json
from pathlib import Path
from typing import Any

import pytest
import torch

from sae.analysis.candidates import candidates, damages, fold_ties, front, fronts_by_kind
from sae.analysis.selection import Selection, select
from sae.core.objectives import limits, objectives
from sae.records.run import Run, RunRecord
from sae.training.evaluator import measure_costs
from tests.builders import SPEC, run_config, small_sae
from tests.studies import OBJECTIVES, StudyBuilder, point, sae, small_study, write_metrics

TASK = "classification"
THREE = objectives(OBJECTIVES, TASK)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    return small_study(tmp_path_factory.mktemp("candidates") / "study").runs()


def test_every_finished_trial_at_every_k_is_a_candidate_in_the_order_of_their_ends(runs: list[Run]) -> None:
    found = [(item.label, item.eval_exits) for item in candidates(runs)]
    expected = [*(("sae/0", k) for k in (1, 2, 3)), ("standard/0", 1), *(("sae/2", k) for k in (1, 2, 3))]
    assert found == expected


def test_numbers_of_exits_that_use_the_same_exits_are_one_network(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    trial = study.finish(sae(1, 3), [point(0.5, 0.1, 1000), point(0.4, 0.1, 2000), point(0.4, 0.1, 2000)])
    metrics = json.loads((trial.path / trial.METRICS).read_text())
    for split in ("val", "test"):
        metrics[split]["by_exits"][2]["active"] = metrics[split]["by_exits"][1]["active"]
    trial.write_json(trial.METRICS, metrics)
    found = candidates(study.runs())
    assert [(item.eval_exits, item.exits) for item in found] == [(1, 3), (2, 3)]  # the smallest of equals
    assert len(front(found, objectives(OBJECTIVES, "classification"))) == 2


def test_equal_counts_of_users_are_two_networks_where_other_inputs_use_the_exits(tmp_path: Path) -> None:
    method = small_sae("fc", num_inputs=2, exits=3)
    shares = torch.tensor([[0.3, 0.1, 0.6], [0.0009, 0.0009995, 0.9981005]])  # 0.0009995 is 0.0010004 without the first
    with torch.no_grad():
        method.exit_distribution.logits.copy_(method.temperature * shares.log())
    costs = measure_costs(method, SPEC)
    assert [item.active for item in costs] == [(0, 0, 2), (1, 1, 2), (1, 1, 2)]
    assert [item.members for item in costs] == [(2, 5), (0, 2, 4, 5), (0, 1, 2, 5)]

    study = StudyBuilder(tmp_path / "s")
    trial = study.finish(sae(2, 3), [point(0.5, 0.1, 1000)] * 3)
    readings = [item.model_copy(update={"metrics": {"nll": 1 / item.eval_exits}}) for item in costs]
    write_metrics(trial, readings, readings)
    assert [item.eval_exits for item in candidates(study.runs())] == [1, 2, 3]


def test_a_candidate_is_described_by_validation_and_its_exits(runs: list[Run]) -> None:
    item = candidates(runs)[0].describe()
    assert item["values"] == point(0.5, 0.10, 1000, shipped_flops=1000, shipped_params=500)
    assert (item["trial"], item["exits"], item["eval_exits"], item["active"]) == ("sae/0", 2, 1, [0, 0, 1])
    assert (item["method"], item["kind"], item["settings"]) == ("sae", "I/B", "N=2 K=2 W=1 D=3")


def test_the_front_holds_the_optimal_candidates_within_the_limits(runs: list[Run]) -> None:
    found = candidates(runs)
    names = [(item.label, item.eval_exits) for item in front(found, THREE)]
    assert names == [("sae/0", 1), ("sae/0", 2), ("standard/0", 1), ("sae/2", 3)]
    kept = front(found, THREE, limits({"flops": 1000}, {"f1": 0.72}, TASK))
    assert [(item.label, item.eval_exits) for item in kept] == [("sae/0", 1)]
    assert front(found, THREE, limits({"flops": 10}, {}, TASK)) == []
    assert front([], THREE) == []


def test_of_equal_points_the_one_at_its_trained_k_is_kept(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(2, 2), [point(0.5, 0.1, 100)] * 3)
    study.finish(sae(1, 1), [point(0.5, 0.1, 100)])
    assert [(item.label, item.eval_exits) for item in front(candidates(study.runs()), THREE)] == [("sae/0", 2)]


def test_a_candidate_that_was_not_measured_under_shift_is_neither_on_its_front_nor_within_its_limits(
    tmp_path: Path,
) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(2, 1), [point(0.1, 0.1, 100)])
    study.finish(sae(2, 1), [point(0.2, 0.1, 100)], shift=True)
    found = candidates(study.runs())
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
    assert (config.kind, config.summary) == (kind, text)


def test_a_shallower_backbone_of_an_sae_and_blocks_are_part_of_its_settings() -> None:
    backbone = {"name": "vgg", "depth": 4, "width": 2, "blocks": (1, 1, 2, 2, 2)}
    config = run_config(data={"name": "bloodmnist"}, method=sae(2, 3), backbone=backbone)
    assert config.summary == "N=2 K=3 W=2 D=4 blocks=1,1,2,2,2"


def test_each_class_has_a_front_among_its_own(runs: list[Run]) -> None:
    fronts = fronts_by_kind(candidates(runs), THREE)
    named = {kind: [(item.label, item.eval_exits) for item in own] for kind, own in fronts.items()}
    assert named == {
        "I/B": [("sae/0", 1), ("sae/0", 2)],
        "standard": [("standard/0", 1)],
        "MIMMO": [("sae/2", 1), ("sae/2", 2), ("sae/2", 3)],
    }


def test_a_class_with_nothing_within_the_limits_has_no_front(runs: list[Run]) -> None:
    cheap = limits({"flops": 1000}, {}, TASK)
    assert list(fronts_by_kind(candidates(runs), THREE, cheap)) == ["I/B", "standard"]
    assert fronts_by_kind([], THREE) == {}


@pytest.mark.parametrize("content", ["{", "{}", '{"val": 3}', '{"val": {"by_exits": []}}'])
def test_a_trial_with_damaged_metrics_is_named_and_hides_no_other(content: str, tmp_path: Path) -> None:
    study = small_study(tmp_path / "s")
    first = next(study.record.trials())
    (first.path / first.METRICS).write_text(content)
    assert {item.label for item in candidates(study.runs())} == {"sae/2", "standard/0"}
    assert list(damages(study.runs())) == ["sae/0"]


@pytest.mark.parametrize("name", [RunRecord.SHIFT["val"], RunRecord.LATENCY])
def test_a_trial_with_other_damaged_measures_is_named(name: str, tmp_path: Path) -> None:
    study = small_study(tmp_path / "s")
    first = next(study.record.trials())
    (first.path / name).write_text('{"by_exits": [{"exits": 1}]}')
    [damage] = damages(study.runs()).values()
    assert f"{name} is damaged" in damage
    assert {item.label for item in candidates(study.runs())} == {"sae/2", "standard/0"}


def test_a_trial_that_cannot_be_compared_at_every_k_is_damaged(tmp_path: Path) -> None:
    study = small_study(tmp_path / "s")
    first = next(study.record.trials())
    by_exits = [{"exits": k, "latency": 0.5} for k in (1, 2)]
    first.write_json(first.LATENCY, {"batch": 64, "threads": 1, "by_exits": by_exits})
    [damage] = damages(study.runs()).values()
    assert "latency.json is damaged (it must have a reading at 3 exits)" in damage
    assert len(candidates(study.runs())) == 4


def selection_of(path: Path, points: list[tuple[float, float, int]]) -> Selection:
    study = StudyBuilder(path)
    for numbers in points:
        study.finish({"name": "standard"}, [point(*numbers)])
    return select(study.record)


def sizes(selection: Selection, tolerance: float = 0.01) -> list[int]:
    rows = fold_ties(selection.front, selection.objectives, "classification", tolerance=tolerance)
    return [len(row.others) + 1 for row in rows]


def test_candidates_within_a_hundredth_of_the_cost_and_the_margins_are_one_row(tmp_path: Path) -> None:
    found = selection_of(tmp_path / "s", [(0.300, 0.100, 10_000), (0.308, 0.098, 9_950), (0.299, 0.101, 10_040)])
    assert len(found.front) == 3
    assert sizes(found) == [3]
    assert sizes(found, tolerance=0.0) == [1, 1, 1]
    assert sizes(found, tolerance=0.001) == [1, 1, 1]


@pytest.mark.parametrize("other", [(0.285, 0.110, 10_000), (0.295, 0.120, 10_000), (0.299, 0.101, 9_800)])
def test_a_difference_that_matters_in_one_objective_is_a_row_of_its_own(
    other: tuple[float, float, int], tmp_path: Path
) -> None:
    assert sizes(selection_of(tmp_path / "s", [(0.300, 0.100, 10_000), other])) == [1, 1]


def test_the_pick_stands_for_its_row(tmp_path: Path) -> None:
    found = selection_of(tmp_path / "s", [(0.300, 0.100, 10_000), (0.301, 0.099, 9_990)])
    for pick in found.front:
        (row,) = fold_ties(found.front, found.objectives, "classification", pick)
        assert row.candidate is pick
