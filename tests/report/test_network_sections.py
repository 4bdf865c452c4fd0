import shutil
from pathlib import Path

import pytest

from sae.analysis.selection import select
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.report.content import Note, Report
from sae.report.files import write_drawings
from sae.report.network_sections import parts_table
from sae.training.run import network_of
from tests.networks import sae_plan

GOLDEN = Path(__file__).parent.parent / "golden"
pytestmark = pytest.mark.filterwarnings(
    "ignore::sae.core.errors.DataWarning"
)  # older runs have not recorded their data


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    """A run of an older version."""
    return RunRecord(Path(shutil.copytree(GOLDEN / "run", tmp_path / "run")))


def notes(report: Report) -> list[str]:
    return [part.text for one in report.sections for part in one.parts if isinstance(part, Note)]


def test_a_run_that_did_not_record_its_network_says_how_to_draw_it(run: RunRecord) -> None:
    report = report_of([], [run])
    assert list(report.drawings()) == []
    assert f"No drawing of run, trained by an older version: `sae show {run.path}` adds it to this page." in notes(
        report
    )


def test_several_older_runs_are_named_in_one_note(run: RunRecord, tmp_path: Path) -> None:
    other = RunRecord(Path(shutil.copytree(run.path, tmp_path / "other")))
    settings = other.path / RunRecord.CONFIG
    settings.write_text(settings.read_text().replace("epochs: 3", "epochs: 4"))
    said = [note for note in notes(report_of([], [run, other])) if "drawing" in note]
    assert said == ["No drawing of run and other, trained by an older version: `sae show RUN` adds it to this page."]


def test_once_it_is_recorded_it_is_drawn(run: RunRecord, tmp_path: Path) -> None:
    network_of(run)
    (drawing,) = report_of([], [run]).drawings()
    assert drawing.name == "network"
    written = write_drawings([drawing], tmp_path / "figures")
    assert [path.name for path in written] == ["network.svg", "network.png"]
    assert all(path.stat().st_size > 1000 for path in written)


def test_a_damaged_file_is_told(run: RunRecord) -> None:
    network_of(run)
    (run.path / run.NETWORK).write_text("{}")
    assert any("network.json is damaged" in note for note in notes(report_of([], [run])))


@pytest.mark.long
def test_the_pick_of_a_study_is_drawn_with_a_table_of_its_parts(tmp_path: Path) -> None:
    study = StudyRecord.open(Path(shutil.copytree(GOLDEN / "study", tmp_path / "study")))
    picked = next(one for one in report_of([study]).sections if one.name == "network")
    assert [type(part) for part in picked.parts] == [Note]
    for run in study.read_runs():
        if run.evaluation is not None:
            network_of(run.record)
    report = report_of([study])
    (drawing,) = report.drawings()
    table = next(item for item in report.tables() if item.name == "parts")
    pick = select(study).pick().candidate
    assert drawing.plan.used.params == pick.values["params"]
    assert next(row[1].value for row in table.rows if row[0].value == "all") == pick.values["params"]


def test_the_table_sums_to_the_costs() -> None:
    plan = sae_plan(2, 1)
    table = parts_table(plan)
    names = [row[0].value for row in table.rows]
    assert names[-2:] == ["all", "pruned away"]
    for column in range(1, 5):
        *parts, total, _ = [row[column].value for row in table.rows]
        assert sum(float(part or 0) for part in parts) == total
