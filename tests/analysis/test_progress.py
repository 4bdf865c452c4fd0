from pathlib import Path

import numpy as np
import pytest

from sae.analysis.candidates import candidates, losses_of
from sae.analysis.pareto import hypervolume, normalised
from sae.analysis.progress import (
    REFERENCE,
    CellCount,
    ExactShare,
    SampledShare,
    grid_counts,
    hypervolume_history,
    trial_counts,
)
from sae.core.objectives import limits, objectives
from sae.records.run import Run
from tests.studies import OBJECTIVES, StudyBuilder, point, sae, small_study

TASK = "classification"
THREE = objectives(OBJECTIVES, TASK)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    return small_study(tmp_path_factory.mktemp("progress") / "study").runs()


def test_each_row_is_the_hypervolume_of_all_candidates_until_then(runs: list[Run]) -> None:
    found = candidates(runs)
    scaled = normalised(losses_of(found, THREE))
    rows = hypervolume_history(runs, found, THREE)
    assert [row.trial for row in rows] == ["sae/0", "sae/1", "standard/0", "sae/2", "sae/3"]
    assert [row.trials for row in rows] == [1, 2, 3, 4, 5]
    for row in rows:
        until = scaled[[item.run.ended <= row.ended for item in found]]
        share = hypervolume(until, np.full(3, REFERENCE)) / REFERENCE**3
        assert row.hypervolume == pytest.approx(share)
        assert 0 < row.hypervolume <= 1


def test_candidates_beyond_a_limit_add_nothing(runs: list[Run]) -> None:
    found = candidates(runs)
    cheap = [item for item in found if item.values["flops"] <= 1000]
    rows = hypervolume_history(runs, found, THREE, limits({"flops": 1000}, {}, TASK))
    expected = hypervolume_history(runs, cheap, THREE, among=found)
    assert [row.hypervolume for row in rows] == [row.hypervolume for row in expected]
    assert rows[-1].hypervolume < hypervolume_history(runs, found, THREE)[-1].hypervolume


def test_a_single_point_covers_everything(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish({"name": "standard"}, [point(0.5, 0.1, 100)])
    rows = hypervolume_history(study.runs(), candidates(study.runs()), THREE)
    assert [row.hypervolume for row in rows] == [1.0]


def test_a_study_without_finished_trials_covers_nothing(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.end(sae(1, 1), "failed", error="nan")
    study.begin(sae(1, 1))
    rows = hypervolume_history(study.runs(), [], THREE)
    assert [(row.trial, row.hypervolume) for row in rows] == [("sae/0", 0.0)]


def test_trials_are_counted_by_method_and_state(runs: list[Run]) -> None:
    assert trial_counts(runs) == {
        "sae": {"finished": 2, "stopped": 1, "failed": 1, "unfinished": 1, "damaged": 0},
        "standard": {"finished": 1, "stopped": 0, "failed": 0, "unfinished": 0, "damaged": 0},
    }


def test_sae_trials_are_counted_by_n_and_k(runs: list[Run]) -> None:
    assert grid_counts(runs) == [
        CellCount(inputs=1, exits=1, trials=1, finished=0),
        CellCount(inputs=2, exits=2, trials=2, finished=1),
        CellCount(inputs=2, exits=3, trials=1, finished=0),
        CellCount(inputs=3, exits=3, trials=1, finished=1),
    ]
    assert grid_counts(runs)[1].describe() == {"inputs": 2, "exits": 2, "trials": 2, "finished": 1}


def test_damaged_trials_are_counted_but_add_nothing(tmp_path: Path) -> None:
    study = small_study(tmp_path / "s")
    paths = {trial.label: trial.path for trial in study.record.trials()}
    (paths["sae/0"] / "metrics.json").write_text("{")
    (paths["sae/3"] / "config.yaml").write_text("nonsense: 3")
    found = study.runs()
    assert trial_counts(found)["sae"] == {"finished": 1, "stopped": 0, "failed": 1, "unfinished": 1, "damaged": 2}
    assert [(cell.inputs, cell.exits, cell.trials, cell.finished) for cell in grid_counts(found)][1] == (2, 2, 1, 0)
    rows = hypervolume_history(found, candidates(found), THREE)
    assert [row.trial for row in rows] == ["sae/1", "standard/0", "sae/2"]


def test_a_milestone_is_described_as_json(runs: list[Run]) -> None:
    first = hypervolume_history(runs, candidates(runs), THREE)[0].describe()
    assert list(first) == ["trial", "ended", "trials", "hypervolume"]
    assert (first["trial"], first["ended"], first["trials"]) == ("sae/0", 1_000_060.0, 1)


@pytest.mark.parametrize("num_objectives", [2, 3])
def test_the_estimated_share_is_near_the_exact_one(num_objectives: int) -> None:
    points = np.random.default_rng(1).random((30, num_objectives))
    exact, sampled = ExactShare(num_objectives), SampledShare(num_objectives)
    for some in (points[:10], points[10:]):
        exact.add(some)
        sampled.add(some)
        assert sampled.share == pytest.approx(exact.share, abs=0.008)


def test_the_estimate_leaves_out_what_is_not_finite_and_never_falls() -> None:
    sampled = SampledShare(7)
    sampled.add(np.full((1, 7), np.nan))
    assert sampled.share == 0
    shares = []
    for one in np.random.default_rng(2).random((20, 7)):
        sampled.add(one[None])
        shares.append(sampled.share)
    assert shares == sorted(shares)
    sampled.add(np.zeros((1, 7)))
    assert sampled.share == 1


def test_a_point_covers_its_own_share_of_seven_objectives() -> None:
    sampled = SampledShare(7)
    sampled.add(np.full((1, 7), 0.1))
    assert sampled.share == pytest.approx((1.0 / 1.1) ** 7, abs=0.008)


def test_a_study_of_four_objectives_is_estimated(runs: list[Run]) -> None:
    four = objectives((*OBJECTIVES, "f1"), TASK)
    found = candidates(runs)
    last = hypervolume_history(runs, found, four)[-1].hypervolume
    exact = ExactShare(4)
    exact.add(normalised(losses_of(found, four)))
    assert last == pytest.approx(exact.share, abs=0.008)


def test_skipping_points_that_the_front_covers_leaves_every_share_as_it_was() -> None:
    rng = np.random.default_rng(0)
    points, covered = rng.random((60, 3)), ExactShare(3)
    points[7], points[11] = points[3], [0.1, np.nan, 0.2]
    for number in range(0, 60, 4):
        covered.add(points[number : number + 4])
        share = hypervolume(points[: number + 4], np.full(3, REFERENCE)) / REFERENCE**3
        assert covered.share == pytest.approx(share, rel=1e-12)
