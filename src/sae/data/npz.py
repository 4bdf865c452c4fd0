"""Images in `.npz` files with the arrays `{train,val,test}_{images,labels}`, as MedMNIST publishes them.

Arrays are read row by row, because the larger sets of MedMNIST do not fit into memory.
"""

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.core.task import Classification, DataSpec, Regression, Task
from sae.data.archive import open_zip
from sae.data.cache import cached, file_identity
from sae.data.dataset import (
    Array,
    Dataset,
    Normalisation,
    Pixels,
    Split,
    hold_out_validation,
    rows_of,
    standardised_regression,
)
from sae.data.images import DecodedImages, keep_split, kept_splits, normalisation_of
from sae.data.locations import check_md5, find_own, find_published
from sae.data.medmnist import MEDMNIST, PADDED_SIZE, MedMnistSet
from sae.data.npz_layout import array_names

VERSION = 1
"""Version of what is kept in the cache."""
DAMAGES = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, KeyError)
"""Exceptions that numpy and zipfile raise for a damaged file."""


@dataclass(frozen=True)
class Member:
    """An array of an `.npz` file that has not been read yet."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.number]
    is_column_major: bool

    def read(self) -> Array:
        """Read the whole array; pickled objects are refused, because they could run code."""
        try:
            with np.load(self.path, allow_pickle=False) as file:
                array: Array = file[self.name]
        except DAMAGES as error:
            raise _refusal(self.path, self.name, error) from None
        return array

    def rows(self) -> Iterator[Array]:
        """Yield the array row by row along its first dimension."""
        if self.is_column_major:
            yield from self.read()
            return
        size = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        try:
            with open_zip(self.path) as archive, archive.open(f"{self.name}.npy") as file:
                _read_header(file)
                for _ in range(self.shape[0]):
                    yield np.frombuffer(file.read(size), self.dtype).reshape(self.shape[1:])
        except DAMAGES as error:
            raise _refusal(self.path, self.name, error) from None


def open_member(path: Path, name: str) -> Member:
    """Read the header of an array."""
    try:
        with open_zip(path) as archive, archive.open(f"{name}.npy") as file:
            shape, is_column_major, dtype = _read_header(file)
    except DAMAGES as error:
        raise _refusal(path, name, error) from None
    return Member(path, name, shape, dtype, is_column_major and len(shape) > 1)


def read_medmnist(config: DataConfig, _seed: int) -> Dataset:
    """Read a set of MedMNIST with its official splits; images of 28² get a black frame to 32²."""
    facts = MEDMNIST[config.name]
    size = config.size or PADDED_SIZE
    file = facts.files(config.name)[size]
    splits = decoded_npz(find_published(file, config.name), file.md5)
    num_classes = len(facts.class_names)
    is_regression = facts.task == "regression"
    task: Task = Regression() if is_regression else Classification(num_classes)
    train, val, test = (
        Split(
            split.images, _levels(split.labels, num_classes) if is_regression else split.labels[:, 0].astype(np.int64)
        )
        for split in (splits["train"], splits["val"], splits["test"])
    )
    return Dataset(
        config.name,
        DataSpec(train.inputs.shape[1:], task),
        _published_normalisation(facts, size) or normalisation_of(splits["train"].moments),
        train,
        val,
        test,
        None if is_regression else facts.class_names,
        frame=frame_of(size, size),
        label_scale=num_classes - 1 if is_regression else 1,
    )


def read_own(config: DataConfig, _seed: int) -> Dataset:
    """Read the user's own file; its training split sets the normalisation and the scale of real targets."""
    path = find_own(config.name)
    splits = decoded_npz(path)
    targets = {
        name: targets_of(split.labels, config.task, f"{name}_labels of {path}") for name, split in splits.items()
    }
    where = f"train_labels of {path}"
    task: Task = (
        classes_of(targets["train"], where)
        if config.task == "classification"
        else standardised_regression(targets["train"], where)
    )
    train = splits["train"]
    parts = {name: Split(split.images, targets[name]) for name, split in splits.items()}
    moments = train.moments
    if "val" not in parts:
        kept, held_out = hold_out_validation(targets["train"], config.split_seed)
        parts["train"], parts["val"] = (
            Split(rows_of(train.images, rows), targets["train"][rows]) for rows in (kept, held_out)
        )
        moments = moments[kept]
    spec = DataSpec(train.images.shape[1:], task)
    frame = frame_of(*open_member(path, "train_images").shape[1:3])
    return Dataset(
        config.name, spec, normalisation_of(moments), parts["train"], parts["val"], parts["test"], frame=frame
    )


def read_images(path: Path) -> Pixels:
    """Read images without labels, (sample, channel, height, width): `test_images`, or an array named `images`."""
    names = array_names(path)
    name = next((name for name in ("test_images", "images") if name in names), None)
    if name is None:
        raise DataError(f"{path} must hold test_images or images, got {', '.join(names)}")
    member = open_member(path, name)
    images = member.read().reshape(_checked_shape(member)).transpose(0, 3, 1, 2)
    frame = frame_of(*images.shape[2:])
    return np.pad(images, ((0, 0), (0, 0), (frame, frame), (frame, frame)))


