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
