"""Damaged and hostile data files are refused before they cost time or memory."""

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import DataError
from sae.data.catalogue import load
from sae.data.idx import LARGEST_UNPACKED, unpacked
from tests.data.samples import class_files, data_config, npz_arrays, signal_arrays, write_csv, write_npz, write_zip


def refused(path: Path, message: str, **settings: str) -> None:
    with pytest.raises(DataError, match=message):
        load(data_config(path, **{"task": "classification", **settings}))


def packed(path: Path, name: str, content: bytes) -> Path:
    """An .npz file with one array replaced by these bytes."""
    write_npz(path)
    with zipfile.ZipFile(path) as archive:
        held = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for file, data in {**held, f"{name}.npy": content}.items():
            archive.writestr(file, data)
    return path


def npy(header: str) -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def change_entries(path: Path, change: Callable[[bytearray, int, bool], None]) -> Path:
    """Change the entries of a zip, in both of its tables."""
    content = bytearray(path.read_bytes())
    for mark, is_central in ((b"PK\x03\x04", False), (b"PK\x01\x02", True)):
        place = content.find(mark)
        while place >= 0:
            change(content, place, is_central)
            place = content.find(mark, place + 4)
    path.write_bytes(content)
    return path


def encrypt(content: bytearray, place: int, is_central: bool) -> None:
    content[place + (8 if is_central else 6)] |= 1


def pack_oddly(content: bytearray, place: int, is_central: bool) -> None:
    content[place + (10 if is_central else 8)] = 97


@pytest.mark.parametrize("change", [encrypt, pack_oddly])
def test_an_archive_that_cannot_be_unpacked_is_refused(
    tmp_path: Path, change: Callable[[bytearray, int, bool], None]
) -> None:
    refused(change_entries(write_npz(tmp_path / "a.npz"), change), "cannot be read")
    refused(change_entries(write_zip(tmp_path / "a.zip", class_files()), change), "cannot be read")


def test_corrupt_deflate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in class_files().items():
            archive.writestr(name, content * 50)
    damaged = bytearray(path.read_bytes())
    start = damaged.find(b"PK\x03\x04") + 40
    damaged[start : start + 20] = b"\xff" * 20
    path.write_bytes(damaged)
    refused(path, "is damaged")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '|u1', 'fortran_order': False, 'shape': (999999999999, 8, 8)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 8, 8)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': ((((((((",
        "{'descr': '|O', 'fortran_order': False, 'shape': (30,)}",
        "\x00",
        "",
    ],
)
def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path: Path, header: str) -> None:
    refused(packed(tmp_path / "a.npz", "train_images", npy(header) + b"\0" * 64), "train_images of .*")


def test_a_huge_header_is_refused(tmp_path: Path) -> None:
    content = b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 20) + b" " * (1 << 20)
    refused(packed(tmp_path / "a.npz", "train_images", content), "train_images of .*cannot be read")


@pytest.mark.parametrize("name", ["train_images", "train_labels"])
def test_an_array_without_dimensions_is_refused(tmp_path: Path, name: str) -> None:
    content = io.BytesIO()
    np.save(content, np.uint8(3))
    refused(packed(tmp_path / "a.npz", name, content.getvalue()), f"{name} of")


def test_a_stray_label_is_refused_and_not_given_an_output(tmp_path: Path) -> None:
    labels = npz_arrays()["train_labels"].astype(np.int64)
    labels[0] = 3_000_000
    refused(write_npz(tmp_path / "a.npz", train_labels=labels), r"without large gaps, got 3000000 and only 4 different")


def test_too_many_columns_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    names = [f"c{number}" for number in range(100_000)]
    path.write_text(f"{','.join(names)}\n{','.join(['1'] * 100_000)}\n")
    refused(path, "at most 20,000 columns, got 100,000", target="c0")


def test_a_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    monkeypatch.setattr("sae.data.idx.LARGEST_UNPACKED", 1000)
    assert LARGEST_UNPACKED > 100_000_000
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(100_000)))
    with pytest.raises(DataError, match="must unpack to at most 1,000 bytes"):
        unpacked(tmp_path / "a.gz")


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)])
def test_images_without_pixels_are_refused(tmp_path: Path, shape: tuple[int, int]) -> None:
    arrays = npz_arrays()
    empty = {name: np.zeros((len(array), *shape), np.uint8) for name, array in arrays.items() if "images" in name}
    refused(write_npz(tmp_path / "x.npz", {**arrays, **empty}), "images must have pixels")


def test_pixels_beyond_float32_are_refused(tmp_path: Path) -> None:
    arrays = npz_arrays()
    wide = {name: array.astype(np.float64) for name, array in arrays.items() if "images" in name}
    wide["test_images"][0, 0, 0] = 1e39
    refused(write_npz(tmp_path / "x.npz", {**arrays, **wide}), "pixels must be at most 3.4e\\+38, got larger ones in")


@pytest.mark.parametrize("row", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("number", [1e308, -1e200])
def test_a_number_that_float32_cannot_hold_after_standardisation_is_refused(
    tmp_path: Path, number: float, row: int
) -> None:
    """In whatever split the row is."""
    rows = [{"x": index % 7, "y": index % 3, "z": number if index == row else index} for index in range(30)]
    path = write_csv(tmp_path / "x.csv", rows)
    refused(path, "must fit into float32 after standardisation, but column 'z' of", target="y")


def test_a_signal_with_such_a_number_is_refused(tmp_path: Path) -> None:
    arrays = {name: array.astype(np.float64) if "signals" in name else array for name, array in signal_arrays().items()}
    arrays["train_signals"][0, 0, 0] = 1e308
    refused(write_npz(tmp_path / "x.npz", arrays), "must fit into float32", kind="signals")


def test_a_target_beyond_all_bounds_is_refused(tmp_path: Path) -> None:
    rows = [{"x": index % 7, "y": 1e308 if index == 3 else index} for index in range(30)]
    refused(write_csv(tmp_path / "x.csv", rows), "targets must be finite", target="y", task="regression")
