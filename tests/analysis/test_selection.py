import json
from pathlib import Path
from statistics import stdev

import pytest

from sae.analysis.candidates import candidates, front
from sae.analysis.selection import Selection, failures, pick, preferred, select
from sae.core.errors import ConfigError, NothingFoundError
from sae.core.objectives import objective, objectives
from sae.records.run import Run, RunRecord
from tests.studies import OBJECTIVES, StudyBuilder, point, sae, small_study
from tests.study_stages import SEEDS, STEP, confirm, dress, two_front_study

TASK = "classification"
THREE = objectives(OBJECTIVES, TASK)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyBuilder:
    return small_study(tmp_path_factory.mktemp("selection") / "study")


@pytest.fixture(scope="module")
def runs(study: StudyBuilder) -> list[Run]:
    return study.runs()


@pytest.fixture
def selection(tmp_path: Path) -> Selection:
    """Three ensembles: the nll of the first is not finite, that of the third is the best."""
    study = StudyBuilder(tmp_path / "s", max={"flops": 5000})
    study.finish(sae(1, 1), [point(0.5, 0.1, 1000)])
    for nll in (0.1234, 0.4, 0.2):
        trial = study.finish({"name": "ensemble"}, [point(nll, 0.1, 40_000)])
        path = trial.path / trial.METRICS
        path.write_text(path.read_text().replace("0.1234", "NaN"))
    return select(study.record)


def test_the_best_of_a_method_is_by_the_first_objective_without_limits(selection: Selection) -> None:
    chosen = selection.pick().candidate
    best = selection.best_of("ensemble", chosen)
    assert best is not None
    assert (chosen.label, best.label) == ("sae/0", "ensemble/2")


def test_a_pick_is_not_compared_with_its_own_method_nor_with_one_that_was_not_tried(selection: Selection) -> None:
    chosen = selection.pick().candidate
    assert selection.best_of("sae", chosen) is None
    assert selection.best_of("standard", chosen) is None


def test_an_ensemble_of_one_is_no_rival(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(1, 1), [point(0.5, 0.1, 1000)])
    study.finish({"name": "ensemble", "members": 1}, [point(0.2, 0.1, 10_000)])
    chosen = select(study.record).everything[0]
    assert select(study.record).best_of("ensemble", chosen) is None
    study.finish({"name": "ensemble", "members": 2}, [point(0.4, 0.1, 20_000)])
    best = select(study.record).best_of("ensemble", chosen)
    assert best is not None
    assert best.label == "ensemble/1"


