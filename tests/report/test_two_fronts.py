"""The page of a study with a front of its own under shift: chosen, confirmed, tabulated and drawn apart."""

from pathlib import Path

import pytest

from sae.analysis.candidates import fronts_by_kind
from sae.analysis.comparison import mean_ranks
from sae.analysis.results import study_results
from sae.analysis.selection import select
from sae.core.table import Table
from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.report.content import Figure, Note, Report
from sae.report.findings import find
from sae.report.page import render_page
from sae.report.tables import rank_table
from tests.report.drawing import rows_of
from tests.results import result
from tests.study_stages import confirm, confirmed_study, two_front_study

pytestmark = pytest.mark.long

SE = {"name": "sae", "inputs": 1, "exits": 1}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> StudyRecord:
    return two_front_study(tmp_path_factory.mktemp("two") / "study").record


@pytest.fixture(scope="module")
def report(record: StudyRecord) -> Report:
    return report_of([record])


def table(report: Report, name: str) -> Table:
    return next(item for item in report.tables() if item.name == name)


def figure(report: Report, name: str) -> Figure:
    return next(item for item in report.figures() if item.name == name)


def column(found: Table, title: str) -> list[object]:
    index = [item.title for item in found.columns].index(title)
    return [row[index].value for row in found.rows]


def said(report: Report) -> str:
    return "\n".join(part.text for one in report.sections for part in one.parts if isinstance(part, Note))


def test_each_front_has_its_own_configurations_counts_and_tables(record: StudyRecord, report: Report) -> None:
    for shift, suffix in ((False, ""), (True, "-shifted")):
        selection = select(record, shift=shift)
        trials = [str(name).removesuffix(", the pick") for name in column(table(report, f"front{suffix}"), "Trial")]
        assert trials == [item.label for item in selection.front]
        own = fronts_by_kind(selection.candidates, selection.objectives)
        counts = column(table(report, f"class-fronts{suffix}"), "On its own front")
        assert sorted(filter(None, map(int, map(str, counts)))) == sorted(map(len, own.values()))
    assert column(table(report, "front"), "Trial") != column(table(report, "front-shifted"), "Trial")
    pick = select(record, shift=True).pick()
    section = next(one for one in report.sections if one.name == "under-shift")
    assert f"The pick under shift is {pick.candidate.label}, {pick.why}." in section.intro


def test_under_shift_are_the_configurations_that_corrupted_validation_images_chose(
    record: StudyRecord, report: Report
) -> None:
    clean, shifted = (study_results(record, shift=shift)[0] for shift in (False, True))
    assert column(table(report, "confirmed"), "Configuration") == [item.label for item in clean]
    assert column(table(report, "shifted"), "Configuration") == [item.label for item in shifted]
    assert {item.label for item in clean} != {item.label for item in shifted}
    panels = figure(report, "shifted-quality").panels
    assert len(panels) == 3  # with parameters over FLOPs, which are those of other networks
    assert {str(row["label"]) for row in rows_of(panels[2])} == {item.label for item in shifted}
    assert "chosen on clean validation data" not in said(report)


def test_a_study_without_a_front_under_shift_says_whose_results_it_shows(tmp_path: Path) -> None:
    report = report_of([confirmed_study(tmp_path / "s").record])
    assert column(table(report, "shifted"), "Configuration") == column(table(report, "confirmed"), "Configuration")
    assert "These configurations were chosen on clean validation data" in said(report)
    assert len(figure(report, "shifted-quality").panels) == 2
    assert "front-shifted" not in {item.name for item in report.tables()}


@pytest.mark.parametrize(("name", "where"), [("confirmed-nll", "test"), ("shifted-nll", "shift")])
def test_quality_is_drawn_over_nll_clean_and_shifted(
    name: str, where: str, record: StudyRecord, report: Report
) -> None:
    [panel] = figure(report, name).panels
    results, _ = study_results(record, shift=where == "shift")
    spreads = [(item.shift if where == "shift" else item.test) or {} for item in results]
    expected = sorted((round(one["nll"].mean, 6), round(one["f1"].mean, 6)) for one in spreads)
    drawn = sorted((float(str(row["x"])), float(str(row["y"]))) for row in rows_of(panel))
    assert drawn == [pytest.approx(pair, abs=1e-4) for pair in expected]


