"""Decoding of images, and the files in which a decoded set is kept.

A kept set has three files per split: `{split}_images.npy` (sample, channel, height, width) in
uint8, `{split}_labels.npy` (sample,), and `{split}_moments.npy` (sample, 2, channel), the mean
and mean square of each image. The moments give the normalisation of any choice of samples
without reading the images again.
"""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from sae.core.errors import DataError
from sae.data.archive import FileTree
from sae.data.cache import read_array, write_rows
from sae.data.dataset import Array, Normalisation, Pixels

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
GRAY_MODES = ("1", "L", "LA")
EIGHT_BIT_MODES = (*GRAY_MODES, "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")
LARGEST_SIDE = 4096
"""Largest width and height of an image in pixels."""


@dataclass(frozen=True)
class ImageKind:
    """Size and number of channels, which all images of a data set share."""

    height: int
    width: int
    channels: int


@dataclass(frozen=True)
class DecodedImages:
    """One split of a kept set, mapped from disk."""

    images: Pixels
    labels: Array
    moments: NDArray[np.float64]


def is_image(name: str) -> bool:
    """Return whether a file name is that of an image."""
    return name.lower().endswith(IMAGE_SUFFIXES)


def survey(tree: FileTree, names: Sequence[str]) -> ImageKind:
    """Return the kind of all images from their headers: gray if all are gray, all of one size."""
    first, gray = None, True
    for name in names:
        with _open(tree, name) as image:
            size, mode = image.size, image.mode
        first = first or (name, size)
        gray = gray and mode in GRAY_MODES
        if size != first[1]:
            raise DataError(
                f"all images must have one size, but {tree.path / name} is {size[0]}×{size[1]} "
                f"and {tree.path / first[0]} is {first[1][0]}×{first[1][1]}: resize them first"
            )
    if first is None:
        raise DataError(f"{tree.path} must hold images ({', '.join(IMAGE_SUFFIXES)}), got none")
    width, height = first[1]
    return ImageKind(height, width, 1 if gray else 3)


def decode_images(tree: FileTree, names: Sequence[str], kind: ImageKind) -> Iterator[Pixels]:
    """Yield each image as (channel, height, width) in uint8."""
    for name in names:
        with _open(tree, name) as image:
            try:
                pixels = np.asarray(image.convert("L" if kind.channels == 1 else "RGB"))
            except (OSError, ValueError, SyntaxError) as error:
                raise DataError(f"{tree.path / name} is damaged and cannot be decoded: {error}") from None
        if pixels.shape[:2] != (kind.height, kind.width):
            raise DataError(
                f"all images must be {kind.width}×{kind.height}, but {tree.path / name} "
                f"is {pixels.shape[1]}×{pixels.shape[0]}"
            )
        yield pixels.reshape(kind.height, kind.width, -1).transpose(2, 0, 1)


def keep_split(
    folder: Path, split: str, images: Iterator[Pixels], labels: Array, shape: tuple[int, ...], frame: int = 0
) -> None:
    """Write the images, labels and moments of a split; the moments leave out a black frame.

    Args:
        folder: Folder to write to.
        split: Name of the split.
        images: (channel, height, width) each.
        labels: (sample,) or (sample, 1).
        shape: (sample, channel, height, width) of the kept images, with the frame.
        frame: Black pixels to add on each side.
    """
    moments = np.zeros((shape[0], 2, shape[1]))

    def rows() -> Iterator[Pixels]:
        for index, image in enumerate(images):
            flat = image.reshape(shape[1], -1).astype(np.float64)
            moments[index] = flat.mean(axis=1), np.square(flat).mean(axis=1)
            yield np.pad(image, ((0, 0), (frame, frame), (frame, frame))) if frame else image

    write_rows(folder / f"{split}_images.npy", shape, np.uint8, rows())
    np.save(folder / f"{split}_moments.npy", moments)
    np.save(folder / f"{split}_labels.npy", labels)


def keep_class_names(folder: Path, names: Sequence[str]) -> None:
    """Write the names of the classes."""
    (folder / "class_names.json").write_text(json.dumps(list(names)), encoding="utf-8")


def kept_class_names(folder: Path) -> tuple[str, ...]:
    """Read the names of the classes of a kept set."""
    return tuple(json.loads((folder / "class_names.json").read_text(encoding="utf-8")))


def kept_splits(folder: Path) -> dict[str, DecodedImages]:
    """Map the splits of a kept set from disk."""
    names = [path.name.removesuffix("_images.npy") for path in folder.glob("*_images.npy")]
    return {
        name: DecodedImages(
            read_array(folder, f"{name}_images").astype(np.uint8, copy=False),
            read_array(folder, f"{name}_labels"),
            read_array(folder, f"{name}_moments").astype(np.float64, copy=False),
        )
        for name in names
    }


def normalisation_of(moments: NDArray[np.float64]) -> Normalisation:
    """Return the mean and standard deviation of each channel; a constant channel is only centred.

    Args:
        moments: Mean and mean square of each image, (sample, 2, channel).
    """
    mean, square = moments.mean(axis=0)
    std = np.sqrt(np.maximum(square - np.square(mean), 0.0))
    return Normalisation(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))


def _open(tree: FileTree, name: str) -> Image.Image:
    data = tree.read(name)
    try:
        image = Image.open(io.BytesIO(data))
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        reason = "unknown format" if isinstance(error, UnidentifiedImageError) else str(error)
        raise DataError(f"{tree.path / name} must be an image: {reason}") from None
    if image.mode not in EIGHT_BIT_MODES:
        raise DataError(f"images must have 8 bits per channel, got mode {image.mode} in {tree.path / name}")
    if max(image.size) > LARGEST_SIDE:
        raise DataError(
            f"images must be at most {LARGEST_SIDE} pixels wide and high, "
            f"got {image.width}×{image.height} in {tree.path / name}"
        )
    return image
