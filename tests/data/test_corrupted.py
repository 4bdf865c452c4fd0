import os
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import DataError
from sae.data.corruptions import SHIFT_SEED, CorruptedImages, corrupt
from sae.data.corruptions import apply as module


def images(count: int = 30) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 1, 16, 16), dtype=np.uint8)


def test_a_set_is_what_the_corruption_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 7)  # pieces that do not divide the set
    expected = corrupt(images(), "gaussian_noise", 3, SHIFT_SEED)
    assert (CorruptedImages(images()).get("gaussian_noise", 3) == expected).all()


def test_a_second_reading_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = CorruptedImages(images()).get("fog", 2)
    monkeypatch.setattr(module, "corrupt", None)
    assert (CorruptedImages(images()).get("fog", 2) == first).all()


def test_other_pixels_are_another_set() -> None:
    other = images()
    other[4, 0, 3, 3] ^= 1
    one, two = CorruptedImages(images()).get("contrast", 1), CorruptedImages(other).get("contrast", 1)
    assert not np.array_equal(one, two)


def test_a_set_is_mapped_from_disk() -> None:
    found = CorruptedImages(images()).get("brightness", 1)
    assert isinstance(found.base, np.memmap) or isinstance(found, np.memmap)


def test_tables_cannot_be_corrupted() -> None:
    with pytest.raises(DataError, match="only uint8 images can be corrupted"):
        CorruptedImages(np.zeros((4, 10), np.float32))


def test_the_cache_is_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAE_CACHE", str(tmp_path))
    CorruptedImages(images()).get("contrast", 1)
    assert [path.name.split("-")[0] for path in (tmp_path / "decoded").iterdir()] == ["corrupted"]


SETS = [("contrast", 1), ("fog", 2), ("gaussian_noise", 3), ("brightness", 5)]
SIZE = 30 * 16 * 16 + 128
"""Bytes of a kept set of the images above."""


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "decoded").glob("corrupted-*"))


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_change_no_pixel(tmp_path: Path, processes: int) -> None:
    expected = [corrupt(images(), name, severity, SHIFT_SEED) for name, severity in SETS]
    found = [np.array(pixels) for pixels in CorruptedImages(images()).each(SETS, processes)]
    np.testing.assert_array_equal(found, expected)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["decoded"]  # the copy of the images is gone


def test_sets_that_are_kept_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = [np.array(pixels) for pixels in CorruptedImages(images()).each(SETS)]
    monkeypatch.setattr(module, "ProcessPoolExecutor", None)
    np.testing.assert_array_equal(list(CorruptedImages(images()).each(SETS, processes=2)), first)


def test_the_sets_that_were_not_used_for_longest_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAE_CACHE_LIMIT", str(3 * SIZE / 1e9))
    old, new, third = (CorruptedImages(images() ^ shade) for shade in (0, 1, 2))
    for place, item in enumerate((old, new)):
        list(item.each(SETS[:1]))
        os.utime(item.keep(*SETS[0]), (place, place))
    list(third.each(SETS[:2]))
    assert [name.split("-")[1] for name in kept(tmp_path / "cache")] == sorted(
        item.digest[:16] for item in (new, third, third)
    )


def test_sets_for_which_there_is_no_room_are_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAE_CACHE_LIMIT", str(2 * SIZE / 1e9))
    expected = [corrupt(images(), name, severity, SHIFT_SEED) for name, severity in SETS]
    for _ in range(2):
        np.testing.assert_array_equal([np.array(pixels) for pixels in CorruptedImages(images()).each(SETS)], expected)
        assert len(kept(tmp_path / "cache")) == 2


@pytest.mark.parametrize("limit", ["many", "-1", "nan", "inf"])
def test_a_limit_is_a_number_of_gigabytes(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setenv("SAE_CACHE_LIMIT", limit)
    with pytest.raises(DataError, match=f"SAE_CACHE_LIMIT must be a number of gigabytes, 0 or more, got '{limit}'"):
        list(CorruptedImages(images()).each(SETS[:1]))
