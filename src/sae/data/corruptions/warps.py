"""Bilinear resampling of a batch of images: one zoom for all, or a map of its own for each."""

import numpy as np
from numpy.typing import NDArray

from sae.data.corruptions.generators import Floats


def zoom(images: Floats, factor: float) -> Floats:
    """Enlarge the centre of each image by a factor of at least 1, keeping the size.

    Args:
        images: (..., height, width).
        factor: The same for both axes.
    """
    if factor == 1:
        return images
    for axis in (-2, -1):
        images = _zoom_axis(images, factor, axis)
    return images


def warp(images: Floats, rows: Floats, columns: Floats) -> Floats:
    """Look up each pixel elsewhere in its image; outside lies the mirror image.

    Args:
        images: (sample, channel, height, width).
        rows: Where each pixel comes from, (sample, height, width).
        columns: Shaped like `rows`.
    """
    sample, channel, height, width = images.shape
    top, bottom, down = _neighbours(rows, height)
    left, right, across = _neighbours(columns, width)
    flat = images.reshape(sample, channel, height * width)

    def look_up(row: NDArray[np.int64], column: NDArray[np.int64]) -> Floats:
        places = (row * width + column).reshape(sample, 1, -1)
        return np.take_along_axis(flat, places, axis=2).reshape(sample, channel, *row.shape[1:])

    across = across[:, None]
    upper = look_up(top, left)
    upper += across * (look_up(top, right) - upper)
    lower = look_up(bottom, left)
    lower += across * (look_up(bottom, right) - lower)
    return upper + down[:, None] * (lower - upper)


def _zoom_axis(images: Floats, factor: float, axis: int) -> Floats:
    size = images.shape[axis]
    middle = (size - 1) / 2
    low, high, fraction = _neighbours((np.arange(size) - middle) / factor + middle, size)
    if axis == -2:
        fraction = fraction[:, None]
    zoomed = images.take(low, axis)
    zoomed += fraction * (images.take(high, axis) - zoomed)
    return zoomed


def _neighbours(places: NDArray[np.floating], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """The pixels below and above each place on an axis, mirrored into it, and how far it is between them."""
    period = 2 * size
    mirrored = np.abs((places + 0.5 + size) % period - size) - 0.5  # the mirror stands at the pixel's outer edge
    inside = mirrored.clip(0, size - 1)
    low = inside.astype(np.int64)
    return low, np.minimum(low + 1, size - 1), (inside - low).astype(np.float32)
