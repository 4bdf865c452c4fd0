"""Corrupt images of a data set, the same way whatever the batch."""

import difflib
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError
from sae.core.seeds import derive_seed
from sae.data.cache import cached, read_array, write_rows
from sae.data.corruptions.benchmark import CORRUPTIONS, SEVERITIES, Corruption
from sae.data.corruptions.operations import ImageGenerators, luma, to_bytes, to_colours
from sae.data.dataset import Array, Samples

PIXELS_AT_ONCE = 1 << 17
"""Images are corrupted in groups of about so many pixels: large enough to hide Python, small enough for the cache."""
SHIFT_SEED = 0
"""Of every corrupted set, so that all methods and runs see the same pixels."""
VERSION = 1
"""To be raised whenever a corruption draws other pixels."""
CHUNK = 1024
"""Images corrupted at once, so that memory stays bounded."""


def corrupt(images: Array, name: str, severity: int, seed: int, indices: Array | None = None) -> NDArray[np.uint8]:
    """Spoil images by one of the benchmark's corruptions.

    Every image has its own random numbers, which follow from the seed, the corruption, the
    severity and the image's index: any subset, in any order, comes out with the same pixels.
    Gray images are made colour, corrupted, and made gray again by the standard luma.

    Args:
        images: uint8, (sample, channel, height, width), with 1 or 3 channels.
        name: One of `CORRUPTIONS`.
        severity: From 1, the mildest, to 5.
        seed: Of everything that is random here.
        indices: Which image of the data set each sample is, (sample,); 0, 1, … if left out.

    Returns:
        uint8, shaped like `images`.

    Example:
        >>> images = np.full((2, 1, 8, 8), 100, np.uint8)
        >>> spoilt = corrupt(images, "contrast", 5, seed=0)
        >>> spoilt.shape
        (2, 1, 8, 8)
    """
    corruption = _known(name)
    _check(images, severity)
    numbers = _numbers(indices, len(images))
    stream = derive_seed(seed, "corruption", name, severity)
    corrupted = np.empty(images.shape, np.uint8)
    group = max(PIXELS_AT_ONCE // max(images.shape[2] * images.shape[3], 1), 1)
    for start in range(0, len(images), group):
        part = slice(start, start + group)
        colours = corruption.apply(to_colours(images[part]), severity, ImageGenerators(stream, numbers[part]))
        corrupted[part] = to_bytes(colours if images.shape[1] == 3 else luma(colours.clip(0, 1)))
    return corrupted


class CorruptedImages:
    """The corrupted versions of some images; each is made when first asked for.

    Args:
        images: uint8, (sample, channel, height, width), as they are before normalisation.
    """

    def __init__(self, images: Samples) -> None:
        if len(images.shape) != 4 or images.dtype != np.uint8:
            raise DataError(f"only images of bytes can be corrupted, got {images.dtype} samples of {images.shape[1:]}")
        self.images = images
        self.digest = _digest(images)

    def get(self, name: str, severity: int) -> Array:
        """One corrupted set, shaped like the images; mapped from disk, where processes share it."""

        def write(folder: Path) -> None:
            starts = range(0, len(self.images), CHUNK)
            rows = (
                corrupt(self.images[start : start + CHUNK], name, severity, SHIFT_SEED, self._indices(start))
                for start in starts
            )
            write_rows(folder / "images.npy", self.images.shape, np.uint8, rows)

        source = [self.digest, name, severity, SHIFT_SEED]
        return read_array(cached("corrupted", VERSION, source, write), "images")

    def _indices(self, start: int) -> Array:
        return np.arange(start, min(start + CHUNK, len(self.images)))


def _digest(images: Samples) -> str:
    """A hash of all pixels and their shape."""
    digest = hashlib.sha256(str(images.shape).encode())
    for start in range(0, len(images), CHUNK):
        digest.update(images[start : start + CHUNK].tobytes())
    return digest.hexdigest()


def _known(name: str) -> Corruption:
    if name not in CORRUPTIONS:
        close = difflib.get_close_matches(name, CORRUPTIONS, n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        raise DataError(f"corruption must be one of {', '.join(CORRUPTIONS)}; got {name!r}{hint}")
    return CORRUPTIONS[name]


def _check(images: Array, severity: int) -> None:
    if severity not in SEVERITIES:
        raise DataError(f"severity must be one of {', '.join(map(str, SEVERITIES))}; got {severity!r}")
    if images.dtype != np.uint8:
        raise DataError(f"images to corrupt must be uint8, before normalisation; got {images.dtype}")
    if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape[2:]:
        raise DataError(
            f"images to corrupt must have shape (sample, channel, height, width) with 1 or 3 channels "
            f"and at least one pixel, got {images.shape}"
        )


def _numbers(indices: Array | None, num_samples: int) -> NDArray[np.uint64]:
    if indices is None:
        return np.arange(num_samples, dtype=np.uint64)
    if indices.shape != (num_samples,) or not np.issubdtype(indices.dtype, np.integer):
        raise DataError(
            f"indices must be {num_samples} whole numbers, one per image, got {indices.dtype} of shape {indices.shape}"
        )
    if num_samples and indices.min() < 0:
        raise DataError(f"indices must be 0 or more, got {indices.min()}")
    return indices.astype(np.uint64)