def decoded_npz(path: Path, md5: str | None = None) -> dict[str, DecodedImages]:
    """Return the splits of a file; it is decoded, and its checksum checked, only the first time."""
    source = [file_identity(path), md5]
    return kept_splits(cached("npz", VERSION, source, lambda folder: _decode(path, md5, folder)))


def classes_of(labels: Array, where: str) -> Classification:
    """Return the classification task that these training labels define."""
    present = np.unique(labels)
    if len(present) < 2:
        raise DataError(f"there must be at least 2 classes, got {present.tolist()} in {where}")
    return Classification(int(present[-1]) + 1)


def image_side(path: Path) -> int:
    """Return the shorter side of the images in a file, or 0 if it has none; `read_own` reports the error."""
    try:
        shape = open_member(path, "train_images").shape
    except DataError:
        return 0
    return min(shape[1:3]) if len(shape) >= 3 else 0


def frame_of(height: int, width: int) -> int:
    """Return the width of the black frame to add: images of 28² become 32², others stay."""
    return 2 if height == width == PADDED_SIZE else 0


def _decode(path: Path, md5: str | None, folder: Path) -> None:
    if md5 is not None:
        check_md5(path, md5)
    names = array_names(path)
    needed = [f"{split}_{part}" for split in ("train", "test") for part in ("images", "labels")]
    needed += ["val_labels"] if "val_images" in names else ["val_images"] if "val_labels" in names else []
    missing = [name for name in needed if name not in names]
    if missing:
        raise DataError(f"{path} must hold {', '.join(needed)}, but {', '.join(missing)} is missing; got {names}")
    for split in ("train", "val", "test") if "val_images" in names else ("train", "test"):
        _decode_split(path, split, folder)


def _decode_split(path: Path, split: str, folder: Path) -> None:
    images, labels = open_member(path, f"{split}_images"), open_member(path, f"{split}_labels").read()
    count, height, width, channels = _checked_shape(images)
    if count != len(labels):
        raise DataError(f"{images.name} of {path} must have one label for each image, got {count} and {len(labels)}")
    frame = frame_of(height, width)
    shape = (count, channels, height + 2 * frame, width + 2 * frame)
    pixels = (image.astype(np.uint8, copy=False) for image in images.rows())
    rows = (image.reshape(height, width, channels).transpose(2, 0, 1) for image in pixels)
    keep_split(folder, split, rows, labels, shape, frame)


def _checked_shape(images: Member) -> tuple[int, int, int, int]:
    """Return (sample, height, width, channel), or refuse an array that does not hold images."""
    where = f"{images.name} of {images.path}"
    if images.dtype != np.uint8:
        raise DataError(
            f"images must be uint8 in [0, 255], got {images.dtype} in {where}: scale and convert them first"
        )
    count, *size = images.shape or (0,)
    if not count:
        raise DataError(f"every split must hold samples, but {where} is empty")
    size = [*size, 1] if len(size) == 2 else size
    if len(size) != 3 or size[2] not in (1, 3):
        raise DataError(
            f"images must be (sample, height, width) or (sample, height, width, channel) with 1 or 3 channels, "
            f"got {images.shape} in {where}"
        )
    return count, size[0], size[1], size[2]


def targets_of(labels: Array, task: str | None, where: str) -> Array:
    """Return the targets of the samples, (sample,); refuse labels that do not suit the task."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"there must be one label for each sample, got shape {labels.shape} in {where}")
    is_integer = np.issubdtype(labels.dtype, np.integer)
    if task == "classification" and not is_integer:
        raise DataError(
            f"labels must be integers for classification, got {labels.dtype} in {where}: use --task regression?"
        )
    if not is_integer and not np.issubdtype(labels.dtype, np.floating):
        raise DataError(f"targets must be numbers, got {labels.dtype} in {where}")
    return labels.astype(np.int64 if task == "classification" else np.float64)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.number]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_column_major, dtype = read(file)
    return shape, is_column_major, dtype


def _refusal(path: Path, name: str, error: Exception) -> DataError:
    return DataError(f"{name} of {path} must be an array of numbers, but cannot be read: {error}")


def _levels(labels: Array, num_levels: int) -> Array:
    """Scale the grades 0, 1, … to [0, 1]."""
    return (labels[:, 0] / (num_levels - 1)).astype(np.float32)


def _published_normalisation(facts: MedMnistSet, size: int) -> Normalisation | None:
    """Return the paper's constants in units of pixels, or None; they exist for 28² only."""
    if facts.mean is None or facts.std is None or size != PADDED_SIZE:
        return None
    return Normalisation(tuple(255 * value for value in facts.mean), tuple(255 * value for value in facts.std))
