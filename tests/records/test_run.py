import json
import resource
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import RecordError
from sae.records.folder import LOCK
from sae.records.run import RunRecord, at_exits
from tests.builders import run_config


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    return RunRecord.create(tmp_path / "run", run_config())


def test_the_resolved_config_is_saved(record: RunRecord) -> None:
    assert record.config == run_config()


def test_the_same_config_opens_the_same_folder(record: RunRecord) -> None:
    record.write_json(record.METRICS, {"a": 1})
    again = RunRecord.create(record.path, run_config())
    assert again.read_json(record.METRICS) == {"a": 1}


def test_another_config_is_refused_and_the_difference_named(record: RunRecord) -> None:
    with pytest.raises(RecordError, match=r"another config .seed 0 → 1.*--force"):
        RunRecord.create(record.path, run_config(seed=1))


def test_force_deletes_the_run_and_nothing_else(record: RunRecord) -> None:
    record.write_json(record.STATUS, {"state": "finished"})
    (record.path / "notes.txt").write_text("mine")
    RunRecord.create(record.path, run_config(seed=1), force=True)
    assert record.config.seed == 1
    assert record.status is None
    assert (record.path / "notes.txt").read_text() == "mine"


def test_a_folder_of_other_files_is_refused_even_with_force(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(RecordError, match=r"must be new or hold a run, however .* holds thesis.tex"):
            RunRecord.create(tmp_path, run_config(), force=force)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(RecordError, match="is a file"):
        RunRecord.create(tmp_path / "run", run_config())


def test_an_unfinished_run_is_no_result(record: RunRecord) -> None:
    with pytest.raises(RecordError, match="unfinished"):
        RunRecord.open(record.path)


def test_a_failed_run_says_why(record: RunRecord) -> None:
    record.write_json(record.STATUS, {"state": "failed", "error": "the loss was nan"})
    with pytest.raises(RecordError, match="the loss was nan"):
        RunRecord.open(record.path)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="has none: was it made by"):
        RunRecord.open(tmp_path)


def test_a_truncated_array_file_is_named(record: RunRecord) -> None:
    record.write_arrays(record.MODEL, {"weight": np.ones(1000, np.float32)})
    path = record.path / record.MODEL
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(RecordError, match=r"model.safetensors is damaged or cut short"):
        record.read_arrays(record.MODEL)


def test_damaged_and_missing_json_are_named(record: RunRecord) -> None:
    (record.path / record.METRICS).write_text('{"val": ')
    with pytest.raises(RecordError, match=r"metrics.json is damaged"):
        record.read_json(record.METRICS)
    with pytest.raises(RecordError, match=r"must hold curves.json"):
        record.read_json(record.CURVES)


def test_nan_is_never_written_as_json(record: RunRecord) -> None:
    with pytest.raises(ValueError, match="JSON"):
        record.write_json(record.METRICS, {"nll": float("nan")})


