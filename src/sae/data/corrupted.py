"""Corrupted copies of a set of images, made once and kept on disk."""

import hashlib
from pathlib import Path

import numpy as np

from sae.core.errors import DataError
from sae.data.cache import cached, read_array, write_rows
from sae.data.corruptions import corrupt
from sae.data.dataset import Array, Samples

SHIFT_SEED = 0
"""Of every corrupted set, so that all methods and runs see the same pixels."""
VERSION = 1
"""To be raised whenever a corruption draws other pixels."""
CHUNK = 1024
"""Images corrupted at once, so that memory stays bounded."""


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
