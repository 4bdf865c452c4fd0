"""Images: decoding, and how a decoded set of them is kept.

A kept set is three files: `{split}_images.npy` (sample, channel, height, width) in uint8,
`{split}_labels.npy` (sample,), and `{split}_moments.npy` (sample, 2, channel), the mean and mean
square of each image, from which the normalisation of any choice of samples follows at once.
"""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from sae.core.errors import DataError
from sae.data.archive import FileTree
from sae.data.cache import read_array, write_rows
from sae.data.dataset import Array, Normalisation

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
GRAY_MODES = ("1", "L", "LA")
EIGHT_BIT_MODES = (*GRAY_MODES, "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")
LARGEST_SIDE = 4096


@dataclass(frozen=True)
class ImageKind:
    """What images must have in common to be one data set."""

    height: int
    width: int
    channels: int


@dataclass(frozen=True)
class DecodedImages:
    """One split of a kept set, mapped from disk."""

    images: Array
    labels: Array
    moments: Array


def is_image(name: str) -> bool:
    """Whether a file is an image by its name."""
    return name.lower().endswith(IMAGE_SUFFIXES)


def survey(tree: FileTree, names: Sequence[str]) -> ImageKind:
    """The kind of all images, from their headers: gray if all are; an image of another size is named."""
    first, gray = None, True
    for name in names:
        with _open(tree, name) as image:
            size, mode = image.size, image.mode
        first = first or (name, size)
        gray = gray and mode in GRAY_MODES
        if size != first[1]:
            raise DataError(
                f"all images must have one size, however {tree.path / name} is {size[0]}×{size[1]} "
                f"and {tree.path / first[0]} is {first[1][0]}×{first[1][1]}: resize them first"
            )
    if first is None:
        raise DataError(f"{tree.path} must hold images ({', '.join(IMAGE_SUFFIXES)}), got none")
    width, height = first[1]
    return ImageKind(height, width, 1 if gray else 3)


def decode_images(tree: FileTree, names: Sequence[str], kind: ImageKind) -> Iterator[Array]:
    """Each image as (channel, height, width) in uint8."""
    for name in names:
        with _open(tree, name) as image:
            try:
                pixels = np.asarray(image.convert("L" if kind.channels == 1 else "RGB"))
            except (OSError, ValueError, SyntaxError) as error:
                raise DataError(f"{tree.path / name} must be a whole image, however: {error}") from None
        if pixels.shape[:2] != (kind.height, kind.width):
            raise DataError(
                f"all images must be {kind.width}×{kind.height}, however {tree.path / name} "
                f"is {pixels.shape[1]}×{pixels.shape[0]}"
            )
        yield pixels.reshape(kind.height, kind.width, -1).transpose(2, 0, 1)


def keep_images(folder: Path, split: str, images: Iterator[Array], shape: tuple[int, ...], frame: int = 0) -> None:
    """Write the images of a split and their moments, which do not count a black frame.

    Args:
        folder: Where to.
        split: Name of the split.
        images: (channel, height, width) each.
        shape: (sample, channel, height, width) as it is kept, with the frame.
        frame: Black pixels to add on each side.
    """
    moments = np.zeros((shape[0], 2, shape[1]))

    def rows() -> Iterator[Array]:
        for index, image in enumerate(images):
            flat = image.reshape(shape[1], -1).astype(np.float64)
            moments[index] = flat.mean(axis=1), np.square(flat).mean(axis=1)
            yield np.pad(image, ((0, 0), (frame, frame), (frame, frame))) if frame else image

    write_rows(folder / f"{split}_images.npy", shape, np.uint8, rows())
    np.save(folder / f"{split}_moments.npy", moments)


def keep_labels(folder: Path, split: str, labels: Array) -> None:
    """Write the labels of a split."""
    np.save(folder / f"{split}_labels.npy", labels)


def keep_class_names(folder: Path, names: Sequence[str]) -> None:
    """Write what the classes are called."""
    (folder / "class_names.json").write_text(json.dumps(list(names)), encoding="utf-8")


def kept_class_names(folder: Path) -> tuple[str, ...]:
    """What the classes of a kept set are called."""
    return tuple(json.loads((folder / "class_names.json").read_text(encoding="utf-8")))


def kept_splits(folder: Path) -> dict[str, DecodedImages]:
    """The splits of a kept set."""
    names = [path.name.removesuffix("_images.npy") for path in folder.glob("*_images.npy")]
    return {
        name: DecodedImages(*(read_array(folder, f"{name}_{part}") for part in ("images", "labels", "moments")))
        for name in names
    }


def normalisation_of(moments: Array) -> Normalisation:
    """Mean and standard deviation of each channel over images, from their moments; a constant one is only centred."""
    mean, square = moments.mean(axis=0)
    std = np.sqrt(np.maximum(square - np.square(mean), 0.0))
    return Normalisation(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))


def _open(tree: FileTree, name: str) -> Image.Image:
    data = tree.read(name)
    try:
        image = Image.open(io.BytesIO(data))
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        reason = "it is none that we know" if isinstance(error, UnidentifiedImageError) else str(error)
        raise DataError(f"{tree.path / name} must be an image, however {reason}") from None
    if image.mode not in EIGHT_BIT_MODES:
        raise DataError(f"images must have 8 bits for each channel, got mode {image.mode} in {tree.path / name}")
    if max(image.size) > LARGEST_SIDE:
        raise DataError(
            f"images must be at most {LARGEST_SIDE} pixels wide and high, "
            f"got {image.width}×{image.height} in {tree.path / name}"
        )
    return image
