"""Data, configs and runs that are pipes, devices or folders end in a sentence, not in waiting."""

import os
from pathlib import Path

import pytest

from sae.config.run import DataConfig
from sae.config.settings import read_yaml
from sae.core.errors import ConfigError, DataError, RecordError
from sae.core.reading import read_file
from sae.data.cache import cached
from sae.data.catalogue import find_entry, load
from sae.data.locations import CACHE_VARIABLE, find_own
from sae.records.folder import LOCK
from sae.records.run import RunRecord, read_run

NEVER_REGULAR = ("pipe", "device", "folder")


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A folder with a pipe, a device and a folder."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", NEVER_REGULAR)
def test_only_a_regular_file_is_a_config(strange: Path, name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"config file must be readable, got .*: (it is a pipe or a device|Is a directory)"
    ):
        read_yaml(strange / name)
    with pytest.raises(OSError, match=r"it is a pipe|Is a directory"):
        read_file(str(strange / name))


@pytest.mark.parametrize("name", ["pipe", "device"])
def test_data_are_a_file_or_a_folder(strange: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"data must be a file or a folder, got .*, which is a pipe or a device"):
        find_own(str(strange / name))
    (strange / name).rename(strange / f"{name}.csv")
    with pytest.raises(DataError, match=r"data must be a file or a folder"):
        load(DataConfig(name=str(strange / f"{name}.csv"), task="regression", target="y"))
    with pytest.raises(DataError, match=r"data must be a file or a folder"):
        find_entry(str(strange / f"{name}.csv"))


@pytest.mark.parametrize("name", ["status.json", "config.yaml", "metrics.json"])
def test_a_run_with_a_pipe_in_it_is_damaged(tmp_path: Path, name: str) -> None:
    source = Path(__file__).parents[1] / "golden" / "run"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    found = read_run(RunRecord(tmp_path))
    assert found.state == "damaged"
    assert "it is a pipe or a device" in (found.damage or "")


def test_weights_that_are_a_pipe_are_refused(strange: Path) -> None:
    record = RunRecord(strange)
    with pytest.raises(RecordError, match=r"it is a pipe"):
        record.read_arrays("pipe")
    with pytest.raises(RecordError, match=r"it is a pipe"):
        record.hash_of("pipe")
    with pytest.raises(RecordError, match=r"it is a pipe"):
        record.read_rows("pipe")


def test_a_lock_that_is_a_pipe_or_a_link_is_neither_waited_for_nor_followed(tmp_path: Path) -> None:
    record, target = RunRecord(tmp_path), tmp_path / "elsewhere"
    for make in (os.mkfifo, lambda path: path.symlink_to(target)):
        make(tmp_path / LOCK)
        assert not record.is_busy()
        with pytest.raises(RecordError, match="must be a writable folder"), record.lock():
            pass
        (tmp_path / LOCK).unlink()
    assert not target.exists()
    os.mkfifo(tmp_path / record.HISTORY)
    assert record.count_epochs() == 0


def test_a_cache_that_cannot_be_made_is_not_called_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "cache", Path("/proc/none/cache")):
        monkeypatch.setenv(CACHE_VARIABLE, str(place))
        with pytest.raises(
            DataError, match=f"decoded data cannot be written to {place}.*set {CACHE_VARIABLE} to another"
        ):
            cached("reader", 1, "source", lambda folder: (folder / "x").touch())
