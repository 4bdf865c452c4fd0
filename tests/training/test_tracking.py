import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sae.config.run import RunConfig
from sae.core.errors import RecordError
from sae.records.run import RunRecord
from sae.training.run import train
from sae.training.tracking import RunCallback, TensorBoard, follow, tag_of
from tests.builders import run_config

pytestmark = pytest.mark.long

CONFIG = run_config(method={"name": "sae", "inputs": 2, "exits": 2}, train={"epochs": 4})


def scalars(record: RunRecord) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard makes of a run's event files."""
    events = EventAccumulator(str(record.path / record.TENSORBOARD)).Reload()
    return {tag: [(item.step, item.value) for item in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def expected(record: RunRecord) -> dict[str, list[tuple[int, float]]]:
    """The history, column by column, in single precision."""
    rows = record.read_history()
    return {
        tag_of(name): [(int(row["epoch"]), float(np.float32(row[name]))) for row in rows]
        for name in rows[0]
        if name != "epoch"
    }


def files(record: RunRecord, *left_out: str) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in record.path.iterdir() if path.is_file() and path.name not in left_out
    }


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return train(CONFIG, tmp_path_factory.mktemp("run") / "x", callbacks=[TensorBoard()])


def test_every_column_of_the_history_is_a_scalar(tracked: RunRecord) -> None:
    found = scalars(tracked)
    assert found == expected(tracked)
    assert {"theta/input_1/exit_0", "val/nll", "train/loss", "schedule/temperature"} <= set(found)
    assert all([step for step, _ in values] == [1, 2, 3, 4] for values in found.values())


def test_tracking_changes_no_byte_of_the_run(tracked: RunRecord, tmp_path: Path) -> None:
    plain = train(CONFIG, tmp_path / "x")
    assert not (plain.path / plain.TENSORBOARD).exists()
    assert files(plain, plain.STATUS) == files(tracked, plain.STATUS)


@pytest.mark.parametrize("first", [[TensorBoard()], []])
def test_a_resumed_run_has_every_epoch_once(first: list[RunCallback], tmp_path: Path) -> None:
    """Whether or not its beginning was tracked."""
    train(CONFIG, tmp_path / "x", until=2, callbacks=first)
    record = train(CONFIG, tmp_path / "x", callbacks=[TensorBoard()])
    assert scalars(record) == expected(record)
    assert len(list((record.path / record.TENSORBOARD).iterdir())) == 1


def test_an_epoch_that_was_written_but_not_kept_is_not_there_twice(tmp_path: Path) -> None:
    """As after a kill between the two."""
    events = TensorBoard()
    record = train(CONFIG, tmp_path / "x", until=2, callbacks=[events])
    with follow([events], record, record.read_history()) as add:
        add({"epoch": 3, "loss": 99.0})
    train(CONFIG, record.path, callbacks=[events])
    assert scalars(record) == expected(record)


def test_rows_are_there_as_soon_as_their_epoch_is_over(tmp_path: Path) -> None:
    record = RunRecord.create(tmp_path / "x", CONFIG)
    with follow([TensorBoard()], record, []) as add:
        for epoch in (1, 2):
            add({"epoch": epoch, "loss": 0.5})
            assert scalars(record)["train/loss"][-1] == (epoch, 0.5)


def test_a_tensorboard_that_looks_on_forgets_what_was_rewritten(tmp_path: Path) -> None:
    record = RunRecord.create(tmp_path / "x", CONFIG)
    rows = [{"epoch": epoch, "loss": 0.5} for epoch in (1, 2, 3)]
    with follow([TensorBoard()], record, rows):
        pass
    looking = EventAccumulator(str(record.path / record.TENSORBOARD)).Reload()
    (old,) = (record.path / record.TENSORBOARD).iterdir()
    kept = old.read_bytes()
    time.sleep(1.0)  # names of files tell seconds; within one they have a counter, by which they do not sort
    with follow([TensorBoard()], record, rows[:2]):
        old.write_bytes(kept)  # it has not been deleted for whoever has it open
        assert [item.step for item in looking.Reload().Scalars("train/loss")] == [1, 2]


def test_a_finished_run_gets_its_event_files_afterwards(tmp_path: Path) -> None:
    record = train(CONFIG, tmp_path / "x")
    before = files(record)
    train(CONFIG, record.path, callbacks=[TensorBoard()])
    assert scalars(record) == expected(record)
    assert files(record) == before


def test_a_run_without_a_history_gets_no_event_files(tmp_path: Path) -> None:
    record = RunRecord.create(tmp_path / "x", CONFIG)
    TensorBoard().write(record)
    assert not (record.path / record.TENSORBOARD).exists()


def test_starting_over_deletes_the_event_files(tmp_path: Path) -> None:
    train(CONFIG, tmp_path / "x", until=1, callbacks=[TensorBoard()])
    record = train(CONFIG, tmp_path / "x", until=1, force=True)
    assert not (record.path / record.TENSORBOARD).exists()


@pytest.mark.slow
def test_members_that_are_trained_in_parallel_are_tracked(tmp_path: Path) -> None:
    config: RunConfig = run_config(method={"name": "ensemble", "members": 2}, train={"epochs": 2})
    record = train(config, tmp_path / "x", processes=2, callbacks=[TensorBoard()])
    assert scalars(record) == expected(record)


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    record = RunRecord.create(tmp_path / "x", CONFIG)
    (record.path / record.TENSORBOARD).write_text("")
    with pytest.raises(RecordError, match="event files cannot be written to"), follow([TensorBoard()], record, []):
        pass


def test_event_files_are_written_without_torch_and_tensorflow() -> None:
    code = "import sys; from sae.training.tracking import TensorBoard; TensorBoard()"
    check = "sys.exit(any(name in sys.modules for name in ('torch', 'tensorflow')))"
    assert subprocess.run([sys.executable, "-c", f"{code}; {check}"], check=False).returncode == 0