def test_a_pick_that_is_an_ensemble_of_one_is_compared_with_an_ensemble(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish({"name": "ensemble", "members": 1}, [point(0.2, 0.1, 10_000)])
    study.finish({"name": "ensemble", "members": 2}, [point(0.4, 0.1, 20_000)])
    alone, several = select(study.record).everything
    assert select(study.record).best_of("ensemble", alone) is not None
    assert select(study.record).best_of("ensemble", several) is None


def test_the_knee_is_picked_and_its_numbers_stand_beside_the_best(runs: list[Run]) -> None:
    picked = pick(front(candidates(runs), THREE), THREE)
    assert (picked.candidate.label, picked.candidate.eval_exits) == ("sae/0", 2)
    assert picked.why == (
        "best compromise of NLL, CC-ECE and FLOPs among the 4 Pareto-optimal candidates: "
        "NLL 0.3 (best 0.2), CC-ECE 0.08 (best 0.05), FLOPs 2,000 (best 900)"
    )


def test_the_best_in_the_preferred_objective_is_picked(runs: list[Run]) -> None:
    picked = pick(front(candidates(runs), THREE), THREE, objective("cc_ece", TASK))
    assert picked.candidate.label == "standard/0"
    assert picked.why == (
        "lowest CC-ECE among the 4 Pareto-optimal candidates: CC-ECE 0.05, NLL 0.6 (best 0.2), FLOPs 900 (the best)"
    )


def test_the_highest_is_picked_where_more_is_better(study: StudyBuilder) -> None:
    picked = select(study.record, prefer="f1").pick(objective("f1", TASK))
    assert (picked.candidate.label, picked.candidate.eval_exits) == ("sae/2", 3)
    assert picked.why.startswith("highest F1 among the 4 Pareto-optimal candidates: F1 0.9, NLL 0.2 (the best)")


def test_of_equals_the_cheapest_is_picked_and_named_as_such(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(2, 1), [point(0.1, 0.1, 900)])
    study.finish(sae(2, 1), [point(0.1, 0.2, 300)])
    study.finish(sae(2, 1), [point(0.1, 0.3, 200)])
    picked = pick(front(candidates(study.runs()), THREE), THREE, objective("nll", TASK))
    assert picked.candidate.values["flops"] == 200
    assert "lowest NLL among the 3 Pareto-optimal candidates, and the cheapest of the 3 with this value" in picked.why


def test_a_front_of_one_leaves_no_choice(study: StudyBuilder) -> None:
    picked = select(study.record, maximum={"flops": 900}).pick()
    assert picked.candidate.label == "standard/0"
    assert picked.why == "the only Pareto-optimal candidate: NLL 0.6, CC-ECE 0.05, FLOPs 900"


def test_the_preferred_objective_need_not_be_one_of_the_study(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s", objectives=("nll",))
    study.finish(sae(2, 1), [point(0.1, 0.1, 900)])
    study.finish(sae(2, 1), [point(0.2, 0.2, 300)])
    picked = select(study.record, prefer="params").pick(objective("params", TASK))
    assert picked.candidate.values["params"] == 150
    assert picked.why == "lowest parameters among the 2 Pareto-optimal candidates: parameters 150, NLL 0.2 (best 0.1)"


def test_a_preferred_objective_is_that_of_the_task(study: StudyBuilder) -> None:
    assert preferred(study.record, None) is None
    assert preferred(study.record, "f1") == objective("f1", TASK)
    with pytest.raises(ConfigError, match="mse"):
        preferred(study.record, "mse")


def test_a_selection_is_of_the_requested_methods_but_scaled_by_all(study: StudyBuilder) -> None:
    everything, one = select(study.record), select(study.record, methods=["standard"])
    assert [item.label for item in one.front] == ["standard/0"]
    assert [run.label for run in one.runs] == ["standard/0"]
    assert len(one.everything) == len(everything.candidates) == 7
    assert one.history()[-1].hypervolume < everything.history()[-1].hypervolume


def test_the_front_begins_with_the_best_in_the_first_objective(study: StudyBuilder) -> None:
    found = select(study.record, names=["flops", "nll"]).front
    flops = [item.values["flops"] for item in found]
    assert len(flops) > 2
    assert flops == sorted(flops)


def test_runs_that_were_read_already_are_not_read_again(study: StudyBuilder, runs: list[Run]) -> None:
    some = [run for run in runs if run.label != "standard/0"]
    assert {item.label for item in select(study.record, runs=some).front} == {"sae/0", "sae/2"}


def test_a_selection_is_described_as_json(study: StudyBuilder) -> None:
    found = select(study.record, maximum={"flops": 2000}, minimum={"f1": 0.5}).describe()
    assert (found["objectives"], found["max"], found["min"]) == (list(OBJECTIVES), {"flops": 2000}, {"f1": 0.5})
    assert found["failed"] == {"sae/1": "the loss was nan"}
    assert found["damaged"] == {}
    assert list(found) == [
        *("objectives", "max", "min", "front", "hypervolume", "history", "trials", "grid", "damaged", "failed"),
    ]


def test_failed_trials_are_named_with_their_reason(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.end(sae(1, 1), "failed", error="the loss was nan")
    study.end(sae(1, 1), "failed")
    study.end(sae(1, 1), "stopped")
    assert failures(study.runs()) == {"sae/0": "the loss was nan", "sae/1": "the reason was not recorded"}


def test_a_study_without_a_result_is_refused_with_the_last_reason(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    with pytest.raises(NothingFoundError, match=r"no trial of .* has finished yet \(no trial has begun\)$"):
        select(study.record)
    study.begin(sae(1, 1))
    study.end(sae(1, 1), "failed", error="the loss was nan")
    with pytest.raises(NothingFoundError, match=r"finished yet \(1 failed, 1 unfinished\); sae/1: the loss was nan$"):
        select(study.record)


def test_a_study_with_only_a_damaged_trial_is_refused_with_its_damage(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    trial = study.finish(sae(1, 1), [point(0.1, 0.1, 100)])
    (trial.path / trial.METRICS).write_text("{")
    with pytest.raises(NothingFoundError, match=r"\(1 damaged\); sae/0: .*metrics\.json is damaged"):
        select(study.record)


def test_unknown_methods_and_objectives_that_were_not_recorded_are_named(study: StudyBuilder) -> None:
    with pytest.raises(
        ConfigError, match=r"method must be one that this study searched .*, got 'sea', did you mean sae"
    ):
        select(study.record, methods=["sea"])
    for asked in ({"names": ["latency"]}, {"prefer": "latency"}, {"maximum": {"latency": 1.0}}):
        with pytest.raises(ConfigError, match="latency must be recorded by the study, but no finished trial has it"):
            select(study.record, **asked)


def test_limits_out_of_reach_are_named_with_the_nearest_candidate(study: StudyBuilder) -> None:
    with pytest.raises(
        NothingFoundError, match=r"none keeps flops ≤ 10; the nearest has flops 900 \(standard/0 at 1 exit\)"
    ):
        select(study.record, maximum={"flops": 10})
    with pytest.raises(NothingFoundError, match=r"none keeps flops ≤ 1,000 and f1 ≥ 0.85 at once; the nearest has"):
        select(study.record, maximum={"flops": 1000}, minimum={"f1": 0.85})


def test_a_front_under_shift_is_chosen_on_corrupted_validation_images(tmp_path: Path) -> None:
    record = two_front_study(tmp_path / "s").record
    clean, shifted = select(record), select(record, shift=True)
    assert [item.name for item in shifted.objectives] == ["nll@shift", "cc_ece@shift", "flops"]
    assert (clean.is_shifted, shifted.is_shifted) == (False, True)
    by_hand = front(candidates(record.read_runs()), objectives(["nll@shift", "cc_ece@shift", "flops"], TASK))
    assert [(item.label, item.eval_exits) for item in by_hand] != [
        (item.label, item.eval_exits) for item in clean.front
    ]
    assert {(item.label, item.eval_exits) for item in shifted.front} == {(i.label, i.eval_exits) for i in by_hand}
    worst = max(clean.candidates, key=lambda item: item.values["nll"])
    best = preferred(record, "nll", shift=True)
    assert shifted.pick(best).candidate.label == worst.label  # what is worst on clean images is best on corrupted ones


def test_corrupted_test_images_choose_nothing(tmp_path: Path) -> None:
    record = two_front_study(tmp_path / "s").record
    before = select(record, shift=True).describe()
    for trial in record.trials():
        (trial.path / trial.SHIFT["test"]).unlink(missing_ok=True)
    assert select(record, shift=True).describe() == before


def test_a_study_without_corrupted_validation_images_says_so_in_a_sentence(study: StudyBuilder) -> None:
    with pytest.raises(ConfigError, match=r"trials that were evaluated on corrupted validation images.*--shift"):
        select(study.record, shift=True)


def curse(path: Path, **luck: float) -> StudyBuilder:
    """Three networks of one cost, confirmed on new seeds; on the seed of the search each had its luck."""
    study = StudyBuilder(path, objectives=("nll",))
    for nll in (0.30, 0.32, 0.40):
        study.finish({"name": "standard"}, [point(nll, 0.1, 900)])
    dress(study, shift=False)
    confirm(study, select(study.record).everything, shift=False, luck={f"standard/{k[-1]}": v for k, v in luck.items()})
    return study


def test_the_pick_is_chosen_by_means_over_new_seeds_not_by_the_lucky_seed_of_the_search(tmp_path: Path) -> None:
    study = curse(tmp_path / "s", trial0=0.1, trial1=0.01)
    selection = select(study.record)
    assert [item.label for item in selection.front] == ["standard/0"]
    picked = selection.pick()
    assert picked.candidate.label == "standard/1"
    mean, std = 0.33 + STEP * 2.5, STEP * stdev(SEEDS)
    assert picked.candidate.values["nll"] == pytest.approx(mean)
    assert picked.candidate.deviation("nll") == pytest.approx(std)
    assert f"by means over 4 new seeds: NLL {mean:.3f} ± {std:.2g}" in picked.why


def test_the_network_of_the_first_new_seed_is_shipped_whatever_its_result(tmp_path: Path) -> None:
    study = curse(tmp_path / "s")
    picked = select(study.record).pick().candidate
    assert picked.shipped.record.path.name == "seed-1"
    assert picked.config.seed == 1
    picked = select(study.record, confirmed=()).pick().candidate
    assert picked.shipped.record.path.parent.name == "standard"


def test_limits_bind_the_network_to_ship_and_beyond_the_confirmed_ones_trials_are_picked(tmp_path: Path) -> None:
    study = curse(tmp_path / "s")
    study.finish({"name": "standard"}, [point(0.5, 0.1, 400)])
    assert select(study.record).pick().candidate.again
    cheap = select(study.record, maximum={"flops": 500}).pick().candidate
    assert (cheap.label, cheap.again) == ("standard/3", ())


def test_a_configuration_that_failed_on_a_seed_is_picked_only_if_all_did(tmp_path: Path) -> None:
    study = curse(tmp_path / "s")
    best, *others = (item.run.record.path for item in select(study.record, confirmed=()).everything)
    (study.record.confirmed_run(best, 1).path / RunRecord.METRICS).unlink()
    assert select(study.record).pick().candidate.label == "standard/1"
    for path in others:
        (study.record.confirmed_run(path, 2).path / RunRecord.METRICS).unlink()
    picked = select(study.record).pick().candidate
    assert picked.label == "standard/0"
    assert [run.config.seed for run in picked.again if run.config] == [2, 3, 4]


def test_a_whole_configuration_of_another_method_does_not_hide_those_that_failed(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s", objectives=("nll",))
    study.finish(sae(1, 2), [point(0.2, 0.1, 900), point(0.25, 0.1, 900)])
    study.finish({"name": "standard"}, [point(0.3, 0.1, 900)])
    dress(study, shift=False)
    confirm(study, select(study.record).everything, shift=False)
    folder = next(study.record.path.glob("confirm/sae/*/seed-1"))
    (folder / RunRecord.METRICS).unlink()
    assert select(study.record).pick().candidate.label == "standard/0"
    picked = select(study.record, methods=["sae"]).pick().candidate
    assert (picked.label, len(picked.again), picked.has_failed) == ("sae/0", 3, True)


def test_rivals_are_chosen_by_new_seeds_too(tmp_path: Path) -> None:
    study = curse(tmp_path / "s", trial0=0.1)
    study.finish({"name": "ensemble", "members": 2}, [point(0.2, 0.1, 2000)])
    selection = select(study.record)
    ensemble = next(item for item in selection.everything if item.method == "ensemble")
    best = selection.best_of("standard", ensemble)
    assert best is not None
    assert best.label == "standard/1"


def test_test_results_play_no_part_in_the_choice(tmp_path: Path) -> None:
    study = curse(tmp_path / "s")
    before = select(study.record).pick()
    for folder in study.record.path.glob("confirm/*/*/seed-*"):
        run = RunRecord(folder)
        metrics = json.loads((folder / run.METRICS).read_text())
        for item in (metrics["test"], *metrics["test"]["by_exits"]):
            item["metrics"]["nll"] = 9.0 - item["metrics"]["nll"]
        run.write_json(run.METRICS, metrics)
    after = select(study.record).pick()
    assert (after.candidate.network, after.why) == (before.candidate.network, before.why)
