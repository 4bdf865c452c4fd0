"""Images in `.npz` files: the sets of MedMNIST, and the user's own."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from sae.config.run import DataConfig, Fit
from sae.core.errors import ConfigError, DataError
from sae.core.task import Classification, DataSpec, Regression, SampleKind, Task
from sae.data.cache import cached, file_identity
from sae.data.dataset import ALL, SPLITS, Array, Dataset, Depth, Indices, Known, Normalisation, some_rows, task_of
from sae.data.images import ImageKind, as_floats, channel_axis, resized
from sae.data.kept_images import (
    image_dataset,
    keep_kind,
    keep_split,
    kept_kind,
    kept_splits,
    normalisation_of,
    resizing,
    split_images,
)
from sae.data.locations import check_md5, find_own, find_published
from sae.data.npz import (
    Member,
    NpzLayout,
    array_names,
    find_layout,
    named_targets,
    open_member,
    samples_of_split,
)
from sae.data.published import MEDMNIST, PADDED_SIZE, MedMnistSet
from sae.data.splits import hold_out_validation

VERSION = 2
"""Version of the decoded files in the cache."""
DEPTHS: dict[np.dtype[np.generic], Depth] = {np.dtype(np.uint8): 8, np.dtype(np.uint16): 16}
"""Depth of images by the type of their array; other numbers are on a scale of their own."""


def read_medmnist(config: DataConfig, _seed: int) -> Dataset:
    """Read a set of MedMNIST with its official splits; images of 28² get a black frame to 32².

    With `val_fraction`, validation is drawn from the official training split, and the official one is not used.
    """
    facts = MEDMNIST[config.name]
    size = config.size or PADDED_SIZE
    file = facts.files(config.name)[size]
    splits = kept_splits(decoded_npz(find_published(file, config.name), config, file.md5))
    num_classes = len(facts.class_names)
    is_regression = facts.task == "regression"
    task: Task = Regression() if is_regression else Classification(num_classes)
    labels = {name: split.labels[:, 0].astype(np.int64) for name, split in splits.items()}
    chosen = official_rows(labels, config)
    train, val, test = (
        some_rows(splits[part].images, _levels(labels[part], num_classes) if is_regression else labels[part], rows)
        for part, rows in (chosen[name] for name in SPLITS)
    )
    part, rows = chosen["train"]
    moments = splits[part].moments if rows is None else splits[part].moments[rows]
    return Dataset(
        config.name,
        DataSpec(train.inputs.shape[1:], task),
        _published_normalisation(facts, size) or normalisation_of(moments),
        train,
        val,
        test,
        None if is_regression else facts.class_names,
        frame=frame_of(size, size),
        label_scale=num_classes - 1 if is_regression else 1,
    )


def official_rows(labels: Mapping[str, Array], config: DataConfig) -> dict[str, tuple[str, Indices | None]]:
    """Return the source of train, val and test: an official split, and the rows there; None for all rows."""
    official: dict[str, tuple[str, Indices | None]] = {name: (name, None) for name in SPLITS}
    if config.val_fraction is None:
        return official
    kept, held_out = hold_out_validation(labels["train"], config.split_seed, config.val_fraction)
    if not len(kept) or not len(held_out):
        raise ConfigError(
            f"data.val_fraction must leave samples for training and validation, got {config.val_fraction} of "
            f"{len(labels['train'])} samples"
        )
    return {**official, "train": ("train", kept), "val": ("train", held_out)}


def read_own(config: DataConfig, _seed: int, known: Known | None = None) -> Dataset:
    """Read the user's own file; its training split sets the normalisation and the scale of real targets.

    Args:
        config: The path, the task, and how images are resized.
        known: Classes of an earlier reading, if labels are texts; by default those of the training split.
    """
    path = find_own(config.name)
    kept = decoded_npz(path, config)
    decoded, kind, layout = kept_splits(kept), kept_kind(kept), _layout(path)
    places = {part: f"{name} of {path}" for part, name in layout.labels.items()}
    labels = {part: np.array(images.labels) for part, images in decoded.items()}
    targets, class_names = named_targets(labels, config.task, places, known)
    parts, moments = split_images(decoded, targets, config.split_seed, class_names, path)
    where = places.get("train", places.get(ALL, ""))
    task = task_of(config.task, parts["train"].targets, class_names, where)
    return image_dataset(config.name, parts, task, moments, kind, class_names, _frame(kind))


def read_images(path: Path, resize: tuple[int, int] | None = None, fit: Fit = "stretch") -> Array:
    """Read the test images of a file, or all of a file without splits, (sample, channel, height, width).

    Args:
        path: An `.npz` file.
        resize: Height and width that they are resized to; by default they keep their size.
        fit: How they are resized.
    """
    name, _ = samples_of_split(path, "test")
    member = open_member(path, name)
    kind = kind_of(member, resize, fit)
    frame = _frame(kind)
    images = np.stack(list(decoded_images(member, kind)))
    return np.pad(images, ((0, 0), (0, 0), (frame, frame), (frame, frame)))


def decoded_npz(path: Path, config: DataConfig, md5: str | None = None) -> Path:
    """Return the folder of a decoded file; it is decoded, and its checksum checked, only the first time."""
    source = [file_identity(path), md5, *resizing(config)]
    return cached("npz", VERSION, source, lambda folder: _decode(path, md5, config, folder))


def decoded_images(member: Member, kind: ImageKind) -> Iterator[Array]:
    """Yield each image of an array as (channel, height, width) in the type of its kind, resized."""
    axis = channel_axis(member.shape, f"{member.name} of {member.path}")
    for index, row in enumerate(member.rows()):
        image = row[None] if axis is None else np.moveaxis(row, axis - 1, 0)
        if kind.depth != 8:
            image = as_floats(image, f"sample {index} of {member.name} of {member.path}")
        yield image if kind.fit is None else resized(image, kind.height, kind.width, kind.fit)


def kind_of(member: Member, resize: tuple[int, int] | None = None, fit: Fit = "stretch") -> ImageKind:
    """Return the kind of the images in an array; refuse an array that does not hold images."""
    where = f"{member.name} of {member.path}"
    if member.dtype.kind not in "iuf":
        raise DataError(f"images must be numbers, got {member.dtype} in {where}: convert them first")
    if not member.shape or not member.shape[0]:
        raise DataError(f"every split must hold samples, but {where} is empty")
    if 0 in member.shape:
        raise DataError(f"images must have pixels, got shape {member.shape} in {where}")
    axis = channel_axis(member.shape, where)
    channels = 1 if axis is None else member.shape[axis]
    height, width = (size for place, size in enumerate(member.shape) if place not in (0, axis))
    kind = ImageKind(height, width, channels, DEPTHS.get(member.dtype, 32))
    return replace(kind, height=resize[0], width=resize[1], fit=fit) if resize else kind


def first_kind(path: Path) -> ImageKind | None:
    """Return the kind of the images in a file, or None if it has none; `read_own` reports the error."""
    try:
        layout = find_layout(path, SampleKind.IMAGES)
        return kind_of(open_member(path, next(iter(layout.samples.values())))) if layout else None
    except DataError:
        return None


def frame_of(height: int, width: int) -> int:
    """Return the width of the black frame to add: images of 28² become 32², others stay."""
    return 2 if height == width == PADDED_SIZE else 0


def _frame(kind: ImageKind) -> int:
    """Return the width of the black frame to add; resized images get none."""
    return frame_of(kind.height, kind.width) if kind.fit is None else 0


def _layout(path: Path) -> NpzLayout:
    layout = find_layout(path, SampleKind.IMAGES)
    if layout is None:
        raise DataError(
            f"{path} must hold train_images, train_labels, test_images and test_labels, or x_train, y_train, x_test "
            f"and y_test, or images and labels; got {', '.join(array_names(path))}"
        )
    layout.check_complete()
    return layout


def _decode(path: Path, md5: str | None, config: DataConfig, folder: Path) -> None:
    if md5 is not None:
        check_md5(path, md5)
    layout = _layout(path)
    members = {part: open_member(path, name) for part, name in layout.samples.items()}
    kinds = {part: kind_of(member, config.resize, config.fit) for part, member in members.items()}
    first = next(iter(kinds.values()))
    for part, member in members.items():
        if kinds[part] != first:
            other = next(iter(members.values()))
            hint = ": add --resize" if config.resize is None and kinds[part].depth == first.depth else ""
            raise DataError(
                f"the images of all splits must have one size and type, got {member.dtype} of shape {member.shape} in "
                f"{member.name} and {other.dtype} of shape {other.shape} in {other.name} of {path}{hint}"
            )
        labels = open_member(path, layout.labels[part]).read()
        if not labels.ndim:
            raise DataError(f"{layout.labels[part]} of {path} must hold a label for each image, got a single value")
        if member.shape[0] != len(labels):
            raise DataError(
                f"{member.name} of {path} must have one label for each image, got {member.shape[0]} and {len(labels)}"
            )
        keep_split(folder, part, decoded_images(member, first), labels, first, _frame(first))
    keep_kind(folder, first)


def _levels(labels: Array, num_levels: int) -> Array:
    """Scale the grades 0, 1, … to [0, 1]."""
    return (labels / (num_levels - 1)).astype(np.float32)


def _published_normalisation(facts: MedMnistSet, size: int) -> Normalisation | None:
    """Return the paper's constants in units of pixels, or None; they exist for 28² only."""
    if facts.mean is None or facts.std is None or size != PADDED_SIZE:
        return None
    return Normalisation(tuple(255 * value for value in facts.mean), tuple(255 * value for value in facts.std))
