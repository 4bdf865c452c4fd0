import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import RecordError
from sae.records.run import Run, RunRecord, Status, read_run
from tests.builders import run_config
from tests.results import small_config, write_run, write_shift
from tests.studies import StudyBuilder, point, sae

SHIFT = [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)]


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    return RunRecord.create(tmp_path / "run", run_config())


@pytest.fixture
def finished(tmp_path: Path) -> RunRecord:
    """K = 2, with an nll of 0.1, 0.2 and 0.3 at K′ = 1, 2 and 3."""
    config = small_config(name="sae", inputs=2, exits=2)
    return write_run(tmp_path / "finished", config, [{"nll": 0.1 * k, "f1": 0.5} for k in (1, 2, 3)])


def test_the_resolved_config_is_saved(record: RunRecord) -> None:
    assert record.read_config() == run_config()


def test_the_same_config_opens_the_same_folder(record: RunRecord) -> None:
    record.write_json(record.METRICS, {"a": 1})
    again = RunRecord.create(record.path, run_config())
    assert json.loads((again.path / again.METRICS).read_text()) == {"a": 1}


def test_another_config_is_refused_and_the_difference_named(record: RunRecord) -> None:
    with pytest.raises(RecordError, match=r"another config .seed 0 → 1.*--force"):
        RunRecord.create(record.path, run_config(seed=1))


def test_force_deletes_the_run_and_nothing_else(finished: RunRecord) -> None:
    write_shift(finished, SHIFT)
    (finished.path / "notes.txt").write_text("mine")
    RunRecord.create(finished.path, run_config(seed=1), force=True)
    assert finished.read_config().seed == 1
    assert finished.read_status() is None
    names = {path.name for path in finished.path.iterdir() if not path.name.startswith(".")}
    assert names == {"config.yaml", "notes.txt"}
    assert (finished.path / "notes.txt").read_text() == "mine"


def test_a_folder_of_other_files_is_refused_even_with_force(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(RecordError, match=r"must be empty or hold a run, but it holds thesis.tex"):
            RunRecord.create(tmp_path, run_config(), force=force)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(RecordError, match="is a file, but must be a run folder"):
        RunRecord.create(tmp_path / "run", run_config())


def test_an_unfinished_run_is_no_result(record: RunRecord) -> None:
    with pytest.raises(RecordError, match="unfinished"):
        RunRecord.open(record.path)


def test_a_failed_run_gives_its_reason(record: RunRecord) -> None:
    record.end("failed", error="the loss was nan")
    with pytest.raises(RecordError, match="holds a failed run: the loss was nan"):
        RunRecord.open(record.path)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"is not a run folder: it has no config.yaml from `sae train`"):
        RunRecord.open(tmp_path)


def test_a_damaged_array_file_comes_with_advice(record: RunRecord) -> None:
    record.write_arrays(record.MODEL, {"weight": np.ones(1000, np.float32)})
    path = record.path / record.MODEL
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(RecordError, match=r"model.safetensors is damaged or cut short .*: train again with --force"):
        record.read_arrays(record.MODEL)


def test_history_is_read_as_it_was_written(record: RunRecord) -> None:
    assert record.read_history() == []
    rows = [{"epoch": 1, "loss": 0.1 + 0.2}, {"epoch": 2, "loss": 1e-300}]
    record.write_rows(record.HISTORY, rows)
    assert record.read_history() == rows
    assert record.count_epochs() == 2


@pytest.mark.parametrize("text", ["loss\n1\n", "epoch,loss\n1\n", "epoch,loss\n1,x\n", "epoch\n1,2\n"])
def test_a_damaged_history_is_named(record: RunRecord, text: str) -> None:
    (record.path / record.HISTORY).write_text(text)
    with pytest.raises(RecordError, match=r"history.csv (must hold a row of numbers for each epoch|is damaged .rows)"):
        record.read_history()


def test_rows_that_are_no_text_are_named(record: RunRecord) -> None:
    (record.path / record.HISTORY).write_bytes(b"epoch\n\xff\n")
    with pytest.raises(RecordError, match=r"history.csv is damaged"):
        record.read_history()


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


