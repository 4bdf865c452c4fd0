"""Samples to predict: arrays that are checked, and files that are read one chunk at a time. No torch."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import ConfigError, DataError, DataWarning
from sae.core.task import SampleKind
from sae.data.archive import Files, Folder
from sae.data.columns import Reading
from sae.data.dataset import Cells, is_resolved
from sae.data.image_list import holds_images, listed_files
from sae.data.images import ImageKind, as_floats, decode_images, is_image, resized
from sae.data.locations import check_kind
from sae.data.npz import Member, open_member, samples_of_split
from sae.data.signals import check_finite
from sae.data.table_files import column_names, read_columns
from sae.data.targets import check_column
from sae.deploy.manifest import InputPart, Manifest
from sae.deploy.rows import Flags, labels_of, read_rows, true_targets
from sae.deploy.session import CHUNK, Integers, Samples

Numbers = NDArray[np.number]
Targets = Integers | NDArray[np.float64]

TABLE_SUFFIXES = (".csv", ".parquet")
IMAGES, NPZ, TABLE, LIST = "images", "an .npz file", "a table (.csv or .parquet)", "a table of image files"
"""The forms of files to predict."""


@dataclass(frozen=True)
class Chunk:
    """Some samples.

    Attributes:
        names: The name of each sample in a list of predictions.
        samples: Raw samples, (batch, *sample).
        targets: Labels or values, (batch,); None if the truth is unknown.
        imputed: Rows of a table with a missing value in a column that had none in training, (batch,).
        unseen: Rows of a table with a category that training did not see, (batch,).
        kept: Columns of a table that are copied into the predictions, by name, (batch,) texts each.
    """

    names: Sequence[str]
    samples: Samples
    targets: Targets | None
    imputed: Flags | None = None
    unseen: Flags | None = None
    kept: Mapping[str, Cells] = field(default_factory=dict)


def read_chunks(paths: Sequence[Path], manifest: Manifest, split: str, keep: Sequence[str] = ()) -> Iterator[Chunk]:
    """Read the samples of an `.npz` file, of a table, or of image files and folders of them.

    Args:
        paths: One file, or several images and folders.
        manifest: The manifest of the model that will predict them.
        split: The split to read from an `.npz` file that has splits.
        keep: Columns of a table that are copied into the predictions.
    """
    for path in paths:
        if not path.exists():
            raise DataError(f"the samples to predict must exist, got {path}")
        check_kind(path)
    suffixes = {path.suffix.lower() for path in paths if path.is_file()}
    is_table = bool(suffixes & set(TABLE_SUFFIXES))
    if (is_table or ".npz" in suffixes) and len(paths) > 1:
        raise DataError(f"an .npz file or a table must be given alone, got {len(paths)} paths")
    is_list = is_table and manifest.input.kind is SampleKind.IMAGES
    form = LIST if is_list else TABLE if is_table else NPZ if ".npz" in suffixes else IMAGES
    if form not in _forms(manifest.input):
        raise _wrong_form(manifest.input, paths[0])
    if keep and form != TABLE:
        raise ConfigError(f"--keep names columns of a table, but {paths[0]} is {form}: leave it out")
    if form == LIST:
        yield from _listed_images(paths[0], manifest)
    elif form == TABLE:
        yield read_table(paths[0], manifest, keep)
    elif form == NPZ:
        yield from _arrays(paths[0], manifest, split)
    else:
        yield from _images(paths, manifest)


def _forms(expected: InputPart) -> tuple[str, ...]:
    """Return the forms of files that a model can predict."""
    if expected.kind is SampleKind.IMAGES:
        return IMAGES, NPZ, LIST
    if expected.kind is SampleKind.TABLE:
        return (TABLE,)
    return (NPZ,) if expected.columns is None else (TABLE, NPZ)


def _wrong_form(expected: InputPart, path: Path) -> DataError:
    return DataError(f"this model predicts from {' or '.join(_forms(expected))}, got {path}")


def _arrays(path: Path, manifest: Manifest, split: str) -> Iterator[Chunk]:
    """Read the samples of a split and, if present, their labels; or those of a file without splits."""
    name, labels_name = samples_of_split(path, split)
    images = open_member(path, name)
    labels = open_member(path, labels_name).read() if labels_name else None
    if not images.shape or (labels is not None and not labels.ndim):
        raise DataError(f"{path} must hold arrays of samples and of labels, got a single value")
    if labels is not None and len(labels) != images.shape[0]:
        raise DataError(f"{path} must hold one label for each sample, got {len(labels)} and {images.shape[0]}")
    targets = None if labels is None else _targets(labels, manifest, f"{labels_name} of {path}")
    for start, rows in _chunked(images):
        stop = start + len(rows)
        yield Chunk([str(i) for i in range(start, stop)], rows, None if targets is None else targets[start:stop])


def _chunked(images: Member) -> Iterator[tuple[int, Samples]]:
    if not images.shape or not images.shape[0]:
        yield 0, np.zeros(images.shape or (0,), images.dtype)
        return
    rows: list[Samples] = []
    start = 0
    for row in images.rows():
        rows.append(row)
        if len(rows) == CHUNK:
            yield start, np.stack(rows)
            start, rows = start + len(rows), []
    if rows:
        yield start, np.stack(rows)


def _targets(labels: NDArray[np.generic], manifest: Manifest, where: str) -> Targets:
    """Check labels and bring them into the form of training, (sample,)."""
    flat, several = labels.reshape(len(labels), math.prod(labels.shape[1:])), manifest.target.names
    if several is not None:
        if flat.shape[1] != len(several) or not np.issubdtype(flat.dtype, np.number):
            raise DataError(
                f"labels must be {len(several)} numbers for each sample, got shape {labels.shape} in {where}"
            )
        return flat.astype(np.int64) if manifest.task == "classification" else flat.astype(np.float64)
    if manifest.task == "classification" and flat.dtype.kind == "U" and flat.shape[1] == 1:
        return labels_of(flat[:, 0].tolist(), manifest, where)
    if flat.shape[1] != 1 or not np.issubdtype(flat.dtype, np.number):
        raise DataError(
            f"labels must be one number for each sample, got shape {labels.shape}, {labels.dtype} in {where}"
        )
    if manifest.task == "regression":
        return flat[:, 0].astype(np.float64) / manifest.target.label_scale
    return _labels(flat[:, 0], _numbers_of_classes(manifest.target.class_names or ()), where)


def _numbers_of_classes(names: Sequence[str]) -> Integers:
    """Return the number by which a file calls each class: its name, if all are whole numbers, or its place."""
    if all(name.isascii() and name.isdigit() for name in names):
        return np.array([int(name) for name in names], np.int64)
    return np.arange(len(names))


def _labels(given: NDArray[np.generic], numbers: Integers, where: str) -> Integers:
    if given.size and not (np.issubdtype(given.dtype, np.integer) and np.isin(given, numbers).all()):
        is_plain = np.array_equal(numbers, np.arange(len(numbers)))
        allowed = f"in [0, {len(numbers) - 1}]" if is_plain else f"among {', '.join(map(str, numbers.tolist()))}"
        raise DataError(f"labels must be whole numbers {allowed}, as in training, in {where}")
    order = np.argsort(numbers)
    labels: Integers = order[np.searchsorted(numbers[order], given.astype(np.int64))]
    return labels


def _images(paths: Sequence[Path], manifest: Manifest) -> Iterator[Chunk]:
    """Read files, and all images in folders. An image in the folder of its class has a label."""
    files = [str(file) for path in paths for file in _files(path)]
    known = {name: label for label, name in enumerate(manifest.target.class_names or ())}
    parents = [Path(file).parent.name for file in files]
    has_labels = any(path.is_dir() for path in paths) and all(parent in known for parent in parents)
    targets = np.array([known[parent] for parent in parents], np.int64) if has_labels else None
    yield from _decoded(Files(Path(), files), targets, manifest)


def _listed_images(path: Path, manifest: Manifest) -> Iterator[Chunk]:
    """Read the images that a table names, with the truth if its column is there."""
    targets = manifest.target.columns
    columns = read_columns(path, Reading(texts=targets if manifest.task == "classification" else ()))
    others = {name: column for name, column in columns.items() if name not in targets}
    if not any(holds_images(column) for column in others.values()):
        raise _wrong_form(manifest.input, path)
    yield from _decoded(listed_files(others, path), true_targets(columns, manifest, path), manifest)


def _decoded(files: Files, targets: Targets | None, manifest: Manifest) -> Iterator[Chunk]:
    expected = manifest.input
    channels, height, width = expected.shape
    kind = ImageKind(height, width, channels, expected.depth, expected.fit)
    for start in range(0, len(files.names), CHUNK):
        part = slice(start, start + CHUNK)
        samples = np.stack(list(decode_images(files, files.names[part], kind)))
        yield Chunk(files.names[part], samples, None if targets is None else targets[part])


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = [path / name for name in Folder(path).names if is_image(name)]
    if not found:
        raise DataError(f"{path} must hold images, got none")
    return found


def read_table(path: Path, manifest: Manifest, keep: Sequence[str] = ()) -> Chunk:
    """Read the rows of a table, named by their numbers from 1, with the truth if its column is there.

    Args:
        path: The table.
        manifest: The manifest of the model.
        keep: Columns that are copied into the predictions, as texts.
    """
    for name in keep:
        check_column("--keep", name, column_names(path), path)
    rows = read_rows(path, manifest)
    names = [str(row) for row in range(1, len(rows.samples) + 1)]
    kept = read_columns(path, Reading(only=keep, texts=keep, usual=())) if keep else {}
    texts = {name: np.array([value or "" for value in column.values], object) for name, column in kept.items()}
    truth = true_targets(rows.columns, manifest, path)
    return Chunk(names, rows.samples, truth, rows.imputed, rows.unseen, texts)


def as_samples(x: object, expected: InputPart) -> Samples:
    """Convert an array to samples (batch, *sample) in the graph's dtype. Refuse ambiguous arrays.

    Images are numbers of the depth of training, by default whole numbers in [0, 255]. Channels may
    come last, and gray images may have no channel dimension; so may signals of one channel. Images of
    any size are resized if those of training were; then they may also be a list of arrays of several
    sizes. Features and signals are finite numbers.
    """
    if expected.fit is not None and isinstance(x, list | tuple) and x:
        return np.concatenate([as_samples(np.asarray(image)[None], expected) for image in x])
    array = np.asarray(x)
    if array.dtype == np.dtype(bool) or not np.issubdtype(array.dtype, np.number):
        raise DataError(f"samples must be numbers, got {array.dtype}")
    if expected.kind is SampleKind.IMAGES:
        return _pixels(array, expected)
    return _signals(array, expected) if expected.kind is SampleKind.SIGNALS else _features(array, expected)


def _signals(array: Numbers, expected: InputPart) -> NDArray[np.float64]:
    channels, length = expected.shape
    signals = array[:, None] if channels == 1 and array.shape[1:] == (length,) else array
    if signals.shape[1:] != expected.shape:
        hint = ": a single signal needs a batch, x[None]" if array.shape == expected.shape else ""
        raise DataError(f"signals must be (batch, {channels}, {length}), got {array.shape}{hint}")
    check_finite(signals, "the samples")
    return signals.astype(np.float64)


def _features(array: Numbers, expected: InputPart) -> NDArray[np.float32] | NDArray[np.float64]:
    if array.ndim != 2 or array.shape[1:] != expected.shape:
        raise DataError(f"samples must be (batch, {expected.shape[0]}), one number for each feature, got {array.shape}")
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise DataError(
            f"features must be finite, got {array[row, column]} in sample {row}, feature {column}: "
            f"remove or impute such values"
        )
    if expected.dtype == "float32":  # a graph of an older version
        return array.astype(np.float32)
    if array.dtype == np.float32:
        _warn_of_rounding(np.float32, expected)
    return array.astype(np.float64)


def _warn_of_rounding(dtype: type[np.floating], expected: InputPart) -> None:
    """Warn of a feature whose spread is lost in the type of the given samples."""
    pairs = enumerate(zip(expected.mean, expected.std, strict=True))
    lost = [index for index, (mean, std) in pairs if not is_resolved(mean, std, dtype)]
    if lost:
        warnings.warn(
            f"feature {lost[0]} has lost its spread: samples are in {dtype.__name__}, where numbers around "
            f"{expected.mean[lost[0]]:g} are too far apart for a standard deviation of {expected.std[lost[0]]:g}; "
            f"give samples in float64",
            DataWarning,
            stacklevel=4,
        )


def _pixels(array: Numbers, expected: InputPart) -> Samples:
    images = _channels_first(array, expected)
    checked = _bytes(images) if expected.depth == 8 else _deep(images, expected.depth)
    if expected.fit is None or checked.shape[1:] == expected.shape:
        return np.ascontiguousarray(checked)
    _, height, width = expected.shape
    fitted = [resized(image, height, width, expected.fit) for image in checked]
    return np.stack(fitted) if fitted else np.zeros((0, *expected.shape), checked.dtype)


def _bytes(images: Numbers) -> NDArray[np.uint8]:
    """Return pixels of 8 bits; refuse numbers whose scale is unknown."""
    if not np.issubdtype(images.dtype, np.integer):
        raise DataError(
            f"pixels must be uint8 in [0, 255], got {images.dtype}, whose scale is unknown: "
            f"convert them first, for values in [0, 1] with (255 * x).round().astype('uint8')"
        )
    if images.size and images.dtype != np.uint8 and not (images.min() >= 0 and images.max() <= 255):
        raise DataError(f"pixels must be in [0, 255], got values from {images.min()} to {images.max()}")
    return images.astype(np.uint8, copy=False)


def _deep(images: Numbers, depth: int) -> NDArray[np.float32]:
    """Return pixels of more than 8 bits as float32; refuse pixels that seem to have another scale."""
    if images.dtype in (np.dtype(np.uint8), np.dtype(np.int8)) or (depth == 32 and images.dtype == np.uint16):
        raise DataError(
            f"pixels must have {depth} bits like those of training, got {images.dtype}, whose scale differs: "
            f"convert them first"
        )
    pixels = as_floats(images, "the samples")
    if depth == 16 and pixels.size:
        lowest, highest = pixels.min(), pixels.max()
        is_scaled = images.dtype.kind == "f" and 0 < highest <= 1
        if lowest < 0 or highest > 65535 or is_scaled:
            raise DataError(
                f"pixels must be in [0, 65535] like those of training, got values from {lowest:g} to {highest:g}"
            )
    return pixels


def _channels_first(array: Numbers, expected: InputPart) -> Numbers:
    """Return images as (batch, channel, height, width); of any height and width if they are resized."""
    channels, height, width = expected.shape
    if array.shape[1:] == (channels, height, width):
        return array
    if array.shape[1:] == (height, width, channels):
        return array.transpose(0, 3, 1, 2)
    is_any_size = expected.fit is not None and 0 not in array.shape[1:]
    if channels == 1 and (array.shape[1:] == (height, width) or (is_any_size and array.ndim == 3)):
        return array[:, None]
    is_first, is_last = (is_any_size and array.ndim == 4 and array.shape[axis] == channels for axis in (1, 3))
    if is_first != is_last:
        return array if is_first else array.transpose(0, 3, 1, 2)
    sides = ("height", "width") if expected.fit is not None else (height, width)
    hint = ": a single image needs a batch, x[None]" if array.shape == expected.shape else ""
    raise DataError(
        f"images must be (batch, {channels}, {sides[0]}, {sides[1]}) or (batch, {sides[0]}, {sides[1]}, {channels}), "
        f"got {array.shape}{hint}"
    )
