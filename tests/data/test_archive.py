import zipfile
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import DataError
from sae.data import archive
from sae.data.archive import open_tree
from sae.data.catalogue import load
from tests.data.samples import class_files, data_config, write_folder, write_npz, write_zip


@pytest.mark.parametrize("name", ["../evil.png", "cat/../../evil.png", "/etc/evil.png", "..\\evil.png", "C:/evil.png"])
def test_a_path_that_escapes_is_refused(tmp_path: Path, name: str) -> None:
    path = write_zip(tmp_path / "a.zip", class_files())
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, b"")
    with pytest.raises(DataError, match=r"must not lead outside it, got .*evil\.png.* in .*a\.zip"):
        load(data_config(path))


def test_a_link_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("cat/link.png")
    link.external_attr = 0o120777 << 16
    path = write_zip(tmp_path / "a.zip", class_files())
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(link, "/etc/passwd")
    with pytest.raises(DataError, match=r"must not contain links, got 'cat/link\.png'"):
        load(data_config(path))


def test_an_archive_that_unpacks_to_many_times_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "HARMLESS_TOTAL", 1 << 20)
    path = write_zip(tmp_path / "a.zip", {"cat/a.png": bytes(4 << 20)})
    with pytest.raises(DataError, match=r"must unpack to at most .* got 4,194,304 bytes \(.* times its size\) in"):
        load(data_config(path))


def test_an_npz_that_unpacks_to_many_times_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "HARMLESS_TOTAL", 1 << 20)
    np.savez_compressed(tmp_path / "a.npz", train_images=np.zeros((4096, 32, 32), np.uint8))
    with pytest.raises(DataError, match="an archive must unpack to at most"):
        load(data_config(tmp_path / "a.npz", task="classification"))


def test_an_archive_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST_TOTAL", 1000)
    with pytest.raises(DataError, match="an archive must unpack to at most"):
        load(data_config(write_npz(tmp_path / "a.npz"), task="classification"))


def test_a_shared_folder_is_left_out_of_the_names(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"b/c.txt": b"", "a.txt": b""}, root="root/")
    assert open_tree(path).names == ("a.txt", "b/c.txt")


def test_a_zip_holds_what_its_folder_holds(tmp_path: Path) -> None:
    tree = open_tree(write_zip(tmp_path / "a.zip", {"b/c.txt": b"hello", "a.txt": b""}))
    assert tree.read("b/c.txt") == b"hello"


def test_a_folder_that_links_to_itself_is_walked_once(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", {"b/c.txt": b""})
    (path / "b" / "again").symlink_to(path, target_is_directory=True)
    assert open_tree(path).names == ("b/c.txt",)


def test_a_linked_folder_is_walked(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", {"b/c.txt": b""})
    (path / "link").symlink_to(write_folder(tmp_path / "elsewhere", {"d.txt": b""}), target_is_directory=True)
    assert open_tree(path).names == ("b/c.txt", "link/d.txt")


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    files = class_files()
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    content = files["dog/03.png"]
    path.write_bytes(path.read_bytes().replace(content, content[:-20] + bytes(20)))
    with pytest.raises(DataError, match=r"a\.zip is damaged: dog/03\.png cannot be read"):
        load(data_config(path))
