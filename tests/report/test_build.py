"""The report of folders in every state that a search may leave them in; what is drawn is tested figure by figure."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sae.analysis.selection import select
from sae.core.table import Table
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.report import confirmed_sections, search_sections, shift_sections
from sae.report.build import names_of, report_of
from sae.report.content import Figure, Note, Report
from sae.report.findings import find
from sae.report.page import render_page
from tests.report.drawing import rows_of
from tests.results import small_config, write_run
from tests.studies import StudyBuilder, point, sae, small_study, study_config
from tests.study_stages import (
    confirm,
    confirmed_study,
    dress,
    measured,
    searched_study,
    ship,
    whole_study,
    write_curves,
    write_history,
)

pytestmark = pytest.mark.long

SHIFTED_TEST = RunRecord.SHIFT["test"]
FILE_NAME = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*")
SECTION_NAMES = [
    *("mistakes", "calibration", "search", "other-seeds", "under-shift"),
    *("network", "structure", "depths", "influence-of-settings", "all-trials"),
]


def checked(report: Report) -> Report:
    """A report whose page can be made, and in which no two things have the same name."""
    assert "Traceback" not in render_page(report)
    figures, tables = [item.name for item in report.figures()], [item.name for item in report.tables()]
    figures += [item.name for item in report.drawings()]
    for names in (figures, tables, [section.name for section in report.sections]):
        assert len({name.lower() for name in names}) == len(names)
        assert all(FILE_NAME.fullmatch(name) for name in names)
    return report


def notes(report: Report, section: str | None = None) -> str:
    """All notes of a section, or of the whole page, and the reasons of its lead."""
    parts = [part for one in report.sections if section in (None, one.name) for part in one.parts]
    said = [part.text for part in parts if isinstance(part, Note)]
    return "\n".join([*said, *(report.lead.reasons if section is None else ())])


def figure_names(report: Report) -> set[str]:
    return {figure.name for figure in report.figures()}


def table(report: Report, name: str) -> Table:
    return next(item for item in report.tables() if item.name == name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with everything, left as it is."""
    return whole_study(tmp_path_factory.mktemp("build") / "study").record.path