def test_the_status_is_json_and_its_unknown_parts_are_left_out(record: RunRecord) -> None:
    assert not record.has_finished()
    record.end("finished", seconds=1.23456, versions={"sae": "1"})
    written = json.loads((record.path / record.STATUS).read_text())
    assert list(written) == ["state", "ended", "seconds", "versions"]
    assert (written["state"], written["seconds"], written["versions"]) == ("finished", 1.235, {"sae": "1"})
    assert record.read_status() == Status.model_validate(written)
    assert record.has_finished()


def test_an_end_deletes_what_only_an_unfinished_run_needs(record: RunRecord) -> None:
    for name in (record.CHECKPOINT, record.INTERIM):
        (record.path / name).write_text("")
    record.end("stopped", epochs=3)
    assert not record.has(record.CHECKPOINT)
    assert not record.has(record.INTERIM)


def test_a_config_that_no_run_wrote_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data: {name: digits}  # mine")
    (tmp_path / "model.safetensors").write_text("weights of years")
    for force in (False, True):
        with pytest.raises(RecordError, match="was not written by `sae train` and is left alone"):
            RunRecord.create(tmp_path, run_config(), force=force)
    assert (tmp_path / "model.safetensors").read_text() == "weights of years"


def test_what_a_kill_before_the_first_config_leaves_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".config.yaml.tmp").write_text("half a con")
    assert RunRecord.create(tmp_path, run_config()).read_config() == run_config()


def test_a_finished_run_is_not_written_to(record: RunRecord) -> None:
    before = (record.path / record.CONFIG).stat().st_mtime_ns
    RunRecord.create(record.path, run_config())
    assert (record.path / record.CONFIG).stat().st_mtime_ns == before


@pytest.mark.parametrize("text", ["{}", '{"state": "gone"}', "[]", '{"state": "finished", "seconds": "60"}'])
def test_a_damaged_status_is_named(record: RunRecord, text: str) -> None:
    (record.path / record.STATUS).write_text(text)
    with pytest.raises(RecordError, match=r"status.json is damaged .*: train again with --force"):
        RunRecord.open(record.path)
    assert (read_run(record).state, read_run(record).config) == ("damaged", run_config())


def test_a_run_is_read_once_with_all_that_it_holds(finished: RunRecord) -> None:
    run = read_run(finished)
    assert (run.label, run.method, run.state, run.seconds, run.damage) == ("finished", "sae", "finished", 60.0, None)
    assert run.config == finished.read_config()
    assert run.evaluation is not None
    assert (run.evaluation.exits, run.evaluation.eval_exits) == (2, (1, 2, 3))
    assert (run.value("nll"), run.value("f1", "test"), run.value("flops")) == (0.2, 0.5, 200)
    assert run.value("mse") is None
    (finished.path / finished.METRICS).unlink()
    assert run.value("nll") == 0.2


def test_a_run_without_a_result_has_no_values(record: RunRecord) -> None:
    assert (read_run(record).state, read_run(record).ended, read_run(record).value("nll")) == ("unfinished", 0.0, None)
    record.end("failed", seconds=1.0, error="the loss was nan")
    run = read_run(record)
    assert (run.state, run.error, run.evaluation, run.value("nll")) == ("failed", "the loss was nan", None, None)
    assert run.ended > 0


def test_values_under_shift_are_read_only_if_asked_for(finished: RunRecord) -> None:
    assert read_run(finished, with_shift=True).value("nll", "shift") is None
    write_shift(finished, SHIFT)
    assert read_run(finished, with_shift=True).value("nll", "shift") == 2.0
    with pytest.raises(AssertionError, match="with_shift=True"):
        read_run(finished).value("nll", "shift")


