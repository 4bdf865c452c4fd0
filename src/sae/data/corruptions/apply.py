"""Corrupt images of a data set, the same way whatever the batch."""

import difflib

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError
from sae.core.seeds import derive_seed
from sae.data.corruptions.catalogue import CORRUPTIONS, Corruption
from sae.data.corruptions.colour import luma, to_bytes, to_colours
from sae.data.corruptions.constants import SEVERITIES
from sae.data.corruptions.generators import ImageGenerators
from sae.data.dataset import Array

PIXELS_AT_ONCE = 1 << 17
"""Images are corrupted in groups of about so many pixels: large enough to hide Python, small enough for the cache."""


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
