import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sae.cli import app
from sae.core.errors import DataError
from sae.data import cache, images
from sae.data.cache import cached, read_array, write_rows
from sae.data.catalogue import load
from tests.data.samples import class_files, data_config, image_bytes, write_folder, write_npz, write_zip


def write_one(folder: Path) -> None:
    np.save(folder / "x.npy", np.arange(4))


def test_an_entry_is_made_once() -> None:
    calls: list[Path] = []
    for _ in range(2):
        cached("test", 1, "source", lambda folder: calls.append(folder))
    assert len(calls) == 1


@pytest.mark.parametrize("other", [("test", 2, "source"), ("test", 1, "other"), ("tset", 1, "source")])
def test_another_reader_version_or_source_is_another_entry(other: tuple[str, int, str]) -> None:
    assert cached("test", 1, "source", write_one) != cached(*other, write_one)


def test_arrays_are_mapped_read_only() -> None:
    array = read_array(cached("test", 1, "source", write_one), "x")
    assert isinstance(array.base, np.memmap)
    assert not array.flags.writeable


def test_an_entry_that_failed_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_one(folder)
        raise DataError("no")

    with pytest.raises(DataError):
        cached("test", 1, "source", fail)
    assert list((tmp_path / "cache" / "decoded").iterdir()) == []


def test_of_two_at_once_one_wins_and_both_can_read(tmp_path: Path) -> None:
    both_write = threading.Barrier(2, timeout=10)
    found: list[Path] = []

    def write(folder: Path) -> None:
        both_write.wait()
        write_one(folder)

    threads = [threading.Thread(target=lambda: found.append(cached("test", 1, "source", write))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 2
    assert [path.name for path in (tmp_path / "cache" / "decoded").iterdir()] == [found[0].name]
    np.testing.assert_array_equal(read_array(found[0], "x"), np.arange(4))


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SAE_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="set SAE_CACHE to another folder"):
        cached("test", 1, "source", write_one)


def test_a_source_that_cannot_be_read_is_not_blamed_on_the_cache(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone cannot be read: No such file"):
        cached("test", 1, "source", lambda _: (tmp_path / "gone").unlink())


def test_rows_written_one_by_one_are_the_array(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 255, (5, 3, 2), np.uint8)
    write_rows(tmp_path / "x.npy", array.shape, array.dtype, iter(array))
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), array)


def test_a_second_start_decodes_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = data_config(write_zip(tmp_path / "a.zip", class_files()))
    first = load(config)
    monkeypatch.setattr(images, "_open", lambda *_: pytest.fail("decoded again"))
    np.testing.assert_array_equal(load(config).train.inputs[:], first.train.inputs[:])


def test_a_changed_folder_is_decoded_again(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files())
    load(data_config(path))
    write_folder(path, {"cat/99.png": image_bytes(0)})
    dataset = load(data_config(path))
    assert len(dataset.train) + len(dataset.val) + len(dataset.test) == 21


def test_a_changed_file_is_decoded_again(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz")
    load(data_config(path, task="classification"))
    time.sleep(0.01)
    write_npz(path, test_images=np.full((12, 8, 8), 7, np.uint8))
    assert (load(data_config(path, task="classification")).test.inputs[:] == 7).all()


def test_splits_made_by_us_stay_on_disk(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", class_files())))
    assert not isinstance(dataset.train.inputs, np.ndarray)


def test_a_change_that_keeps_size_and_time_is_decoded_again(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "a", class_files())
    image = next(folder.rglob("*.png"))
    first = load(data_config(folder)).test.inputs[:]
    before = image.stat()
    for path in folder.rglob("*.png"):
        content = bytearray(image_bytes(255))
        path.write_bytes(bytes(content).ljust(path.stat().st_size, b"\0"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not np.array_equal(load(data_config(folder)).test.inputs[:], first)


def test_a_settled_file_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_npz(tmp_path / "a.npz")
    monkeypatch.setattr(cache, "SETTLED_SECONDS", 0.0)
    time.sleep(0.01)
    found = cache.file_identity(path)
    monkeypatch.setattr(cache, "_hash", lambda _: pytest.fail("hashed again"))
    assert cache.file_identity(path) == found


def test_content_decides_and_not_the_place(tmp_path: Path) -> None:
    one, other = (write_npz(tmp_path / name) for name in ("a.npz", "b.npz"))
    (tmp_path / "moved").mkdir()
    moved = one.rename(tmp_path / "moved" / "a.npz")
    assert cache.file_identity(moved) != cache.file_identity(other)  # another name is another set
    assert cache.file_identity(write_npz(tmp_path / "a.npz")) == cache.file_identity(moved)


@pytest.mark.parametrize("damage", ["cut", "begun", "gone", "unsealed"])
def test_a_damaged_entry_is_made_again(damage: str) -> None:
    folder = cached("test", 1, "source", write_one)
    content = (folder / "x.npy").read_bytes()
    if damage == "cut":
        (folder / "x.npy").write_bytes(content[:-8])
    elif damage == "begun":
        (folder / "x.npy").write_bytes(b"\0" * len(content))
    else:
        (folder / ("x.npy" if damage == "gone" else "entry.json")).unlink()
    np.testing.assert_array_equal(read_array(cached("test", 1, "source", write_one), "x"), np.arange(4))


def test_a_killed_decode_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    ready, release = os.pipe()
    child = os.fork()
    if child == 0:

        def die(folder: Path) -> None:
            write_one(folder)
            os.write(release, b"x")
            time.sleep(60)

        cached("test", 1, "source", die)
        os._exit(1)
    os.read(ready, 1)
    decoded = tmp_path / "cache" / "decoded"
    (working,) = decoded.iterdir()
    cached("test", 1, "another", write_one)
    assert working.is_dir()  # its process is still at work
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    cached("test", 1, "third", write_one)
    assert not working.exists()
    assert all(not path.name.startswith(".") for path in decoded.iterdir())


def test_the_command_shows_and_clears_the_cache(tmp_path: Path) -> None:
    folder = cached("test", 1, "source", write_one)
    shown = CliRunner().invoke(app, ["data", "cache"])
    assert (shown.exit_code, "test" in shown.stdout) == (0, True)
    found = json.loads(CliRunner().invoke(app, ["data", "cache", "--clear", "--json"]).stdout)
    assert [entry["name"] for entry in found["entries"]] == [folder.name]
    assert not folder.exists()
    assert not list((tmp_path / "cache" / "decoded").iterdir())