def damaged_files(record: RunRecord, name: str) -> Iterator[Run]:
    """The run, read after every kind of damage to a file."""
    path = record.path / name
    whole = path.read_text()
    for text in ("", whole[: len(whole) // 2], "{}", "[]", "3", whole.replace("0.", '"0.', 1).replace(",", '",', 1)):
        path.write_text(text)
        yield read_run(record, with_shift=True)
    path.unlink()
    path.mkdir()
    yield read_run(record, with_shift=True)
    path.rmdir()


def test_a_run_with_damaged_metrics_is_damaged(finished: RunRecord) -> None:
    for run in damaged_files(finished, finished.METRICS):
        assert (run.state, run.evaluation, run.config) == ("damaged", None, finished.read_config())
        assert "metrics.json" in str(run.damage)
        assert run.error == run.damage
    run = read_run(finished)  # the file is missing now
    assert (run.state, run.damage) == (
        "damaged",
        f"{finished.path / 'metrics.json'} is missing: train again with --force",
    )


@pytest.mark.parametrize("name", [RunRecord.LATENCY, RunRecord.SHIFT["val"]])
def test_a_run_with_damaged_values_of_objectives_is_damaged(name: str, tmp_path: Path) -> None:
    trial = StudyBuilder(tmp_path / "s").finish(sae(1, 1), [point(0.1, 0.1, 100)], shift=True)
    trial.write_json(trial.LATENCY, {"batch": 64, "threads": 1, "by_exits": [{"exits": 1, "latency": 0.5}]})
    assert read_run(trial).state == "finished"
    for run in damaged_files(trial, name):
        assert (run.state, run.evaluation) == ("damaged", None)
        assert name in str(run.damage)
        assert "delete this run folder, and the same search trains it again" in str(run.damage)
    assert read_run(trial).state == "finished"  # the file is missing now: it was not measured


def test_a_run_with_damaged_results_under_shift_is_finished_without_them(finished: RunRecord) -> None:
    write_shift(finished, SHIFT)
    for run in damaged_files(finished, finished.SHIFT["test"]):
        assert (run.state, run.value("nll"), run.value("nll", "shift")) == ("finished", 0.2, None)
        assert "shift-test.json" in str(run.damage)
        assert read_run(finished).damage is None  # not looked at
    assert read_run(finished, with_shift=True).damage is None


@pytest.mark.parametrize("text", [f"{RunRecord.MARK}\ndata: [", "nonsense: 3", "\udcff", ""])
def test_a_run_with_damaged_settings_is_damaged(text: str, finished: RunRecord) -> None:
    (finished.path / finished.CONFIG).write_bytes(text.encode("utf-8", "surrogateescape"))
    run = read_run(finished)
    assert (run.state, run.config, run.evaluation) == ("damaged", None, None)
    assert "config.yaml cannot be used" in str(run.damage)
    assert run.method == finished.path.parent.name


def test_a_folder_in_place_of_the_settings_is_damage(finished: RunRecord) -> None:
    (finished.path / finished.CONFIG).unlink()
    assert read_run(finished).state == "damaged"
    (finished.path / finished.CONFIG).mkdir()
    assert read_run(finished).state == "damaged"


@pytest.mark.parametrize("part", ["val", "test"])
def test_a_split_that_was_not_measured_is_named(part: str, finished: RunRecord) -> None:
    stored = json.loads((finished.path / finished.METRICS).read_text())
    del stored[part]
    finished.write_json(finished.METRICS, stored)
    with pytest.raises(RecordError, match=rf"metrics.json is damaged \({part}: Field required\)"):
        finished.read_evaluation()


def test_a_file_that_lacks_a_number_of_exits_is_damaged(finished: RunRecord) -> None:
    write_shift(finished, SHIFT[:2])
    run = read_run(finished, with_shift=True)
    assert run.damage is not None
    assert "shift-test.json is damaged (it must have a reading at 3 exits)" in run.damage
    stored = json.loads((finished.path / finished.METRICS).read_text())
    stored["test"]["by_exits"].pop()
    finished.write_json(finished.METRICS, stored)
    with pytest.raises(RecordError, match=r"metrics.json is damaged \(it must have a reading at 3 exits\)"):
        finished.read_evaluation()


def test_damaged_curves_and_interim_results_are_named(finished: RunRecord) -> None:
    for text in ("{", "{}", '{"val": {"by_exits": [{"exits": 1}]}}'):
        for name in (finished.CURVES, finished.INTERIM):
            (finished.path / name).write_text(text)
        with pytest.raises(RecordError, match=r"curves.json is damaged"):
            finished.read_curves("test")
        with pytest.raises(RecordError, match=r"interim.json is damaged"):
            finished.read_interim()