@pytest.fixture
def record(whole: Path, tmp_path: Path) -> StudyRecord:
    """The same, to be changed."""
    return StudyRecord.open(shutil.copytree(whole, tmp_path / "study"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are named but not drawn, which takes most of the time."""

    def name_figure(rows: Sequence[Any], *_: Any, name: str, title: str, **__: Any) -> Figure | None:
        return Figure(name, title, "", ()) if rows else None

    for module in (search_sections, confirmed_sections, shift_sections):
        for function in vars(module).copy():
            if function.endswith(("_figure", "_scatter")) and function != "corruption_figure":
                monkeypatch.setattr(module, function, name_figure)


def test_a_study_in_which_nothing_began_says_so_everywhere(tmp_path: Path) -> None:
    report = checked(report_of([StudyBuilder(tmp_path / "s").record]))
    assert report.lead.sentence == "Nothing can be recommended yet."
    assert report.lead.receipt is None
    assert [section.name for section in report.sections] == SECTION_NAMES
    assert figure_names(report) == set()
    assert "none has begun" in next(one.intro for one in report.sections if one.name == "search")
    for name in SECTION_NAMES[:-1]:
        assert notes(report, name), name
    assert table(report, "trials").rows == ()
    assert report.title == "Which network to ship: digits"
    assert report.facts[:4] == ("digits on fc", "objectives NLL, CC-ECE, FLOPs", "0 trials", "seed 0")


def test_a_study_of_failures_names_their_reasons(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.end(sae(1, 1), "failed", error="the loss was nan")
    study.end({"name": "standard"}, "failed", error="out of memory")
    report = checked(report_of([study.record]))
    assert "2 failed" in report.lead.reasons[0]
    assert "Failed: sae/0: the loss was nan\nFailed: standard/0: out of memory" in notes(report, "search")
    assert len(table(report, "trials").rows) == 2


@pytest.mark.usefixtures("undrawn")
def test_a_search_without_confirmation_recommends_on_one_seed_and_says_what_is_missing(tmp_path: Path) -> None:
    report = checked(report_of([small_study(tmp_path / "s").record]))
    assert report.lead.sentence.startswith(
        "Provisional: 5 of 6 trials have ended. So far sae/0 leads: one network with several inputs and some of its "
        "exits (N=2 K=2"
    )
    assert "one seed is too few to tell which is better" in report.lead.sentence
    assert "Nothing was confirmed on new seeds" in notes(report)
    assert "Time was not measured" in notes(report)
    assert "`sae search … --confirm 4" in notes(report, "other-seeds")
    assert "Not measured. For image data: `sae search … --shift`. Other data cannot be corrupted." in notes(
        report, "under-shift"
    )
    assert "Without curves: the pick, sae/0; best standard network, standard/0." in notes(report, "calibration")
    assert notes(report, "depths") == "Left out, because their training history cannot be read: 2 trials."
    assert {"search", "hypervolume", "grid-test"} <= figure_names(report)


def test_a_whole_study_has_every_part_and_nothing_missing(whole: Path) -> None:
    report = checked(report_of([StudyRecord.open(whole)], title="My page"))
    assert report.title == "My page"
    assert notes(report, "search") == "Failed: sae/5: the loss was nan"
    assert [name for name in SECTION_NAMES if name != "search" and notes(report, name)] == [
        "mistakes",
        "under-shift",
    ]
    assert "--keep-predictions" in notes(report, "mistakes")
    assert notes(report, "under-shift") == shift_sections.ELSEWHERE
    scatter = next(figure for figure in report.figures() if figure.name == "search")
    for row in rows_of(scatter.panels[0]):
        assert (row["eval_exits"] == "–") != row["label"].startswith("sae/")
    assert figure_names(report) == {
        *("search", "parallel", "hypervolume", "confirmed-quality", "corruptions", "shifted-quality", "reliability"),
        *("risk-coverage", "grid-test", "grid-shift", "confirmed-nll", "shifted-nll"),
        *("tried-val", "tried-test", "tried-shift"),
        *("depth", "depth-by-inputs", "depth-by-exits", "depth-of-inputs"),
    }
    assert [item.name for item in report.tables()] == [
        *("receipt", "front", "confirmed", "class-fronts", "ranks", "best"),
        *("ranks-shifted", "shifted", "best-shifted"),
        *("parts", "influence", "trials"),
    ]


def pick_run(record: StudyRecord) -> RunRecord:
    return select(record).pick().candidate.run.record


@pytest.mark.usefixtures("undrawn")
def test_of_very_many_trials_some_show_the_depths_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = searched_study(tmp_path / "study").record
    with_exits = sum(run.config.method.has_exits for run in record.read_runs() if run.evaluation and run.config)
    monkeypatch.setattr(search_sections, "MOST_HISTORIES", with_exits)
    assert "drawn at random" not in notes(report_of([record]), "depths")
    monkeypatch.setattr(search_sections, "MOST_HISTORIES", with_exits - 1)
    told = notes(report_of([record]), "depths")
    assert f"Means over {with_exits - 1} of the {with_exits} trials, drawn at random." in told


def seed_run(record: StudyRecord) -> RunRecord:
    """A run of the pick on another seed."""
    run = pick_run(record)
    return RunRecord(record.path / record.CONFIRM / run.path.parent.name / run.path.name / "seed-1")


DAMAGES: list[tuple[Callable[[StudyRecord], Path], str]] = [
    (lambda record: pick_run(record).path / RunRecord.METRICS, "Left out because it is damaged: sae/"),
    (lambda record: pick_run(record).path / RunRecord.STATUS, "Left out because it is damaged: sae/"),
    (
        lambda record: pick_run(record).path / RunRecord.HISTORY,
        "Left out, because their training history cannot be read: 1 trial.",
    ),
    (lambda record: record.path / record.CONFIRMED, "confirmed.json"),
    (lambda record: record.path / record.SHIPPED / record.RECEIPT, "receipt.json"),
]


@pytest.mark.parametrize("content", ["{", "{}", '{"val": 3, "test": []}', '{"front": 1, "rows": {"pick": 2}}'])
@pytest.mark.parametrize(("path_in", "message"), DAMAGES)
@pytest.mark.usefixtures("undrawn")
def test_a_damaged_file_costs_what_it_held_and_is_told(
    path_in: Callable[[StudyRecord], Path], message: str, content: str, record: StudyRecord
) -> None:
    path_in(record).write_text(content)
    report = report_of([record])
    assert message in notes(report)
    assert report.lead.sentence.startswith(("Ship ", "Too little evidence to recommend a network: "))
    assert " sae/" in report.lead.sentence


@pytest.mark.parametrize("content", ["{", "{}", '{"test": 3}', '{"exits": 3}', '{"by_exits": [{"exits": 3}]}'])
@pytest.mark.parametrize(
    ("name", "section", "message"),
    [
        (RunRecord.CURVES, "calibration", "Without curves: the pick"),
        (SHIFTED_TEST, "under-shift", "Without results for single corrupted sets: the pick"),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_what_every_seed_of_the_pick_has_lost_is_told(
    name: str, section: str, message: str, content: str, record: StudyRecord
) -> None:
    for folder in seed_run(record).path.parent.iterdir():
        (folder / name).write_text(content)
    assert message in notes(report_of([record]), section)


@pytest.mark.parametrize("name", [RunRecord.METRICS, RunRecord.STATUS, RunRecord.CONFIG, SHIFTED_TEST])
@pytest.mark.parametrize("content", ["{", "{}", '{"test": {"by_exits": 1}}'])
@pytest.mark.usefixtures("undrawn")
def test_a_damaged_run_on_another_seed_leaves_the_other_seeds(name: str, content: str, record: StudyRecord) -> None:
    before = find(record).shown["pick"]
    (seed_run(record).path / name).write_text(content)
    after = find(record)
    found = next(item for item in after.results if item.network == before.network)
    if name == SHIFTED_TEST:
        assert (len(found.runs), len(found.shifted)) == (4, 3)
        caption = table(report_of([record]), "confirmed").caption
        assert f"Measured under shift on fewer seeds: {found.label} (3)" in caption
    else:
        assert (len(found.runs), found.failed) == (3, 1)
        assert not after.is_pick(found)  # the seeds that are left may flatter it


def test_everything_damaged_at_once_still_makes_a_page(record: StudyRecord) -> None:
    run = pick_run(record)
    for path in [
        *(path_in(record) for path_in, _ in DAMAGES[1:]),
        *(run.path / name for name in (run.CURVES, SHIFTED_TEST)),
        *(seed_run(record).path / name for name in (run.CURVES, SHIFTED_TEST, run.HISTORY, run.METRICS)),
    ]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert checked(report_of([record])).lead.sentence.startswith("Too little evidence to recommend a network: ")


@pytest.mark.usefixtures("undrawn")
def test_a_configuration_without_a_usable_seed_is_named(record: StudyRecord) -> None:
    for folder in seed_run(record).path.parent.iterdir():
        (folder / RunRecord.METRICS).unlink()
    report = report_of([record])
    assert "Without a finished, readable run on a new seed: sae/0" in notes(report, "other-seeds")
    assert "sae/0" not in report.lead.sentence


@pytest.mark.usefixtures("undrawn")
def test_a_rival_without_a_usable_seed_is_measured_on_that_of_the_search(record: StudyRecord) -> None:
    for folder in record.path.glob(f"{record.CONFIRM}/standard/*/seed-*"):
        (folder / RunRecord.METRICS).unlink()
    told = "Not confirmed on new seeds, so measured on the search's own seed: best standard network."
    assert told in notes(report_of([record]))


@pytest.mark.usefixtures("undrawn")
def test_a_damaged_clock_costs_only_the_time(tmp_path: Path) -> None:
    record = small_study(tmp_path / "s").record
    record.write_json(record.CLOCK, {"seconds": 4000.0})
    assert "6 trials, 1 h 6 min" in report_of([record]).facts
    (record.path / record.CLOCK).write_text('{"seconds": null}')
    assert "6 trials" in report_of([record]).facts


@pytest.mark.usefixtures("undrawn")
def test_a_study_whose_objective_was_never_recorded_says_so(tmp_path: Path) -> None:
    study = small_study(tmp_path / "s", objectives=("nll@shift", "flops"))
    report = checked(report_of([study.record]))
    assert "nll@shift must be recorded" in notes(report, "search").lower()
    assert report.lead.sentence == "Nothing can be recommended yet."


@pytest.mark.usefixtures("undrawn")
def test_where_nothing_keeps_the_limits_the_nearest_is_named(tmp_path: Path) -> None:
    report = checked(report_of([small_study(tmp_path / "s", max={"flops": 10}).record]))
    assert "none keeps flops ≤ 10; the nearest has flops 900" in report.lead.reasons[0]
    assert "No Pareto front yet: no candidate is within the limits: none keeps flops ≤ 10" in notes(report, "search")


def limit_flops(record: StudyRecord, bound: float) -> None:
    """A limit that was not there when the study was searched and confirmed."""
    path = record.path / record.CONFIG
    settings = path.read_text(encoding="utf-8")
    assert settings.count("max: {}") == 1
    path.write_text(settings.replace("max: {}", f"max: {{flops: {bound}}}"), encoding="utf-8")


def test_limits_out_of_reach_hide_nothing_that_was_tried_or_confirmed(record: StudyRecord) -> None:
    before = find(record)
    limit_flops(record, 1.0)
    record = StudyRecord.open(record.path)
    found = find(record)
    assert (found.selection, found.pick, found.shown) == (None, None, {})
    assert [item.label for item in found.results] == [item.label for item in before.results]
    assert [item.label for item in found.candidates] == [item.label for item in before.candidates]
    report = checked(report_of([record]))
    assert {"search", "confirmed-quality", "shifted-quality", "grid-test", "grid-shift", "depth"} <= figure_names(
        report
    )
    assert {"confirmed", "best", "ranks", "shifted", "influence", "trials"} <= {item.name for item in report.tables()}
    assert not {"front", "class-fronts"} & {item.name for item in report.tables()}
    scatter = next(figure for figure in report.figures() if figure.name == "search")
    assert "None of them is Pareto-optimal yet" in scatter.caption
    rows = rows_of(scatter.panels[0])
    assert len(rows) == len(before.candidates)
    assert not any(row["strong"] or row["pick"] for row in rows)


@pytest.mark.parametrize(("failed", "more"), [(9, 0), (10, 0), (11, 1), (25, 15)])
@pytest.mark.usefixtures("undrawn")
def test_of_many_failed_trials_ten_are_named_and_the_rest_counted(failed: int, more: int, tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "my study")
    for _ in range(failed):
        study.end(sae(1, 1), "failed", error="the loss was nan")
    told = notes(report_of([study.record]), "search")
    assert told.count("Failed: sae/") == min(failed, 10)
    rest = f"And {more} more: `sae runs '{study.record.path}' --state failed,damaged` lists them."
    assert (rest in told) == bool(more)


@pytest.mark.usefixtures("undrawn")
def test_own_data_are_called_by_the_name_of_their_file(tmp_path: Path) -> None:
    report = report_of([StudyBuilder(tmp_path / "s", data="/home/me/data/patients.csv").record])
    assert report.title == "Which network to ship: patients.csv"
    assert report.facts[0] == "patients.csv on fc"
    found = find(StudyRecord.open(tmp_path / "s"))
    assert found.data_name == "/home/me/data/patients.csv"


def regression_study(path: Path) -> StudyBuilder:
    study = StudyBuilder(path, data="diabetes", task="regression", objectives=("nll", "mse", "flops"))
    for number in range(3):
        points = [
            {"nll": -0.5 + 0.1 * k - 0.2 * number, "mse": 3000.0 - 10 * k, **_costs(k + number)} for k in range(3)
        ]
        study.finish(sae(number + 1, 2), points)
    study.finish({"name": "standard"}, [{"nll": 0.1, "mse": 2950.0, **_costs(1)}])
    study.finish({"name": "ensemble", "members": 4}, [{"nll": -1.5, "mse": 2900.0, **_costs(30)}])
    dress(study, shift=False)
    confirm(study, select(study.record).front, shift=False)
    return study


def _costs(size: int) -> dict[str, float]:
    return {"flops": 1000 * (size + 1), "params": 500 * (size + 1)}


def test_a_regression_study_is_told_by_its_own_metrics(tmp_path: Path) -> None:
    report = checked(report_of([regression_study(tmp_path / "s").record]))
    assert "in MSE" in report.lead.sentence or "NLL and MSE" in report.lead.sentence
    receipt = [row[0].value for row in table(report, "receipt").rows]
    costs = ["MFLOPs as counted in the paper ↓", "M params as counted in the paper ↓"]
    shipped = ["MFLOPs as shipped ↓", "M params as shipped ↓"]
    metrics = ["NLL ↓", "NLL, difference", "MSE ↓", "MSE, difference"]
    assert receipt == ["configuration", "runs", *metrics, *costs, *shipped]
    assert "Not measured" in notes(report, "under-shift")


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_in_which_units_errors_are(tmp_path: Path) -> None:
    data = {"name": "loads.csv", "task": "regression", "target": "load"}
    spaces = {"standard": {"data": data, "backbone": {"name": "fc"}}}
    config = study_config(task="regression", objectives=("nll", "mse"), spaces=spaces)
    study = StudyRecord.create(tmp_path / "s", config)
    assert "predicts load: MSE in load², RMSE, MAE and pinball loss in load" in report_of([study]).facts


@pytest.mark.usefixtures("undrawn")
def test_studies_of_two_data_sets_are_ranked_across_them(tmp_path: Path) -> None:
    folders = [tmp_path / name / "study" for name in ("a", "b", "c")]
    records = [
        confirmed_study(folders[0]).record,
        confirmed_study(folders[1], data="pneumoniamnist").record,
        regression_study(folders[2]).record,
    ]
    report = checked(report_of(records))
    assert report.lead.sentence == "3 studies, each with its own answer."
    assert [reason.split(":")[0] for reason in report.lead.reasons] == ["study", "study-2", "study-3"]
    assert [section.name for section in report.sections[:2]] == ["across-data-sets", "study-recommendation"]
    open_sections = [section.name for section in report.sections if not section.folded_under]
    assert open_sections == [
        "across-data-sets",
        *(f"{name}-recommendation" for name in ("study", "study-2", "study-3")),
    ]
    receipts = [item.name for item in report.tables() if item.name.endswith("receipt")]
    assert receipts == ["study-receipt", "study-2-receipt", "study-3-receipt"]
    across = [part.name for part in report.sections[0].parts if isinstance(part, Table)]
    assert across == ["ranks-classification-test", "ranks-classification-shift", "ranks-regression-test"]
    assert table(report, across[0]).title == "Ranks on the test set, classification: digits and pneumoniamnist"
    assert table(report, across[2]).title == "Ranks on the test set, regression: diabetes"
    assert [row[-1].value for row in table(report, across[0]).rows] == [2] * len(table(report, across[0]).rows)
    assert report.title == "Which network to ship: digits, pneumoniamnist, diabetes"


@pytest.mark.usefixtures("undrawn")
def test_two_studies_of_one_data_set_are_one_data_set_in_the_ranks(tmp_path: Path) -> None:
    records = [confirmed_study(tmp_path / name).record for name in ("a", "b")]
    ranks = table(report_of(records), "ranks-classification-test")
    assert {row[-1].value for row in ranks.rows} == {1}


@pytest.mark.usefixtures("undrawn")
def test_studies_in_which_nothing_is_confirmed_have_no_ranks_and_say_so(tmp_path: Path) -> None:
    records = [small_study(tmp_path / "a").record, StudyBuilder(tmp_path / "b").record]
    report = checked(report_of(records))
    assert notes(report, "across-data-sets") == "No study has confirmed results yet."
    assert report.lead.reasons[1] == "b: Nothing can be recommended yet."


def test_names_of_studies_are_usable_and_never_taken_twice(tmp_path: Path) -> None:
    folders = ["1/my study", "2/my study", "1/my-study-2", "1/ÄÖ", "1/runs", "1/MY STUDY"]
    found = [find(StudyBuilder(tmp_path / folder).record) for folder in folders]
    assert names_of(found) == ["my-study", "my-study-2", "my-study-2-2", "study", "runs-2", "MY-STUDY-3"]


@pytest.mark.usefixtures("undrawn")
def test_studies_and_runs_stand_on_one_page(whole: Path, tmp_path: Path) -> None:
    study, run = StudyRecord.open(whole), dressed_run(tmp_path / "x")
    report = checked(report_of([study], [run]))
    expected = [*SECTION_NAMES[:5], "more-results", *SECTION_NAMES[5:], "runs-the-runs"]
    assert [section.name for section in report.sections] == expected
    assert "1 run" in report.facts
    copied = StudyRecord.open(shutil.copytree(whole, tmp_path / "runs"))
    checked(report_of([study, copied], [run]))


def dressed_run(path: Path, seed: int = 0, **method: object) -> RunRecord:
    values = [{"f1": 0.8 + 0.01 * seed, "cc_ece": 0.1, "ece": 0.1, "nll": 0.5}] * 3
    run = write_run(path, small_config(seed, **method), values)
    write_history(run)
    write_curves(run, [1, 2, 3])
    return run


def test_runs_alone_are_set_side_by_side_without_a_choice(tmp_path: Path) -> None:
    runs = [dressed_run(tmp_path / f"seed{seed}", seed) for seed in range(2)]
    runs.append(dressed_run(tmp_path / "plain", name="standard"))
    unfinished = RunRecord.create(tmp_path / "unfinished", small_config(7))
    report = checked(report_of([], [*runs, unfinished]))
    assert report.lead.sentence == "2 configurations from 4 runs."
    assert report.lead.reasons[0].startswith("No recommendation")
    assert report.lead.reasons[1] == "Left out, because unfinished, failed or damaged: 1 run."
    assert figure_names(report) == {"training", "reliability", "risk-coverage", "depth"}
    assert all(figure.caption.endswith("Data: digits.") for figure in report.figures())
    assert report.title == "Runs on digits"
    assert notes(report, "the-runs") == ""
    first = table(report, "runs").rows[0]
    assert first[5].value == pytest.approx(0.805)
    assert first[5].std == pytest.approx(0.01 / 2**0.5)


def test_the_same_run_twice_is_not_unfinished(tmp_path: Path) -> None:
    runs = [dressed_run(tmp_path / name) for name in ("a", "b")]
    report = checked(report_of([], runs))
    assert report.lead.sentence == "1 configuration from 2 runs."
    assert len(report.lead.reasons) == 1


def test_runs_of_which_none_finished_say_so(tmp_path: Path) -> None:
    report = checked(report_of([], [RunRecord.create(tmp_path / "x", small_config())]))
    assert report.lead.sentence == "No run has finished yet."
    assert report.title == "Runs on no data yet"
    assert report.sections == ()


@pytest.mark.parametrize("content", ["", "{", "epoch,loss\n1", "epoch,loss\n1,much\n"])
def test_a_run_with_a_damaged_history_or_curves_keeps_its_numbers(content: str, tmp_path: Path) -> None:
    run = dressed_run(tmp_path / "x")
    for name in (run.HISTORY, run.CURVES):
        (run.path / name).write_text(content)
    report = checked(report_of([], [run]))
    assert len(table(report, "runs").rows) == 1
    assert notes(report, "the-runs") == "Missing or damaged: history of x, and curves of x."


def test_runs_of_different_tasks_have_sections_of_their_own(tmp_path: Path) -> None:
    other = write_run(tmp_path / "y", small_config(1, name="standard"), [{"nll": -1.0, "mse": 20.0}])
    report = checked(report_of([], [dressed_run(tmp_path / "x"), other]))
    assert [one.title for one in report.sections] == [
        *("The runs on digits, classification", "The runs on digits, regression")
    ]
    tables = {one.name: [column.title for column in one.columns[5:8]] for one in report.tables()}
    assert tables == {
        "1-digits-classification-runs": ["F1", "CC-ECE", "NLL"],
        "2-digits-regression-runs": ["NLL", "MSE", "MFLOPs"],
    }


def test_a_study_of_baselines_alone_has_a_recommendation_and_no_sae(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s", methods=("standard", "ensemble"))
    study.finish({"name": "standard"}, [measured(0.6, 0.12, 900)])
    study.finish({"name": "ensemble", "members": 4}, [measured(0.2, 0.04, 40_000)])
    dress(study)
    confirm(study, select(study.record).front)
    ship(study)
    report = checked(report_of([study.record]))
    assert report.lead.sentence.startswith(
        "Too little evidence to recommend a network: 2 trials finished (a choice needs 5). So far ensemble/0 leads: "
    )
    for name in ("structure", "depths"):
        assert notes(report, name) == "No trial of a method with several exits has finished yet."
    assert notes(report, "influence-of-settings") == "Too few trials have finished."
    assert [column.title for column in table(report, "receipt").columns][1] == "the pick"


def spoil(run: RunRecord, value: float, *splits: str) -> None:
    """Numbers that our own writer refuses, but an editor or an older version may have left."""
    metrics = json.loads((run.path / run.METRICS).read_text())
    for split in splits:
        for item in (metrics[split], *metrics[split]["by_exits"]):
            item["metrics"] = dict.fromkeys(item["metrics"], value)
    (run.path / run.METRICS).write_text(json.dumps(metrics))


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_numbers_that_are_not_finite_are_never_chosen_and_break_nothing(value: float, record: StudyRecord) -> None:
    spoilt = next(trial for trial in record.trials() if trial.label == "sae/4")
    spoil(spoilt, value, "val", "test")
    report = checked(report_of([record]))
    assert "sae/4" not in report.lead.sentence
    assert "sae/4" not in {str(row[0].value) for row in table(report, "front").rows}
    assert table(report, "trials").rows


def test_a_configuration_whose_seeds_are_all_of_no_use_is_not_picked(record: StudyRecord) -> None:
    for folder in seed_run(record).path.parent.iterdir():
        spoil(RunRecord(folder), float("nan"), "test")
    report = checked(report_of([record]))
    assert report.lead.sentence.startswith("Ship sae/1: ")
    assert ("sae/0", 3) not in {(row[0].value, row[3].value) for row in table(report, "confirmed").rows}


@pytest.mark.usefixtures("undrawn")
def test_points_of_trials_that_ended_at_another_k_are_told_by_their_k(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(2, 2), [point(0.5, 0.1, 100), point(0.3, 0.1, 200), point(0.2, 0.1, 300)])
    report = checked(report_of([study.record]))
    assert [row[3].value for row in table(report, "front").rows] == [3, 2, 1]


def test_a_study_searched_without_shift_says_how_to_get_it(tmp_path: Path) -> None:
    report = checked(report_of([searched_study(tmp_path / "s", shift=False).record]))
    assert "--shift" in notes(report, "under-shift")
    assert "grid-shift" not in figure_names(report)
