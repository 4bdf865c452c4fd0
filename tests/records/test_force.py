"""`--force` deletes files of ours by their names, and nothing else; a failure deletes nothing."""

import json
from pathlib import Path

import pytest

from sae.core.errors import RecordError
from sae.records.folder import ASIDE
from sae.records.run import RunRecord
from sae.records.shipped import CARD, marked_card
from sae.records.study import StudyRecord
from tests.builders import run_config
from tests.studies import StudyBuilder, sae


def contents(folder: Path) -> dict[str, str]:
    """The text of every visible file, by its relative path."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_text(errors="replace") for path in found}


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    record = RunRecord.create(tmp_path / "run", run_config())
    for name in (record.METRICS, record.MODEL, "shift-test.json", "shift-test-2-exits.csv", "shift-val-1-exits.png"):
        (record.path / name).write_text("ours")
    record.end("finished")
    return record


def test_files_and_folders_with_names_like_ours_stay(run: RunRecord) -> None:
    mine = {"shift-notes.txt": "mine", "shift-x/a.txt": "mine", "curves.json/a.txt": "mine", "model.onnx": "mine"}
    for name, text in mine.items():
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).write_text(text)
    RunRecord.create(run.path, run_config(seed=1), force=True)
    found = contents(run.path)
    assert found.pop("config.yaml").startswith(run.MARK)
    assert found == mine
    assert run.read_config().seed == 1


def test_what_cannot_be_moved_leaves_everything_as_it_was(run: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(run.path)
    replace = Path.replace

    def fail(path: Path, target: Path) -> Path:
        if path.name == RunRecord.MODEL and ASIDE in str(target):
            raise PermissionError(13, "Permission denied", str(path))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(RecordError, match="must be a writable run folder"):
        RunRecord.create(run.path, run_config(seed=1), force=True)
    assert contents(run.path) == before


def test_what_a_kill_left_aside_is_no_obstacle(run: RunRecord) -> None:
    (run.path / ASIDE).mkdir()
    for name in (*run.FILES, "shift-test.json", "shift-test-2-exits.csv", "shift-val-1-exits.png"):
        if run.has(name):
            (run.path / name).rename(run.path / ASIDE / name)
    RunRecord.create(run.path, run_config(seed=1))
    assert set(contents(run.path)) == {"config.yaml"}
    assert not (run.path / ASIDE).exists()


def test_a_study_deletes_its_own_files_and_leaves_the_users(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.end(sae(1, 1), "failed", error="x")
    folder = tmp_path / "s"
    (trial,) = study.record.trials()
    (folder / "shipped").mkdir()
    manifest = {"format": "sae-model", "graph": {"file": "model.onnx"}, "adaptive": {"stages": [{"file": "../../x"}]}}
    ours = {
        "optuna.db": "",
        "shipped/model.onnx": "",
        "shipped/manifest.json": json.dumps(manifest),
        f"shipped/{CARD}": marked_card("# A model"),
        f"confirm/sae/{trial.path.name}/seed-1/metrics.json": "",
    }
    mine = {
        "notes.txt": "",
        "shipped/predictions.csv": "",
        "trials/plan.txt": "",
        f"trials/sae/{trial.path.name}/notes.txt": "",
        "confirm/sae/mine.txt": "",
        "x": "",
    }
    for name, text in (ours | mine).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    StudyRecord.create(folder, study.record.config, force=True)
    found = contents(folder)
    assert found.pop("study.yaml").startswith(StudyRecord.MARK)
    assert found == mine
    (folder / "shipped" / CARD).write_text(marked_card("# A model").replace("A model", "My model"))
    (folder / "shipped" / "manifest.json").write_text(json.dumps(manifest))
    StudyRecord.create(folder, study.record.config, force=True)
    assert (folder / "shipped" / CARD).exists()  # edited, so it is the user's
    assert not (folder / "shipped" / "manifest.json").exists()


def test_of_two_that_start_over_at_once_the_one_whose_settings_were_replaced_is_told(tmp_path: Path) -> None:
    first = RunRecord.create(tmp_path / "run", run_config(), force=True)
    second = RunRecord.create(tmp_path / "run", run_config(seed=1), force=True)
    with pytest.raises(RecordError, match=r"holds a run with another config \(seed"), first.lock():
        pass
    with second.lock():
        assert second.read_config().seed == 1