@pytest.mark.parametrize("where", ["val", "test", "shift"])
def test_all_that_was_tried_is_drawn_with_what_was_trained_again(
    where: str, record: StudyRecord, report: Report
) -> None:
    found = figure(report, f"tried-{where}")
    again = {(item.label, item.eval_exits) for shift in (False, True) for item in study_results(record, shift=shift)[0]}
    candidates = select(record).everything
    rows = rows_of(found.panels[0])
    assert len(rows) == len(candidates)
    assert sum(bool(row["strong"]) for row in rows) == len(again)
    assert ("Test values took no part in choosing" in found.caption) == (where != "val")
    quality = {
        float(f"{run.evaluation.metrics(where, item.eval_exits)['f1']:.4g}")  # type: ignore[arg-type]
        for item in candidates
        for run in record.read_runs(with_shift=True)
        if run.label == item.label and run.evaluation
    }
    assert {float(f"{float(str(row['y'])):.4g}") for row in rows} == quality


def test_the_table_of_the_best_counts_a_class_s_pareto_configurations(record: StudyRecord, report: Report) -> None:
    for shift, name in ((False, "best"), (True, "best-shifted")):
        selection = select(record, shift=shift)
        own = fronts_by_kind(selection.candidates, selection.objectives)
        best = table(report, name)
        by_label = {item.label: item.kind for item in selection.candidates}
        kinds = [by_label[str(label)] for label in column(best, "Configuration")]
        assert column(best, "Pareto-optimal") == [len(own[kind]) for kind in kinds]


def test_under_shift_the_deviation_over_sets_is_beside_that_over_seeds(record: StudyRecord, report: Report) -> None:
    best = table(report, "best-shifted")
    titles = [item.title for item in best.columns]
    at = titles.index("F1 (shift)")
    assert titles[at + 1] == "± over sets"
    results = {(item.label, item.eval_exits): item for item in study_results(record, shift=True)[0]}
    for row, label, exits in zip(best.rows, column(best, "Configuration"), column(best, "K′"), strict=True):
        item = next(one for (name, k), one in results.items() if name == label and exits in (k, None))
        assert item.shift is not None
        assert (row[at].value, row[at].std) == (item.shift["f1"].mean, item.shift["f1"].std)
        assert row[at + 1].value == item.shift_over_sets()["f1"].std


def test_data_sets_share_a_column_though_each_has_its_own_headline_metric() -> None:
    results = {
        "tinyimagenet": [
            result("a", {"accuracy": 0.5, "f1": 0.1}),
            result("b", {"accuracy": 0.4, "f1": 0.9}, method=SE),
        ],
        "bloodmnist": [result("a", {"f1": 0.5}), result("b", {"f1": 0.6}, method=SE)],
    }
    ranks = mean_ranks(results, [{"tinyimagenet": "accuracy", "bloodmnist": "f1"}], "classification")
    assert {rank.kind: (rank.mean, rank.std, rank.datasets) for rank in ranks} == {
        "standard": (1.5, 0.5, 2),  # first by accuracy, second by F1; by F1 on both it would be second twice
        "SE": (1.5, 0.5, 2),
    }
    assert [item.title for item in rank_table(ranks).columns][1] == "rank in accuracy or F1"


def test_ranks_across_data_sets_are_by_the_headline_of_each(tmp_path: Path) -> None:
    studies = [two_front_study(tmp_path / name, data=name).record for name in ("tinyimagenet", "digits")]
    report = report_of(studies)
    assert "Traceback" not in render_page(report)
    for where in ("test", "shift"):
        titles = [item.title for item in table(report, f"ranks-classification-{where}").columns]
        assert titles[1:4] == ["rank in accuracy or F1", "rank in ECE or CC-ECE", "rank in NLL"]


def test_a_rival_that_only_the_front_under_shift_chose_is_compared_over_its_seeds(tmp_path: Path) -> None:
    study = two_front_study(tmp_path / "s")
    clean, shifted = select(study.record).front, select(study.record, shift=True).front
    rival = next(item for item in select(study.record).everything if item.method == "ensemble")
    confirm(study, [item for item in clean if item.method != "ensemble"], shifted=[*shifted, rival])
    found = find(study.record)
    assert len(found.shown["ensemble"].runs) == 4
    assert "one seed is too few" not in report_of([study.record]).lead.sentence
