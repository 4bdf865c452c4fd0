"""Arrays as a graph takes them: what is clear is converted, what is not is refused."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError
from sae.deploy.manifest import InputPart

Array = NDArray[Any]


def as_samples(x: Any, takes: InputPart) -> Array:
    """Samples (batch, *sample) in the graph's dtype.

    Images are whole numbers in [0, 255]; channels may come last, and gray ones may have no
    channels at all. Features are finite numbers.
    """
    array = np.asarray(x)
    if array.dtype == np.dtype(bool) or not np.issubdtype(array.dtype, np.number):
        raise DataError(f"samples must be numbers, got {array.dtype}")
    return _features(array, takes) if len(takes.shape) == 1 else _pixels(array, takes)


def _features(array: Array, takes: InputPart) -> Array:
    if array.ndim != 2 or array.shape[1:] != takes.shape:
        raise DataError(f"samples must be (batch, {takes.shape[0]}), one number for each feature, got {array.shape}")
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise DataError(
            f"features must be finite, got {array[row, column]} in sample {row}, feature {column}: "
            f"remove or impute such values"
        )
    return array.astype(np.float32)


def _pixels(array: Array, takes: InputPart) -> Array:
    if not np.issubdtype(array.dtype, np.integer):
        raise DataError(
            f"pixels must be uint8 in [0, 255], got {array.dtype}, whose scale is not known: "
            f"convert them first, values in [0, 1] by (255 * x).round().astype('uint8')"
        )
    images = _channels_first(array, takes)
    if images.size and images.dtype != np.uint8 and not (images.min() >= 0 and images.max() <= 255):
        raise DataError(f"pixels must be in [0, 255], got values from {images.min()} to {images.max()}")
    return np.ascontiguousarray(images, np.uint8)


def _channels_first(array: Array, takes: InputPart) -> Array:
    channels, height, width = takes.shape
    if array.shape[1:] == (channels, height, width):
        return array
    if array.shape[1:] == (height, width, channels):
        return array.transpose(0, 3, 1, 2)
    if channels == 1 and array.shape[1:] == (height, width):
        return array[:, None]
    hint = ": a single image needs a batch, x[None]" if array.shape == takes.shape else ""
    raise DataError(
        f"images must be (batch, {channels}, {height}, {width}) or (batch, {height}, {width}, {channels}), "
        f"got {array.shape}{hint}"
    )
