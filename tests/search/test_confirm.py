import shutil
from pathlib import Path

import pytest

from sae.analysis.candidates import Candidate, candidates, front, fronts_by_kind
from sae.analysis.results import study_results
from sae.analysis.selection import select
from sae.config.settings import parse
from sae.config.study import ConfirmConfig
from sae.core.errors import ConfigError
from sae.records.study import StudyRecord
from sae.search.confirm import Confirmation, Distillation, choose, find_lesson
from sae.search.executors.local import LocalExecutor
from sae.search.run import run_again
from tests.search.studies import InlineExecutor
from tests.studies import StudyBuilder, point, small_study
from tests.study_stages import searched_study


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> StudyRecord:
    return searched_study(tmp_path_factory.mktemp("confirm") / "s", shift=False).record


def names(found: list[Candidate]) -> list[tuple[str, int]]:
    return [(item.label, item.eval_exits) for item in found]


def test_the_whole_front_is_chosen_each_once(record: StudyRecord) -> None:
    chosen = names(choose(record, None))
    assert sorted(chosen) == sorted(names(front(candidates(record.read_runs()), record.objectives)))
    assert len(set(chosen)) == len(chosen)


def test_a_few_of_the_front_begin_with_the_nearest_to_the_ideal(record: StudyRecord) -> None:
    assert names(choose(record, 1)) == names([select(record).pick().candidate])
    assert names(choose(record, 3)) == names(choose(record, None))[:3]


