import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.core.task import Classification
from sae.data import published
from sae.data.catalogue import CATALOGUE, load, load_others
from sae.data.dataset import Array, Split
from sae.data.idx import parse_idx, read_idx
from sae.data.published import MNIST, MNIST_PARTS
from tests.data.samples import data_config

pytestmark = pytest.mark.long

NUM_TRAIN, NUM_TEST, NUM_VAL = 240, 30, 40


def idx_bytes(array: Array) -> bytes:
    """The layout by hand: two zeros, the type, the dimensions, their sizes, the values."""
    head = bytes((0, 0, 8, array.ndim)) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return head + array.astype(np.uint8).tobytes()


def small_arrays(seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 256, (NUM_TRAIN, 28, 28)),
        np.arange(NUM_TRAIN) % 10,
        rng.integers(0, 256, (NUM_TEST, 28, 28)),
        np.arange(NUM_TEST) % 10,
    ]


def publish(
    monkeypatch: pytest.MonkeyPatch, folder: Path, name: str = "fashionmnist", pack: bool = True, seed: int = 0
) -> list[Array]:
    """Put small files under the published names, with their sums in the table and no system folder."""
    arrays = small_arrays(seed)
    contents = [idx_bytes(array) for array in arrays]
    folder.mkdir(parents=True)
    for part, content in zip(MNIST_PARTS, contents, strict=True):
        (folder / f"{part}{'.gz' * pack}").write_bytes(gzip.compress(content) if pack else content)
    sums = [hashlib.sha256(content).hexdigest() for content in contents]
    facts = replace(MNIST[name], sha256=(sums[0], sums[1], sums[2], sums[3]), elsewhere=(), num_val=NUM_VAL)
    monkeypatch.setitem(published.MNIST, name, facts)
    return arrays


def rows(split: Split) -> list[bytes]:
    return sorted(image.tobytes() for image in split.inputs[:])


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("folder", ["fashion-mnist", "FashionMNIST/raw"])
def test_idx_files_become_framed_images(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, pack: bool
) -> None:
    arrays = publish(monkeypatch, tmp_path / "root" / folder, pack=pack)
    dataset = load(data_config("fashionmnist"))
    assert (dataset.spec.shape, dataset.spec.task, dataset.frame) == ((1, 32, 32), Classification(10), 2)
    np.testing.assert_array_equal(dataset.test.inputs[:][:, 0, 2:-2, 2:-2], arrays[2])
    np.testing.assert_array_equal(dataset.test.targets, arrays[3])


def test_validation_is_drawn_from_the_training_images_by_the_split_seed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arrays = publish(monkeypatch, tmp_path / "root" / "fashion-mnist")
    one, again, other = (
        load(data_config("fashionmnist", split_seed=seed), run) for seed, run in ((0, 0), (0, 1), (1, 0))
    )
    padded = np.pad(arrays[0].astype(np.uint8), ((0, 0), (2, 2), (2, 2)))
    assert sorted(rows(one.train) + rows(one.val)) == sorted(image.tobytes() for image in padded)
    assert np.bincount(one.val.targets).tolist() == [NUM_VAL // 10] * 10
    assert rows(one.val) == rows(again.val) != rows(other.val)


def test_another_content_under_a_published_name_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    publish(monkeypatch, tmp_path / "root" / "fashion-mnist")
    changed = small_arrays(seed=1)[0]
    (tmp_path / "root" / "fashion-mnist" / f"{MNIST_PARTS[0]}.gz").write_bytes(gzip.compress(idx_bytes(changed)))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz must unpack to the published content \(SHA-256"):
        load(data_config("fashionmnist"))


def test_a_missing_file_says_where_it_was_looked_for() -> None:
    with pytest.raises(DataError, match=r"t?train-images.*root.mnist or .*MNIST.raw.*run `sae data fetch mnist`"):
        load(data_config("mnist"))


def test_mnist_is_out_of_distribution_for_fashion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    publish(monkeypatch, tmp_path / "root" / "fashion-mnist")
    digits = publish(monkeypatch, tmp_path / "root" / "mnist", "mnist", pack=False, seed=1)
    others = load_others("mnist", load(data_config("fashionmnist")))
    np.testing.assert_array_equal(others[:][:, 0, 2:-2, 2:-2], digits[2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must be an idx file of unsigned bytes"),
        (b"\0\0\x0d\x01" + bytes(8), "must be an idx file of unsigned bytes, but begins with '00 00 0d 01'"),
        (idx_bytes(np.arange(6).reshape(2, 3))[:-1], "as many values as its head says, 2×3, got 5"),
    ],
)
def test_a_file_in_another_format_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_idx(content, Path("x"))


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(idx_bytes(np.arange(9)))[:-9])
    with pytest.raises(DataError, match=r"x\.gz cannot be unpacked"):
        read_idx(tmp_path / "x.gz")


def test_every_checksum_is_there_once() -> None:
    sums = [value for facts in MNIST.values() for value in (*facts.md5, *facts.sha256)]
    assert len(set(sums)) == len(sums)
    assert [len(value) for value in sums] == [*[32] * 4, *[64] * 4] * len(MNIST)


def test_the_files_of_a_system_package_are_the_published_ones() -> None:
    if not all(Path(folder).is_dir() for folder in MNIST["fashionmnist"].elsewhere):
        pytest.skip("the package dataset-fashion-mnist is not installed")
    dataset = load(DataConfig(name="fashionmnist"))
    assert [len(split) for split in (dataset.train, dataset.val, dataset.test)] == [55_000, 5_000, 10_000]
    assert CATALOGUE["fashionmnist"].is_here
    pixels = dataset.train.inputs[:][:, :, 2:-2, 2:-2]
    shares, values = np.bincount(pixels.ravel(), minlength=256) / pixels.size, np.arange(256)  # of 43 million pixels
    mean = shares @ values
    assert mean == pytest.approx(dataset.normalisation.mean[0], abs=0.3)
    assert (shares @ (values - mean) ** 2) ** 0.5 == pytest.approx(dataset.normalisation.std[0], abs=0.3)
