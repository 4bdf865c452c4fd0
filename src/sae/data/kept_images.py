"""Decoded images on disk, and their splits.

A kept set has three files per part: `{part}_images.npy` (sample, channel, height, width),
`{part}_labels.npy` (sample,), and `{part}_moments.npy` (sample, 2, channel), the mean and mean
square of each image. The moments give the normalisation of any choice of samples without reading
the images again. `kind.json` holds the `ImageKind` of the images.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sae.config.run import DataConfig
from sae.core.errors import DataWarning
from sae.core.progress import reading
from sae.core.task import DataSpec, Task
from sae.data.cache import read_array, write_rows
from sae.data.dataset import SPLITS, Array, Dataset, Normalisation, Split, is_resolved, some_rows
from sae.data.images import ImageKind
from sae.data.splits import split_parts


@dataclass(frozen=True)
class DecodedImages:
    """One split of a kept set, mapped from disk."""

    images: Array
    labels: Array
    moments: NDArray[np.float64]


def resizing(config: DataConfig) -> list[object]:
    """Return how images are resized, as part of the identity of a kept set; empty if they are not."""
    return [config.resize, config.fit] if config.resize else []


def keep_split(
    folder: Path,
    split: str,
    images: Iterator[Array],
    labels: Array,
    kind: ImageKind,
    frame: int = 0,
) -> None:
    """Write the images, labels and moments of a split; the moments leave out a black frame.

    Args:
        folder: Folder to write to.
        split: Name of the split.
        images: (channel, height, width) each.
        labels: (sample,) or (sample, 1).
        kind: The kind of the images, without the frame.
        frame: Black pixels to add on each side.
    """
    shape = (len(labels), kind.channels, kind.height + 2 * frame, kind.width + 2 * frame)
    moments = np.zeros((shape[0], 2, shape[1]))

    def rows() -> Iterator[Array]:
        with reading(f"decoding {split}", len(labels), "images") as advance:
            for index, image in enumerate(images):
                flat = image.reshape(shape[1], -1).astype(np.float64)
                moments[index] = flat.mean(axis=1), np.square(flat).mean(axis=1)
                yield np.pad(image, ((0, 0), (frame, frame), (frame, frame))) if frame else image
                advance()

    write_rows(folder / f"{split}_images.npy", shape, kind.dtype, rows())
    np.save(folder / f"{split}_moments.npy", moments)
    np.save(folder / f"{split}_labels.npy", labels)


def keep_kind(folder: Path, kind: ImageKind) -> None:
    """Write the kind of the images of a kept set."""
    (folder / "kind.json").write_text(json.dumps(asdict(kind)))


def kept_kind(folder: Path) -> ImageKind:
    """Read the kind of the images of a kept set."""
    return ImageKind(**json.loads((folder / "kind.json").read_text()))


def keep_class_names(folder: Path, names: Sequence[str]) -> None:
    """Write the names of the classes."""
    (folder / "class_names.json").write_text(json.dumps(list(names)), encoding="utf-8")


def kept_class_names(folder: Path) -> tuple[str, ...]:
    """Read the names of the classes of a kept set."""
    return tuple(json.loads((folder / "class_names.json").read_text(encoding="utf-8")))


def kept_splits(folder: Path) -> dict[str, DecodedImages]:
    """Map the splits of a kept set from disk."""
    names = sorted(path.name.removesuffix("_images.npy") for path in folder.glob("*_images.npy"))
    return {
        name: DecodedImages(
            read_array(folder, f"{name}_images"),
            read_array(folder, f"{name}_labels"),
            read_array(folder, f"{name}_moments").astype(np.float64, copy=False),
        )
        for name in names
    }


def split_images(
    decoded: Mapping[str, DecodedImages],
    targets: Mapping[str, Array],
    split_seed: int,
    class_names: Sequence[str] | None,
    path: Path,
) -> tuple[dict[str, Split], NDArray[np.float64]]:
    """Return train, val and test, and the moments of the training images; make missing splits at random.

    Args:
        decoded: The parts of a set: train, test and perhaps val, or all.
        targets: Targets of each part; integers are labels, whose shares are kept.
        split_seed: Seed of the random choices.
        class_names: Names of the classes, for messages.
        path: The file or folder, for messages.
    """
    chosen = split_parts(targets, split_seed, class_names, path)
    parts = {name: some_rows(decoded[part].images, targets[part], rows) for name, (part, rows) in chosen.items()}
    part, rows = chosen["train"]
    moments = decoded[part].moments
    return parts, moments if rows is None else moments[rows]


def normalisation_of(moments: NDArray[np.float64]) -> Normalisation:
    """Return the mean and standard deviation of each channel; a constant channel is only centred.

    Args:
        moments: Mean and mean square of each image, (sample, 2, channel).
    """
    mean, square = moments.mean(axis=0)
    std = np.sqrt(np.maximum(square - np.square(mean), 0.0))
    return Normalisation(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))


def image_dataset(
    name: str,
    parts: Mapping[str, Split],
    task: Task,
    moments: NDArray[np.float64],
    kind: ImageKind,
    class_names: tuple[str, ...] | None,
    frame: int = 0,
) -> Dataset:
    """Make a data set of the images of a kept set.

    Args:
        name: Name of the data set.
        parts: Train, val and test.
        task: The task.
        moments: Moments of the training images.
        kind: The kind of the images, without a frame.
        class_names: Names of the classes, if they have names.
        frame: Black pixels that were added on each side.
    """
    train, val, test = (parts[split] for split in SPLITS)
    normalisation = normalisation_of(moments)
    if not all(is_resolved(*pair, np.float32) for pair in zip(normalisation.mean, normalisation.std, strict=True)):
        warnings.warn(
            f"the images of {name} have lost their spread: float32 cannot distinguish numbers around "
            f"{normalisation.mean[0]:g} with a standard deviation of {normalisation.std[0]:g}; "
            "subtract their mean first",
            DataWarning,
            stacklevel=2,
        )
    return Dataset(
        name,
        DataSpec(train.inputs.shape[1:], task),
        normalisation,
        train,
        val,
        test,
        class_names,
        frame=frame,
        depth=kind.depth,
        fit=kind.fit,
    )