def test_the_pick_comes_first_also_if_an_outlier_hides_the_differences_of_the_rest(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    for nll, flops in ((0.10, 9000), (0.12, 4000), (0.30, 2000), (0.35, 1500), (9.0, 1400)):
        study.finish({"name": "standard"}, [point(nll, 0.1, flops)])
    assert names(choose(study.record, 1)) == names([select(study.record).pick().candidate])


def test_each_class_adds_its_best_in_the_first_objective_first(record: StudyRecord) -> None:
    chosen = choose(record, 1, each=1)
    for kind, own in fronts_by_kind(candidates(record.read_runs()), record.objectives).items():
        best = min(own, key=lambda item: item.values["nll"])
        assert (best.label, best.eval_exits) in names(chosen), kind
    assert len(chosen) <= 1 + 9


@pytest.mark.parametrize("each", [1, 2, 100])
def test_nothing_is_chosen_twice(each: int, record: StudyRecord) -> None:
    chosen = names(choose(record, 5, each))
    assert len(set(chosen)) == len(chosen)
    assert chosen[:5] == names(choose(record, 5))


def test_as_many_as_asked_of_each_class_and_no_more(record: StudyRecord) -> None:
    first = names(choose(record, 1))
    for kind, own in fronts_by_kind(candidates(record.read_runs()), record.objectives).items():
        of_kind = [item for item in choose(record, 1, each=2) if item.kind == kind]
        added = [name for name in names(of_kind) if name not in first]
        assert min(2, len(own)) - 1 <= len(added) <= min(2, len(own))


@pytest.mark.parametrize("total", [1, 4, 9, 12, 100])
def test_a_total_counts_all_and_still_has_every_class(total: int, record: StudyRecord) -> None:
    chosen = choose(record, None, each=1, total=total)
    own = fronts_by_kind(candidates(record.read_runs()), record.objectives)
    assert len(names(chosen)) == len(set(names(chosen))) == min(total, sum(map(len, own.values())))
    assert names(chosen[:1]) == names([select(record).pick().candidate])
    if total > len(own):
        assert {item.kind for item in chosen} == set(own)


def test_what_breaks_a_limit_is_not_chosen(tmp_path: Path) -> None:
    limited = small_study(tmp_path / "s", max={"flops": 1500}).record
    chosen = choose(limited, None, each=3)
    assert chosen
    assert all(item.values["flops"] <= 1500 for item in chosen)
    assert {item.kind for item in chosen} == {"I/B", "standard", "MIMMO"}


def test_a_study_without_results_has_nothing_to_choose(tmp_path: Path) -> None:
    assert choose(small_study(tmp_path / "s", max={"flops": 1}).record, None, each=2) == []


@pytest.mark.parametrize("wrong", [{"most": 3}, {"each": 1}, {"seeds": -1}, {"seeds": 1, "most": 0}, {"seed": 1}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"confirm|seeds|most|unknown"):
        parse(ConfirmConfig, wrong)


def test_the_front_under_shift_has_numbers_of_its_own_or_the_same() -> None:
    same = parse(ConfirmConfig, {"seeds": 2, "most": 4, "each": 1}).under_shift
    assert (same.most, same.each, same.total) == (4, 1, None)
    own = parse(ConfirmConfig, {"seeds": 2, "most": 4, "each": 1, "shifted": {"most": 0, "total": 3}}).under_shift
    assert (own.most, own.each, own.total) == (0, 1, 3)


def test_nothing_is_confirmed_unless_asked() -> None:
    assert parse(ConfirmConfig, {}) == ConfirmConfig(seeds=0, most=None, each=0)
    assert parse(ConfirmConfig, {"seeds": 2, "most": 1, "each": 3}).each == 3


def test_the_best_ensemble_teaches_the_pick_and_the_best_standard_network(record: StudyRecord) -> None:
    lesson, selection = find_lesson(record, record.read_runs()), select(record)
    pick = selection.pick().candidate
    ensembles = [item for item in selection.everything if item.method == "ensemble"]
    standards = [item for item in selection.everything if item.method == "standard"]
    assert lesson.teacher.values["nll"] == min(item.values["nll"] for item in ensembles)
    assert names(lesson.students)[:1] == names([pick])
    assert lesson.students[-1].values["nll"] == min(item.values["nll"] for item in standards)


def test_students_learn_on_the_seeds_that_their_teacher_was_confirmed_on(record: StudyRecord) -> None:
    confirm, executor = ConfirmConfig(seeds=2, most=1, distill=True), LocalExecutor(1)
    teacher = find_lesson(record, record.read_runs()).teacher
    confirmed = {job.folder: job.config for job in Confirmation(record, executor, confirm).jobs}
    distilled = Distillation(record, executor, confirm).jobs
    assert len(distilled) == 2 * len(find_lesson(record, record.read_runs()).students)
    for job in distilled:
        assert job.config.teacher is not None
        taught_by = confirmed[Path(job.config.teacher.run)]
        assert taught_by.over_seeds == teacher.config.over_seeds
        assert taught_by.seed == job.config.seed
        assert job.config.summary.endswith("distilled")
        assert record.DISTILLED in job.folder.parts


def test_an_ensemble_of_one_neither_teaches_nor_takes_the_place_of_an_ensemble(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish({"name": "ensemble", "members": 1}, [point(0.1, 0.1, 1000)])
    with pytest.raises(ConfigError, match=r"needs a finished trial of ensemble to learn from, with several members"):
        find_lesson(study.record, study.record.read_runs())
    study.finish({"name": "ensemble", "members": 2}, [point(0.2, 0.2, 2000)])
    assert find_lesson(study.record, study.record.read_runs()).teacher.label == "ensemble/1"
    assert [item.label for item in choose(study.record, 1, each=1)] == ["ensemble/0", "ensemble/1"]


def test_a_study_without_ensembles_has_no_teacher(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish({"name": "standard"}, [point(0.1, 0.1, 1000)])
    with pytest.raises(ConfigError, match=r"confirm.distill needs a finished trial of ensemble to learn from"):
        find_lesson(study.record, study.record.read_runs())


def test_distillation_needs_seeds() -> None:
    with pytest.raises(ConfigError, match=r"confirm.distill needs seeds to train on"):
        parse(ConfirmConfig, {"seeds": 0, "distill": True})


@pytest.mark.slow
def test_distilled_configurations_are_results_of_their_own(finished_study: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_study, tmp_path / "s")
    record = StudyRecord.open(tmp_path / "s")
    confirm, said = ConfirmConfig(seeds=1, most=1, distill=True), list[str]()
    for work in (Confirmation, Distillation):
        run_again(work(record, InlineExecutor(), confirm), said.append)
    students = find_lesson(record, record.read_runs()).students
    results, missing = study_results(record)
    found = {item.label: item for item in results if item.config.teacher}
    assert missing == []
    assert set(found) == {f"{item.label} distilled" for item in students}
    assert all(item.settings.endswith("distilled") and item.test["nll"].mean > 0 for item in found.values())