def test_a_write_that_fails_leaves_the_old_file_and_no_debris(record: RunRecord) -> None:
    record.write_arrays(record.CHECKPOINT, {"weight": np.zeros(10, np.float32)})
    before = (record.path / record.CHECKPOINT).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as a full disk: writes past it fail
    try:
        with pytest.raises(RecordError, match="what was there before is untouched"):
            record.write_arrays(record.CHECKPOINT, {"weight": np.ones(100_000, np.float32)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (record.path / record.CHECKPOINT).read_bytes() == before
    assert {p.name for p in record.path.iterdir()} - {LOCK} == {"checkpoint.safetensors", "config.yaml"}


def test_history_is_one_row_per_epoch(record: RunRecord) -> None:
    record.write_rows(record.HISTORY, [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}])
    assert (record.path / record.HISTORY).read_text().split() == ["epoch,loss", "1,0.5", "2,0.25"]


def test_history_is_read_as_it_was_written(record: RunRecord) -> None:
    assert record.history() == []
    rows = [{"epoch": 1, "loss": 0.1 + 0.2}, {"epoch": 2, "loss": 1e-300}]
    record.write_rows(record.HISTORY, rows)
    assert record.history() == rows


@pytest.mark.parametrize("text", ["loss\n1\n", "epoch,loss\n1\n", "epoch,loss\n1,x\n", "epoch\n1,2\n"])
def test_a_damaged_history_is_named(record: RunRecord, text: str) -> None:
    (record.path / record.HISTORY).write_text(text)
    with pytest.raises(
        RecordError, match=r"history.csv (must hold a row of numbers for each epoch|is damaged, its rows)"
    ):
        record.history()


def test_rows_that_are_no_text_are_named(record: RunRecord) -> None:
    (record.path / record.HISTORY).write_bytes(b"epoch\n\xff\n")
    with pytest.raises(RecordError, match=r"history.csv is damaged"):
        record.history()


def test_force_deletes_event_files_and_nothing_else_beside_them(record: RunRecord) -> None:
    events = record.path / record.TENSORBOARD
    for notes in (False, True):
        events.mkdir()
        (events / "events.out.tfevents.1.x").write_text("")
        if notes:
            (events / "notes.txt").write_text("mine")
        RunRecord.create(record.path, run_config(), force=True)
        assert [path.name for path in events.glob("*")] == (["notes.txt"] if notes else [])
        assert events.exists() == notes


def test_status_is_json(record: RunRecord) -> None:
    record.write_json(record.STATUS, {"state": "finished"})
    assert json.loads((record.path / record.STATUS).read_text()) == {"state": "finished"}
    assert record.is_finished


def test_a_config_that_no_run_wrote_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data: {name: digits}  # mine")
    (tmp_path / "model.safetensors").write_text("weights of years")
    for force in (False, True):
        with pytest.raises(RecordError, match="was not written by a run, and is left alone"):
            RunRecord.create(tmp_path, run_config(), force=force)
    assert (tmp_path / "model.safetensors").read_text() == "weights of years"


def test_what_a_kill_before_the_first_config_leaves_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".config.yaml.tmp").write_text("half a con")
    assert RunRecord.create(tmp_path, run_config()).config == run_config()


def test_a_finished_run_is_not_written_to(record: RunRecord) -> None:
    before = (record.path / record.CONFIG).stat().st_mtime_ns
    RunRecord.create(record.path, run_config())
    assert (record.path / record.CONFIG).stat().st_mtime_ns == before


@pytest.mark.parametrize("text", ["{}", '{"state": "gone"}', "[]"])
def test_a_damaged_status_is_named(record: RunRecord, text: str) -> None:
    (record.path / record.STATUS).write_text(text)
    with pytest.raises(RecordError, match=r"status.json"):
        RunRecord.open(record.path)


def test_a_split_that_was_not_measured_is_named(record: RunRecord) -> None:
    record.write_json(record.METRICS, {})
    with pytest.raises(RecordError, match="must hold test"):
        record.report("test")


def test_a_folder_in_place_of_a_file_is_named(record: RunRecord) -> None:
    (record.path / record.METRICS).mkdir()
    (record.path / record.MODEL).mkdir()
    with pytest.raises(RecordError, match="must be a readable file"):
        record.read_json(record.METRICS)
    with pytest.raises(RecordError, match=r"model.safetensors"):
        record.read_arrays(record.MODEL)


def test_rows_are_read_back_as_texts(tmp_path: Path) -> None:
    record = RunRecord(tmp_path)
    record.write_rows("rows.csv", [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}])
    assert record.read_rows("rows.csv") == [{"epoch": "1", "loss": "0.5"}, {"epoch": "2", "loss": "0.25"}]


@pytest.mark.parametrize("text", ["a,b\n1\n", "a,b\n1,2,3\n", 'a,b\n1,"2\n', "a,b\n1,\udcff\n"])
def test_damaged_rows_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "rows.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=r"rows\.csv is damaged"):
        RunRecord(tmp_path).read_rows("rows.csv")


def test_missing_rows_are_said(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"must hold rows\.csv"):
        RunRecord(tmp_path).read_rows("rows.csv")


def test_a_number_of_exits_that_was_not_recorded_is_named() -> None:
    with pytest.raises(RecordError, match=r"must be one that was recorded \(1, 2\), got 3"):
        at_exits([{"exits": 1}, {"exits": 2}], 3)
    with pytest.raises(RecordError, match=r"recorded \(none\), got 1"):
        at_exits([], 1)
