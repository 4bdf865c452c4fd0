"""Building blocks of corruptions on batches of images: random numbers, filters, warps and colours."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sae.data.dataset import Floats, Indices, Pixels

RED_SHARE, GREEN_SHARE, BLUE_SHARE = 0.299, 0.587, 0.114
"""Weights of the standard luma (ITU-R BT.601), as in JPEG and Pillow."""


class ImageGenerators:
    """Random numbers from one stream per image, so that an image's pixels do not depend on its batch.

    Philox is counter-based: a stream is a key (here the seed and the image's index) and a counter.
    Moving one generator to another stream takes 1 µs; making a generator for each image takes
    12 µs (20 µs from a `SeedSequence`). Each draw starts the counter at another place, so that
    the draws of an image are independent of each other.

    Args:
        seed: Seed for the corruption and its severity, in [0, 2^64).
        indices: Index of each image in the data set, (sample,).
    """

    def __init__(self, seed: int, indices: NDArray[np.uint64]) -> None:
        self._indices = indices
        self._philox = np.random.Philox(key=seed)
        self._generator = np.random.Generator(self._philox)
        self._start = self._philox.state
        self._num_draws = 0

    def normal(self, *shape: int) -> Floats:
        """Draw standard normal numbers, (sample, *shape)."""
        numbers = np.empty((len(self._indices), *shape), np.float32)
        self._draw(lambda generator, i: generator.standard_normal(out=numbers[i, ...], dtype=np.float32))
        return numbers

    def uniform(self, *shape: int) -> Floats:
        """Draw numbers in [0, 1), (sample, *shape)."""
        numbers = np.empty((len(self._indices), *shape), np.float32)
        self._draw(lambda generator, i: generator.random(out=numbers[i, ...], dtype=np.float32))
        return numbers

    def integers(self, low: int, high: int, *shape: int) -> Indices:
        """Draw integers from low to high, both included, (sample, *shape)."""
        numbers = np.empty((len(self._indices), *shape), np.int64)

        def fill(generator: np.random.Generator, i: int) -> None:
            numbers[i] = generator.integers(low, high, shape, endpoint=True)

        self._draw(fill)
        return numbers

    def poisson(self, rates: Floats) -> Floats:
        """Draw Poisson counts with these rates, (sample, ...)."""
        counts = np.empty_like(rates)

        def fill(generator: np.random.Generator, i: int) -> None:
            counts[i] = generator.poisson(rates[i])

        self._draw(fill)
        return counts

    def _draw(self, fill: Callable[[np.random.Generator, int], object]) -> None:
        """Call `fill` for each sample, with the generator at the start of a new stream for that image."""
        stream = self._start["state"]
        stream["counter"][3] = self._num_draws
        for i, index in enumerate(self._indices):
            stream["key"][1] = index
            self._philox.state = self._start
            fill(self._generator, i)
        self._num_draws += 1


def gaussian_filter(images: Floats, std: float, truncate: float = 4.0) -> Floats:
    """Smooth the last two axes; the border repeats its nearest pixel.

    Args:
        images: (..., height, width).
        std: Standard deviation in pixels.
        truncate: End of the kernel in standard deviations.
    """
    from scipy.ndimage import gaussian_filter1d  # slow to import, and every training imports this module

    for axis in (-1, -2):
        images = gaussian_filter1d(images, std, axis=axis, mode="nearest", truncate=truncate)
    return images


def smear(images: Floats, radius: int, std: float, angles: Floats) -> Floats:
    """Blur each image along a line that starts at the pixel, with half a Gaussian, like a moving camera.

    The kernel has 2·radius + 1 taps at whole pixels, like ImageMagick's motion blur, which the
    benchmark used. The border repeats its nearest pixel.

    Args:
        images: (sample, channel, height, width).
        radius: Radius in pixels.
        std: Standard deviation of the Gaussian in pixels.
        angles: Direction of the line in degrees, clockwise from the right, (sample,).
    """
    height, width = images.shape[2:]
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-0.5 * (steps / std) ** 2)
    weights /= weights.sum()
    steps = steps[weights > 1e-5]  # the tail is too small to change 8 bits
    down, right = line_offsets(steps, angles)
    reach = int(steps[-1])
    padded = np.pad(images, ((0, 0), (0, 0), (reach, reach), (reach, reach)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    samples = np.arange(len(images))
    total = np.zeros_like(images)
    for step in steps:
        total += np.float32(weights[step]) * windows[samples, :, reach + down[:, step], reach + right[:, step]]
    return total


def line_offsets(steps: Indices, angles: Floats) -> tuple[Indices, Indices]:
    """Return the pixels nearest to a line as rows down and columns right of its start, each (sample, step)."""
    radians = np.deg2rad(angles.astype(np.float64))[:, None]
    down, right = np.sin(radians) * steps, np.cos(radians) * steps
    return np.rint(down).astype(np.int64), np.rint(right).astype(np.int64)


def zoom(images: Floats, factor: float) -> Floats:
    """Enlarge the centre of each image by a factor of at least 1, keeping the size.

    Args:
        images: (..., height, width).
        factor: Factor for both axes.
    """
    if factor == 1:
        return images
    for axis in (-2, -1):
        images = _zoom_axis(images, factor, axis)
    return images


def warp(images: Floats, rows: Floats, columns: Floats) -> Floats:
    """Look up each pixel at another place in its image; the border is mirrored.

    Args:
        images: (sample, channel, height, width).
        rows: Row that each pixel comes from, (sample, height, width).
        columns: Column that each pixel comes from, shaped like `rows`.
    """
    sample, channel, height, width = images.shape
    top, bottom, down = _neighbours(rows, height)
    left, right, across = _neighbours(columns, width)
    flat = images.reshape(sample, channel, height * width)

    def look_up(row: Indices, column: Indices) -> Floats:
        places = (row * width + column).reshape(sample, 1, -1)
        return np.take_along_axis(flat, places, axis=2).reshape(sample, channel, *row.shape[1:])

    across = across[:, None]
    upper = look_up(top, left)
    upper += across * (look_up(top, right) - upper)
    lower = look_up(bottom, left)
    lower += across * (look_up(bottom, right) - lower)
    return upper + down[:, None] * (lower - upper)


def luma(images: Floats) -> Floats:
    """Return gray images as bright as these colours, (sample, 1, height, width).

    Args:
        images: (sample, 3, height, width).
    """
    red, green, blue = (images[:, channel : channel + 1] for channel in range(3))
    gray: Floats = red * np.float32(RED_SHARE) + green * np.float32(GREEN_SHARE) + blue * np.float32(BLUE_SHARE)
    return gray


def to_colours(images: Pixels) -> Floats:
    """Convert gray or colour bytes to colours in [0, 1], (sample, 3, height, width)."""
    sample, _, height, width = images.shape
    colours = np.empty((sample, 3, height, width), np.float32)
    np.divide(images, np.float32(255), out=colours)
    return colours


def to_bytes(colours: Floats) -> Pixels:
    """Round colours to the nearest bytes and clip values outside [0, 1].

    The benchmark rounds down, which darkens even an image that a corruption does not change.
    """
    scaled = colours * np.float32(255)
    np.rint(scaled, out=scaled)
    return scaled.clip(0, 255, out=scaled).astype(np.uint8)


def _zoom_axis(images: Floats, factor: float, axis: int) -> Floats:
    size = images.shape[axis]
    middle = (size - 1) / 2
    low, high, fraction = _neighbours((np.arange(size) - middle) / factor + middle, size)
    if axis == -2:
        fraction = fraction[:, None]
    zoomed = images.take(low, axis)
    zoomed += fraction * (images.take(high, axis) - zoomed)
    return zoomed


def _neighbours(places: NDArray[np.floating], size: int) -> tuple[Indices, Indices, Floats]:
    """Return the pixels below and above each mirrored place on an axis, and its fraction of the way between them."""
    period = 2 * size
    mirrored = np.abs((places + 0.5 + size) % period - size) - 0.5  # the mirror is at the outer edge of the pixel
    inside = mirrored.clip(0, size - 1)
    low = inside.astype(np.int64)
    return low, np.minimum(low + 1, size - 1), (inside - low).astype(np.float32)
